"""Relations: what a statement gives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple, Union

from . import _freestone
from .exceptions import InterfaceError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: Rows that ``show`` prints unless it is told otherwise.
SHOWN_ROWS = 40

#: Rows that iteration fetches at a time.
FETCHED_ROWS = 1024

Row = Tuple[Any, ...]


class Relation:
    """What :meth:`Connection.sql` gives: a query that runs when its rows are asked for, or another statement's result.

    :meth:`arrow`, :meth:`df`, :meth:`pl`, :meth:`batches`, iteration and ``__arrow_c_stream__`` each run the query
    afresh, and see the database as it is then. :meth:`fetchone`, :meth:`fetchmany` and :meth:`fetchall` go on where
    the one before stopped.
    """

    def __init__(self, query: _freestone.Query) -> None:
        self._query = query
        self._rows: Optional[_freestone.Rows] = None

    @property
    def columns(self) -> List[str]:
        """Names of the columns; none where the statement gives no rows."""
        return self._query.columns

    @property
    def types(self) -> List[str]:
        """SQL types of the columns, such as ``int64``, ``varchar`` or ``decimal(15,2)``."""
        return self._query.types

    @property
    def rowcount(self) -> int:
        """Rows that the statement wrote or removed; -1 where it does not count them, as for a query."""
        done = self._query.done
        return -1 if done is None or done[1] is None else done[1]

    def arrow(self, string_views: bool = False) -> "pyarrow.Table":
        """All rows as a ``pyarrow.Table``, without a copy.

        Args:
            string_views: strings are of the type ``string_view`` instead of ``string``. An embedded database has them in
                this form, but pyarrow can compute little with it: it neither compares nor sorts such strings.
        """
        import pyarrow

        return pyarrow.table(self._query.collect(string_views))

    def df(self, **options: Any) -> "pandas.DataFrame":
        """All rows as a ``pandas.DataFrame``.

        Args:
            options: passed to ``pyarrow.Table.to_pandas``, such as ``types_mapper=pandas.ArrowDtype``.
        """
        return self.arrow().to_pandas(**options)

    def pl(self) -> "polars.DataFrame":
        """All rows as a ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self._query.collect(string_views=True))

    def batches(self, string_views: bool = False) -> "pyarrow.RecordBatchReader":
        """The rows as a ``pyarrow.RecordBatchReader``.

        They are computed while they are read, a few batches ahead, so that a result may be larger than memory.

        Args:
            string_views: as of :meth:`arrow`.
        """
        import pyarrow

        source = self._query.batches(string_views)
        schema = pyarrow.RecordBatchReader.from_stream(source.no_rows()).schema
        read = (pyarrow.RecordBatchReader.from_stream(batch).read_next_batch() for batch in source)
        return pyarrow.RecordBatchReader.from_batches(schema, read)

    def fetchone(self) -> Optional[Row]:
        """The next row, or None after the last."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> List[Row]:
        """The next ``size`` rows, fewer at the end."""
        return self._fetch(size)

    def fetchall(self) -> List[Row]:
        """All rows that are left, as tuples of Python's values.

        DECIMAL is ``Decimal``; TIMESTAMP is ``datetime``, cut off to microseconds, with ``tzinfo`` if it has a zone;
        INTERVAL is ``timedelta``, or text where it has months.

        Raises:
            DataError: a date lies outside of the years 1 to 9999, which ``datetime`` holds.
        """
        return self._fetch(None)

    def _fetch(self, count: Optional[int]) -> List[Row]:
        if count is not None and count < 0:
            raise InterfaceError(f"cannot fetch {count} rows", "give how many, or call fetchall()")
        if self._rows is None:
            self._rows = self._query.rows()
        return self._rows.fetch(count)

    def __iter__(self) -> Iterator[Row]:
        rows = self._query.rows()
        while fetched := rows.fetch(FETCHED_ROWS):
            yield from fetched

    def show(self, max_rows: int = SHOWN_ROWS) -> None:
        """Prints the first rows as a table."""
        if not self._query.gives_rows:
            print(self._summary())
            return
        rows = self._query.rows().fetch(max_rows + 1)
        print(_table(self.columns, self.types, rows[:max_rows], len(rows) > max_rows))

    def to_parquet(self, path: Union[str, "os.PathLike[str]"], **options: Any) -> int:
        """Writes the rows to a Parquet file, a few batches at a time, and returns how many they are.

        Args:
            path: the file; one that exists is replaced.
            options: options of ``COPY … TO``: ``compression="zstd"``, ``row_group_size=100_000``, …
        """
        self._only_query("to_parquet")
        if self._query.remote:
            from .connection import _here

            with _here() as here:
                rows = here._run("SELECT * FROM rows", rows=(self._query, False))
                return rows.to_parquet(path, **options)
        text = os.fspath(path).replace("'", "''")
        given = {"format": "parquet", **options}
        words = ", ".join("{} '{}'".format(name, str(value).replace("'", "''")) for name, value in given.items())
        done = self._query.wrapped("COPY (", f"\n) TO '{text}' ({words})").done
        return 0 if done is None or done[1] is None else done[1]

    def explain(self, analyze: bool = False) -> str:
        """The query's plan as text. With ``analyze`` the query runs, and the plan has what was measured."""
        explained = self._query.wrapped("EXPLAIN ANALYZE " if analyze else "EXPLAIN ", "")
        return "\n".join(f"{kind}\n{plan}" for kind, plan in explained.rows().fetch())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._query.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if not self._query.gives_rows:
            return f"<freestone.Relation {self._summary()}>"
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types))
        return f"<freestone.Relation ({columns})>"

    def _only_query(self, method: str) -> None:
        if not self._query.gives_rows:
            raise InterfaceError(f"{self._summary()} gives no rows for {method}()", "ask for rows with SELECT")

    def _summary(self) -> str:
        done = self._query.done
        return "" if done is None else done[0] if done[1] is None else f"{done[0]} {done[1]}"


def _table(columns: List[str], types: List[str], rows: List[Row], has_more: bool) -> str:
    """Rows in a frame: names, values; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    cells += [["…"] * len(columns)] if has_more else []
    widths = [max(len(text) for text in column) for column in zip(columns, *cells)]
    is_number = [kind.startswith(("int", "uint", "real", "double", "decimal")) for kind in types]

    def line(values: List[str], right: List[bool]) -> str:
        aligned = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right))
        return "│ " + " │ ".join(aligned) + " │"

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + right

    body = [line(row, is_number) for row in cells]
    head = [rule("┌", "┬", "┐"), line(columns, is_number), rule("├", "┼", "┤")]
    return "\n".join([*head, *body, rule("└", "┴", "┘")])


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
