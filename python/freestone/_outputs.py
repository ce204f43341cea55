"""Where the rows of relations go: tables, views and files of the database."""

from __future__ import annotations

import os
from typing import Any

from ._composed import Composed
from ._sql import Path, file_path, kind, literal, written_options, written_table
from .exceptions import InterfaceError, NotSupportedError


class Outputs(Composed):
    """Writes the rows of a relation."""

    def create(self, table_name: str, **design: Any) -> None:
        """Creates a table with the rows.

        Args:
            table_name: ``table`` or ``schema.table``. Case matters. Other names are in double quotes: ``'"my.table"'``.
            design: options of the table's design, such as ``preset="column"`` or ``sort="a, b"``.
        """
        written = f" WITH ({written_options(design)})" if design else ""
        self._run("create", f"CREATE TABLE {written_table(table_name, 'create')}{written} AS ")

    def to_table(self, table_name: str, **design: Any) -> None:
        """The same as :meth:`create`."""
        self.create(table_name, **design)

    def create_view(self, view_name: str, replace: bool = True) -> Any:
        """Creates a view of the query, and returns the relation.

        Raises:
            NotSupportedError: the query has parameters, or reads objects of Python. A view is stored in the database,
                without these.
        """
        origin = self._composable("create_view")._origin
        held = ", ".join(sorted(origin.tables)) if origin.tables else "its parameters" if origin.params else ""
        if held:
            raise NotSupportedError(
                f"the view {view_name} would need {held} of this program, and a view is stored in the database",
                "store the rows with create(), or name a frame for this connection with register()",
            )
        words = "CREATE OR REPLACE VIEW" if replace else "CREATE VIEW"
        self._run("create_view", f"{words} {written_table(view_name, 'create_view')} AS ")
        return self

    def to_view(self, view_name: str, replace: bool = True) -> Any:
        """The same as :meth:`create_view`."""
        return self.create_view(view_name, replace)

    def insert_into(self, table_name: str) -> None:
        """Adds the rows to a table. Its columns are matched by position."""
        self._run("insert_into", f"INSERT INTO {written_table(table_name, 'insert_into')} ")

    def _run(self, method: str, before: str) -> None:
        base = self._composable(method)
        base._query.wrapped(f"{before}SELECT * FROM (", f"\n) AS {base._written_alias}")

    def to_parquet(self, path: Path, **options: Any) -> int:
        """Writes the rows to a Parquet file, a few batches at a time, and returns their number.

        Args:
            path: the file, which is replaced if it exists.
            options: options of ``COPY … TO``, such as ``compression="zstd"``, ``row_group_size=100_000``.
        """
        return self._write("to_parquet", path, {"format": "parquet", **options})

    def write_parquet(self, path: Path, **options: Any) -> int:
        """The same as :meth:`to_parquet`."""
        return self.to_parquet(path, **options)

    def to_csv(self, path: Path, *, sep: str = ",", header: bool = True, na_rep: str = "", **options: Any) -> int:
        """Writes the rows to a CSV file, a few batches at a time, and returns their number.

        Args:
            path: the file, which is replaced if it exists.
            sep: the character between values.
            header: whether the first line has the names of the columns.
            na_rep: the text for NULL.
            options: further options of ``COPY … TO``, such as ``quote``, ``escape``, ``compression="gzip"``.
        """
        given = {"format": "csv", "delimiter": sep, "header": header, "null": na_rep, **options}
        return self._write("to_csv", path, given)

    def write_csv(self, path: Path, **options: Any) -> int:
        """The same as :meth:`to_csv`."""
        return self.to_csv(path, **options)

    def _write(self, method: str, file: Path, given: Any) -> int:
        if not isinstance(file, (str, os.PathLike)):
            raise InterfaceError(f"rows are written to the path of a file, not to {kind(file)}")
        if self._query.remote:
            return self._write_here(method, file, given)
        base = self._composable(method)
        done = base._query.wrapped("COPY (", f"\n) TO {literal(file_path(file))} ({written_options(given, ' ')})").done
        return 0 if done is None or done[1] is None else done[1]

    def _write_here(self, method: str, file: Path, given: Any) -> int:
        """Writes a file of this machine with the rows of a server."""
        from .connection import _here

        self._only_rows(method)
        with _here() as here:
            return here._run("SELECT * FROM rows", rows=(self._query, False))._write(method, file, given)
