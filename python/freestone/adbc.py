"""The ADBC driver: a shared library through which programs in any language use a Freestone database.

>>> import freestone.adbc
>>> with freestone.adbc.connect(":memory:") as connection, connection.cursor() as cursor:  # doctest: +SKIP
...     cursor.execute("SELECT 1 AS one").fetch_arrow_table()
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional

from .exceptions import NotSupportedError

if TYPE_CHECKING:
    import adbc_driver_manager.dbapi

#: The environment variable with the path of a driver outside the package.
VARIABLE = "FREESTONE_ADBC_DRIVER"

_FILES = {"darwin": "libfreestone_adbc.dylib", "win32": "freestone_adbc.dll"}


def driver_path() -> str:
    """The path of the driver's library, for ``adbc_driver_manager``.

    This is the file that the environment variable ``FREESTONE_ADBC_DRIVER`` names, else the driver's own library in
    the package's folder, else the package's extension module, which contains the driver as well. Programs in other
    languages need the driver's own library, because the extension module requires a Python interpreter.

    Raises:
        NotSupportedError: the variable does not name a file, or the package has no extension module.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise NotSupportedError(
                f"the ADBC driver is not there: no file {named}",
                f"{VARIABLE} names the file of the crate freestone-adbc; unset it for the driver of the package",
            )
        return named
    library = Path(__file__).parent / _FILES.get(sys.platform, "libfreestone_adbc.so")
    if library.is_file():
        return str(library)
    extension = importlib.util.find_spec("freestone._freestone")
    if extension is None or extension.origin is None:
        raise NotSupportedError("the ADBC driver is not there: the package has no extension", "install it again")
    return extension.origin


def connect(
    uri: str = ":memory:",
    *,
    db_kwargs: Optional[Mapping[str, Any]] = None,
    conn_kwargs: Optional[Mapping[str, Any]] = None,
) -> "adbc_driver_manager.dbapi.Connection":
    """A DB-API connection of ``adbc_driver_manager``, through the driver.

    Args:
        uri: a database folder, ``":memory:"``, or the address of a server, ``freestone://user:password@host:port``.
        db_kwargs: options of the database, such as ``{"freestone.threads": 2}``.
        conn_kwargs: options of the connection.

    Raises:
        NotSupportedError: the package ``adbc-driver-manager`` is not installed.
        adbc_driver_manager.Error: the database cannot be opened.
    """
    try:
        from adbc_driver_manager import dbapi
    except ImportError as error:
        raise NotSupportedError(f"ADBC needs a package: {error}", "pip install adbc-driver-manager") from error
    options = {name: _text(value) for name, value in (db_kwargs or {}).items()}
    of_connection = {name: _text(value) for name, value in (conn_kwargs or {}).items()}
    given = {**options, "uri": os.fspath(uri)}
    # Each statement is a transaction, and there is no other mode. Without autocommit, the driver manager would warn.
    return dbapi.connect(driver=driver_path(), db_kwargs=given, conn_kwargs=of_connection, autocommit=True)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
