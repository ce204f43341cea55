"""DB-API 2.0, as PEP 249 has it."""

import datetime as dt
from decimal import Decimal

import pytest
from freestone import dbapi


@pytest.fixture
def connection():
    with dbapi.connect(threads=2) as connection:
        yield connection


def test_module():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.Warning, Exception) and issubclass(dbapi.Error, Exception)
    assert issubclass(dbapi.InterfaceError, dbapi.Error) and issubclass(dbapi.DatabaseError, dbapi.Error)
    kinds = ["DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"]
    for kind in kinds:
        assert issubclass(getattr(dbapi, kind), dbapi.DatabaseError)
        assert getattr(dbapi.Connection, kind) is getattr(dbapi, kind)
    assert dbapi.Date(2024, 1, 2) == dt.date(2024, 1, 2)
    assert dbapi.Binary(b"x") == b"x"
    assert isinstance(dbapi.TimestampFromTicks(0), dt.datetime)
    assert isinstance(dbapi.DateFromTicks(0), dt.date) and isinstance(dbapi.TimeFromTicks(0), dt.time)


def test_cursor(connection):
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    with pytest.raises(dbapi.Error):
        cursor.fetchone()
    cursor.execute("create table t (a int not null, b varchar, c decimal(10,2), d timestamp)")
    assert cursor.description is None
    cursor.execute("insert into t values (?, ?, ?, ?)", (1, "x", Decimal("1.50"), dt.datetime(2024, 1, 2)))
    assert cursor.rowcount == 1
    cursor.executemany("insert into t (a) values (?)", [(n,) for n in range(2, 6)])
    assert cursor.rowcount == 4
    cursor.execute("select * from t where a >= ? order by a", [1])
    names, types, _, _, precisions, scales, nullable = zip(*cursor.description)
    assert names == ("a", "b", "c", "d")
    assert types[0] == dbapi.NUMBER and types[1] == dbapi.STRING and types[2] == dbapi.NUMBER and types[3] == dbapi.DATETIME
    assert types[0] != dbapi.STRING and types[1] != dbapi.BINARY
    assert (precisions[2], scales[2]) == (10, 2)
    assert nullable == (False, True, True, True)
    assert cursor.rowcount == -1
    assert cursor.fetchone() == (1, "x", Decimal("1.50"), dt.datetime(2024, 1, 2))
    assert cursor.fetchmany() == [(2, None, None, None)]
    cursor.arraysize = 2
    assert [row[0] for row in cursor.fetchmany()] == [3, 4]
    assert [row[0] for row in cursor] == [5]
    assert cursor.fetchone() is None and cursor.fetchall() == [] and cursor.fetchmany() == []
    assert cursor.execute("select 'a?' || ?", ["b"]).fetchall() == [("a?b",)]
    assert cursor.execute("select 1 as a").fetch_arrow_table().to_pydict() == {"a": [1]}
    cursor.setinputsizes([])
    cursor.setoutputsize(1)


def test_failures_leave_no_result(connection):
    cursor = connection.execute("select 1")
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("select nothing")
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchall()
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany("select ?", [(1,)])
    with pytest.raises(connection.ProgrammingError):
        cursor.execute("select ? + ?", (1,))


def test_transactions(connection):
    connection.execute("create table t as select 1 as a")
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError, match="roll back"):
        connection.rollback()
    assert connection.autocommit is True


def test_closing(connection):
    cursor = connection.cursor()
    cursor.execute("select 1")
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor is closed"):
        cursor.fetchone()
    open_cursor = connection.execute("select 1")
    connection.close()
    connection.close()
    for use in [open_cursor.fetchone, connection.cursor, connection.commit, lambda: open_cursor.execute("select 1")]:
        with pytest.raises(dbapi.InterfaceError, match="connection is closed"):
            use()
