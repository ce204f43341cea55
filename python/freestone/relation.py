"""Relations: the results of statements."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, TypeVar

from . import _freestone
from ._aggregates import Aggregates
from ._chain import Chain
from ._display import Row, html_table, note_below, text_table
from ._origin import fresh
from ._outputs import Outputs
from ._sources import as_table, distinct
from ._sql import kind, quoted
from ._windows import Windows
from .exceptions import Error, InterfaceError, ProgrammingError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: The number of rows that ``show`` prints by default.
SHOWN_ROWS = 40

#: The number of rows in a relation's ``repr`` and in a notebook.
REPR_ROWS = 20

#: The number of rows that iteration fetches at once.
FETCHED_ROWS = 1024

Self = TypeVar("Self", bound="Relation")


class Relation(Chain, Aggregates, Windows, Outputs):
    """The result of :meth:`Connection.sql`: a query that runs when its rows are fetched, or another statement's result.

    :meth:`arrow`, :meth:`df`, :meth:`pl`, :meth:`batches`, iteration and ``__arrow_c_stream__`` each run the query
    again, on the snapshot that is current at that time. :meth:`fetchone`, :meth:`fetchmany` and :meth:`fetchall` share
    one run: each continues after the last row fetched.

    Methods such as :meth:`filter`, :meth:`join` and :meth:`sum` return new relations, which are queries over this one. They
    keep its parameters, and the frames that it reads, and are checked at once.
    """

    _rows: Optional[_freestone.Rows] = None

    @property
    def columns(self) -> List[str]:
        """The names of the columns; empty for a statement without rows."""
        return self._query.columns

    @property
    def types(self) -> List[str]:
        """The SQL types of the columns, such as ``VARCHAR``, ``DECIMAL(15,2)`` or ``BIGINT``."""
        return self._query.types

    @property
    def dtypes(self) -> List[str]:
        """The same as :attr:`types`."""
        return self._query.types

    @property
    def description(self) -> List[Tuple[Any, ...]]:
        """Name, type and five times None of each column, as in DB-API 2.0."""
        return [(name, kind, None, None, None, None, None) for name, kind in zip(self.columns, self.types)]

    @property
    def shape(self) -> Tuple[int, int]:
        """The number of rows, for which the query runs, and the number of columns."""
        rows = self._select("shape", "count(*)")._query.rows().fetch()
        return int(rows[0][0]), len(self.columns)

    def sql_query(self) -> str:
        """The text of the query."""
        return self._query.text

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement wrote or removed; -1 if it does not count them, as for a query."""
        done = self._query.done
        return -1 if done is None or done[1] is None else done[1]

    def arrow(self, string_views: bool = False) -> "pyarrow.Table":
        """All rows as a ``pyarrow.Table``, without a copy.

        Args:
            string_views: whether strings have the type ``string_view`` instead of ``string``. An embedded database has
                them in this form, but pyarrow supports few functions for it: it cannot compare or sort such strings.
        """
        import pyarrow

        return pyarrow.table(self._query.collect(string_views))

    def df(self, decimals_as_floats: bool = False, **options: Any) -> "pandas.DataFrame":
        """All rows as a ``pandas.DataFrame``.

        DATE becomes ``datetime64``, and INTERVAL ``timedelta64`` if no interval has months. A sum of integers becomes
        ``int64``, or ``float64`` if a value has more than 64 bits. Integers and booleans beside NULL become ``Int64``,
        ``boolean`` and the like, in which NULL is ``pandas.NA``. Of two columns of one name ``a``, the second is ``a_1``.
        Infinite dates and timestamps are an error, since a frame cannot represent them.

        Args:
            decimals_as_floats: whether DECIMAL becomes ``float64``, which has about 16 digits, instead of Python's
                ``Decimal``, which takes far longer.
            options: passed to ``pyarrow.Table.to_pandas``, such as ``date_as_object=True`` for dates as Python objects,
                or ``types_mapper=pandas.ArrowDtype`` for exactly the types of :meth:`arrow`.
        """
        import pyarrow

        from ._frames import to_pandas

        if options.get("types_mapper") is not None:
            table = self.arrow()
            table = table.rename_columns(distinct(table.column_names))
        else:
            table = pyarrow.table(self._query.frame())
        if decimals_as_floats:
            table = _with_floats(table)
        options.setdefault("date_as_object", False)
        return to_pandas(table, **options)

    def pl(self) -> "polars.DataFrame":
        """All rows as a ``polars.DataFrame``.

        As in :meth:`df`, a sum of integers becomes ``Int64`` or ``Float64``, INTERVAL a ``Duration``, and names are
        distinct. INTERVAL becomes text if an interval has months.
        """
        import polars

        return polars.DataFrame(self._query.frame(string_views=True, interval_texts=True))

    def batches(self, string_views: bool = False) -> "pyarrow.RecordBatchReader":
        """The rows as a ``pyarrow.RecordBatchReader``.

        The query runs while the rows are read, a few batches ahead, so the result may be larger than memory.

        Args:
            string_views: as in :meth:`arrow`.
        """
        import pyarrow

        source = self._query.batches(string_views)
        schema = pyarrow.RecordBatchReader.from_stream(source.no_rows()).schema
        read = (pyarrow.RecordBatchReader.from_stream(batch).read_next_batch() for batch in source)
        return pyarrow.RecordBatchReader.from_batches(schema, read)

    def fetch_record_batch(self, rows_per_batch: int = 1_000_000) -> "pyarrow.RecordBatchReader":
        """The same as :meth:`batches`.

        Args:
            rows_per_batch: the most rows of a batch. Smaller batches are not put together.
        """
        import pyarrow

        if isinstance(rows_per_batch, bool) or not isinstance(rows_per_batch, int) or rows_per_batch < 1:
            raise InterfaceError(f"a batch has a number of rows of 1 or more, not {rows_per_batch!r}")
        reader = self.batches()
        parts = (part for batch in reader for part in pyarrow.Table.from_batches([batch]).to_batches(rows_per_batch))
        return pyarrow.RecordBatchReader.from_batches(reader.schema, parts)

    def fetch_arrow_reader(self, batch_size: int = 1_000_000) -> "pyarrow.RecordBatchReader":
        """The same as :meth:`fetch_record_batch`."""
        return self.fetch_record_batch(batch_size)

    def to_arrow_reader(self, batch_size: int = 1_000_000) -> "pyarrow.RecordBatchReader":
        """The same as :meth:`fetch_record_batch`."""
        return self.fetch_record_batch(batch_size)

    def to_arrow_table(self) -> "pyarrow.Table":
        """The same as :meth:`arrow`."""
        return self.arrow()

    def map(self: Self, function: Callable[["pandas.DataFrame"], Any]) -> Self:
        """The rows of the DataFrame that a function makes of this relation's. The query and the function run at once."""
        import dataclasses

        made = function(self.df())
        found = as_table(made)
        if found is None:
            raise ProgrammingError(f"map(): the function returned {kind(made)}, which is no table", "return a DataFrame")
        table = fresh("frame")
        origin = dataclasses.replace(self._origin, params=None, tables={table: found})
        return type(self)(origin.run(f"SELECT * FROM {quoted(table)}"), origin, reads_stream=not found[1])

    def fetch_df(self, **options: Any) -> "pandas.DataFrame":
        """The same as :meth:`df`."""
        return self.df(**options)

    def fetchdf(self, **options: Any) -> "pandas.DataFrame":
        """The same as :meth:`df`."""
        return self.df(**options)

    def to_df(self, **options: Any) -> "pandas.DataFrame":
        """The same as :meth:`df`."""
        return self.df(**options)

    def fetch_arrow_table(self) -> "pyarrow.Table":
        """The same as :meth:`arrow`."""
        return self.arrow()

    def fetchnumpy(self) -> Dict[str, Any]:
        """All rows as numpy arrays by the name of their column, with a mask where values are NULL."""
        import pyarrow

        from ._frames import to_numpy

        return to_numpy(pyarrow.table(self._query.frame()))

    def execute(self: Self) -> Self:
        """Starts the query for :meth:`fetchone` and the like, from the first row. Returns the relation."""
        self._only_rows("execute")
        self._rows = self._query.rows()
        return self

    def fetchone(self) -> Optional[Row]:
        """The next row, or None after the last."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> List[Row]:
        """The next ``size`` rows, or fewer if fewer remain."""
        return self._fetch(size)

    def fetchall(self) -> List[Row]:
        """All remaining rows, as tuples of Python objects.

        A DECIMAL becomes a ``Decimal``, and a sum of integers an ``int``. A TIMESTAMP becomes a ``datetime``, truncated
        to microseconds, with ``tzinfo`` if it has a time zone. An INTERVAL becomes a ``timedelta``, or text if it has
        months.

        Raises:
            DataError: the year of a date is not between 1 and 9999, the range of ``datetime``.
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
            for row in fetched:
                yield row
                # The rest of the rows is here already, but after close() there are none.
                self._query.check_open()

    def show(self, max_rows: int = SHOWN_ROWS) -> None:
        """Prints the first rows as a table."""
        if not self._query.gives_rows:
            print(self._summary())
            return
        rows, has_more = self._first_rows(max_rows)
        print(text_table(self.columns, self.types, rows, has_more))

    def explain(self, analyze: bool = False) -> str:
        """The query's plan as text. With ``analyze``, the query runs, and the plan includes its counters and times."""
        explained = self._query.wrapped("EXPLAIN ANALYZE " if analyze else "EXPLAIN ", "")
        return "\n".join(f"{kind}\n{plan}" for kind, plan in explained.rows().fetch())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._query.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if not self._query.gives_rows:
            return f"<freestone.Relation {self._summary()}>"
        if self._reads_stream:
            return f"<freestone.Relation {self._heading()} of a stream>"
        try:
            rows, has_more = self._first_rows(REPR_ROWS)
        except Error as error:
            # A debugger shows relations of closed connections and dropped tables, too.
            return f"<freestone.Relation {self._heading()} without rows: {error.message.splitlines()[0]}>"
        shown = text_table(self.columns, self.types, rows, has_more, with_types=True)
        return f"{shown}\n{note_below(len(self.columns), len(rows), has_more)}"

    def _repr_html_(self) -> str:
        """The first rows as a table in a notebook."""
        if not self._query.gives_rows or self._reads_stream:
            return f"<pre>{html.escape(repr(self))}</pre>"
        try:
            rows, has_more = self._first_rows(REPR_ROWS)
        except Error:
            return f"<pre>{html.escape(repr(self))}</pre>"
        return html_table(self.columns, self.types, rows, has_more)

    def _heading(self) -> str:
        return "(" + ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types)) + ")"

    def _first_rows(self, count: int) -> Tuple[List[Row], bool]:
        rows = self._query.rows().fetch(count + 1)
        return rows[:count], len(rows) > count


def _with_floats(table: "pyarrow.Table") -> "pyarrow.Table":
    """The table with DECIMAL columns as DOUBLE."""
    import pyarrow

    def changed(field: "pyarrow.Field") -> "pyarrow.Field":
        return field.with_type(pyarrow.float64()) if pyarrow.types.is_decimal(field.type) else field

    return table.cast(pyarrow.schema([changed(field) for field in table.schema], table.schema.metadata))
