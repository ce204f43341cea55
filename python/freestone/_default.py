"""The database in memory that the whole program shares, and methods of its connection and its relations as functions of the package."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Concatenate, List, Optional, ParamSpec, Tuple, TypeVar

from ._origin import Parameters
from ._sources import caller, finder
from .connection import Connection, connect
from .exceptions import InterfaceError
from .relation import Relation

P = ParamSpec("P")
T = TypeVar("T")

_shared: Optional[Connection] = None


def default_connection() -> Connection:
    """The connection to the database in memory that the program shares, which is opened at first use."""
    global _shared
    if _shared is None or _shared.closed:
        _shared = connect()
    return _shared


def set_default_connection(connection: Connection) -> None:
    """Makes another connection the one that the functions of the package use."""
    global _shared
    if not isinstance(connection, Connection):
        raise InterfaceError("set_default_connection() takes a connection", "open one with freestone.connect()")
    _shared = connection


def sql(text: str, params: Optional[Parameters] = None, *, connection: Optional[Connection] = None) -> Relation:
    """Runs SQL on a database in memory that the whole program shares, as :meth:`Connection.sql` does on a connection.

    >>> import freestone
    >>> freestone.sql("SELECT 6 * 7 AS answer").fetchall()
    [(42,)]
    """
    return (connection or default_connection())._sql(text, params, finder(caller(1)))


def query(text: str, params: Optional[Parameters] = None, *, connection: Optional[Connection] = None) -> Relation:
    """The same as :func:`sql`."""
    return (connection or default_connection())._sql(text, params, finder(caller(1)))


def from_query(text: str, params: Optional[Parameters] = None, *, connection: Optional[Connection] = None) -> Relation:
    """The same as :func:`sql`."""
    return (connection or default_connection())._sql(text, params, finder(caller(1)))


def execute(text: str, params: Optional[Parameters] = None, *, connection: Optional[Connection] = None) -> Relation:
    """Runs SQL like :func:`sql`, and keeps the relation, whose rows the ``fetch`` functions of the package give as well."""
    return (connection or default_connection())._execute(text, params, finder(caller(1)))


def _method(method: Callable[Concatenate[Connection, P], T]) -> Callable[P, T]:
    """A method of the default connection, or of the one that is given as ``connection``."""

    def call(*arguments: P.args, **named: P.kwargs) -> T:
        given: Any = named.pop("connection", None)
        return method(given or default_connection(), *arguments, **named)

    return _called_as(call, method, f"As :meth:`Connection.{method.__name__}` on the default connection.")


def _of_frame(method: Callable[Concatenate[Relation, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of the relation over a DataFrame or other table, which is the first argument."""

    def call(df: Any, *arguments: P.args, **named: P.kwargs) -> T:
        given: Any = named.pop("connection", None)
        return method((given or default_connection()).from_df(df), *arguments, **named)

    return _called_as(call, method, f"As :meth:`Relation.{method.__name__}` on the rows of a DataFrame.")


def _called_as(call: Callable[P, T], method: Callable[..., Any], summary: str) -> Callable[P, T]:
    functools.update_wrapper(call, method)
    call.__module__ = __name__.partition(".")[0]
    call.__qualname__ = method.__name__
    call.__doc__ = summary
    del call.__wrapped__  # type: ignore[attr-defined]
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if "df" in inspect.signature(call).parameters:
        parameters.insert(0, inspect.Parameter("df", inspect.Parameter.POSITIONAL_ONLY))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


append = _method(Connection.append)
begin = _method(Connection.begin)
close = _method(Connection.close)
commit = _method(Connection.commit)
create_aggregate = _method(Connection.create_aggregate)
create_function = _method(Connection.create_function)
cursor = _method(Connection.cursor)
duplicate = _method(Connection.duplicate)
df = _method(Connection.df)
executemany = _method(Connection.executemany)
fetch_arrow_table = _method(Connection.fetch_arrow_table)
fetch_df = _method(Connection.fetch_df)
fetch_record_batch = _method(Connection.fetch_record_batch)
fetchall = _method(Connection.fetchall)
fetchdf = _method(Connection.fetchdf)
fetchmany = _method(Connection.fetchmany)
fetchnumpy = _method(Connection.fetchnumpy)
fetchone = _method(Connection.fetchone)
from_arrow = _method(Connection.from_arrow)
from_csv_auto = _method(Connection.from_csv_auto)
from_df = _method(Connection.from_df)
from_parquet = _method(Connection.from_parquet)
interrupt = _method(Connection.interrupt)
pl = _method(Connection.pl)
read_csv = _method(Connection.read_csv)
read_json = _method(Connection.read_json)
read_parquet = _method(Connection.read_parquet)
register = _method(Connection.register)
remove_function = _method(Connection.remove_function)
rollback = _method(Connection.rollback)
table = _method(Connection.table)
table_function = _method(Connection.table_function)
to_arrow_reader = _method(Connection.to_arrow_reader)
to_arrow_table = _method(Connection.to_arrow_table)
unregister = _method(Connection.unregister)
values = _method(Connection.values)
view = _method(Connection.view)

aggregate = _of_frame(Relation.aggregate)
alias = _of_frame(Relation.set_alias)
distinct = _of_frame(Relation.distinct)
filter = _of_frame(Relation.filter)  # noqa: A001 - the name is DuckDB's
limit = _of_frame(Relation.limit)
order = _of_frame(Relation.order)
project = _of_frame(Relation.project)
query_df = _of_frame(Relation.query)
write_csv = _of_frame(Relation.write_csv)


def arrow(arrow_object: Any = None, *, connection: Optional[Connection] = None) -> Any:
    """The rows of the last :func:`execute` as a ``pyarrow.Table``; or a relation over an object that gives Arrow data."""
    given = connection or default_connection()
    return given.arrow() if arrow_object is None else given.from_arrow(arrow_object)


def description(*, connection: Optional[Connection] = None) -> Optional[List[Tuple[Any, ...]]]:
    """Name, type and five times None of each column of the last :func:`execute`."""
    return (connection or default_connection()).description


def rowcount(*, connection: Optional[Connection] = None) -> int:
    """The number of rows that the last :func:`execute` wrote or removed; -1 for a query."""
    return (connection or default_connection()).rowcount
