"""DB-API 2.0, as PEP 249 specifies it."""

import datetime as dt
from decimal import Decimal

import pytest
from freestone import dbapi


@pytest.fixture
def connection(place):
    path, options = place
    with dbapi.connect(path, **options) as connection:
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


def test_many_rows_are_one_commit(connection):
    cursor = connection.cursor()
    cursor.execute("create table t (a int not null, b varchar, c decimal(10,2), d timestamp, e double)")
    day = dt.datetime(2024, 1, 2)
    rows = [(n, f"x{n}" if n % 3 else None, Decimal(n) / 4, day, n / 2 if n % 2 else n) for n in range(2000)]
    cursor.executemany("insert into t (e, a, b, c, d) values ($5, $1, 'it''s ' || $2, $3, $4)", iter(rows))
    assert cursor.rowcount == 2000
    expected = (1999, "it's x1999", Decimal("499.75"), day, 999.5)
    assert cursor.execute("select * from t order by a desc limit 1").fetchone() == expected
    assert cursor.execute("select count(*), count(b), sum(e) from t").fetchone() == (2000, 1333, sum(row[4] for row in rows))
    assert cursor.execute("select count(*) from freestone_segments('t')").fetchone()[0] == 1
    cursor.executemany("insert into t (a) values ($a)", [{"a": 1}, {"a": 2}])
    assert cursor.rowcount == 2
    for sets, kind in [
        ([(1,), (None,)], dbapi.IntegrityError),
        ([(1,), ("no number",)], dbapi.DataError),
        ([(1,), (1, 2)], dbapi.ProgrammingError),
        ([(1,), (object(),)], dbapi.DataError),
    ]:
        with pytest.raises(kind):
            cursor.executemany("insert into t (a) values (?)", sets)
    assert cursor.execute("select count(*) from t").fetchone() == (2002,)
    assert cursor.executemany("insert into t (a) values (?)", []).rowcount == 0
    cursor.executemany("update t set b = ? where a = ?", [("one", 1), ("two", 2)])
    assert cursor.rowcount == 4
    assert cursor.executemany("delete from t where a = ?", [(1,), (2,)]).rowcount == 4


def test_sets_of_several_types_are_inserted(connection):
    cursor = connection.execute("create table t (a double, b varchar, l int[])")
    sets = [(1, "x", [1]), (2.5, "y", None), (None, None, []), (2**70, "z", [2, None]), (Decimal("0.25"), "w", [3])]
    assert cursor.executemany("insert into t values (?, ?, ?)", sets).rowcount == 5
    assert cursor.execute("select a, l from t order by b").fetchall() == [
        (0.25, [3]), (1.0, [1]), (2.5, None), (float(2**70), [2, None]), (None, []),
    ]  # fmt: skip
    # A set that does not fit leaves none of them, nor those of a transaction that goes on.
    for value in ["no number", dt.date(2024, 1, 2)]:
        with pytest.raises(dbapi.Error):
            cursor.executemany("insert into t (a) values (?)", [(1,), (value,), (2.5,)])
    assert cursor.execute("select count(*) from t").fetchone() == (5,)
    connection.begin()
    cursor.executemany("insert into t (a, b) values (?, ?)", [(1, "x"), (Decimal("1.5"), "y"), (dt.date(2024, 1, 2).year, 7)])
    connection.rollback()
    assert cursor.execute("select count(*) from t").fetchone() == (5,)


def test_pandas_and_polars_read_from_it(connection):
    import pandas as pd
    import polars as pl

    connection.cursor().executemany("insert into t values (?, ?)", []).execute("create table t (a int, s varchar)")
    connection.cursor().executemany("insert into t values (?, ?)", [(1, "x"), (2, None), (3, "z")])
    with pytest.warns(UserWarning, match="pandas only supports"):
        frame = pd.read_sql("select * from t where a >= ? order by a", connection, params=[2])
    assert frame["a"].tolist() == [2, 3] and frame["s"].tolist()[1] == "z"
    frame = pl.read_database("select * from t order by a", connection)
    assert frame.rows() == [(1, "x"), (2, None), (3, "z")]


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


def test_transactions(tmp_path):
    with dbapi.connect(tmp_path / "db") as connection, dbapi.connect(tmp_path / "db") as other:
        assert connection.autocommit is True
        connection.execute("create table t as select 1 as a")
        connection.commit()
        connection.rollback()
        count = "select count(*) from t"
        connection.begin()
        connection.execute("insert into t values (2)")
        assert connection.execute(count).fetchone() == (2,)
        assert other.execute(count).fetchone() == (1,)
        connection.rollback()
        assert connection.execute(count).fetchone() == (1,)
        connection.autocommit = False
        connection.execute("insert into t values (3)")
        connection.cursor().executemany("insert into t values (?)", [(4,), (5,)])
        assert other.execute(count).fetchone() == (1,)
        connection.commit()
        assert other.execute(count).fetchone() == (4,)
        connection.execute("delete from t")
        with pytest.raises(dbapi.ProgrammingError):
            connection.execute("select * from missing")
        with pytest.raises(dbapi.OperationalError, match="of this transaction failed"):
            connection.execute(count)
        with pytest.raises(dbapi.OperationalError, match="nothing was committed"):
            connection.commit()
        assert connection.execute(count).fetchone() == (4,)
        connection.execute("rollback")
        connection.commit()


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
