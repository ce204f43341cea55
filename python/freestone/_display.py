"""Rows as text and as HTML."""

from __future__ import annotations

import html
from typing import Any, List, Tuple

#: The number of columns that texts and notebooks show at most.
SHOWN_COLUMNS = 60

#: The number of characters of a value that a notebook shows at most.
SHOWN_CHARACTERS = 500

Row = Tuple[Any, ...]

# The names of the types whose values are numbers, without the digits of DECIMAL.
NUMBERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"
)


def text_table(columns: List[str], types: List[str], rows: List[Row], has_more: bool, with_types: bool = False) -> str:
    """The rows as text in a frame, below the names of the columns. Numbers are aligned to the right."""
    columns, types = columns[:SHOWN_COLUMNS], types[:SHOWN_COLUMNS]
    names = [_printable(name) for name in columns]
    heads = [names, types] if with_types else [names]
    cells = [[_cell(value) for value in row[:SHOWN_COLUMNS]] for row in rows]
    cells += [["…"] * len(columns)] if has_more else []
    widths = [max(len(text) for text in column) for column in zip(*heads, *cells)]
    to_right = [is_number(kind) for kind in types]

    def line(values: List[str], right: List[bool]) -> str:
        aligned = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right))
        return "│ " + " │ ".join(aligned) + " │"

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + right

    body = [line(row, to_right) for row in cells]
    above = [rule("┌", "┬", "┐"), *(line(head, to_right) for head in heads), rule("├", "┼", "┤")]
    return "\n".join([*above, *body, rule("└", "┴", "┘")])


def html_table(columns: List[str], types: List[str], rows: List[Row], has_more: bool) -> str:
    """The rows as HTML, with names and types of the columns above them. NULL is in italics, and so no text."""

    def cell(tag: str, text: str, kind: str) -> str:
        align = "right" if is_number(kind) else "left"
        return f'<{tag} style="text-align: {align}">{text}</{tag}>'

    shown = list(zip(columns, types))[:SHOWN_COLUMNS]
    heads = (f"{html.escape(_printable(name))}<br><small>{html.escape(kind)}</small>" for name, kind in shown)
    head = "".join(cell("th", text, kind) for text, (_, kind) in zip(heads, shown))
    lines = [[_html_value(value) for value in row[:SHOWN_COLUMNS]] for row in rows]
    body = "".join(
        "<tr>" + "".join(cell("td", text, kind) for text, (_, kind) in zip(line, shown)) + "</tr>" for line in lines
    )
    note = note_below(len(columns), len(rows), has_more)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{note}</small>"


def note_below(columns: int, rows: int, has_more: bool) -> str:
    """How many rows and columns there are, or are shown."""
    note = f"the first {rows} rows" if has_more else f"{rows} row" + ("" if rows == 1 else "s")
    return note + (f", the first {SHOWN_COLUMNS} of {columns} columns" if columns > SHOWN_COLUMNS else "")


def _html_value(value: Any) -> str:
    if value is None:
        return '<i style="opacity: 0.5">NULL</i>'
    text = _cell(value)
    return html.escape(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")


def is_number(kind: str) -> bool:
    return kind.partition("(")[0] in NUMBERS and not kind.endswith("]")


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return _printable(str(value))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
