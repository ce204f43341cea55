"""Relations made from relations: each method returns a new one, and none of them runs."""

from __future__ import annotations

import operator
from typing import Any, Sequence, Tuple, TypeVar, Union

from ._composed import Composed, Joined, R, column_names, is_query
from ._describe import summaries, summary_rows
from ._origin import joined, started
from ._sources import finder, outside
from ._sql import folded, kind, part, text_of
from .exceptions import InterfaceError, ProgrammingError

# The names of joins and their words in SQL.
_JOINS = {
    "inner": "INNER JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "outer": "FULL JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
    "asof": "ASOF JOIN",
    "cross": "CROSS JOIN",
    "natural": "NATURAL JOIN",
    "positional": "POSITIONAL JOIN",
}
_WITHOUT_CONDITION = ("cross", "natural", "positional")

C = TypeVar("C", bound="Chain")


class Chain(Composed):
    """The operators of relational algebra.

    Text is SQL: ``filter("a > 1 AND b = 'x'")``. A text that is the name of a column is that column, whatever its
    characters.
    """

    def filter(self: C, condition: str) -> C:
        """The rows for which the condition is true."""
        base = self._composable("filter")
        text = f"({base._item('filter', condition)})"
        if base._joined is None:
            return base._select("filter", "*", f"WHERE {text}")
        kept = Joined(base._joined.clause, (*base._joined.conditions, text))
        return base._over(f"SELECT * FROM {kept}", joined=kept)

    def project(self: C, *columns: str) -> C:
        """The columns, each the name of one or an expression: ``project("a", "b + 1 AS c")`` or ``project("a, b + 1 AS c")``."""
        if not columns:
            raise ProgrammingError("project() takes columns, and none are given", 'write project("*") for all of them')
        return self._select("project", self._items("project", columns))

    def select(self: C, *columns: str) -> C:
        """The same as :meth:`project`."""
        return self.project(*columns)

    def select_types(self: C, types: Sequence[str]) -> C:
        """The columns of these types: ``select_types(["BIGINT", "VARCHAR"])``."""
        wanted = {text_of(name, "select_types", "a list of types").upper() for name in types}
        columns = [name for name, kind in zip(self._query.columns, self._query.types) if kind.upper() in wanted]
        if not columns:
            raise ProgrammingError(f"no column has a type of {', '.join(sorted(wanted))}", "see the attribute types")
        return self.project(*columns)

    def select_dtypes(self: C, types: Sequence[str]) -> C:
        """The same as :meth:`select_types`."""
        return self.select_types(types)

    def aggregate(self: C, aggregates: str, groups: str = "") -> C:
        """The aggregates of all rows, or of each group.

        Args:
            aggregates: expressions, such as ``"city, sum(sold) AS sold"``.
            groups: the columns that rows of one group have in common; by default those outside of aggregate functions.
        """
        by = self._item("aggregate", groups) if groups else "ALL"
        return self._select("aggregate", self._item("aggregate", aggregates), f"GROUP BY {by}")

    def order(self: C, order: str) -> C:
        """The rows in an order, such as ``"a DESC, b NULLS FIRST"``. What follows keeps it."""
        return self._select("order", "*", f"ORDER BY {self._item('order', order)}")

    def sort(self: C, *columns: str) -> C:
        """The rows in the order of the columns: ``sort("a DESC", "b")``."""
        if not columns:
            raise ProgrammingError("sort() takes columns, and none are given")
        return self._select("sort", "*", f"ORDER BY {self._items('sort', columns)}")

    def limit(self: C, n: int, offset: int = 0) -> C:
        """At most ``n`` rows, after the first ``offset`` ones."""
        return self._select("limit", "*", f"LIMIT {_count('limit', n)} OFFSET {_count('limit', offset)}")

    def distinct(self: C, *on: str) -> C:
        """The distinct rows; or, of the rows with the same values of the given columns, the first one."""
        return self._select("distinct", f"DISTINCT ON ({self._items('distinct', on)}) *" if on else "DISTINCT *")

    def unique(self: C, columns: str) -> C:
        """The distinct values of columns."""
        return self._select("unique", f"DISTINCT {self._item('unique', columns)}")

    def union(self: C, other: C) -> C:
        """The rows of both, with duplicates. The columns are matched by position."""
        return _of_both(self, "union", "UNION ALL", other)

    def union_by_name(self: C, other: C) -> C:
        """The rows of both, with duplicates. The columns are matched by name, and NULL where only the other relation has one."""
        return _of_both(self, "union_by_name", "UNION ALL BY NAME", other)

    def except_(self: C, other: C) -> C:
        """The rows without those of the other, each of which removes one of its duplicates."""
        return _of_both(self, "except_", "EXCEPT ALL", other)

    def intersect(self: C, other: C) -> C:
        """The rows that both have, as often as both have them."""
        return _of_both(self, "intersect", "INTERSECT ALL", other)

    def join(self: C, other: C, condition: Union[str, Sequence[str], None] = None, how: str = "inner") -> C:
        """The pairs of rows that belong together.

        Args:
            other: the relation on the right.
            condition: names of columns that both have (``"a, b"`` or ``["a", "b"]``), which occur once in the result; or
                a condition, in which the relations go by their aliases: ``"a.x = b.y"`` (:meth:`set_alias`).
            how: ``"inner"``, ``"left"``, ``"right"``, ``"outer"``, ``"semi"``, ``"anti"``, ``"asof"``; or ``"cross"``,
                ``"natural"``, ``"positional"``, which take no condition.
        """
        left, right = self._composable("join"), self._same_kind("join", other)
        words = _JOINS.get(how.lower()) if isinstance(how, str) else None
        if words is None:
            raise ProgrammingError(f"join(): {how!r} is no join", f"the joins are {', '.join(_JOINS)}")
        matched, needs_aliases = _condition(left, condition, how.lower())
        if left._written_alias == right._written_alias:
            if needs_aliases:
                raise ProgrammingError(
                    f"both sides of the join have the alias {left.alias}", 'give one another: set_alias("other")'
                )
            right = right._unnamed()
        origin, text = joined(left._origin, right._origin, right._query.text)
        before = left._joined
        first = before.clause if before is not None and not before.conditions else left._subquery
        clause = Joined(f"{first} {words} ({text}\n) AS {right._written_alias}{matched}")
        return type(left)(*started(origin, f"SELECT * FROM {clause}", finder(outside())), joined=clause)

    def cross(self: C, other: C) -> C:
        """All pairs of rows."""
        return self.join(other, how="cross")

    def query(self: C, name: str, sql: str) -> C:
        """The query ``sql``, in which ``name`` is this relation."""
        base = self._composable("query")
        text_of(name, "query", "a name for the relation")
        text = part(text_of(sql, "query", "a query").rstrip().rstrip(";"), "query", "a query")
        if not is_query(text):
            raise ProgrammingError(f"query() takes a query that reads {name}", "run other statements with sql()")
        whole = f"WITH {folded(name)} AS ({base._query.text}\n) ({text}\n)"
        return type(base)(*started(base._origin, whole, finder(outside())))

    def describe(self: C) -> C:
        """A summary of each column: the count, mean, standard deviation, minimum, maximum and median, one per row."""
        base = self._composable("describe")
        numbers = base._select("describe", summaries(base._query.columns, base._query.types))
        return numbers._select("describe", summary_rows(base._query.columns))


def _of_both(first: R, method: str, words: str, second: R) -> R:
    """The rows of a set operation."""
    left, right = first._composable(method), first._same_kind(method, second)
    origin, text = joined(left._origin, right._origin, right._query.text)
    query = origin.run(f"SELECT * FROM {left._subquery} {words} SELECT * FROM ({text}\n) AS {right._written_alias}")
    return type(left)(query, origin, left._reads_stream or right._reads_stream, left.alias)


def _condition(left: Composed, condition: Any, how: str) -> Tuple[str, bool]:
    """The ON or USING of a join, and whether it needs the sides' names."""
    if how in _WITHOUT_CONDITION:
        if condition is not None:
            raise ProgrammingError(f"a join with how={how!r} takes no condition")
        return "", False
    if condition is None or (isinstance(condition, (list, tuple)) and not condition):
        raise ProgrammingError(f"a join with how={how!r} takes a condition", 'give columns that both have, or text: "a.x = b.y"')
    if not isinstance(condition, (str, list, tuple)):
        raise InterfaceError(f"join() takes names of columns or a condition, not {kind(condition)}")
    names = column_names(condition, left._query.columns)
    if names is not None:
        return f" USING ({names})", False
    return f" ON {part(condition, 'join', 'a condition')}", True


def _count(method: str, given: Any) -> int:
    """A number of rows."""
    try:
        count = operator.index(given)
    except TypeError:
        raise InterfaceError(f"{method}() takes a number of rows, not {kind(given)}") from None
    if isinstance(given, bool) or count < 0:
        raise InterfaceError(f"{method}() takes a number of rows, not {given}")
    return count
