"""The exceptions of Freestone: those of DB-API 2.0 (PEP 249), with the text that the command line prints."""

from __future__ import annotations

from typing import Any, Optional, Tuple


class Warning(Exception):  # noqa: A001 - the name is PEP 249's
    """An important warning. Freestone raises none; the class is there for PEP 249."""


class Error(Exception):
    """Any error of Freestone.

    Attributes:
        message: what was wrong, and where.
        hint: what to do next, or None.

    ``str()`` gives the message and, on a line of its own, the hint.
    """

    message: str
    hint: Optional[str]

    def __init__(self, message: str = "", hint: Optional[str] = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.message, self.hint)


class InterfaceError(Error):
    """The package was used in a way that cannot work: a closed connection, a result that another thread reads."""


class DatabaseError(Error):
    """Any error that comes from the database."""


class DataError(DatabaseError):
    """A value does not fit its type, or types do not fit each other."""


class OperationalError(DatabaseError):
    """Something outside of the statement failed: files, memory, damaged bytes, another writer, a read-only database."""


class CancelledError(OperationalError):
    """The statement was cancelled."""


class IntegrityError(DatabaseError):
    """Values that the table's declared constraints refuse, such as NULL in a NOT NULL column."""


class InternalError(DatabaseError):
    """A bug of Freestone."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its syntax, a name that does not exist or is taken, options that make no sense."""


class NotSupportedError(DatabaseError):
    """Something that this version does not have."""


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
