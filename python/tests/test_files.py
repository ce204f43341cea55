"""Files that COPY writes, as other programs read them."""

import datetime as dt
import json
import math
import uuid
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

UTC = dt.timezone.utc

#: The columns: name, type, and values with their form in SQL. The last value of each is NULL.
COLUMNS = [
    ("i8", "TINYINT", {"-128": -128, "127": 127}),
    ("i64", "BIGINT", {"-9223372036854775807 - 1": -(2**63), "9223372036854775807": 2**63 - 1}),
    ("u64", "BIGINT UNSIGNED", {"0": 0, "18446744073709551615": 2**64 - 1}),
    ("d", "DOUBLE", {"'NaN'::DOUBLE": math.nan, "'-inf'::DOUBLE": -math.inf}),
    ("e", "DOUBLE", {"5e-324": 5e-324, "-0.1": -0.1}),
    ("m", "DECIMAL(38, 10)", {"1234567890123456789012345678.0123456789": None, "-0.0000000001": None}),
    ("s", "VARCHAR", {"''": "", "'a \"b\", c' || chr(10) || 'd'": 'a "b", c\nd'}),
    ("b", "BINARY", {"x''": b"", "x'00ff'": b"\x00\xff"}),
    ("o", "BOOLEAN", {"true": True, "false": False}),
    ("day", "DATE", {"DATE '0001-01-01'": dt.date(1, 1, 1), "DATE '9999-12-31'": dt.date(9999, 12, 31)}),
    (
        "at",
        "TIMESTAMP",
        {
            "TIMESTAMP '1969-12-31 23:59:59.999999'": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
            "TIMESTAMP '2024-02-29 12:00:00'": dt.datetime(2024, 2, 29, 12),
        },
    ),
    (
        "zone",
        "TIMESTAMP WITH TIME ZONE",
        {
            "TIMESTAMP WITH TIME ZONE '2024-06-01T12:00:00+02:00'": dt.datetime(2024, 6, 1, 10, tzinfo=UTC),
            "TIMESTAMP WITH TIME ZONE '1970-01-01T00:00:00Z'": dt.datetime(1970, 1, 1, tzinfo=UTC),
        },
    ),
    ("time", "TIME", {"TIME '23:59:59.999999'": dt.time(23, 59, 59, 999999), "TIME '00:00:00'": dt.time(0)}),
]
for _, kind, values in COLUMNS:
    if kind.startswith("DECIMAL"):
        values.update({text: Decimal(text) for text in values})

NAMES = [name for name, _, _ in COLUMNS]
EXPECTED = [[*values.values(), None] for _, _, values in COLUMNS]


def plain(value):
    """A value for comparison: NaN equals NaN, and time zones with the same offset are equal."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=UTC)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def check(columns):
    assert [[plain(value) for value in column] for column in columns] == [
        [plain(value) for value in column] for column in EXPECTED
    ]


@pytest.fixture
def written(here, tmp_path):
    """Writes the table in a format with options, and returns the file's name."""
    here.sql(f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind, _ in COLUMNS)})")
    rows = [", ".join(list(values)[row] for _, _, values in COLUMNS) for row in range(2)]
    rows.append(", ".join("NULL" for _ in COLUMNS))
    here.sql(f"INSERT INTO t VALUES {', '.join(f'({row})' for row in rows)}")

    def write(extension, options=""):
        path = str(tmp_path / f"t.{extension}")
        here.sql(f"COPY t TO '{path}' {options}")
        return path

    return write


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_parquet(written, codec):
    path = written("parquet", f"(COMPRESSION {codec})")
    check([column.to_pylist() for column in pq.read_table(path).columns])
    check([column.to_list() for column in pl.read_parquet(path).get_columns()])
    frame = pd.read_parquet(path, dtype_backend="pyarrow")
    check([[None if value is pd.NA else value for value in pa.array(frame[name]).to_pylist()] for name in NAMES])


def test_parquet_in_duckdb(written):
    duckdb = pytest.importorskip("duckdb")
    rows = duckdb.sql(f"FROM '{written('parquet')}'").fetchall()
    check([list(column) for column in zip(*rows, strict=True)])


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_arrow(written, codec):
    path = written("arrow", f"(COMPRESSION {codec})")
    with pa.ipc.open_file(path) as reader:
        check([column.to_pylist() for column in reader.read_all().columns])
    check([column.to_pylist() for column in pyarrow.feather.read_table(path).columns])
    check([column.to_list() for column in pl.read_ipc(path).get_columns()])


def text_types():
    kinds = {
        "i8": pa.int8(),
        "i64": pa.int64(),
        "u64": pa.uint64(),
        "d": pa.float64(),
        "e": pa.float64(),
        "m": pa.decimal128(38, 10),
        "s": pa.string(),
        "b": pa.string(),
        "o": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "zone": pa.timestamp("us", "UTC"),
        "time": pa.time64("us"),
    }
    return {name: kinds[name] for name in NAMES}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst"])
def test_csv(written, ending):
    path = written(ending)
    types = text_types() | {"time": pa.string()}
    options = pyarrow.csv.ConvertOptions(
        column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    lines = pyarrow.csv.ParseOptions(newlines_in_values=True)
    with pa.input_stream(path, compression="detect") as stream:
        table = pyarrow.csv.read_csv(stream, parse_options=lines, convert_options=options)
    columns = dict(zip(NAMES, (column.to_pylist() for column in table.columns), strict=True))
    columns["b"] = [None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in columns["b"]]
    columns["time"] = [None if text is None else dt.time.fromisoformat(text) for text in columns["time"]]
    check(list(columns.values()))


def test_csv_in_duckdb_and_polars(written):
    path = written("csv")
    texts = pl.read_csv(path, infer_schema=False)
    assert texts["i64"].to_list() == ["-9223372036854775808", "9223372036854775807", None]
    assert texts["s"].to_list()[1:] == ['a "b", c\nd', None]
    duckdb = pytest.importorskip("duckdb")
    kinds = ", ".join(f"'{name}': '{kind}'" for name, kind, _ in COLUMNS if kind != "BINARY").replace(
        "BIGINT UNSIGNED", "UBIGINT"
    )
    rows = duckdb.sql(f"SELECT * FROM read_csv('{path}', header = true, types = {{{kinds}}})").fetchall()
    columns = [list(column) for column in zip(*rows, strict=True)]
    binary = NAMES.index("b")
    columns[binary] = [None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in columns[binary]]
    columns[NAMES.index("s")][0] = ""
    check(columns)


@pytest.mark.parametrize("ending", ["json", "ndjson.gz"])
def test_json(written, ending):
    path = written(ending)
    with pa.input_stream(path, compression="detect") as stream:
        lines = stream.read().decode().splitlines()
    # Decimals and large integers keep their digits, and NaN and infinities are those of Python's json.
    rows = [json.loads(line, parse_float=Decimal) for line in lines]
    columns = {name: [row[name] for row in rows] for name in NAMES}
    columns["e"] = [None if value is None else float(value) for value in columns["e"]]
    columns["b"] = [None if text is None else bytes.fromhex(text.removeprefix("\\x")) for text in columns["b"]]
    for name, parse in {
        "day": dt.date.fromisoformat,
        "at": dt.datetime.fromisoformat,
        "zone": lambda text: dt.datetime.fromisoformat(text.replace("Z", "+00:00")),
        "time": dt.time.fromisoformat,
    }.items():
        columns[name] = [None if text is None else parse(text) for text in columns[name]]
    check(list(columns.values()))


def test_what_others_write_is_read(here, tmp_path):
    frame = pd.DataFrame({"id": [1, 2], "city": ["Oslo", None], "x": [1.5, math.nan]})
    frame.to_parquet(tmp_path / "pandas.parquet")
    frame.to_csv(tmp_path / "pandas.csv", index=False)
    frame.to_json(tmp_path / "pandas.json", orient="records", lines=True)
    pl.from_pandas(frame).write_parquet(tmp_path / "polars.parquet")
    pl.from_pandas(frame).write_ipc(tmp_path / "polars.arrow")
    pl.from_pandas(frame).write_ndjson(tmp_path / "polars.ndjson")
    for path in sorted(tmp_path.iterdir()):
        rows = here.sql(f"SELECT id, city FROM '{path}' ORDER BY id").fetchall()
        assert rows == [(1, "Oslo"), (2, None)], path
        assert here.sql(f"SELECT x FROM '{path}' WHERE id = 1").fetchall() == [(1.5,)], path


def test_nested_json_is_nested(here, tmp_path):
    path = tmp_path / "n.json"
    path.write_text('{"id": 1, "tags": ["a", "b"], "who": {"name": "x"}}\n{"id": 2, "tags": [], "who": null}\n')
    assert here.sql(f"SELECT * FROM '{path}'").fetchall() == [(1, ["a", "b"], {"name": "x"}), (2, [], None)]
    here.sql(f"CREATE TABLE n AS SELECT * FROM '{path}'")
    assert here.sql("SELECT tags FROM n ORDER BY id").fetchall() == [(["a", "b"],), ([],)]


def test_types_that_only_others_have(here, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    parquet = tmp_path / "intervals.parquet"
    duckdb.sql(
        "COPY (SELECT INTERVAL '14 months 3 days 4 seconds' AS i UNION ALL SELECT INTERVAL 1 MONTH UNION ALL SELECT NULL) "
        f"TO '{parquet}' (FORMAT parquet)"
    )
    rows = here.sql(f"SELECT CAST(i AS VARCHAR) FROM '{parquet}'").fetchall()
    assert rows == [("1 year 2 months 3 days 00:00:04",), ("1 month",), (None,)]
    # The Arrow schema in the file has integers of 128 bits, which are stored as bytes.
    wide = tmp_path / "wide.parquet"
    frame = pl.DataFrame({"n": [1, 2], "w": pl.Series([1, 2], dtype=pl.Int128), "nothing": [None, None]})
    frame.write_parquet(wide)
    rows = here.sql(f"SELECT n, w, nothing FROM '{wide}'").fetchall()
    assert [(n, len(w), nothing) for n, w, nothing in rows] == [(1, 16, None), (2, 16, None)]
    frame.write_ipc(tmp_path / "wide.arrow")
    with pytest.raises(Exception, match="column w has integers of more than 64 bits"):
        here.sql(f"SELECT * FROM '{tmp_path}/wide.arrow'").fetchall()
    frame.drop("w").write_ipc(tmp_path / "nothing.arrow")
    here.sql(f"CREATE TABLE nothing AS SELECT * FROM '{tmp_path}/nothing.arrow'")
    assert here.sql("SELECT * FROM nothing").fetchall() == [(1, None), (2, None)]


def test_old_arrow_files(here, tmp_path):
    table = pa.table({"a": [1, None, 3], "d": pa.array(["p", "q", "p"]).dictionary_encode()})
    for legacy in [False, True]:
        options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, use_legacy_format=legacy)
        path = tmp_path / f"{legacy}.arrow"
        with pa.ipc.new_file(str(path), table.schema, options=options) as writer:
            writer.write_table(table)
        assert here.sql(f"SELECT * FROM '{path}'").fetchall() == [(1, "p"), (None, "q"), (3, "p")]


def test_uuids_keep_their_type_in_files(db, tmp_path):
    value = uuid.UUID("44211686-4ac1-48fe-b46e-027f0fcd6ce3")
    for name in ("u.parquet", "u.arrow"):
        path = str(tmp_path / name)
        db.sql(f"COPY (SELECT '{value}'::UUID AS u, ['{value}'::UUID] AS l, NULL::UUID AS n) TO '{path}'")
        db.sql("CREATE OR REPLACE TABLE uuids (u UUID, l UUID[], n UUID)")
        db.sql(f"COPY uuids FROM '{path}'")
        assert db.sql("SELECT * FROM uuids").fetchall() == [(value, [value], None)], name
        assert db.sql(f"SELECT u::UUID FROM '{path}'").fetchall() == [(value,)], name
    duckdb = pytest.importorskip("duckdb")
    other = duckdb.sql(f"SELECT u, l, n FROM '{tmp_path / 'u.parquet'}'")
    assert [str(column) for column in other.types] == ["UUID", "UUID[]", "UUID"]
    assert other.fetchall() == [(value, [value], None)]
