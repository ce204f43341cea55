"""Python objects that are tables: their conversion to Arrow, and their search by variable name."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from .exceptions import DataError

#: A table for the Rust code: an object with ``__arrow_c_stream__``, and whether its rows can be read more than once.
Found = Optional[Tuple[Any, bool]]


def as_table(source: Any) -> Found:
    """An object with the source's rows as Arrow; None if the source is not a table."""
    module = type(source).__module__.partition(".")[0]
    if module == "pandas":
        return _from_pandas(source)
    if module == "polars" and type(source).__name__ == "LazyFrame":
        return source.collect(), True
    if module == "pyarrow" and type(source).__name__ in ("RecordBatch", "StructArray"):
        return (_record_batches(source), True) if type(source).__name__ == "RecordBatch" else None
    if module == "pyarrow" and hasattr(source, "scanner"):
        return source.scanner().to_reader(), False
    if not hasattr(source, "__arrow_c_stream__") or isinstance(source, type):
        return None
    # An object with a length has its rows in memory. Any other is a stream, which may be larger than memory.
    return source, hasattr(source, "__len__") or hasattr(source, "num_rows")


def _from_pandas(source: Any) -> Found:
    if type(source).__name__ != "DataFrame":
        return None
    import pyarrow

    try:
        # The index is not a column. DataFrame.reset_index() makes it one.
        return pyarrow.Table.from_pandas(source, preserve_index=False), True
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"cannot read the DataFrame: {error}", "give each column values of one type") from error


def _record_batches(batch: Any) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches([batch])


def finder(frame: Optional[FrameType]) -> Callable[[str], Found]:
    """A function that finds tables by the names of a frame's variables: locals first, then globals.

    SQL folds names to lower case, so a name also finds a variable that differs from it in case only.
    """

    def find(name: str) -> Found:
        for scope in _scopes(frame):
            source = scope.get(name)
            found = as_table(source) if source is not None else None
            if found is not None:
                return found
        for scope in _scopes(frame):
            for other in [key for key in scope if isinstance(key, str) and key.lower() == name]:
                found = as_table(scope[other])
                if found is not None:
                    return found
        return None

    return find


def _scopes(frame: Optional[FrameType]) -> Iterator[Dict[str, Any]]:
    # A comprehension or lambda has a frame of its own. Continue with the frames around it up to that of the function.
    while frame is not None:
        yield frame.f_locals
        if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
            yield frame.f_globals
            return
        frame = frame.f_back


def caller(depth: int) -> Optional[FrameType]:
    """The frame of the caller of the function that is ``depth`` levels up; None if there is none."""
    try:
        return sys._getframe(depth + 1)
    except (AttributeError, ValueError):
        return None
