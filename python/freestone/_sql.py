"""SQL text that is made from Python: names, texts, and the parts of statements that callers write."""

from __future__ import annotations

import os
import re
from typing import Any, List, Mapping, Optional, Union

from .exceptions import InterfaceError, ProgrammingError

#: The path of a file.
Path = Union[str, "os.PathLike[str]"]

# What may contain such a character without meaning it; then parameters, parentheses, quotes and semicolons themselves.
_TOKENS = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
    | (\$(?:[A-Za-z_]\w*)?\$).*?\1 | (?<!\w)\$(\w+) | [()\[\]{};'"?] | /\*""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}

# Words that are no names of columns without quotes.
_RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
    concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except exists extract false fetch filter for
    foreign freeze from full grant group having ilike in initially inner intersect interval into is isnull join lateral leading
    left like limit localtime localtimestamp natural not notnull null offset on only or order outer over overlaps pivot placing
    position primary qualify references returning right row rows select semi anti session_user set similar some struct
    substring symmetric table tablesample then to trailing trim true try_cast union unique unnest unpivot user using values
    variadic verbose when where window with""".split()
)

# One part of a name with dots, quoted or not.
_NAME_PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')


def quoted(text: str) -> str:
    """A name as SQL writes it, with case and all characters kept."""
    return '"' + text.replace('"', '""') + '"'


def column(text: str) -> str:
    """The name of a column, without quotes where it needs none, so that ``sum(a)`` is the name of a sum."""
    return text if re.fullmatch("[a-z_][a-z0-9_]*", text) and text not in _RESERVED else quoted(text)


def folded(text: str) -> str:
    """A name for texts of SQL to use, where a plain word means its lower case."""
    return quoted(text.lower() if re.fullmatch(r"[A-Za-z_]\w*", text) else text)


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def option_name(given: Any) -> str:
    """The name of an option, which SQL has without quotes."""
    if not isinstance(given, str) or not given.isidentifier():
        raise ProgrammingError(f"{given!r} is not the name of an option")
    return given


def file_path(given: Path) -> str:
    """The path with a separator in it, so that SQL does not take it for the name of a table."""
    path = os.fspath(given)
    return path if os.sep in path else os.path.join(os.curdir, path)


def written_table(text: Any, method: str) -> str:
    """A table's name as SQL writes it. Dots outside double quotes separate it from its schema and database."""
    given = text_of(text, method, "the name of a table or view")
    parts: List[str] = _NAME_PART.findall(given)
    written = [part if part.startswith('"') else quoted(part) for part in parts]
    if ".".join(parts) != given or not 1 <= len(parts) <= 3:
        raise ProgrammingError(
            f"{method}(): {given!r} is not the name of a table or view",
            'write table, schema.table or database.schema.table, and other names in double quotes: "my.table"',
        )
    return ".".join(written)


def written_options(given: Mapping[str, Any], between: str = " = ") -> str:
    """Options with their values, as they stand in parentheses."""
    return ", ".join(f"{option_name(option)}{between}{literal(str(value))}" for option, value in given.items())


def isolation_level(given: Any) -> str:
    """The words of a level as they stand in BEGIN. The database knows which levels there are."""
    if not isinstance(given, str) or not re.fullmatch("[A-Za-z ]+", given):
        raise ProgrammingError(f"{given!r} is no isolation level", "give 'REPEATABLE READ' or 'READ COMMITTED'")
    return given


def last_name(text: str) -> str:
    """The name of a table without its schema and database."""
    last: str = _NAME_PART.findall(text)[-1]
    return last[1:-1].replace('""', '"') if last.startswith('"') else last


def text_of(given: Any, method: str, meaning: str) -> str:
    """The given text; an error if it is something else, or empty."""
    if not isinstance(given, str):
        raise InterfaceError(f"{method}() takes {meaning}, not {kind(given)}", "give it as text")
    if not given.strip():
        raise ProgrammingError(f"{method}() takes {meaning}, and the text is empty")
    return given


def renumbered(text: str, by: int) -> str:
    """The text with ``by`` added to the numbers of its parameters."""
    return _TOKENS.sub(lambda found: f"${int(found[2]) + by}" if (found[2] or "").isdigit() else found[0], text)


def parameter_names(text: str) -> List[str]:
    """The names of the parameters of the last statement of a text."""
    names: List[str] = []
    for found in _TOKENS.finditer(text.rstrip().rstrip(";")):
        if found.group() == ";":
            names.clear()
        elif found[2] and not found[2].isdigit():
            names.append(found[2])
    return names


def has_question_marks(text: str) -> bool:
    """Whether parameters are written as ``?``."""
    return any(found.group() == "?" for found in _TOKENS.finditer(text))


def part(given: Any, method: str, meaning: str = "SQL text") -> str:
    """A part of a statement that is complete in itself, so that what follows it keeps its meaning."""
    text = text_of(given, method, meaning)
    problem = _problem(text)
    if problem is not None:
        raise ProgrammingError(f"{method}(): {text!r} {problem}", "give one complete expression")
    return text + "\n" if "--" in text else text


def _problem(text: str) -> Optional[str]:
    """What makes a text incomplete; None if it is complete."""
    awaited: List[str] = []
    for found in _TOKENS.finditer(text):
        token = found.group()
        if token in _CLOSING:
            awaited.append(_CLOSING[token])
        elif token in (")", "]", "}"):
            if not awaited or awaited.pop() != token:
                return f"closes a {token} that it does not open"
        elif token in ("'", '"', "/*"):
            return f"does not end what {token} begins"
        elif token == ";":
            return "is more than one statement"
    return f"does not close its {awaited[-1]}" if awaited else None


def kind(thing: Any) -> str:
    """The type of an object, for messages."""
    module = type(thing).__module__
    named = type(thing).__qualname__ if module == "builtins" else f"{module}.{type(thing).__qualname__}"
    return "None" if thing is None else f"a value of type {named}"
