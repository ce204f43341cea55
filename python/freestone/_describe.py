"""The summary of a relation's columns."""

from __future__ import annotations

from typing import Iterator, List

from ._display import is_number
from ._sql import quoted

_WORDS = ("count", "mean", "stddev", "min", "max", "median")


def summaries(columns: List[str], types: List[str]) -> str:
    """The summaries of all columns, as the columns of one row."""
    written = (text for column, kind in zip(columns, types) for text in _summaries(quoted(column), is_number(kind)))
    return ", ".join(f"{text} AS _{at}" for at, text in enumerate(written))


def summary_rows(columns: List[str]) -> str:
    """The columns of the row with all summaries as rows, with the name of the summary first."""
    words = ", ".join(f"'{word}'" for word in _WORDS)
    lists = [f"unnest([{words}]) AS aggr"]
    for at, column in enumerate(columns):
        places = range(at * len(_WORDS), (at + 1) * len(_WORDS))
        lists.append(f"unnest([{', '.join(f'_{place}' for place in places)}]) AS {quoted(column)}")
    return ", ".join(lists)


def _summaries(column: str, computes: bool) -> Iterator[str]:
    """Numbers are summarized as DOUBLE. Of other values there is a count, a minimum and a maximum, as texts."""
    for word in _WORDS:
        is_computed = word in ("mean", "stddev", "median")
        if is_computed and not computes:
            yield "CAST(NULL AS VARCHAR)"
        else:
            yield f"CAST({word}({column}) AS {'DOUBLE' if computes else 'VARCHAR'})"
