"""Connections and transactions of SQLAlchemy."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Optional, Sequence, Tuple
from urllib.parse import quote

from sqlalchemy import exc, schema, util
from sqlalchemy.dialects.postgresql.base import PGExecutionContext, PGIdentifierPreparer
from sqlalchemy.engine import URL, Connection
from sqlalchemy.sql.compiler import InsertmanyvaluesSentinelOpts

from ..connection import Connection as Database
from ..connection import connect
from ..exceptions import InterfaceError, OperationalError
from . import types
from .compiler import DESIGN_OPTIONS, FreestoneCompiler, FreestoneDDLCompiler, FreestoneTypeCompiler
from .reflection import Reflection

MEMORY = ":memory:"

_DEFAULT_LEVEL = "REPEATABLE READ"
# How the messages begin for a connection that was closed here, or that the server or the network ended.
_ENDED = ("the connection is closed", "the connection was closed", "the connection broke")
_ARGUMENTS: Dict[str, Callable[[str], Any]] = {
    "read_only": util.asbool,
    "threads": int,
    "memory_limit": str,
    "pmem": str,
}


class FreestoneDialect(Reflection):
    """The dialect ``freestone``."""

    name = "freestone"
    driver = "freestone"
    default_paramstyle = "qmark"
    supports_statement_cache = True

    statement_compiler = FreestoneCompiler
    ddl_compiler = FreestoneDDLCompiler
    type_compiler_cls = FreestoneTypeCompiler
    preparer = PGIdentifierPreparer
    execution_ctx_cls = PGExecutionContext
    colspecs = types.COLSPECS
    max_identifier_length = 63
    construct_arguments = [(schema.Table, dict.fromkeys(DESIGN_OPTIONS))]

    supports_alter = True
    supports_comments = True
    supports_constraint_comments = False
    supports_default_metavalue = True
    supports_default_values = True
    supports_empty_insert = False
    supports_identity_columns = True
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_native_uuid = True
    supports_sane_rowcount = True
    supports_sequences = True
    supports_smallserial = True
    supports_virtual_generated_columns = False
    sequences_optional = True
    preexecute_autoincrement_sequences = True
    postfetch_lastrowid = False
    returns_native_bytes = True
    insert_returning = True
    update_returning = True
    delete_returning = True
    update_returning_multifrom = True
    delete_returning_multifrom = True
    use_insertmanyvalues = True
    insertmanyvalues_implicit_sentinel = (
        InsertmanyvaluesSentinelOpts.ANY_AUTOINCREMENT
        | InsertmanyvaluesSentinelOpts.USE_INSERT_FROM_SELECT
        | InsertmanyvaluesSentinelOpts.RENDER_SELECT_COL_CASTS
    )

    # What PostgreSQL's compilers ask for.
    _backslash_escapes = False
    _supports_create_index_concurrently = False
    _supports_drop_index_concurrently = False
    _supports_jsonb_subscripting = False

    def __init__(self, json_serializer: Any = None, json_deserializer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer
        # The database in memory, which all connections of the engine share.
        self._memory: Optional[Database] = None
        self._opening = threading.Lock()

    @classmethod
    def import_dbapi(cls) -> Any:
        from .. import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> Tuple[Sequence[Any], Dict[str, Any]]:
        if url.host is not None:
            return (), {"path": _server(url)}
        unknown = sorted(set(url.query) - set(_ARGUMENTS))
        if unknown:
            raise exc.ArgumentError(f"unknown argument {unknown[0]!r} in the address; there are {', '.join(_ARGUMENTS)}")
        given = {name: _ARGUMENTS[name](str(text)) for name, text in url.query.items()}
        return (), {"path": url.database or MEMORY, **given}

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        dbapi = self.import_dbapi()
        if cparams.get("path") != MEMORY:
            return dbapi.connect(*cargs, autocommit=False, **cparams)
        with self._opening:
            if self._memory is None or self._memory.closed:
                self._memory = connect(*cargs, **cparams)
            return dbapi.Connection(self._memory.cursor(), autocommit=False)

    def _get_server_version_info(self, connection: Connection) -> Tuple[int, ...]:
        version = connection.exec_driver_sql("SELECT version()").scalar() or "Freestone 0"
        return tuple(int(part) for part in version.split()[1].split(".") if part.isdigit())

    def _get_default_schema_name(self, connection: Connection) -> str:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[Any]:
        return ("REPEATABLE READ", "READ COMMITTED", "AUTOCOMMIT")

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT" if dbapi_connection.autocommit else dbapi_connection.isolation_level or _DEFAULT_LEVEL

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        dbapi_connection.isolation_level = None if level == "AUTOCOMMIT" else level

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, (InterfaceError, OperationalError)) and e.message.startswith(_ENDED)


def _server(url: URL) -> str:
    """The address of a server, as ``freestone.connect`` takes it."""
    user = quote(url.username, safe="") if url.username else ""
    password = f":{quote(str(url.password), safe='')}" if url.password is not None else ""
    port = f":{url.port}" if url.port is not None else ""
    options = "&".join(f"{name}={value}" for name, value in url.query.items())
    return f"freestone://{user}{password}{'@' if user else ''}{url.host}{port}" + (f"?{options}" if options else "")
