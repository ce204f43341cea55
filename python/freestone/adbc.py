"""The ADBC driver: a shared library with which programs in any language reach a Freestone database.

>>> import adbc_driver_manager.dbapi  # doctest: +SKIP
>>> connection = adbc_driver_manager.dbapi.connect(freestone.adbc.driver_path())  # doctest: +SKIP
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .exceptions import NotSupportedError

#: Names the driver's file where it is not in the package.
VARIABLE = "FREESTONE_ADBC_DRIVER"

_FILES = {"darwin": "libfreestone_adbc.dylib", "win32": "freestone_adbc.dll"}


def driver_path() -> str:
    """The path of the driver's library, for ``adbc_driver_manager``.

    The environment variable ``FREESTONE_ADBC_DRIVER`` comes first, then the package's folder.

    Raises:
        NotSupportedError: the driver is not there.
    """
    named = os.environ.get(VARIABLE)
    file = Path(named) if named else Path(__file__).parent / _FILES.get(sys.platform, "libfreestone_adbc.so")
    if file.is_file():
        return str(file)
    raise NotSupportedError(
        f"the ADBC driver is not there: no file {file}",
        f"name the file of the crate freestone-adbc in the environment variable {VARIABLE}",
    )
