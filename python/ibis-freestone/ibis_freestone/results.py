"""Results: Arrow of the engine as the Arrow and pandas that Ibis gives for the types of an expression."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ibis.expr.datatypes as dt
import ibis.expr.schema as sch
import pyarrow as pa
import pyarrow.compute as pc
from ibis.formats.pandas import PandasData
from ibis.formats.pyarrow import PyArrowData

if TYPE_CHECKING:
    import pandas as pd


class FreestonePyArrowData(PyArrowData):
    """A column of nothing but NULL has a type in SQL, and none in Ibis."""

    @classmethod
    def convert_scalar(cls, scalar: pa.Scalar, dtype: dt.DataType) -> pa.Scalar:
        return pa.scalar(None) if dtype.is_null() else super().convert_scalar(scalar, dtype)

    @classmethod
    def convert_column(cls, column: pa.Array, dtype: dt.DataType) -> pa.Array:
        return pa.nulls(len(column)) if dtype.is_null() else super().convert_column(column, dtype)


class FreestonePandasData(PandasData):
    """A missing list is None, and not NaN."""

    @staticmethod
    def convert_Array(s: pd.Series, dtype: dt.DataType, pandas_type: Any) -> pd.Series:
        return s.where(s.notna(), None)


def to_ibis_types(table: pa.Table, schema: sch.Schema) -> pa.Table:
    """The rows with the names and types that Ibis expects."""
    columns = [_column(column, kind) for column, kind in zip(table.columns, schema.types)]
    return pa.table(columns, names=list(schema.names))


def to_pandas(table: pa.Table, schema: sch.Schema) -> pd.DataFrame:
    """The rows as pandas. Columns with NULL or values in values are built from Python objects, so that no integer becomes a float."""
    import pandas as pd

    def as_pandas(column: pa.ChunkedArray) -> object:
        has_objects = pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type) or column.null_count
        return column.to_pylist() if has_objects else column.to_pandas()

    frame = pd.DataFrame({name: as_pandas(column) for name, column in zip(schema.names, table.columns)})
    return FreestonePandasData.convert_table(frame, schema)


def _column(column: pa.ChunkedArray, kind: dt.DataType) -> pa.ChunkedArray:
    if kind.is_uuid() and not pa.types.is_string(column.type):
        return _converted(column, pa.string(), lambda value: str(uuid.UUID(bytes=value)))
    if kind.is_interval() and pa.types.is_interval(column.type):
        return _converted(column, pa.duration("ns"), _nanoseconds)
    if kind.is_decimal() and kind.scale is not None and pa.types.is_decimal(column.type) and column.type.scale > kind.scale:
        # Ibis knows fewer digits after the point of some results than SQL gives.
        return pc.round(column, kind.scale)
    return column


def _converted(column: pa.ChunkedArray, kind: pa.DataType, convert: Callable[[Any], Any]) -> pa.ChunkedArray:
    values = (None if value is None else convert(value) for value in column.to_pylist())
    return pa.chunked_array([pa.array(values, kind)])


def _nanoseconds(interval: pa.MonthDayNano) -> int:
    """The length of an interval, with 30 days per month and 24 hours per day, as SQL compares intervals."""
    return ((interval.months * 30 + interval.days) * 86_400_000_000_000) + interval.nanoseconds
