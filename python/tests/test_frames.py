"""Data frames: the types of results as pandas and Polars have them, and columns of frames that are read."""

import datetime as dt
import decimal
import json
import uuid

import duckdb
import freestone
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

#: Expressions, and whether DuckDB gives another dtype. Each is compared alone, and beside NULL.
VALUES = {
    "TRUE": True,
    "1::TINYINT": True,
    "1::SMALLINT": True,
    "1::INT": True,
    "9007199254740993::BIGINT": True,
    "1::UTINYINT": True,
    "1::USMALLINT": True,
    "1::UINTEGER": True,
    "18446744073709551615::UBIGINT": True,
    "1.5::FLOAT": True,
    "'NaN'::DOUBLE": True,
    "'-inf'::DOUBLE": True,
    "'x'": True,
    "DATE '2024-01-02'": True,
    "DATE '0001-01-01'": True,
    "DATE '9999-12-31'": True,
    "TIMESTAMP '2024-01-01 10:00:00.000001'": True,
    "TIMESTAMP '0001-01-01'": True,
    "TIME '10:00:00'": True,
    "INTERVAL '1 day 2 hours'": True,
    "[1, NULL]": True,
    "{'a': 1}": True,
    "MAP {'a': 1}": True,
    "'0b8e2f5e-1d7a-4c11-9c55-7c2d5f3a9e10'::UUID": True,
    # A sum is HUGEINT, which DuckDB makes a float of. Here it is an integer where 64 bits suffice.
    "(SELECT sum(i) FROM range(10) t(i))": False,
    # A time zone is UTC here, and Etc/UTC there. A DECIMAL keeps its digits.
    "TIMESTAMPTZ '2024-01-01 10:00:00+00'": False,
    "1.5::DECIMAL(5, 1)": False,
}


@pytest.mark.parametrize("expression", VALUES)
def test_dtypes_are_those_of_duckdb(db, expression):
    for sql in [f"SELECT {expression} AS v", f"SELECT {expression} AS v UNION ALL SELECT NULL ORDER BY v NULLS LAST"]:
        mine, theirs = db.sql(sql).df(), duckdb.sql(sql).df()
        if VALUES[expression]:
            assert mine["v"].dtype == theirs["v"].dtype, sql
        assert str(mine["v"].iloc[0]) in (str(theirs["v"].iloc[0]), str(int(theirs["v"].iloc[0])) if "sum" in sql else None), sql
        assert mine["v"].isna().tolist() == theirs["v"].isna().tolist(), sql


def test_integers_beside_null_are_exact(db):
    frame = db.sql("SELECT 9007199254740993 AS i, 255::UTINYINT AS u, true AS b, 1 AS g UNION ALL SELECT NULL, NULL, NULL, 2 ORDER BY g").df()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "UInt8", "boolean", "int64"]
    assert frame["i"].tolist() == [9007199254740993, pd.NA] and frame["i"].sum() == 9007199254740993
    assert db.sql("SELECT NULL::BIGINT AS i WHERE false").df()["i"].dtype == "int64"
    assert db.sql("SELECT NULL::BIGINT AS i").df()["i"].dtype == "Int64"
    # Options of pyarrow are still options.
    query = db.sql("SELECT 1 AS i UNION ALL SELECT NULL ORDER BY i")
    assert query.df(types_mapper=pd.ArrowDtype)["i"].dtype == "int64[pyarrow]"
    assert query.df(integer_object_nulls=True)["i"].tolist() == [1, None]
    nested = db.sql("SELECT [9007199254740993, NULL] AS l, {'a': [NULL, 9007199254740993]} AS s, MAP {'k': 9007199254740993} AS m").df()
    assert nested["l"][0][0] == 9007199254740993 and nested["l"][0].mask.tolist() == [False, True]
    assert nested["s"][0] == {"a": [None, 9007199254740993]} and nested["m"][0] == {"k": 9007199254740993}


def test_sums_are_numbers(db):
    relation = db.sql("SELECT i % 3 AS g, sum(i) AS s, sum(i)::DOUBLE AS d FROM range(100) t(i) GROUP BY 1 ORDER BY 1")
    frame = relation.df()
    assert frame["s"].dtype == "int64" and frame["s"].tolist() == [1683, 1617, 1650]
    assert (frame["s"] * 2.5).tolist() == [4207.5, 4042.5, 4125.0] and frame.corr().shape == (3, 3)
    assert json.dumps(relation.fetchall()) == "[[0, 1683, 1683.0], [1, 1617, 1617.0], [2, 1650, 1650.0]]"
    assert relation.pl()["s"].dtype == pl.Int64
    assert relation.arrow().schema.field("s").type == pa.decimal128(38, 0)
    wide = db.sql("SELECT sum(i) AS s FROM (VALUES (9223372036854775807), (9223372036854775807)) t(i)")
    assert wide.df()["s"].tolist() == [2.0**64] and wide.pl()["s"].to_list() == [2.0**64]
    assert wide.fetchone() == (2**64 - 2,) and wide.arrow()["s"].to_pylist() == [decimal.Decimal(2**64 - 2)]
    assert db.sql("SELECT sum(i) AS s FROM range(0) t(i)").df()["s"].dtype == "Int64"
    listed = db.sql("SELECT [sum(i)] AS l, {'s': sum(i)} AS r FROM range(3) t(i)").df()
    assert listed["l"][0].tolist() == [3] and listed["r"][0] == {"s": 3}
    assert db.sql("SELECT 1.5::DECIMAL(5, 2) AS d").fetchone() == (decimal.Decimal("1.50"),)


def test_intervals_are_durations(db):
    relation = db.sql("SELECT INTERVAL '1 day 2 hours' AS v UNION ALL SELECT NULL ORDER BY v")
    assert relation.df()["v"].dtype == "timedelta64[us]" and relation.pl()["v"].to_list() == [dt.timedelta(days=1, hours=2), None]
    months = db.sql("SELECT INTERVAL '1 month' AS v")
    assert months.df()["v"][0].months == 1 and months.pl()["v"].to_list() == ["1 month"]


def test_frames_have_distinct_names(db):
    relation = db.sql("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a")
    assert list(relation.df().columns) == relation.pl().columns == ["a", "a_2", "a_1", "a_3"]
    assert list(relation.df(types_mapper=pd.ArrowDtype).columns) == ["a", "a_2", "a_1", "a_3"]
    assert relation.arrow().column_names == ["a", "a", "a_1", "a"]


def test_infinite_times_are_no_frames(db):
    for value in ["'infinity'::DATE", "'-infinity'::DATE", "'infinity'::TIMESTAMP", "'-infinity'::TIMESTAMP"]:
        relation = db.sql(f"SELECT {value} AS v")
        for read in (relation.df, relation.pl):
            with pytest.raises(freestone.DataError, match="column 'v' has infinite times"):
                read()
        assert relation.fetchone() in [("infinity",), ("-infinity",)]


def columns_of_frames():
    """Columns as pandas has them, with the rows that SQL sees."""
    past = pd.Series([2**63, -(2**64), None, 5], dtype=object)
    return {
        "another byte order": (pd.Series(np.array([1, 2], dtype=">i4")), [1, 2]),
        "floats of another byte order": (pd.Series(np.array([1.5, np.nan], dtype=">f8")), [1.5, None]),
        "sparse": (pd.Series(pd.arrays.SparseArray([0, 0, 7])), [0, 0, 7]),
        "integers of more than 64 bits": (past, [2**63, -(2**64), None, 5]),
        "nullable": (pd.Series([1, None, 3], dtype="Int64"), [1, None, 3]),
        "durations": (pd.Series(pd.to_timedelta(["1 days", None, "2h"])), [dt.timedelta(days=1), None, dt.timedelta(hours=2)]),
        "UUIDs as texts": (pd.Series([str(uuid.UUID(int=1))]), [str(uuid.UUID(int=1))]),
    }


@pytest.mark.parametrize("name", columns_of_frames())
def test_columns_of_pandas_are_read(db, name):
    column, expected = columns_of_frames()[name]
    frame = pd.DataFrame({"v": column, "at": range(len(column))})
    assert [row[0] for row in db.sql("SELECT v FROM frame ORDER BY at").fetchall()] == expected
    db.load("t", frame)
    assert [row[0] for row in db.sql("SELECT v FROM t ORDER BY at").fetchall()] == expected


def test_columns_without_a_type_are_named(db):
    for column in [pd.Series([1 + 2j, 3]), pd.Series([10**40], dtype=object), pd.Series([1, "x", object()])]:
        frame = pd.DataFrame({"good": range(len(column)), "wrong one": column})
        with pytest.raises(freestone.DataError, match="'wrong one' of the DataFrame"):
            db.sql("SELECT * FROM frame")


def test_equal_names_of_pandas(db):
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", "a", "a_1"])
    assert db.sql("SELECT * FROM frame").columns == ["a", "a_2", "a_1"]
    assert db.sql("SELECT a + a_1 + a_2 FROM frame").fetchall() == [(6,)]


def test_wide_integers_and_durations_of_polars(db):
    frame = pl.DataFrame({"i": [2**100, None], "d": [dt.timedelta(days=400, seconds=1), None]}, schema={"i": pl.Int128, "d": pl.Duration("ns")})
    assert db.sql("SELECT i, d FROM frame").fetchall() == [(2**100, dt.timedelta(days=400, seconds=1)), (None, None)]
    assert db.load("t", frame) == 2
    assert db.sql("SELECT typeof(d), d FROM t WHERE i IS NOT NULL").fetchall() == [("INTERVAL", dt.timedelta(days=400, seconds=1))]
    frame = pl.DataFrame({"wide": [2**127 - 1]}, schema={"wide": pl.Int128})
    with pytest.raises(freestone.DataError, match="wide"):
        db.sql("SELECT * FROM frame")


def test_columns_of_nothing_but_null_of_polars(db):
    frame = pl.DataFrame({"x": [None, None], "y": [1, 2]})
    assert db.sql("SELECT count(*), count(x), sum(y) FROM frame").fetchall() == [(2, 0, 3)]
    assert db.load("nulls", frame) == 2


def test_values_that_sql_has_not_are_named(db):
    objects = pl.DataFrame({"good": [1], "strange": pl.Series([object()], dtype=pl.Object)})
    periods = pd.DataFrame({"good": [1], "strange": pd.period_range("2020-01", periods=1, freq="M")})
    spans = pd.DataFrame({"good": [1], "strange": pd.interval_range(0, 1)})
    for name in ["objects", "periods", "spans"]:
        with pytest.raises(freestone.DataError, match="strange"):
            db.sql(f"SELECT * FROM {name}")
