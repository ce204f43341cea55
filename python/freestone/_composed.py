"""What relations are made of: the text of a query, and what it needs to run."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any, List, Optional, Tuple, TypeVar

from . import _freestone
from ._origin import UNDEFINED_TABLE, Origin, fresh, started
from ._sources import finder, outside
from ._sql import column, folded, kind, part, quoted
from .exceptions import InterfaceError, ProgrammingError

R = TypeVar("R", bound="Composed")

# The first words of statements that can be part of another one, and what may stand before them.
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "PIVOT", "UNPIVOT")
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|$)|/\*.*?\*/)*(\w*)", re.DOTALL)

_numbers = itertools.count(1)


def is_query(text: str) -> bool:
    """Whether a statement can be part of another one."""
    found = _FIRST_WORD.match(text)
    return found is not None and found[1].upper() in _QUERIES


@dataclasses.dataclass(frozen=True)
class Joined:
    """The FROM and WHERE of a join. A part that follows at once can name the columns of each side: ``a.x``."""

    clause: str
    conditions: Tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.clause + (f" WHERE {' AND '.join(self.conditions)}" if self.conditions else "")


class Composed:
    """A query that other queries can be made of."""

    def __init__(
        self,
        query: _freestone.Query,
        origin: Origin,
        reads_stream: bool = False,
        alias: Optional[str] = None,
        joined: Optional[Joined] = None,
    ) -> None:
        self._query = query
        self._origin = origin
        # A stream can be read once, so a relation over it does not show rows before it is asked for them.
        self._reads_stream = reads_stream
        self._alias = alias
        self._joined = joined

    @property
    def alias(self) -> str:
        """The name by which conditions and expressions can name the relation: ``alias.column``."""
        if self._alias is None:
            self._alias = f"unnamed_relation_{next(_numbers)}"
        return self._alias

    def set_alias(self: R, alias: str) -> R:
        """The relation under another name."""
        if not isinstance(alias, str) or not alias:
            raise InterfaceError(f"set_alias() takes a name, not {kind(alias) if alias != '' else 'an empty text'}")
        return type(self)(self._query, self._origin, self._reads_stream, alias)

    def _unnamed(self: R) -> R:
        """The relation under a name that no other one has."""
        return type(self)(self._query, self._origin, self._reads_stream)

    def _select(self: R, method: str, items: str, rest: str = "") -> R:
        """A query that reads this one."""
        base = self._composable(method)
        if base._joined is not None:
            return base._over(f"SELECT {items} FROM {base._joined} {rest}")
        around = f"SELECT {items} FROM (", f"\n) AS {base._written_alias} {rest}"
        return base._over(around[0] + base._query.text + around[1], around)

    def _over(self: R, text: str, around: Optional[Tuple[str, str]] = None, joined: Optional[Joined] = None) -> R:
        """The relation of a text over this one, which is perhaps this one's text with others around it.

        A table that this relation does not read may be a variable of the program, as in the text of ``sql()``.
        """
        try:
            query = self._query.wrapped(*around) if around else self._origin.run(text)
            return type(self)(query, self._origin, self._reads_stream, self.alias, joined)
        except ProgrammingError as error:
            if error.sqlstate != UNDEFINED_TABLE:
                raise
        query, origin, reads_stream = started(self._origin, text, finder(outside()))
        return type(self)(query, origin, reads_stream, self.alias, joined)

    def _composable(self: R, method: str) -> R:
        """This relation; over the rows that a statement gave, if it is no query."""
        if is_query(self._query.text):
            return self
        self._only_rows(method)
        import pyarrow

        rows = fresh("rows")
        found = pyarrow.table(self._query.collect()), True
        origin = dataclasses.replace(self._origin, params=None, tables={rows: found})
        return type(self)(origin.run(f"SELECT * FROM {quoted(rows)}"), origin, alias=self.alias)

    @property
    def _written_alias(self) -> str:
        return folded(self.alias)

    @property
    def _subquery(self) -> str:
        """The relation as a table of a FROM."""
        return f"({self._query.text}\n) AS {self._written_alias}"

    def _items(self, method: str, given: Tuple[Any, ...]) -> str:
        """Columns and expressions with commas between them."""
        return ", ".join(self._item(method, item) for item in given)

    def _item(self, method: str, given: Any) -> str:
        """A column by its name or, if there is none of that name, SQL text."""
        if isinstance(given, str) and given in self._query.columns:
            return column(given)
        return part(given, method, "the name of a column or SQL text")

    def _same_kind(self: R, method: str, other: Any) -> R:
        if not isinstance(other, type(self)):
            raise InterfaceError(f"{method}() takes a relation, not {kind(other)}", "make one with sql() or from_df()")
        return other._composable(method)

    def _only_rows(self, method: str) -> None:
        if not self._query.gives_rows:
            raise InterfaceError(f"{self._summary()} returns no rows for {method}()", "ask for rows with SELECT")

    def _summary(self) -> str:
        done = self._query.done
        return "" if done is None else done[0] if done[1] is None else f"{done[0]} {done[1]}"


def column_names(given: Any, columns: List[str]) -> Optional[str]:
    """The columns of a USING as SQL writes them; None if the text is a condition."""
    if isinstance(given, str):
        given = [given] if given in columns else [word.strip() for word in given.split(",")]
    if not all(isinstance(word, str) and (word in columns or re.fullmatch(r'[A-Za-z_]\w*|"[^"]+"', word)) for word in given):
        return None
    written = [quoted(word) if word in columns else word if word.startswith('"') else folded(word) for word in given]
    return ", ".join(written) or None
