"""Window functions, as methods of relations."""

from __future__ import annotations

from typing import Any, Callable

from ._composed import Composed, R
from ._sql import part
from .exceptions import InterfaceError


def _selected(relation: R, method: str, call: str, window_spec: str, projected_columns: str) -> R:
    """The call over a window, after the projected columns, which are none by default."""
    over = part(window_spec, method, 'a window, such as "OVER (ORDER BY day)"')
    before = f"{relation._item(method, projected_columns)}, " if projected_columns else ""
    return relation._select(method, f"{before}{call} {over}")


def _ranking(function: str, summary: str) -> Callable[..., Any]:
    """A method for a function of the places of rows."""

    def method(self: R, window_spec: str, projected_columns: str = "") -> R:
        return _selected(self, function, f"{function}()", window_spec, projected_columns)

    method.__name__ = function
    method.__doc__ = f"{summary} Arguments as for :meth:`row_number`."
    return method


def _number(method: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise InterfaceError(f"{method}() takes a whole number, not {given!r}")
    return given


class Windows(Composed):
    """A window function per method."""

    def row_number(self: R, window_spec: str, projected_columns: str = "") -> R:
        """The number of each row in its window.

        Args:
            window_spec: the window: ``"OVER (PARTITION BY city ORDER BY day)"``.
            projected_columns: columns that stand before the number, such as ``"city, day"`` or ``"*"``; by default none.
        """
        return _selected(self, "row_number", "row_number()", window_spec, projected_columns)

    rank = _ranking("rank", "The rank of each row, with gaps after equal rows.")
    dense_rank = _ranking("dense_rank", "The rank of each row, without gaps.")
    rank_dense = dense_rank
    percent_rank = _ranking("percent_rank", "The rank of each row, as a share of the rows, from 0 to 1.")
    cume_dist = _ranking("cume_dist", "The share of rows that are not behind each row.")

    def n_tile(self: R, window_spec: str, num_buckets: int, projected_columns: str = "") -> R:
        """The number of the bucket of each row, of ``num_buckets`` that are as large as each other."""
        call = f"ntile({_number('n_tile', num_buckets)})"
        return _selected(self, "n_tile", call, window_spec, projected_columns)

    def lag(
        self: R,
        column: str,
        window_spec: str,
        offset: int = 1,
        default_value: str = "NULL",
        ignore_nulls: bool = False,
        projected_columns: str = "",
    ) -> R:
        """The value of a column ``offset`` rows before, or ``default_value``, which is SQL."""
        return self._shifted("lag", column, (offset, default_value, ignore_nulls), window_spec, projected_columns)

    def lead(
        self: R,
        column: str,
        window_spec: str,
        offset: int = 1,
        default_value: str = "NULL",
        ignore_nulls: bool = False,
        projected_columns: str = "",
    ) -> R:
        """The value of a column ``offset`` rows after. Arguments as for :meth:`lag`."""
        return self._shifted("lead", column, (offset, default_value, ignore_nulls), window_spec, projected_columns)

    def _shifted(self: R, function: str, column: str, options: Any, window_spec: str, projected_columns: str) -> R:
        offset, default, ignore_nulls = options
        given = f"{self._item(function, column)}, {_number(function, offset)}, {self._item(function, default)}"
        call = f"{function}({given}){' IGNORE NULLS' if ignore_nulls else ''}"
        return _selected(self, function, call, window_spec, projected_columns)

    def first_value(self: R, column: str, window_spec: str, projected_columns: str = "") -> R:
        """The value of a column in the first row of the window."""
        call = f"first_value({self._item('first_value', column)})"
        return _selected(self, "first_value", call, window_spec, projected_columns)

    def last_value(self: R, column: str, window_spec: str, projected_columns: str = "") -> R:
        """The value of a column in the last row of the window."""
        call = f"last_value({self._item('last_value', column)})"
        return _selected(self, "last_value", call, window_spec, projected_columns)

    def nth_value(
        self: R, column: str, window_spec: str, offset: int, ignore_nulls: bool = False, projected_columns: str = ""
    ) -> R:
        """The value of a column in the row of the window with the number ``offset``, from 1."""
        call = f"nth_value({self._item('nth_value', column)}, {_number('nth_value', offset)})"
        call += " IGNORE NULLS" if ignore_nulls else ""
        return _selected(self, "nth_value", call, window_spec, projected_columns)
