"""Options of a table's design in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .files import checked, literal


def with_clause(options: Mapping[str, Any]) -> str:
    """``WITH (…)`` of the options; empty without options. A list is joined with commas, and None leaves an option out."""
    given = {name: value for name, value in options.items() if value is not None}
    texts = ", ".join(f"{checked(name)} = {_text(value)}" for name, value in given.items())
    return f"WITH ({texts})" if texts else ""


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    return literal(str(value))
