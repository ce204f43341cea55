"""A profile: the folder of a database, or the address of a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from dbt.adapters.contracts.connection import Credentials
from dbt_common.exceptions import DbtRuntimeError

#: The catalog of every Freestone database.
CATALOG = "freestone"

#: The port of ``freestone serve``.
PORT = 5577


@dataclass
class FreestoneCredentials(Credentials):
    """``path`` is a folder. Without it, ``host``, ``port``, ``user`` and ``password`` name a server."""

    database: str = CATALOG
    schema: str = "public"
    path: str | None = None
    host: str | None = None
    port: int = PORT
    user: str | None = None
    password: str | None = None
    memory_limit: str | None = None
    threads_per_query: int | None = None

    def __post_init__(self) -> None:
        if self.database != CATALOG:
            raise DbtRuntimeError(f"a Freestone database has one catalog, {CATALOG}: leave out database: {self.database}")
        if (self.path is None) == (self.host is None):
            raise DbtRuntimeError("a profile of Freestone has either path, a folder, or host")
        if self.path == ":memory:":
            raise DbtRuntimeError("path is a folder: a database in memory would end with each command of dbt")

    @property
    def type(self) -> str:
        return "freestone"

    @property
    def unique_field(self) -> str:
        return self.address

    @property
    def address(self) -> str:
        """The folder, or the server without user and password."""
        return self.path if self.path is not None else f"freestone://{self.host}:{self.port}"

    def _connection_keys(self) -> tuple[str, ...]:
        return ("database", "path", "host", "port", "user", "schema", "memory_limit", "threads_per_query")

    def arguments(self) -> tuple[str, dict[str, Any]]:
        """The arguments of ``freestone.connect``."""
        if self.path is not None:
            return self.path, {"memory_limit": self.memory_limit, "threads": self.threads_per_query}
        login = f"{quote(self.user or '', safe='')}:{quote(self.password or '', safe='')}@" if self.user else ""
        return f"freestone://{login}{self.host}:{self.port}", {}
