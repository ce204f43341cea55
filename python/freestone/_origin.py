"""What the text of a relation needs to run: its connection, the values of its parameters, and its tables of Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Mapping
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _freestone
from ._sources import Found, Variables, as_table
from ._sql import has_question_marks, kind, quoted, renumbered
from .exceptions import InterfaceError, ProgrammingError

Parameters = Union[Sequence[Any], Mapping[str, Any]]

#: The SQLSTATE of a name that no table has.
UNDEFINED_TABLE = "42P01"

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Origin:
    """The surroundings of a text of SQL."""

    native: _freestone.Connection
    params: Optional[Parameters] = None
    #: The tables of Python that the text names. They stay alive with it.
    tables: Mapping[str, Found] = dataclasses.field(default_factory=dict)
    #: The objects that the connection has registered as tables, by their names in lower case.
    registered: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def run(self, text: str) -> _freestone.Query:
        """The query of another text in these surroundings."""
        return self.native.run(text, self.params, self.tables.get)


def started(origin: Origin, text: str, find: Callable[[str], Found]) -> Tuple[_freestone.Query, Origin, bool]:
    """The query of a text, its surroundings with the tables that it found, and whether one of these is a stream.

    Tables are those of the surroundings, those that the connection has registered, and those of ``find``.
    """
    kept: Dict[str, Found] = dict(origin.tables)
    missing: List[str] = []

    def found(name: str) -> Found:
        table = origin.tables[name] if name in origin.tables else registered(origin.registered, name) or find(name)
        if table is None:
            missing.append(name)
        else:
            kept[name] = table
        return table

    try:
        query = origin.native.run(text, origin.params, found)
    except ProgrammingError as error:
        explained = _with_variable(error, missing, find)
        if explained is error:
            raise
        raise explained from None
    reads_stream = any(table is not None and not table[1] for table in kept.values())
    return query, dataclasses.replace(origin, tables=kept), reads_stream


def _with_variable(error: ProgrammingError, missing: List[str], find: Callable[[str], Found]) -> ProgrammingError:
    """The error for a table that does not exist, with the variable of its name if that has another value than a table."""
    if error.sqlstate != UNDEFINED_TABLE or not isinstance(find, Variables):
        return error
    for name in missing:
        for value in find.values(name):
            reason, mark, place = error.message.partition("\n")
            message = f"{reason}, and the variable {name} is {kind(value)}, which is no table{mark}{place}"
            return ProgrammingError(message, error.hint, error.sqlstate)
    return error


def registered(objects: Mapping[str, Any], name: str) -> Found:
    """The table that a connection has registered under a name, in which case does not matter."""
    return as_table(objects.get(name.lower()))


def fresh(word: str) -> str:
    """A name that no other table has."""
    return f"freestone${word}{next(_numbers)}"


def joined(first: Origin, second: Origin, text: str) -> Tuple[Origin, str]:
    """The surroundings of a text that contains those of two relations, and the second's text for use in it."""
    if first.native is not second.native:
        raise InterfaceError(
            "the relations belong to different connections",
            "read the other one as a table by the name of its variable, or take both from one connection",
        )
    params, text = _merged(first.params, second.params, text)
    tables = dict(first.tables)
    # A name of two different tables is, in the second text, a name for the rows of another one.
    renamed = []
    for key, found in second.tables.items():
        if key in tables and not _is_same_table(tables[key], found):
            other = fresh("table")
            renamed.append(f"{quoted(key)} AS (SELECT * FROM {quoted(other)})")
            key = other
        tables[key] = found
    if renamed:
        text = f"WITH {', '.join(renamed)} ({text}\n)"
    return dataclasses.replace(first, params=params, tables=tables), text


def _is_same_table(first: Found, second: Found) -> bool:
    return first is second or (first is not None and second is not None and first[0] is second[0])


def _merged(
    first: Optional[Parameters], second: Optional[Parameters], text: str
) -> Tuple[Optional[Parameters], str]:
    """The parameters of both, and the second's text with their places."""
    if not first or not second:
        return first or second, text
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in first.keys() & second.keys():
            if not _is_same_value(first[key], second[key]):
                raise ProgrammingError(
                    f"both relations have a parameter ${key}, with different values", "give one of them another name"
                )
        return {**first, **second}, text
    if not isinstance(first, Mapping) and not isinstance(second, Mapping):
        return [*first, *second], text if has_question_marks(text) else renumbered(text, len(first))
    raise ProgrammingError(
        "both relations have parameters, and only those of one have names",
        'write them as $name in both, with values in a dict: {"name": value}',
    )


def _is_same_value(first: Any, second: Any) -> bool:
    return first is second or (type(first) is type(second) and isinstance(first, Hashable) and bool(first == second))
