"""SQL that reads and writes files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def call(function: str, paths: Sequence[str], options: Mapping[str, Any]) -> str:
    """The call of a table function such as ``read_csv`` on files."""
    arguments = [literal(list(paths) if len(paths) > 1 else paths[0])]
    arguments += [f"{checked(name)} => {literal(value)}" for name, value in options.items()]
    return f"{function}({', '.join(arguments)})"


def copy(query: str, path: str | Path, options: Mapping[str, Any]) -> str:
    """A statement that writes the rows of a query to a file."""
    words = ", ".join(f"{checked(name)} {literal(value)}" for name, value in options.items())
    return f"COPY ({query}) TO {literal(str(path))} ({words})"


def checked(name: str) -> str:
    """The name of an option, which SQL has without quotes."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} is not the name of an option")
    return name


def literal(value: Any) -> str:
    """A value in SQL. Lists and dicts are those of Python."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return "'" + str(value).replace("'", "''") + "'"
