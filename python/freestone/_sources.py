"""Python objects that are tables: their conversion to Arrow, and their search by variable name."""

from __future__ import annotations

import contextlib
import decimal
import itertools
import sys
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from .exceptions import DataError

#: A table for the Rust code: an object with ``__arrow_c_stream__``, and whether its rows can be read more than once.
Found = Optional[Tuple[Any, bool]]


def as_table(source: Any) -> Found:
    """An object with the source's rows as Arrow; None if the source is not a table."""
    module = type(source).__module__.partition(".")[0]
    if module == "pandas":
        return _from_pandas(source)
    if module == "polars" and type(source).__name__ in ("DataFrame", "LazyFrame"):
        return _from_polars(source.collect() if type(source).__name__ == "LazyFrame" else source)
    if module == "pyarrow" and type(source).__name__ in ("RecordBatch", "StructArray"):
        return (_record_batches(source), True) if type(source).__name__ == "RecordBatch" else None
    if module == "pyarrow" and hasattr(source, "scanner"):
        return source.scanner().to_reader(), False
    if not hasattr(source, "__arrow_c_stream__") or isinstance(source, type):
        return None
    # An object with a length has its rows in memory. Any other is a stream, which may be larger than memory.
    return source, hasattr(source, "__len__") or hasattr(source, "num_rows")


def distinct(names: Sequence[str]) -> List[str]:
    """The names, with a number added to those that occurred before."""
    known: Set[str] = set()
    result = []
    for name in names:
        if name in known:
            numbered = (f"{name}_{number}" for number in itertools.count(1))
            name = next(other for other in numbered if other not in known and other not in names)
        known.add(name)
        result.append(name)
    return result


def _from_pandas(source: Any) -> Found:
    if type(source).__name__ != "DataFrame":
        return None
    import pyarrow

    names = [str(name) for name in source.columns]
    if len(set(names)) < len(names):
        source = source.set_axis(distinct(names), axis=1)
    for name, kind in source.dtypes.items():
        _refuse_spans(str(name), kind)
    try:
        # The index is not a column. DataFrame.reset_index() makes it one.
        return pyarrow.Table.from_pandas(source, preserve_index=False), True
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        # Some column has another form, or none. It is read, or named, below.
        columns = [_pandas_column(source.iloc[:, at], name) for at, name in enumerate(source.columns)]
        return pyarrow.Table.from_arrays(columns, names=[str(name) for name in source.columns]), True


def _refuse_spans(name: str, kind: Any) -> None:
    """Periods and intervals, of which Arrow has only the numbers, are no values of SQL."""
    if type(kind).__name__ in ("PeriodDtype", "IntervalDtype"):
        raise DataError(
            f"cannot read column {name!r} of the DataFrame: SQL has no type for {kind}",
            "give the start of each with .dt.start_time, or as columns of both ends",
        )


def _pandas_column(column: Any, name: Any) -> Any:
    """A column as an Arrow array, also in forms that pyarrow does not read.

    These are numbers in the byte order of another machine, sparse columns, and integers of more than 64 bits.
    """
    import numpy
    import pyarrow

    if hasattr(column.dtype, "fill_value"):
        column = column.sparse.to_dense()
    if isinstance(column.dtype, numpy.dtype) and not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    try:
        return pyarrow.Array.from_pandas(column)
    except OverflowError:
        with contextlib.suppress(pyarrow.ArrowException, TypeError, ValueError, OverflowError):
            return pyarrow.array(_as_decimals(column), pyarrow.decimal128(38, 0))
        reason: Any = "it has integers of more than 38 digits"
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        reason = error
    raise DataError(
        f"cannot read column {name!r} of the DataFrame, of dtype {column.dtype}: {reason}",
        "give each column values of one type that SQL has",
    )


def _as_decimals(column: Any) -> List[Any]:
    import pandas

    def converted(value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return decimal.Decimal(value)
        if pandas.api.types.is_scalar(value) and pandas.isna(value):
            return None
        raise TypeError("not a whole number")

    return [converted(value) for value in column]


def _from_polars(frame: Any) -> Found:
    """A Polars DataFrame.

    Arrow has no integers of 128 bits, so these are given as decimals. Columns of nothing but NULL are given as integers,
    the type that SQL gives them, because Polars hands them over with a buffer that Arrow does not have.
    """
    import polars

    objects = [name for name, kind in frame.schema.items() if kind == polars.Object]
    if objects:
        raise DataError(
            f"cannot read the columns {', '.join(objects)} of the DataFrame: they hold Python objects",
            "cast them to a type that SQL has",
        )
    empty = [name for name, kind in frame.schema.items() if kind == polars.Null]
    if empty:
        frame = frame.with_columns(polars.col(empty).cast(polars.Int32))
    wide = [name for name, kind in frame.schema.items() if str(kind) in ("Int128", "UInt128")]
    if not wide:
        return frame, True
    try:
        return frame.with_columns(polars.col(wide).cast(polars.Decimal(38, 0))), True
    except polars.exceptions.PolarsError as error:
        raise DataError(
            f"cannot read the columns {', '.join(wide)} of the DataFrame: {str(error).splitlines()[0]}",
            "a DECIMAL has up to 38 digits; cast them to Float64 or String",
        ) from error


def _record_batches(batch: Any) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches([batch])


class Variables:
    """Finds tables by the names of variables, in one scope after the other.

    SQL folds names to lower case, so a name also finds a variable that differs from it in case only.
    """

    def __init__(self, scopes: Callable[[], Iterator[Dict[str, Any]]]) -> None:
        self._scopes = scopes

    def __call__(self, name: str) -> Found:
        """The table that a variable of this name is."""
        for value in self.values(name):
            found = as_table(value)
            if found is not None:
                return found
        return None

    def values(self, name: str) -> Iterator[Any]:
        """The values of the variables of this name, except for None."""
        for scope in self._scopes():
            if scope.get(name) is not None:
                yield scope[name]
        for scope in self._scopes():
            for other in [key for key in scope if isinstance(key, str) and key != name and key.lower() == name]:
                if scope[other] is not None:
                    yield scope[other]


def finder(frame: Optional[FrameType]) -> Variables:
    """Finds tables by the names of a frame's variables: locals first, then globals."""
    return Variables(lambda: _scopes(frame))


def finder_in(namespace: Dict[str, Any]) -> Variables:
    """Finds tables by the names of a namespace, such as that of a notebook."""
    return Variables(lambda: iter([namespace]))


def _scopes(frame: Optional[FrameType]) -> Iterator[Dict[str, Any]]:
    # A comprehension or lambda has a frame of its own. Continue with the frames around it up to that of the function.
    while frame is not None:
        yield frame.f_locals
        if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
            yield frame.f_globals
            return
        frame = frame.f_back


def outside() -> Optional[FrameType]:
    """The frame of the program that called this package."""
    frame = caller(0)
    package = __name__.partition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return frame


def caller(depth: int) -> Optional[FrameType]:
    """The frame of the caller of the function that is ``depth`` levels up; None if there is none."""
    try:
        return sys._getframe(depth + 1)
    except (AttributeError, ValueError):
        return None
