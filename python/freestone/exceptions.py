"""The exceptions of Freestone: those of DB-API 2.0 (PEP 249). Their texts are those of the command line."""

from __future__ import annotations

from typing import Any, Optional, Tuple


class Warning(Exception):  # noqa: A001 - the name is PEP 249's
    """A warning. Freestone does not raise it; PEP 249 requires the class."""


class Error(Exception):
    """Any error of Freestone.

    Attributes:
        message: what is wrong, and where.
        hint: what to do about it, or None.
        sqlstate: the five characters by which the SQL standard and PostgreSQL name the error, such as '23505', or
            None if it is one of this package.

    ``str()`` returns the message, followed by the hint on a line of its own.
    """

    message: str
    hint: Optional[str]
    sqlstate: Optional[str]

    def __init__(self, message: str = "", hint: Optional[str] = None, sqlstate: Optional[str] = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint
        self.sqlstate = sqlstate

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.message, self.hint, self.sqlstate)


class InterfaceError(Error):
    """The package is used wrongly, such as a closed connection or a result that another thread reads."""


class DatabaseError(Error):
    """Any error of the database."""


class DataError(DatabaseError):
    """A value does not fit its type, or two types do not fit each other."""


class OperationalError(DatabaseError):
    """A failure outside of the statement: files, memory, damaged bytes, another writer, a read-only database."""


class CancelledError(OperationalError):
    """The statement was cancelled."""


class IntegrityError(DatabaseError):
    """A value violates a declared constraint of the table, such as NULL in a NOT NULL column."""


class InternalError(DatabaseError):
    """A bug in Freestone."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its syntax, a name that does not exist or exists already, or an invalid option."""


class NotSupportedError(DatabaseError):
    """A feature that this version does not have."""


__all__ = [
    "CancelledError",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
]
