"""Aggregates of one column, as methods of relations."""

from __future__ import annotations

from typing import Any, Callable

from ._composed import Composed, R
from ._sql import literal
from .exceptions import InterfaceError


def _selected(relation: R, method: str, call: str, groups: str, window_spec: str, projected_columns: str) -> R:
    """The aggregate, after the projected columns; over windows, of the groups, or of all rows."""
    items = call
    if window_spec:
        items += " " + relation._item(method, window_spec)
    if projected_columns:
        items = f"{relation._item(method, projected_columns)}, {items}"
    if window_spec:
        return relation._select(method, items)
    return relation._select(method, items, f"GROUP BY {relation._item(method, groups) if groups else 'ALL'}")


def _aggregate(function: str, summary: str) -> Callable[..., Any]:
    """A method for an aggregate function of one argument."""

    def method(
        self: R, column: str, groups: str = "", window_spec: str = "", projected_columns: str = ""
    ) -> R:
        call = f"{function}({self._item(function, column)})"
        return _selected(self, function, call, groups, window_spec, projected_columns)

    method.__name__ = function
    method.__doc__ = f"{summary} Arguments as for :meth:`sum`."
    return method


def _share(q: Any) -> str:
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise InterfaceError(f"a quantile is a number from 0 to 1, not {q!r}")
    return repr(float(q))


class Aggregates(Composed):
    """An aggregate function per method."""

    def sum(self: R, column: str, groups: str = "", window_spec: str = "", projected_columns: str = "") -> R:
        """The sum of a column or expression.

        Args:
            column: the name of a column, or an expression.
            groups: columns; there is one sum for the rows that have the same values in them.
            window_spec: instead of groups, a window: ``"OVER (ORDER BY day)"``.
            projected_columns: columns that stand before the sum.
        """
        return _selected(self, "sum", f"sum({self._item('sum', column)})", groups, window_spec, projected_columns)

    def count(self: R, column: str = "*", groups: str = "", window_spec: str = "", projected_columns: str = "") -> R:
        """The number of values that are not NULL; by default, the number of rows."""
        return _selected(self, "count", f"count({self._item('count', column)})", groups, window_spec, projected_columns)

    any_value = _aggregate("any_value", "Any value that is not NULL.")
    avg = _aggregate("avg", "The mean.")
    mean = avg
    bit_and = _aggregate("bit_and", "The bits that all values have.")
    bit_or = _aggregate("bit_or", "The bits that any value has.")
    bit_xor = _aggregate("bit_xor", "The bits that an odd number of values has.")
    bool_and = _aggregate("bool_and", "Whether all values are true.")
    bool_or = _aggregate("bool_or", "Whether any value is true.")
    favg = _aggregate("favg", "The mean, with compensated rounding.")
    first = _aggregate("first", "The first value.")
    fsum = _aggregate("fsum", "The sum, with compensated rounding.")
    geomean = _aggregate("geomean", "The geometric mean.")
    histogram = _aggregate("histogram", "A map of the values to their numbers.")
    last = _aggregate("last", "The last value.")
    list = _aggregate("list", "All values in a list.")
    max = _aggregate("max", "The maximum.")
    median = _aggregate("median", "The median.")
    min = _aggregate("min", "The minimum.")
    mode = _aggregate("mode", "The most frequent value.")
    product = _aggregate("product", "The product.")
    stddev = _aggregate("stddev", "The standard deviation of a sample.")
    std = stddev
    stddev_pop = _aggregate("stddev_pop", "The standard deviation of a population.")
    stddev_samp = _aggregate("stddev_samp", "The standard deviation of a sample.")
    var_pop = _aggregate("var_pop", "The variance of a population.")
    var_samp = _aggregate("var_samp", "The variance of a sample.")
    var = variance = var_samp

    def arg_max(
        self: R, column: str, value: str, groups: str = "", window_spec: str = "", projected_columns: str = ""
    ) -> R:
        """The value of ``column`` in the row with the maximum of ``value``."""
        call = f"arg_max({self._items('arg_max', (column, value))})"
        return _selected(self, "arg_max", call, groups, window_spec, projected_columns)

    def arg_min(
        self: R, column: str, value: str, groups: str = "", window_spec: str = "", projected_columns: str = ""
    ) -> R:
        """The value of ``column`` in the row with the minimum of ``value``."""
        call = f"arg_min({self._items('arg_min', (column, value))})"
        return _selected(self, "arg_min", call, groups, window_spec, projected_columns)

    def quantile_cont(
        self: R, column: str, q: float = 0.5, groups: str = "", window_spec: str = "", projected_columns: str = ""
    ) -> R:
        """The value below which the share ``q`` of the values is, interpolated."""
        call = f"quantile_cont({self._item('quantile_cont', column)}, {_share(q)})"
        return _selected(self, "quantile_cont", call, groups, window_spec, projected_columns)

    def quantile_disc(
        self: R, column: str, q: float = 0.5, groups: str = "", window_spec: str = "", projected_columns: str = ""
    ) -> R:
        """The first value that is not below the share ``q`` of the values."""
        call = f"quantile_disc({self._item('quantile_disc', column)}, {_share(q)})"
        return _selected(self, "quantile_disc", call, groups, window_spec, projected_columns)

    quantile = quantile_disc

    def string_agg(
        self: R, column: str, sep: str = ",", groups: str = "", window_spec: str = "", projected_columns: str = ""
    ) -> R:
        """The values as one text, with ``sep`` between them."""
        call = f"string_agg({self._item('string_agg', column)}, {literal(sep)})"
        return _selected(self, "string_agg", call, groups, window_spec, projected_columns)

    def value_counts(self: R, column: str, groups: str = "") -> R:
        """The distinct values of a column, and how often each occurs."""
        item = self._item("value_counts", column)
        by = self._item("value_counts", groups) if groups else "ALL"
        return self._select("value_counts", f"{item}, count({item})", f"GROUP BY {by}")
