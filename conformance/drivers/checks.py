"""What the suites of the drivers in Python share: checks by name, and what all drivers expect.

A suite prints a line per check, `ok NAME` or `WRONG NAME: reason`, and `end` behind the last. The server is that of PGHOST, PGPORT,
PGUSER, PGPASSWORD and PGDATABASE. The suites in other languages print the same.
"""

import datetime
import decimal
import json
import os
import pathlib
import sys
import uuid

UTC = datetime.timezone.utc
EXPECTED = json.loads(pathlib.Path(__file__).with_name("expected.json").read_text(encoding="utf-8"))
# The table of the statements in EXPECTED["errors"], with a row.
ERRORS_TABLE = (
    "DROP TABLE IF EXISTS errors_of_it",
    "CREATE TABLE errors_of_it (id INTEGER PRIMARY KEY, name VARCHAR(3), n INTEGER CHECK (n > 0))",
    "INSERT INTO errors_of_it VALUES (1, 'a', 1)",
)
# Values that several drivers send and read as the same objects of Python, with their names and types.
VALUES_OF_ALL = (
    ("smallint", "smallint", -7),
    ("bigint", "bigint", 2**62),
    ("real", "real", 1.5),
    ("double", "double precision", 2.25),
    ("numeric", "numeric(10, 2)", decimal.Decimal("12.30")),
    ("numeric without scale", "numeric", decimal.Decimal("12.345678901234567")),
    ("boolean", "boolean", True),
    ("date", "date", datetime.date(2024, 2, 29)),
    ("time", "time", datetime.time(10, 20, 30, 500_000)),
    ("timestamp", "timestamp", datetime.datetime(2024, 2, 29, 10, 20, 30, 123_456)),
    ("timestamp with zone", "timestamptz", datetime.datetime(2024, 2, 29, 10, 20, 30, tzinfo=UTC)),
    ("uuid", "uuid", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ("integers", "integer[]", [1, None, 3]),
    ("texts", "text[]", ["a,b", '"', None, ""]),
    ("two dimensions", "integer[][]", [[1, 2], [3, 4]]),
)
CHECKS = []


def login():
    """Host, port, user, password and database."""
    said = os.environ
    return said["PGHOST"], int(said["PGPORT"]), said["PGUSER"], said["PGPASSWORD"], said["PGDATABASE"]


def check(name, *values):
    """Makes a function a check of this name. It gets a connection, and `values` behind it."""

    def add(function):
        CHECKS.append((name, function, values))
        return function

    return add


def each(kind, cases):
    """Makes a function one check per case, which is a name and values."""

    def add(function):
        for name, *values in cases:
            CHECKS.append((f"{kind}.{name}", function, tuple(values)))
        return function

    return add


def texts():
    """The cases of what a text becomes as a value of a type."""
    return [(f"{of} {given}", of, given, wanted) for of, given, wanted in EXPECTED["texts"]]


def errors():
    """The cases of wrong statements: a name, the statement and its SQLSTATE."""
    return [(sql, sql, state) for sql, state in EXPECTED["errors"]]


def equal(found, wanted):
    """Fails unless a value is the wanted one, and of its type or of a type of the driver that is derived from it."""
    if not isinstance(found, type(wanted)) or isinstance(found, bool) != isinstance(wanted, bool) or found != wanted:
        raise AssertionError(f"expected {wanted!r}, and found {found!r}")


def run(connect):
    """Runs all checks, each with a connection of its own."""
    for name, function, values in CHECKS:
        try:
            connection = connect()
            try:
                function(connection, *values)
            finally:
                connection.close()
        except Exception as error:  # What a driver raises for a wrong answer is its own affair.
            reported(name, error)
        else:
            reported(name)
    print("end")


def reported(name, error=None):
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    print(f"ok {name}" if error is None else f"WRONG {name}: {reason[:400]}")
    sys.stdout.flush()
