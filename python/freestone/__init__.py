"""Freestone: an embedded analytical SQL database. Queries read tables, files and DataFrames.

>>> import freestone
>>> db = freestone.connect()
>>> db.sql("SELECT 1 + $1 AS two", [1]).fetchall()
[(2,)]

``connect`` opens a database folder, or a database in memory. ``Connection.sql`` runs SQL and returns a ``Relation``,
from which the rows are fetched as Arrow, pandas, Polars or Python objects. ``freestone.dbapi`` is DB-API 2.0.
"""

from typing import Any, List

from . import _freestone
from ._default import (
    aggregate,
    alias,
    append,
    arrow,
    begin,
    close,
    commit,
    create_aggregate,
    create_function,
    cursor,
    default_connection,
    description,
    df,
    distinct,
    duplicate,
    execute,
    executemany,
    fetch_arrow_table,
    fetch_df,
    fetch_record_batch,
    fetchall,
    fetchdf,
    fetchmany,
    fetchnumpy,
    fetchone,
    filter,  # noqa: A004 - the name is DuckDB's
    from_arrow,
    from_csv_auto,
    from_df,
    from_parquet,
    from_query,
    interrupt,
    limit,
    order,
    pl,
    project,
    query,
    query_df,
    read_csv,
    read_json,
    read_parquet,
    register,
    remove_function,
    rollback,
    rowcount,
    set_default_connection,
    sql,
    table,
    table_function,
    to_arrow_reader,
    to_arrow_table,
    unregister,
    values,
    view,
    write_csv,
)
from .connection import Connection, connect
from .exceptions import (
    CancelledError,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - the name is PEP 249's
)
from .relation import Relation

__version__ = _freestone.__version__

__all__ = [
    "CancelledError",
    "Connection",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Relation",
    "Warning",
    "__version__",
    "aggregate",
    "alias",
    "append",
    "arrow",
    "begin",
    "close",
    "commit",
    "connect",
    "create_aggregate",
    "create_function",
    "cursor",
    "default_connection",
    "description",
    "df",
    "distinct",
    "duplicate",
    "execute",
    "executemany",
    "fetch_arrow_table",
    "fetch_df",
    "fetch_record_batch",
    "fetchall",
    "fetchdf",
    "fetchmany",
    "fetchnumpy",
    "fetchone",
    "filter",
    "from_arrow",
    "from_csv_auto",
    "from_df",
    "from_parquet",
    "from_query",
    "interrupt",
    "limit",
    "order",
    "pl",
    "project",
    "query",
    "query_df",
    "read_csv",
    "read_json",
    "read_parquet",
    "register",
    "remove_function",
    "rollback",
    "rowcount",
    "set_default_connection",
    "sql",
    "table",
    "table_function",
    "to_arrow_reader",
    "to_arrow_table",
    "unregister",
    "values",
    "view",
    "write_csv",
]

def load_ipython_extension(shell: Any) -> None:
    """Adds the magics ``%sql`` and ``%%sql`` to a notebook, for ``%load_ext freestone``."""
    from .magics import SqlMagics

    shell.register_magics(SqlMagics)


def __getattr__(name: str) -> Any:
    # Imported at first use, because few programs need them.
    if name in ("adbc", "dbapi"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> List[str]:
    return sorted([*__all__, "adbc", "dbapi", "exceptions"])
