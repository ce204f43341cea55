"""Relations over tables, files, frames and values, as methods of connections."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from . import _freestone
from ._origin import Origin, Parameters, fresh, started
from ._sources import Found, as_table
from ._sql import Path, kind, last_name, literal, option_name, quoted, written_table
from .exceptions import InterfaceError, ProgrammingError
from .relation import Relation

# Options by the names that pandas has for them, and their names in SQL.
_CSV_OPTIONS = {
    "sep": "delimiter",
    "delim": "delimiter",
    "quotechar": "quote",
    "escapechar": "escape",
    "na_values": "null",
    "nullstr": "null",
    "skiprows": "skip",
    "dtype": "types",
    "date_format": "dateformat",
    "timestamp_format": "timestampformat",
}


class Readers:
    """Makes relations without SQL."""

    _native: _freestone.Connection
    _registered: Dict[str, Any]

    def _origin(self, params: Optional[Parameters] = None, tables: Optional[Mapping[str, Found]] = None) -> Origin:
        """The surroundings of a text of this connection."""
        return Origin(self._native, params, tables or {}, self._registered)

    def table(self, table_name: str) -> Relation:
        """The rows of a table or view, or of a frame of :meth:`register`.

        Args:
            table_name: ``table`` or ``schema.table``. Case matters. Other names are in double quotes: ``'"my.table"'``.
        """
        return self._of_table("table", table_name)

    def view(self, view_name: str) -> Relation:
        """The same as :meth:`table`."""
        return self._of_table("view", view_name)

    def _of_table(self, method: str, given: str) -> Relation:
        written = written_table(given, method)
        query, origin, reads_stream = started(self._origin(), f"SELECT * FROM {written}", lambda _: None)
        return Relation(query, origin, reads_stream, alias=last_name(given))

    def from_df(self, df: Any) -> Relation:
        """The rows of a pandas or Polars DataFrame, or of anything else that :meth:`sql` reads as a table."""
        return self._of_source("from_df", df)

    def from_arrow(self, arrow_object: Any) -> Relation:
        """The rows of a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, or of any object that gives Arrow data."""
        return self._of_source("from_arrow", arrow_object)

    def _of_source(self, method: str, source: Any) -> Relation:
        found = as_table(source)
        if found is None:
            raise no_table(f"{method}()", source)
        table = fresh("frame")
        origin = self._origin(tables={table: found})
        return Relation(origin.run(f"SELECT * FROM {quoted(table)}"), origin, reads_stream=not found[1])

    def values(self, *values: Any) -> Relation:
        """The given values as one row, or as several rows if each is a tuple: ``values((1, "a"), (2, "b"))``.

        The columns are ``col0``, ``col1``, …
        """
        import pyarrow

        given = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        rows = list(given) if given and all(isinstance(row, tuple) for row in given) else [tuple(given)]
        width = len(rows[0])
        if width == 0 or any(len(row) != width for row in rows):
            raise ProgrammingError("values() takes rows of one length, with a value or more", "values((1, 'a'), (2, 'b'))")
        numbers = iter(range(1, len(rows) * width + 1))
        written = ", ".join("(" + ", ".join(f"${next(numbers)}" for _ in row) + ")" for row in rows)
        names = ", ".join(f"col{at}" for at in range(width))
        text = f"SELECT * FROM (VALUES {written}) AS given({names})"
        query = self._native.run(text, [value for row in rows for value in row], lambda _: None)
        return self._of_source("values", pyarrow.table(query.collect()))

    def read_csv(self, path_or_paths: Union[Path, Sequence[Path]], **options: Any) -> Relation:
        """The rows of CSV files. If the database is on a server, they are files of the server.

        Args:
            path_or_paths: a path, a pattern such as ``"dir/*.csv"``, a folder, or several in a list.
            options: those of ``read_csv`` in SQL, such as ``header=True``, ``delimiter="|"``, ``columns={"a": "INT"}``; or
                their names in pandas: ``sep``, ``na_values``, ``skiprows``, ``dtype``.
        """
        named = {_CSV_OPTIONS.get(option, option): value for option, value in options.items()}
        return self._of_files("read_csv", path_or_paths, named)

    def read_parquet(self, path_or_paths: Union[Path, Sequence[Path]], **options: Any) -> Relation:
        """The rows of Parquet files. Arguments as for :meth:`read_csv`; options are those of ``read_parquet`` in SQL."""
        return self._of_files("read_parquet", path_or_paths, options)

    def read_json(self, path_or_paths: Union[Path, Sequence[Path]], **options: Any) -> Relation:
        """The rows of JSON files. Arguments as for :meth:`read_csv`; options are those of ``read_json`` in SQL."""
        return self._of_files("read_json", path_or_paths, options)

    def from_csv_auto(self, path_or_paths: Union[Path, Sequence[Path]], **options: Any) -> Relation:
        """The same as :meth:`read_csv`."""
        return self.read_csv(path_or_paths, **options)

    def from_parquet(self, path_or_paths: Union[Path, Sequence[Path]], **options: Any) -> Relation:
        """The same as :meth:`read_parquet`."""
        return self.read_parquet(path_or_paths, **options)

    def table_function(self, name: str, parameters: Sequence[Any] = ()) -> Relation:
        """The rows of a table function, such as ``table_function("range", [3])``."""
        written = ", ".join(_written(value, "table_function") for value in parameters)
        origin = self._origin()
        return Relation(origin.run(f"SELECT * FROM {written_table(name, 'table_function')}({written})"), origin)

    def _of_files(self, function: str, paths: Any, options: Mapping[str, Any]) -> Relation:
        several = isinstance(paths, (list, tuple))
        texts = [_file(function, path) for path in (paths if several else [paths])]
        arguments = [f"[{', '.join(texts)}]" if several else texts[0]]
        arguments += [f"{option_name(option)} = {_written(value, function)}" for option, value in options.items()]
        origin = self._origin()
        return Relation(origin.run(f"SELECT * FROM {function}({', '.join(arguments)})"), origin)


def no_table(call: str, source: Any) -> ProgrammingError:
    """The error for an object that has no rows."""
    return ProgrammingError(
        f"{call}: {kind(source)} is no table",
        "give a DataFrame, or anything that gives Arrow (__arrow_c_stream__)",
    )


def _file(function: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise InterfaceError(f"{function}() takes paths of files, not {kind(path)}", "give an open file's path instead")
    return literal(os.fspath(path))


def _written(value: Any, function: str) -> str:
    """The value of an option as SQL writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        # Subclasses, such as numpy's float64, have another repr.
        return repr(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_written(item, function) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(str(key))}: {_written(item, function)}" for key, item in value.items()) + "}"
    raise InterfaceError(f"{function}() has no options with {kind(value)}")
