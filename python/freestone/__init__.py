"""Freestone: an embedded analytical SQL database. Queries read tables, files and DataFrames.

>>> import freestone
>>> db = freestone.connect()
>>> db.sql("SELECT 1 + $1 AS two", [1]).fetchall()
[(2,)]

``connect`` opens a database folder, or a database in memory. ``Connection.sql`` runs SQL and returns a ``Relation``,
from which the rows are fetched as Arrow, pandas, Polars or Python objects. ``freestone.dbapi`` is DB-API 2.0.
"""

from typing import Any, List, Optional

from . import _freestone
from ._origin import Parameters
from ._sources import caller, finder
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
    "connect",
    "execute",
    "sql",
]

_shared: Optional[Connection] = None


def sql(text: str, params: Optional[Parameters] = None) -> Relation:
    """Runs SQL on a database in memory that the whole program shares, as :meth:`Connection.sql` does on a connection.

    >>> import freestone
    >>> freestone.sql("SELECT 6 * 7 AS answer").fetchall()
    [(42,)]
    """
    return _default()._sql(text, params, finder(caller(1)))


def execute(text: str, params: Optional[Parameters] = None) -> Relation:
    """The same as :func:`sql`."""
    return _default()._sql(text, params, finder(caller(1)))


def _default() -> Connection:
    global _shared
    if _shared is None or _shared.closed:
        _shared = connect()
    return _shared


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
