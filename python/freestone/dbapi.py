"""DB-API 2.0 (PEP 249).

>>> import freestone.dbapi
>>> connection = freestone.dbapi.connect()
>>> cursor = connection.cursor()
>>> cursor.execute("SELECT ? + ?", (1, 2)).fetchone()
(3,)

Parameters are written as ``?`` (``paramstyle`` is ``"qmark"``). ``$1``, ``$2``, … with a sequence and ``$name`` with a
dict are accepted, too.

With ``autocommit``, which is the default, every statement is a transaction of its own, unless ``begin()`` was called.
Without it, the first statement begins a transaction, as PEP 249 has it. ``commit()`` and ``rollback()`` end the
transaction, and do nothing if there is none.

Threads may share the module and connections, but not cursors (``threadsafety`` is 2).
"""

from __future__ import annotations

import datetime
import os
import time
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import connection as _connection
from ._display import NUMBERS, Row
from ._sql import isolation_level
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

apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

Parameters = Union[Sequence[Any], Mapping[str, Any]]

#: First words of statements before which no transaction begins.
_OUTSIDE = {"BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SET", "RESET", "SHOW", "VACUUM", "CALIBRATE", ""}


def _words(operation: str) -> List[str]:
    """The words of a statement; at least one, which may be empty."""
    return operation.upper().replace(";", " ").split() or [""]


def connect(
    path: Union[str, "os.PathLike[str]"] = ":memory:",
    *,
    read_only: bool = False,
    threads: Optional[int] = None,
    memory_limit: Union[int, str, None] = None,
    pmem: Optional[str] = None,
    autocommit: bool = True,
) -> "Connection":
    """Opens a database. The arguments are those of :func:`freestone.connect`, and ``autocommit``: whether every
    statement is a transaction of its own."""
    opened = _connection.connect(
        path, read_only=read_only, threads=threads, memory_limit=memory_limit, pmem=pmem
    )
    return Connection(opened, autocommit)


class Connection:
    """A connection to a database. At the end of a ``with`` block it commits, unless there was an exception, and is
    closed."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, connection: _connection.Connection, autocommit: bool = True) -> None:
        self._connection = connection
        self._autocommit = autocommit
        self._begun = False
        #: The isolation level of the transactions to come: ``"REPEATABLE READ"``, ``"READ COMMITTED"``, or None for the
        #: default.
        self.isolation_level: Optional[str] = None

    @property
    def autocommit(self) -> bool:
        """Whether every statement is a transaction of its own. Setting it commits the open transaction."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.commit()
        self._autocommit = bool(value)

    def begin(self) -> None:
        """Begins a transaction."""
        self._check_open()
        level = self.isolation_level
        self._connection._run(f"BEGIN ISOLATION LEVEL {isolation_level(level)}" if level else "BEGIN")
        self._begun = True

    def _before(self, operation: str) -> None:
        """Begins a transaction before a statement, if every transaction has several and none is open."""
        if not self._autocommit and not self._begun and _words(operation)[0] not in _OUTSIDE:
            self.begin()

    def _after(self, operation: str) -> None:
        """Updates the state of the transaction after a statement that may have begun or ended one."""
        words = _words(operation)
        if words[0] in ("BEGIN", "START"):
            self._begun = True
        elif words[0] in ("COMMIT", "END") or words[0] in ("ROLLBACK", "ABORT") and "TO" not in words:
            self._begun = False

    def _end(self, statement: str) -> None:
        self._check_open()
        if not self._begun:
            return
        self._begun = False
        self._connection._run(statement)

    def cursor(self) -> "Cursor":
        """A new cursor. The cursors of a connection share its settings and prepared statements."""
        self._check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Optional[Parameters] = None) -> "Cursor":
        """Executes a statement with a new cursor, and returns the cursor."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Makes the changes of the transaction durable, and visible to others. Does nothing if none is open.

        Raises:
            OperationalError: another transaction has changed the same rows, or a statement failed. In both cases, the
                transaction was rolled back.
        """
        self._end("COMMIT")

    def rollback(self) -> None:
        """Undoes all changes of the transaction. Does nothing if none is open."""
        self._end("ROLLBACK")

    def cancel(self) -> None:
        """Cancels the running statements. For use from another thread."""
        self._connection.cancel()

    def close(self) -> None:
        """Closes the connection and its cursors. A second call does nothing."""
        self._connection.close()

    def _check_open(self) -> None:
        if self._connection.closed:
            raise InterfaceError("the connection is closed", "open another one with freestone.dbapi.connect()")

    def __enter__(self) -> "Connection":
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None and not self._connection.closed:
                self.commit()
        finally:
            self.close()


class Cursor:
    """Executes statements, and fetches the rows of the last statement."""

    #: The number of rows that ``fetchmany`` returns by default.
    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._relation: Optional[Relation] = None
        self._rowcount = -1
        self._closed = False

    @property
    def description(self) -> Optional[List[Tuple[Any, ...]]]:
        """One tuple of seven items per column; None for a statement without rows.

        The items are the name; the type, which is compared with ``STRING``, ``NUMBER``, …; None for the display size
        and for the internal size; precision and scale, which are None unless the type is DECIMAL; and whether the
        column may be NULL.
        """
        relation = self._relation
        if relation is None or not relation._query.gives_rows:
            return None
        columns = zip(relation.columns, relation.types, relation._query.nullable)
        return [(name, kind, None, None, *_precision(kind), nullable) for name, kind, nullable in columns]

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement wrote or removed; -1 for a query."""
        return self._rowcount

    def execute(self, operation: str, parameters: Optional[Parameters] = None) -> "Cursor":
        """Executes a statement. If there are several, the parameters are for the last one."""
        self._check_open()
        self._relation = None
        self._rowcount = -1
        self.connection._before(operation)
        self._relation = self.connection._connection._run(operation, parameters)
        self.connection._after(operation)
        self._rowcount = self._relation.rowcount
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> "Cursor":
        """Executes a statement once per set of parameters.

        An ``INSERT … VALUES (…)`` of one row inserts the rows of all sets in one commit, or none of them. Any other
        statement commits once per set. For large numbers of rows use :meth:`freestone.Connection.load`, which streams
        them.
        """
        self._check_open()
        self._relation = None
        self._rowcount = -1
        seq_of_parameters = list(seq_of_parameters)
        if not seq_of_parameters:
            self._rowcount = 0
            return self
        self.connection._before(operation)
        native = self.connection._connection._native
        inserted = native.run_many(operation, seq_of_parameters, self.connection._begun)
        if inserted is not None:
            self._rowcount = inserted
            return self
        counts = []
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            if self._relation is not None and self._relation._query.gives_rows:
                raise ProgrammingError("executemany() takes statements without rows", "call execute() for each query")
            counts.append(self._rowcount)
        self._rowcount = -1 if -1 in counts else sum(counts)
        return self

    def fetchone(self) -> Optional[Row]:
        """The next row, or None after the last."""
        return self._result().fetchone()

    def fetchmany(self, size: Optional[int] = None) -> List[Row]:
        """The next ``size`` rows (``arraysize`` by default), or fewer if fewer remain."""
        return self._result().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> List[Row]:
        """All remaining rows."""
        return self._result().fetchall()

    def fetch_arrow_table(self) -> Any:
        """All rows of the statement as a ``pyarrow.Table``."""
        return self._result().arrow()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, because each value has its type."""

    def setoutputsize(self, size: int, column: Optional[int] = None) -> None:
        """Does nothing, because values are never truncated."""

    def close(self) -> None:
        """Closes the cursor and ends its query."""
        self._closed = True
        self._relation = None

    def _result(self) -> Relation:
        self._check_open()
        if self._relation is None or not self._relation._query.gives_rows:
            raise InterfaceError("there are no rows to fetch", "execute a query first")
        return self._relation

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed", "make another one with connection.cursor()")
        self.connection._check_open()

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _precision(kind: str) -> Tuple[Optional[int], Optional[int]]:
    if not kind.startswith("DECIMAL(") or not kind.endswith(")"):
        return None, None
    precision, scale = kind[len("DECIMAL(") : -1].split(",")
    return int(precision), int(scale)


class _Type:
    """A type object of PEP 249, equal to those types of ``Cursor.description`` whose name is one of its words."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __eq__(self, other: object) -> bool:
        return other is self or isinstance(other, str) and other.partition("(")[0] in self._words

    def __hash__(self) -> int:
        return hash(self._words)


STRING = _Type("VARCHAR")
BINARY = _Type("BLOB")
NUMBER = _Type(*NUMBERS)
DATETIME = _Type(
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "INTERVAL"
)
ROWID = _Type()

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 - the name is PEP 249's
    """The date of a time in seconds since 1970, in the local time zone."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The time of day of a time in seconds since 1970, in the local time zone."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The date and time of a time in seconds since 1970, in the local time zone."""
    return Timestamp(*time.localtime(ticks)[:6])


__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "CancelledError",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
