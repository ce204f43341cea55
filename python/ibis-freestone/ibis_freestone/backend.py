"""The backend: a connection, its tables and its results."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import ParseResult, urlunparse

import freestone
import ibis
import ibis.common.exceptions as exc
import ibis.expr.operations as ops
import ibis.expr.schema as sch
import ibis.expr.types as ir
import sqlglot as sg
import sqlglot.expressions as sge
from ibis import util
from ibis.backends import (
    CanCreateDatabase,
    CanListCatalog,
    DirectPyArrowExampleLoader,
    HasCurrentCatalog,
    HasCurrentDatabase,
    SupportsTempTables,
)
from ibis.backends.sql import SQLBackend
from ibis.backends.sql.compilers.base import C
from ibis.expr.operations.udf import InputType

from . import files
from .compiler import compiler
from .design import with_clause
from .results import FreestonePyArrowData, to_ibis_types, to_pandas

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: The schema of temporary tables and views.
TEMPORARY = "pg_temp"
#: How `freestone` calls functions in Python of each kind: for each row, or for each batch of rows.
BODIES = {InputType.PYTHON: "native", InputType.PYARROW: "arrow"}


class Backend(
    SupportsTempTables,
    SQLBackend,
    CanListCatalog,
    CanCreateDatabase,
    HasCurrentCatalog,
    HasCurrentDatabase,
    DirectPyArrowExampleLoader,
):
    """Ibis expressions on a Freestone database."""

    name = "freestone"
    compiler = compiler
    supports_temporary_tables = True

    def do_connect(self, database: str | Path = ":memory:", **options: Any) -> None:
        """Opens a database.

        Parameters
        ----------
        database
            The database folder, ``":memory:"``, or the address of a server: ``freestone://user:password@host:port``.
        options
            Further arguments of ``freestone.connect``: ``read_only``, ``threads``, ``memory_limit``, ``pmem``.
        """
        self._use(freestone.connect(database, **options))

    @util.experimental
    @classmethod
    def from_connection(cls, con: freestone.Connection, /) -> Backend:
        """A backend on a connection that is open already."""
        backend = cls()
        backend._can_reconnect = False
        backend._use(con)
        return backend

    def _use(self, con: freestone.Connection) -> None:
        self.con = con
        # The names of Arrow data that statements read as tables.
        self._registered: set[str] = set()
        # The functions in Python that statements can call, by name.
        self._functions: dict[str, type[ops.ScalarUDF]] = {}

    def _from_url(self, url: ParseResult, **options: Any) -> Backend:
        """``freestone://`` and a path is a folder; with a host and a port, it is a server."""
        if url.port is not None:
            return self.connect(urlunparse(url._replace(query="")), **options)
        path = f"{url.netloc}{url.path}"
        return self.connect(path or ":memory:", **_converted(options))

    @property
    def version(self) -> str:
        return freestone.__version__

    # Statements

    def raw_sql(self, query: str | sge.Expression, **_: Any) -> freestone.Relation:
        """Runs a statement, and returns its relation."""
        if isinstance(query, sge.Expression):
            query = query.sql(dialect=self.dialect)
        self._log(query)
        return self.con.sql(query)

    @contextlib.contextmanager
    def _safe_raw_sql(self, query: str | sge.Expression, **options: Any) -> Iterator[freestone.Relation]:
        yield self.raw_sql(query, **options)

    def _column_of(self, query: sge.Expression) -> list[str]:
        """The values of the query's first column."""
        return [row[0] for row in self.raw_sql(query)]

    # Catalog

    @property
    def current_catalog(self) -> str:
        return self._column_of(sg.select(self.compiler.f.current_database()))[0]

    @property
    def current_database(self) -> str:
        return self._column_of(sg.select(self.compiler.f.current_schema()))[0]

    def list_catalogs(self, *, like: str | None = None) -> list[str]:
        return self._filter_with_like(set(self._column_of(_schemata(C.catalog_name))), like)

    def list_databases(self, *, like: str | None = None, catalog: str | None = None) -> list[str]:
        query = _schemata(C.schema_name)
        if catalog is not None:
            query = query.where(C.catalog_name.eq(sge.convert(catalog)))
        return self._filter_with_like(set(self._column_of(query)), like)

    def create_database(self, name: str, /, *, catalog: str | None = None, force: bool = False) -> None:
        self._only_catalog(catalog)
        self.raw_sql(sge.Create(this=self._schema(name), kind="SCHEMA", exists=force))

    def drop_database(self, name: str, /, *, catalog: str | None = None, force: bool = False) -> None:
        self._only_catalog(catalog)
        self._drop("SCHEMA", self._schema(name), force)

    def _schema(self, name: str) -> sge.Table:
        return sg.table(name, quoted=self.compiler.quoted)

    def _drop(self, kind: str, name: sge.Table, force: bool) -> None:
        # Written as text, because versions of sqlglot give the name of a DROP in different ways.
        self.raw_sql(f"DROP {kind} {'IF EXISTS ' if force else ''}{name.sql(self.dialect)}")

    def _only_catalog(self, catalog: str | None) -> None:
        if catalog is not None and catalog != self.current_catalog:
            raise exc.UnsupportedOperationError(f"a connection has one catalog, {self.current_catalog!r}, and not {catalog!r}")

    def list_tables(self, *, like: str | None = None, database: tuple[str, str] | str | None = None) -> list[str]:
        location = self._to_sqlglot_table(database)
        schemas = [location.db] if location.db else [self.current_database, TEMPORARY]
        query = sg.select("table_name").from_(sg.table("tables", db="information_schema"))
        query = query.where(C.table_schema.isin(*map(sge.convert, schemas)))
        if location.catalog:
            query = query.where(C.table_catalog.eq(sge.convert(location.catalog)))
        # Ibis counts tables in memory that an expression has read as tables of the connection.
        in_memory = [] if location.db else self._registered
        return self._filter_with_like({*self._column_of(query), *in_memory}, like)

    def get_schema(self, table_name: str, *, catalog: str | None = None, database: str | None = None) -> sch.Schema:
        table = sg.table(table_name, db=database, catalog=catalog, quoted=self.compiler.quoted)
        try:
            return self._described(sge.Describe(this=table).sql(self.dialect))
        except freestone.ProgrammingError as error:
            if error.sqlstate in ("42P01", "3F000"):
                raise exc.TableNotFound(table_name) from error
            raise

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        return self._described(f"DESCRIBE {query}")

    def _described(self, describe: str) -> sch.Schema:
        mapper = self.compiler.type_mapper
        columns = ((name, kind, null) for name, kind, null, *_ in self.raw_sql(describe))
        return sch.Schema({name: mapper.from_string(kind, nullable=null == "YES") for name, kind, null in columns})

    # Tables

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: sch.IntoSchema | None = None,
        database: str | None = None,
        temp: bool = False,
        overwrite: bool = False,
        **design: Any,
    ) -> ir.Table:
        """Creates a table.

        Parameters
        ----------
        name
            The name of the table.
        obj
            An Ibis table, a pandas or Polars DataFrame, or Arrow data with the rows; without it, the table is empty.
        schema
            The columns; by default those of ``obj``.
        database
            The schema of the database, or ``(catalog, schema)``.
        temp
            Whether the table is of this connection only.
        overwrite
            Whether a table of this name is replaced.
        design
            Options of the table's design, as in SQL's ``WITH``: ``preset="row"``, ``sort="day, shop"`` or
            ``sort=["day", "shop"]``, ``cluster="day.year"``, ``index="id"``, ...
        """
        if obj is None and schema is None:
            raise ValueError("Either `obj` or `schema` must be specified")
        if temp and database is not None:
            raise exc.UnsupportedArgumentError("a temporary table has no catalog and no schema")
        table = obj if obj is None or isinstance(obj, ir.Expr) else self._in_memory(obj)
        schema = table.schema() if schema is None else ibis.schema(schema)
        if schema.null_fields:
            raise exc.IbisTypeError(f"columns of a table have types, and these have only NULL: {schema.null_fields}")
        if table is not None:
            self._run_pre_execute_hooks(table)
        target = self._located(name, database).sql(self.dialect)
        words = ["CREATE", "OR REPLACE" if overwrite else "", "TEMPORARY" if temp else "", "TABLE", target]
        words += [self._columns(table, schema), with_clause(design), self._rows(table, schema)]
        self.raw_sql(" ".join(filter(None, words)))
        return self.table(name, database=TEMPORARY if temp else database)

    def _columns(self, table: ir.Table | None, schema: sch.Schema) -> str:
        """The definitions of columns, where a query does not give all of them."""
        if table is not None and all(kind.nullable for kind in schema.types):
            return ""
        return f"({', '.join(column.sql(self.dialect) for column in schema.to_sqlglot_column_defs(self.dialect))})"

    def _rows(self, table: ir.Table | None, schema: sch.Schema) -> str:
        """The query of the rows, each column cast to its type in the schema."""
        if table is None:
            return ""
        quoted = self.compiler.quoted
        columns = (self.compiler.cast(sg.column(name, quoted=quoted), kind).as_(name, quoted=quoted) for name, kind in schema.items())
        query = sg.select(*columns).from_(self.compiler.to_sqlglot(table).subquery("rows"))
        return f"AS {query.sql(self.dialect)}"

    def drop_table(self, name: str, /, *, database: tuple[str, str] | str | None = None, force: bool = False) -> None:
        self._drop("TABLE", self._located(name, database), force)

    def drop_view(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        self._drop("VIEW", self._located(name, database), force)

    def rename_table(self, old_name: str, new_name: str) -> None:
        old, new = self._located(old_name, None), self._located(new_name, None)
        self.raw_sql(f"ALTER TABLE {old.sql(self.dialect)} RENAME TO {new.sql(self.dialect)}")

    def _located(self, name: str, database: tuple[str, str] | str | None) -> sge.Table:
        location = self._to_sqlglot_table(database)
        return sg.table(name, db=location.db or None, catalog=location.catalog or None, quoted=self.compiler.quoted)

    def _in_memory(self, obj: Any) -> ir.Table:
        """A table of data in memory. A stream is read once, without being collected."""
        import pyarrow as pa

        reader = obj.scanner().to_reader() if hasattr(obj, "scanner") else obj
        if not isinstance(reader, pa.RecordBatchReader):
            return ibis.memtable(obj)
        op = ops.DatabaseTable(util.gen_name("stream"), schema=ibis.schema(reader.schema), source=self)
        self._register(op, reader)
        return op.to_expr()

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self._register(op, op.data.to_pyarrow(op.schema))

    def _register(self, op: ops.PhysicalTable, data: Any) -> None:
        """Names Arrow data for SQL while the operation is in use."""
        self.con.register(op.name, data)
        self._registered.add(op.name)
        weakref.finalize(op, _forget, self.con, self._registered, op.name)

    # Functions in Python

    def _register_udfs(self, expr: ir.Expr) -> None:
        """Adds the functions in Python that an expression calls to the connection."""
        for node in expr.op().find(ops.ScalarUDF):
            function, kind = type(node), node.__input_type__
            if kind is InputType.BUILTIN or self._functions.get(function.__name__) is function:
                continue
            if kind not in BODIES:
                raise exc.UnsupportedOperationError(f"functions of {kind.name.lower()} are not supported: write ibis.udf.scalar.pyarrow")
            self._add_function(function.__name__, node)
            self._functions[function.__name__] = function

    def _add_function(self, name: str, node: ops.ScalarUDF) -> None:
        mapper = self.compiler.type_mapper
        if name in self._functions:
            self.con.remove_function(name)
        parameters = [mapper.to_string(parameter.annotation.pattern.dtype) for parameter in node.__signature__.parameters.values()]
        options = {"type": BODIES[node.__input_type__], **node.__config__}
        self.con.create_function(name, node.__func__, parameters, mapper.to_string(node.dtype), **options)

    # Files

    def read_parquet(self, path: str | Path | Iterable[str | Path], /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """A view of Parquet files. Options are those of ``read_parquet`` in SQL."""
        return self._view_of_files("read_parquet", path, table_name, kwargs)

    def read_csv(self, path: str | Path | Iterable[str | Path], /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """A view of CSV files. Options are those of ``read_csv`` in SQL."""
        return self._view_of_files("read_csv", path, table_name, kwargs)

    def read_json(self, path: str | Path | Iterable[str | Path], /, *, table_name: str | None = None, **kwargs: Any) -> ir.Table:
        """A view of JSON files. Options are those of ``read_json`` in SQL."""
        return self._view_of_files("read_json", path, table_name, kwargs)

    def _view_of_files(self, function: str, paths: Any, table_name: str | None, options: Mapping[str, Any]) -> ir.Table:
        name = table_name or util.gen_name(function)
        view = sg.table(name, quoted=self.compiler.quoted).sql(self.dialect)
        self.raw_sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS SELECT * FROM {files.call(function, util.normalize_filenames(paths), options)}")
        return self.table(name)

    def to_parquet(self, expr: ir.Table, /, path: str | Path, *, params: Mapping[ir.Scalar, Any] | None = None, **options: Any) -> None:
        """Writes the rows to a Parquet file. Options are those of ``COPY`` in SQL."""
        self._copy(expr, path, params, {"format": "parquet", **options})

    def to_csv(
        self, expr: ir.Table, /, path: str | Path, *, params: Mapping[ir.Scalar, Any] | None = None, header: bool = True, **options: Any
    ) -> None:
        """Writes the rows to a CSV file. Options are those of ``COPY`` in SQL."""
        self._copy(expr, path, params, {"format": "csv", "header": header, **options})

    def to_json(self, expr: ir.Table, /, path: str | Path, **options: Any) -> None:
        """Writes the rows to a JSON file, as one list of objects. Options are those of ``COPY`` in SQL."""
        self._copy(expr, path, None, {"format": "json", "array": True, **options})

    def _copy(self, expr: ir.Table, path: str | Path, params: Mapping[ir.Scalar, Any] | None, options: Mapping[str, Any]) -> None:
        self._run_pre_execute_hooks(expr)
        self.raw_sql(files.copy(self.compile(expr, params=params), path, options))

    # Results

    def _relation(self, expr: ir.Expr, params: Mapping[ir.Scalar, Any] | None, limit: int | str | None) -> freestone.Relation:
        self._run_pre_execute_hooks(expr)
        return self.raw_sql(self.compile(expr.as_table(), params=params, limit=limit))

    def execute(
        self, expr: ir.Expr, /, *, params: Mapping[ir.Scalar, Any] | None = None, limit: int | str | None = None, **_: Any
    ) -> pd.DataFrame | pd.Series | Any:
        """Runs an expression, and returns a pandas DataFrame, a Series or a scalar."""
        schema = expr.as_table().schema()
        table = to_ibis_types(self._relation(expr, params, limit).arrow(), schema)
        return expr.__pandas_result__(to_pandas(table, schema))

    def to_pyarrow(
        self, expr: ir.Expr, /, *, params: Mapping[ir.Scalar, Any] | None = None, limit: int | str | None = None, **_: Any
    ) -> pa.Table | pa.Array | pa.Scalar:
        """Runs an expression, and returns Arrow data."""
        table = to_ibis_types(self._relation(expr, params, limit).arrow(), expr.as_table().schema())
        return expr.__pyarrow_result__(table, data_mapper=FreestonePyArrowData)

    @util.experimental
    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **_: Any,
    ) -> pa.ipc.RecordBatchReader:
        """Runs an expression while its batches are read. A batch has at most ``chunk_size`` rows."""
        import pyarrow as pa

        schema = expr.as_table().schema()
        reader = self._relation(expr, params, limit).batches()

        def converted() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                table = to_ibis_types(pa.Table.from_batches([batch]), schema)
                yield from FreestonePyArrowData.convert_table(table, schema).to_batches(max_chunksize=chunk_size)

        return pa.RecordBatchReader.from_batches(schema.to_pyarrow(), converted())


def _forget(con: freestone.Connection, registered: set[str], name: str) -> None:
    con.unregister(name)
    registered.discard(name)


def _schemata(column: sge.Column) -> sge.Select:
    return sg.select(column).from_(sg.table("schemata", db="information_schema"))


def _converted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of an address are texts."""
    kinds = {"read_only": lambda text: str(text).lower() in ("1", "true"), "threads": int}
    return {name: kinds.get(name, str)(value) for name, value in options.items()}
