"""All types, with NULL, extremes and other values, written to a table and read from it in every form."""

import datetime as dt
import math
import uuid
from decimal import Decimal

import freestone
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

UTC = dt.timezone.utc

INTS = [(f"{s}int{b}", b, bool(s)) for s in ("", "u") for b in (8, 16, 32, 64)]

# SQL type, Arrow type, values.
CASES = [
    ("boolean", pa.bool_(), [True, False, None]),
    *(
        (
            f"{'BIGINT' if b == 64 else 'INT' if b == 32 else 'SMALLINT' if b == 16 else 'TINYINT'}{' UNSIGNED' if u else ''}",
            getattr(pa, name)(),
            [0 if u else -(2 ** (b - 1)), 2**b - 1 if u else 2 ** (b - 1) - 1, 1, None],
        )
        for name, b, u in INTS
    ),
    ("real", pa.float32(), [0.0, 1.5, -3.4028234663852886e38, math.inf, None]),
    ("double", pa.float64(), [0.1, -1.7976931348623157e308, 5e-324, math.inf, None]),
    ("decimal(9,2)", pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.01"), None]),
    ("decimal(38,10)", pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), None]),
    ("date", pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), None]),
    ("time", pa.time64("ns"), [dt.time(0), dt.time(23, 59, 59, 999999), None]),
    (
        "timestamp",
        pa.timestamp("us"),
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1969, 12, 31, 23, 59, 59, 1), None],
    ),
    ("timestamptz", pa.timestamp("us", "UTC"), [dt.datetime(2024, 2, 29, 12, 0, 0, 1, UTC), None]),
    ("varchar", pa.string(), ["", "a", "größer 🜁 als zwölf Zeichen", "a\0b", "x" * 100_000, None]),
    ("binary", pa.binary(), [b"", b"\0\xff", bytes(range(256)) * 100, None]),
]


@pytest.mark.parametrize("name, arrow, values", CASES, ids=[case[0] for case in CASES])
def test_round_trip(db, name, arrow, values):
    given = pa.table({"at": pa.array(range(len(values)), pa.int32()), "v": pa.array(values, arrow)})
    assert db.load("t", given) == len(values)
    relation = db.sql("select v from t order by at")
    assert [row[0] for row in relation.fetchall()] == values
    assert relation.arrow()["v"].type == arrow
    assert relation.arrow()["v"].to_pylist() == values
    assert relation.batches().read_all().equals(relation.arrow())
    assert relation.pl()["v"].to_list() == values
    frame = relation.df(date_as_object=True)
    assert frame["v"].isna().tolist() == [value is None for value in values]
    if arrow not in (pa.float32(), pa.float64()):
        present = [value for value in values if value is not None]
        found = [value for value, missing in zip(frame["v"].tolist(), frame["v"].isna()) if not missing]
        found = [value.to_pydatetime() if isinstance(value, pd.Timestamp) else value for value in found]
        assert found == present or [float(v) for v in found] == [float(v) for v in present]


@pytest.mark.parametrize("name, arrow, values", CASES, ids=[case[0] for case in CASES])
def test_parameters(db, name, arrow, values):
    for value in values:
        if isinstance(value, str) and "\0" in value:
            continue
        expected = [(value is None, value)]
        assert db.sql("select $1 is null, $1", [value]).fetchall()[0] == expected[0] or value is None
        given = pa.table({"v": pa.array([value], arrow)})
        if value is not None:
            assert db.sql("select count(*) from given where v = $1", [value]).fetchall() == [(1,)]


@pytest.mark.parametrize(
    "value, expected",
    [
        (np.int8(-5), -5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.datetime64("2024-01-02T03:04:05.678901"), dt.datetime(2024, 1, 2, 3, 4, 5, 678901)),
        (np.datetime64("2024-01-02"), dt.datetime(2024, 1, 2)),
        (np.timedelta64(90, "s"), dt.timedelta(seconds=90)),
        (np.datetime64("NaT"), None),
        (np.timedelta64("NaT", "us"), None),
        (np.datetime64("12000-01-01T01:02:03"), "12000-01-01 01:02:03"),
        (np.datetime64("-0044-03-15"), "0045-03-15 (BC) 00:00:00"),
        (np.datetime64("1969-12", "M"), dt.datetime(1969, 12, 1)),
        (np.datetime64("2024", "Y"), dt.datetime(2024, 1, 1)),
        (np.timedelta64(14, "M"), "1 year 2 months"),
        (np.longdouble(0.5), 0.5),
        (pd.Timestamp("2024-01-02 03:04:05"), dt.datetime(2024, 1, 2, 3, 4, 5)),
        (pd.NaT, None),
        (pd.NA, None),
        (uuid.UUID(int=7), str(uuid.UUID(int=7))),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (2**100, 2**100),
        (Decimal("1E+3"), Decimal(1000)),
        (Decimal("-0.00"), Decimal("0.00")),
        (dt.timedelta(days=-1, microseconds=1), dt.timedelta(days=-1, microseconds=1)),
        (dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))), dt.datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ],
    ids=repr,
)
def test_values_of_other_libraries(db, value, expected):
    assert db.sql("select $1", [value]).fetchone() == (expected,)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        10**38,
        Decimal("nan"),
        Decimal("1e40"),
        [1, "x"],
        {1: 1},
        [object()],
        1j,
        np.complex128(1),
        np.datetime64(2**62, "D"),
        dt.time(1, tzinfo=UTC),
    ],
    ids=repr,
)
def test_values_without_a_type(db, value):
    with pytest.raises(freestone.DataError, match=r"parameter \$1"):
        db.sql("select $1", [value])


def test_a_list_in_itself_is_an_error(db):
    value = []
    value.append(value)
    deep = 1
    for _ in range(100):
        deep = [deep]
    for given in (value, deep, {"a": deep}):
        with pytest.raises(freestone.DataError, match="inside each other"):
            db.sql("select $1", [given])


@pytest.mark.parametrize(
    "value, expected",
    [
        ([1, 2, None], [1, 2, None]),
        ((1, 2.5), [1.0, 2.5]),
        (np.array([1, 2]), [1, 2]),
        (np.array([[0.5], [1.5]]), [[0.5], [1.5]]),
        (np.array(["2024-01-02"], dtype="datetime64[ns]"), [dt.datetime(2024, 1, 2)]),
        ([], []),
        ([Decimal("1.5"), 2], [Decimal("1.5"), Decimal("2.0")]),
        (["a", "b"], ["a", "b"]),
        ([[1], [], None, [2, 3]], [[1], [], None, [2, 3]]),
        ({"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
        ([{"a": 1}, {"a": None}], [{"a": 1}, {"a": None}]),
        ({"l": [1], "n": {"d": dt.date(2024, 1, 2)}}, {"l": [1], "n": {"d": dt.date(2024, 1, 2)}}),
    ],
    ids=repr,
)
def test_lists_and_dicts(db, value, expected):
    assert db.sql("select $1 as v", [value]).fetchone() == (expected,)


def test_lists_are_looked_into(db):
    sql = "select value from generate_series(1, 10) where array_has($1, value) order by value"
    assert db.sql(sql, [[2, 3, 11]]).fetchall() == [(2,), (3,)]
    assert db.sql("select array_length($1) as n, $1[1] as first", [["b", "a"]]).fetchall() == [(2, "b")]


def test_named_parameters(db):
    sql = "select $a + $b, $a"
    assert db.sql(sql, {"b": 2, "a": 1}).fetchall() == [(3, 1)]
    assert db.sql("select ? - ?", (5, 3)).fetchall() == [(2,)]
    for params, part in [({"a": 1}, "no value"), ({"a": 1, "b": 2, "c": 3}, "no parameter"), ([1, 2], "have names")]:
        with pytest.raises(freestone.ProgrammingError, match=part):
            db.sql(sql, params)
    for sql, params in [("select $1", []), ("select $1", [1, 2]), ("select $1", {"a": 1}), ("select 1", [1]), ("select $1", "x"), ("select $1", 5)]:
        with pytest.raises(freestone.ProgrammingError):
            db.sql(sql, params)


def test_times_beyond_python_are_texts(db):
    sql = "select date '29349-01-26' as d, timestamp '12000-01-01 01:02:03' as t, date '2000-01-01' as e, timestamptz '20000-01-01 00:00:00+00' as z"
    assert db.sql(sql).fetchall() == [("29349-01-26", "12000-01-01 01:02:03", dt.date(2000, 1, 1), "20000-01-01 00:00:00+00")]
    assert db.sql(sql).arrow().num_rows == 1
    assert len(db.sql("select arrow_cast(9000000000000000000, 'Timestamp(Second, None)') as d").arrow()) == 1


def test_zones_and_units(db):
    sql = "select arrow_cast(0, 'Timestamp(Nanosecond, Some(\"Europe/Berlin\"))'), arrow_cast(1500, 'Timestamp(Millisecond, Some(\"+02:30\"))')"
    berlin, offset = db.sql(sql).fetchone()
    assert berlin.utcoffset() == dt.timedelta(hours=1) and berlin.hour == 1
    assert offset.utcoffset() == dt.timedelta(hours=2, minutes=30)
    assert offset == dt.datetime(1970, 1, 1, 0, 0, 1, 500000, UTC)
    assert db.sql("select interval '1 day 2 hours', interval '1 month'").fetchone() == (dt.timedelta(days=1, hours=2), "1 month")
    assert db.sql("select arrow_cast(-1, 'Duration(Second)')").fetchone() == (dt.timedelta(seconds=-1),)


def test_nested_and_encoded(db):
    sql = "select [1, null, 2], {'a': 1, 'b': 'x'}, arrow_cast('d', 'Dictionary(Int32, Utf8)'), null, [[1], []]"
    assert db.sql(sql).fetchone() == ([1, None, 2], {"a": 1, "b": "x"}, "d", None, [[1], []])


def test_types_are_named(db):
    relation = db.sql("select 1 as a, 'x' as \"weird \"\" name\", 1.5 as c, true as a2, date '2024-01-01' as d")
    assert relation.columns == ["a", 'weird " name', "c", "a2", "d"]
    assert relation.types == ["BIGINT", "VARCHAR", "DECIMAL(2,1)", "BOOLEAN", "DATE"]
    assert relation.arrow().column_names == relation.columns
    assert repr(relation).splitlines()[2].split() == ["│", "BIGINT", "│", "VARCHAR", "│", "DECIMAL(2,1)", "│", "BOOLEAN", "│", "DATE", "│"]


def test_strings_in_pandas_and_polars(db):
    relation = db.sql("select 'x' || value as s from generate_series(1, 10000) order by value")
    assert relation.df()["s"].iloc[-1] == "x10000"
    assert relation.pl()["s"].dtype == pl.String
    assert relation.df(types_mapper=pd.ArrowDtype)["s"].iloc[0] == "x1"
