"""Connections: one per thread of dbt. Those to one folder share the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

import freestone
from freestone import dbapi

logger = AdapterLogger("Freestone")


class FreestoneConnectionManager(SQLConnectionManager):
    """Opens, cancels and closes connections, and translates errors."""

    TYPE = "freestone"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        if connection.state == ConnectionState.OPEN:
            return connection
        address, options = connection.credentials.arguments()

        def connect() -> dbapi.Connection:
            return dbapi.connect(address, **options)

        return cls.retry_connection(
            connection, connect=connect, logger=logger, retryable_exceptions=[freestone.OperationalError], retry_limit=1
        )

    def cancel(self, connection: Connection) -> None:
        connection.handle.cancel()

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        try:
            yield
        except freestone.Error as error:
            logger.debug(f"Freestone: {error}")
            self.rollback_if_open()
            raise DbtDatabaseError(str(error)) from error
        except DbtRuntimeError:
            self.rollback_if_open()
            raise
        except Exception as error:
            self.rollback_if_open()
            raise DbtRuntimeError(str(error)) from error

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        rows = cursor.rowcount
        return AdapterResponse(_message="OK" if rows < 0 else f"OK {rows}", rows_affected=None if rows < 0 else rows)

    @classmethod
    def data_type_code_to_name(cls, type_code: str) -> str:
        return type_code
