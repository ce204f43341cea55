"""Relations: the results of statements."""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING, Any, Iterator, List, Optional, Tuple, Union

from . import _freestone
from ._sources import distinct
from .exceptions import InterfaceError

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

Row = Tuple[Any, ...]

# The names of the types whose values are numbers, without the digits of DECIMAL.
NUMBERS = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"
)


class Relation:
    """The result of :meth:`Connection.sql`: a query that runs when its rows are fetched, or another statement's result.

    :meth:`arrow`, :meth:`df`, :meth:`pl`, :meth:`batches`, iteration and ``__arrow_c_stream__`` each run the query
    again, on the snapshot that is current at that time. :meth:`fetchone`, :meth:`fetchmany` and :meth:`fetchall` share
    one run: each continues after the last row fetched.
    """

    def __init__(self, query: _freestone.Query, reads_stream: bool = False) -> None:
        self._query = query
        # A stream can be read once, so a relation over it does not show rows before it is asked for them.
        self._reads_stream = reads_stream
        self._rows: Optional[_freestone.Rows] = None

    @property
    def columns(self) -> List[str]:
        """The names of the columns; empty for a statement without rows."""
        return self._query.columns

    @property
    def types(self) -> List[str]:
        """The SQL types of the columns, such as ``VARCHAR``, ``DECIMAL(15,2)`` or ``BIGINT``."""
        return self._query.types

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
        print(_table(self.columns, self.types, rows, has_more))

    def to_parquet(self, path: Union[str, "os.PathLike[str]"], **options: Any) -> int:
        """Writes the rows to a Parquet file, a few batches at a time, and returns their number.

        Args:
            path: the file, which is replaced if it exists.
            options: options of ``COPY … TO``, such as ``compression="zstd"``, ``row_group_size=100_000``.
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
        """The query's plan as text. With ``analyze``, the query runs, and the plan includes its counters and times."""
        explained = self._query.wrapped("EXPLAIN ANALYZE " if analyze else "EXPLAIN ", "")
        return "\n".join(f"{kind}\n{plan}" for kind, plan in explained.rows().fetch())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._query.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if not self._query.gives_rows:
            return f"<freestone.Relation {self._summary()}>"
        if self._reads_stream:
            columns = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types))
            return f"<freestone.Relation ({columns}) of a stream>"
        rows, has_more = self._first_rows(REPR_ROWS)
        table = _table(self.columns, self.types, rows, has_more, with_types=True)
        return table + (f"\nthe first {REPR_ROWS} rows" if has_more else f"\n{_counted(rows)}")

    def _repr_html_(self) -> str:
        """The first rows as a table in a notebook."""
        if not self._query.gives_rows or self._reads_stream:
            return f"<pre>{html.escape(repr(self))}</pre>"
        rows, has_more = self._first_rows(REPR_ROWS)
        return _html_table(self.columns, self.types, rows, has_more)

    def _first_rows(self, count: int) -> Tuple[List[Row], bool]:
        rows = self._query.rows().fetch(count + 1)
        return rows[:count], len(rows) > count

    def _only_query(self, method: str) -> None:
        if not self._query.gives_rows:
            raise InterfaceError(f"{self._summary()} returns no rows for {method}()", "ask for rows with SELECT")

    def _summary(self) -> str:
        done = self._query.done
        return "" if done is None else done[0] if done[1] is None else f"{done[0]} {done[1]}"


def _table(columns: List[str], types: List[str], rows: List[Row], has_more: bool, with_types: bool = False) -> str:
    """The rows in a frame, below the names of the columns. Numbers are aligned to the right."""
    heads = [columns, types] if with_types else [columns]
    cells = [[_cell(value) for value in row] for row in rows]
    cells += [["…"] * len(columns)] if has_more else []
    widths = [max(len(text) for text in column) for column in zip(*heads, *cells)]
    is_number = [_is_number(kind) for kind in types]

    def line(values: List[str], right: List[bool]) -> str:
        aligned = (v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right))
        return "│ " + " │ ".join(aligned) + " │"

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * (width + 2) for width in widths) + right

    body = [line(row, is_number) for row in cells]
    head = [rule("┌", "┬", "┐"), *(line(names, is_number) for names in heads), rule("├", "┼", "┤")]
    return "\n".join([*head, *body, rule("└", "┴", "┘")])


def _html_table(columns: List[str], types: List[str], rows: List[Row], has_more: bool) -> str:
    """The rows as HTML, with names and types of the columns above them."""

    def cell(tag: str, text: str, kind: str) -> str:
        align = "right" if _is_number(kind) else "left"
        return f'<{tag} style="text-align: {align}">{text}</{tag}>'

    heads = (f"{html.escape(name)}<br><small>{html.escape(kind)}</small>" for name, kind in zip(columns, types))
    head = "".join(cell("th", text, kind) for text, kind in zip(heads, types))
    lines = [[html.escape(_cell(value)) for value in row] for row in rows]
    body = "".join("<tr>" + "".join(cell("td", text, kind) for text, kind in zip(line, types)) + "</tr>" for line in lines)
    note = f"the first {REPR_ROWS} rows" if has_more else _counted(rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{note}</small>"


def _counted(rows: List[Row]) -> str:
    return f"{len(rows)} row" + ("" if len(rows) == 1 else "s")


def _is_number(kind: str) -> bool:
    return kind.partition("(")[0] in NUMBERS and not kind.endswith("]")


def _with_floats(table: "pyarrow.Table") -> "pyarrow.Table":
    """The table with DECIMAL columns as DOUBLE."""
    import pyarrow

    def changed(field: "pyarrow.Field") -> "pyarrow.Field":
        return field.with_type(pyarrow.float64()) if pyarrow.types.is_decimal(field.type) else field

    return table.cast(pyarrow.schema([changed(field) for field in table.schema], table.schema.metadata))


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
