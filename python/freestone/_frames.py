"""Result rows as pandas DataFrames."""

from __future__ import annotations

import uuid
from typing import Any, Dict, List, Optional, Tuple

import pyarrow
import pyarrow.types as types


def to_pandas(table: pyarrow.Table, **options: Any) -> Any:
    """The table as a DataFrame in which integers and booleans beside NULL keep their type, as ``Int64``, ``boolean``, …

    pyarrow makes floats of integers beside NULL, which represent 2^53 at most. Dates are counted in microseconds, like
    timestamps; a UUID is an ``uuid.UUID``, and a map a ``dict``. Options are those of ``pyarrow.Table.to_pandas``;
    ``types_mapper`` and ``integer_object_nulls`` choose the types themselves.
    """
    if options.get("types_mapper") is not None or options.get("integer_object_nulls"):
        return table.to_pandas(**options)
    if not options.get("date_as_object", True):
        table = _with_times_for_dates(table)
    masked = [at for at, column in enumerate(table.columns) if _is_converted_here(column)]
    if not masked:
        return table.to_pandas(**options)
    import pandas

    others = table.select([at for at in range(table.num_columns) if at not in masked]).to_pandas(**options)
    index = pandas.RangeIndex(table.num_rows)
    columns = {}
    for at, name in enumerate(table.column_names):
        if at in masked:
            columns[name] = pandas.Series(_masked(table.column(at)), index=index, name=name)
        else:
            columns[name] = others[name]
    return pandas.DataFrame(columns, index=index, copy=False)


def to_numpy(table: pyarrow.Table) -> Dict[str, Any]:
    """The columns as numpy arrays, with a mask where a value is NULL."""
    import numpy

    frame = to_pandas(table, date_as_object=False)
    arrays = {}
    for name, column in zip(table.column_names, table.columns):
        series = frame[name]
        if column.null_count == 0:
            arrays[name] = series.to_numpy(object if types.is_string(column.type) else None)
            continue
        if _is_whole(column.type):
            values = series.to_numpy(column.type.to_pandas_dtype(), na_value=0)
        else:
            values = series.to_numpy(None if series.dtype.kind in "fmM" else object)
        arrays[name] = numpy.ma.masked_array(values, mask=column.is_null().to_numpy(zero_copy_only=False))
    return arrays


def _with_times_for_dates(table: pyarrow.Table) -> pyarrow.Table:
    for at, field in enumerate(table.schema):
        if types.is_date32(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pyarrow.timestamp("us")))
    return table


def _is_uuid(kind: pyarrow.DataType) -> bool:
    return types.is_fixed_size_binary(kind) and kind.byte_width == 16


def _is_whole(kind: pyarrow.DataType) -> bool:
    return types.is_integer(kind) or types.is_boolean(kind)


def _is_list(kind: pyarrow.DataType) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_converted_here(column: pyarrow.ChunkedArray) -> bool:
    return _is_uuid(column.type) or types.is_map(column.type) or _has_integers_beside_null(column)


def _has_integers_beside_null(column: pyarrow.ChunkedArray) -> bool:
    if not types.is_nested(column.type):
        return column.null_count > 0 and _is_whole(column.type)
    return any(_part_has_integers_beside_null(chunk) for chunk in column.chunks)


def _part_has_integers_beside_null(array: pyarrow.Array) -> bool:
    kind = array.type
    if _is_list(kind):
        return _part_has_integers_beside_null(array.flatten())
    if types.is_map(kind):
        return _part_has_integers_beside_null(array.items)
    if types.is_struct(kind):
        return any(_part_has_integers_beside_null(array.field(at)) for at in range(kind.num_fields))
    return types.is_integer(kind) and array.null_count > 0


def _masked(column: pyarrow.ChunkedArray) -> Any:
    """The column as an array of pandas or, if it is nested, of objects."""
    import pandas

    kind = column.type
    if types.is_boolean(kind):
        return pandas.BooleanDtype().__from_arrow__(column)
    if types.is_integer(kind):
        name = str(kind).replace("u", "U").replace("int", "Int")
        return pandas.api.types.pandas_dtype(name).__from_arrow__(column)
    values = [value for chunk in column.chunks for value in _values(chunk)]
    return _objects(values)


def _objects(values: List[Any]) -> Any:
    import numpy

    objects = numpy.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        objects[at] = value
    return objects


def _values(array: pyarrow.Array) -> List[Any]:
    """Nested values: lists as arrays, and structs and maps as Python's values."""
    if _is_uuid(array.type):
        return [None if value is None else uuid.UUID(bytes=value) for value in array.to_pylist()]
    if types.is_map(array.type):
        return [_dict(pairs) for pairs in array.to_pylist()]
    if not _is_list(array.type):
        return array.to_pylist()
    return [None if value.values is None else _items(value.values) for value in array]


def _dict(pairs: Optional[List[Tuple[Any, Any]]]) -> Any:
    """A map as a dict, or as its pairs if a key cannot be one of a dict."""
    try:
        return None if pairs is None else dict(pairs)
    except TypeError:
        return pairs


def _items(items: pyarrow.Array) -> Any:
    """The items of one list; with a mask if some of them are NULL."""
    import numpy

    if not _is_whole(items.type):
        return _objects(_values(items))
    if items.null_count == 0:
        return items.to_numpy(zero_copy_only=False)
    filled = items.fill_null(0).to_numpy(zero_copy_only=False)
    return numpy.ma.masked_array(filled, mask=items.is_null().to_numpy(zero_copy_only=False))
