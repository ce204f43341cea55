"""Connections, tables, designs, files and results of the backend."""

import doctest

import freestone
import ibis
import ibis.common.exceptions as exc
import ibis_freestone
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from ibis import _


@pytest.fixture
def table(con):
    return con.create_table("t", ibis.memtable({"a": [3, 1, 2], "b": ["x", "y", None]}))


def test_docstrings():
    assert doctest.testmod(ibis_freestone).failed == 0


def test_connect_to_a_folder(tmp_path):
    con = ibis.freestone.connect(tmp_path / "db")
    con.create_table("t", pd.DataFrame({"a": [1, 2]}))
    con.disconnect()
    for address in (f"freestone://{tmp_path}/db", f"freestone://{tmp_path}/db?read_only=true"):
        con = ibis.connect(address)
        assert con.list_tables() == ["t"]
        con.disconnect()


def test_read_only(tmp_path):
    freestone.connect(tmp_path / "db").close()
    con = ibis.connect(f"freestone://{tmp_path}/db?read_only=true")
    with pytest.raises(freestone.Error, match="reading only"):
        con.create_table("t", schema={"a": "int64"})


def test_from_connection():
    with freestone.connect() as db:
        db.sql("CREATE TABLE t AS SELECT 1 AS a")
        assert ibis.freestone.from_connection(db).table("t").a.sum().execute() == 1


def test_reconnect(tmp_path):
    con = ibis.freestone.connect(tmp_path / "db")
    con.disconnect()
    con.reconnect()
    assert con.list_tables() == []


@pytest.mark.parametrize(
    ("options", "design"),
    [
        ({"sort": "a"}, {"sort": "a"}),
        ({"sort": ["b", "a"], "preset": "row"}, {"sort": "b, a", "preset": "row"}),
        ({"design": "pax", "page_size": "64KiB"}, {"preset": "pax", "page_size": "64KiB"}),
        ({"cluster": "a", "index": "b"}, {"cluster": "a", "index": "b"}),
        ({"sort": None}, {}),
    ],
)
def test_design(con, options, design):
    con.create_table("t", ibis.memtable({"a": [2, 1], "b": ["x", "y"]}), **options)
    assert design.items() <= {key: value.strip("()") for key, value in con.con.design("t").items()}.items()


def test_wrong_design(con):
    with pytest.raises(freestone.ProgrammingError, match="colour"):
        con.create_table("t", schema={"a": "int64"}, colour="red")
    with pytest.raises(ValueError, match="not the name"):
        con.create_table("t", schema={"a": "int64"}, **{"a = 1": "x"})


@pytest.mark.parametrize(
    "rows",
    [
        {"a": [1, 2]},
        pd.DataFrame({"a": [1, 2]}),
        pl.DataFrame({"a": [1, 2]}),
        pl.LazyFrame({"a": [1, 2]}),
        pa.table({"a": [1, 2]}),
        pa.table({"a": [1, 2]}).to_reader(),
        ibis.memtable({"a": [1, 2]}),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_create_table_from(con, rows):
    assert con.create_table("t", rows).order_by("a").a.to_list() == [1, 2]


def test_schema_of_a_table(con):
    kinds = {
        "a": "!int64",
        "b": "decimal(12, 2)",
        "c": "array<string>",
        "d": "struct<x: int32, y: array<float64>>",
        "e": "map<string, int64>",
        "f": "timestamp('UTC')",
        "g": "timestamp(9)",
        "h": "uuid",
        "i": "date",
        "j": "time",
        "k": "boolean",
        "l": "binary",
        "m": "uint8",
    }
    assert con.create_table("t", schema=kinds).schema() == ibis.schema({**kinds, "f": "timestamp('UTC', 6)"})


def test_null_columns_are_refused(con):
    with pytest.raises(exc.IbisTypeError):
        con.create_table("t", ibis.memtable({"a": [None]}))


def test_overwrite(con, table):
    con.create_table("t", table.filter(_.a > 1), overwrite=True, sort="a")
    assert con.table("t").count().execute() == 2
    with pytest.raises(freestone.ProgrammingError):
        con.create_table("t", table)


def test_temporary_tables_come_first(con, table):
    temporary = con.create_table("t", table.filter(_.a == 1), temp=True)
    assert temporary.count().execute() == 1
    assert con.table("t", database="public").count().execute() == 3
    with pytest.raises(exc.UnsupportedArgumentError):
        con.create_table("u", table, temp=True, database="public")


def test_schemas(con):
    con.create_database("s")
    con.create_database("s", force=True)
    made = con.create_table("t", ibis.memtable({"a": [1]}), database="s")
    assert (con.list_tables(database="s"), con.list_tables()) == (["t"], [])
    assert con.table("t", database=("freestone", "s")).equals(con.table("t", database=("freestone", "s")))
    assert made.execute().a.tolist() == [1]
    con.drop_table("t", database="s")
    con.drop_database("s")
    assert "s" not in con.list_databases() and con.list_catalogs() == ["freestone"]
    with pytest.raises(exc.UnsupportedOperationError):
        con.create_database("s", catalog="other")


def test_insert_upsert_truncate(con, table):
    con.insert("t", {"a": [9], "b": ["z"]})
    con.upsert("t", ibis.memtable({"a": [9, 10], "b": ["zz", "new"]}), on="a")
    assert table.filter(_.a > 8).order_by("a").execute().b.tolist() == ["zz", "new"]
    con.insert("t", table.limit(1), overwrite=True)
    con.truncate_table("t")
    assert table.count().execute() == 0


def test_views(con, table):
    view = con.create_view("v", table.filter(_.a > 1))
    con.create_view("v", table.filter(_.a > 2), overwrite=True)
    assert view.a.to_list() == [3] and con.list_tables() == ["t", "v"]
    con.drop_view("v")
    con.drop_view("v", force=True)
    with pytest.raises(exc.TableNotFound):
        con.table("v")


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files(con, table, tmp_path, kind):
    file = tmp_path / f"rows.{kind}"
    getattr(con, f"to_{kind}")(table.order_by("a"), file)
    read = getattr(con, f"read_{kind}")(file, table_name="rows")
    assert read.order_by("a").execute().a.tolist() == [1, 2, 3]
    assert "rows" in con.list_tables()


def test_several_files_with_options(con, table, tmp_path):
    for name in ("x", "y"):
        con.to_csv(table, tmp_path / f"{name}.csv", header=False, delimiter="|")
    read = con.read_csv([tmp_path / "x.csv", tmp_path / "y.csv"], header=False, delim="|")
    assert read.count().execute() == 6


def test_names_of_options_are_names(con, table, tmp_path):
    with pytest.raises(ValueError, match="not the name"):
        con.read_csv(tmp_path / "x.csv", **{"header => true, x": 1})
    with pytest.raises(ValueError, match="not the name"):
        con.to_csv(table, tmp_path / "x.csv", **{"header) ; x": 1})


def test_names_in_quotes(con, tmp_path):
    name = """It's "odd" """
    con.create_table(name, pa.table({name: [1]}))
    assert con.table(name)[name].sum().execute() == 1
    con.to_parquet(con.table(name), tmp_path / "it's.parquet")
    assert con.read_parquet(tmp_path / "it's.parquet").columns == (name,)


def test_batches_are_streamed(con):
    rows = con.sql("SELECT range AS a FROM range(100000)")
    batches = list(rows.to_pyarrow_batches(chunk_size=1000))
    assert max(map(len, batches)) <= 1000 and sum(map(len, batches)) == 100_000


def test_results(con, table):
    assert table.a.sum().to_pyarrow().as_py() == 6
    assert table.order_by("a").to_polars().to_dict(as_series=False) == {"a": [1, 2, 3], "b": ["y", None, "x"]}
    assert str(table.mutate(u=ibis.uuid()).to_pyarrow().schema.field("u").type) == "string"


def test_sql(con, table):
    assert con.sql("SELECT a FROM t WHERE a > 1").a.sum().execute() == 5
    assert table.alias("x").sql("SELECT max(a) AS m FROM x").execute().m.tolist() == [3]
    assert con.raw_sql("SELECT count(*) FROM t").fetchall() == [(3,)]
    assert ibis.to_sql(table.a.sum(), dialect="freestone").startswith("SELECT")


def test_parameters(con, table):
    least = ibis.param("int64")
    assert table.filter(table.a >= least).count().execute(params={least: 2}) == 2


def test_cache(con, table):
    with table.filter(_.a > 1).cache() as cached:
        assert cached.count().execute() == 2


def test_rename_table(con, table):
    con.rename_table("t", "u")
    assert con.list_tables() == ["u"]


def test_functions_in_python(con, table):
    @ibis.udf.scalar.python
    def twice(a: int) -> int:
        return a * 2

    @ibis.udf.scalar.pyarrow
    def length(text: str) -> int:
        import pyarrow.compute

        return pyarrow.compute.utf8_length(text)

    assert table.mutate(n=twice(table.a)).n.sum().execute() == 12
    assert table.mutate(n=length(table.b)).order_by("a").n.to_pyarrow().to_pylist() == [1, None, 1]
    assert table.filter(twice(table.a) > 3).count().execute() == 2, "the same function again"

    @ibis.udf.scalar.python(null_handling="special")
    def shown(text: str) -> str:
        return text or "none"

    assert sorted(table.mutate(s=shown(table.b)).s.to_pyarrow().to_pylist()) == ["none", "x", "y"]

    @ibis.udf.scalar.pandas
    def series(a: int) -> int:
        return a

    with pytest.raises(exc.UnsupportedOperationError, match="ibis.udf.scalar.pyarrow"):
        table.mutate(n=series(table.a)).execute()


@pytest.mark.parametrize(
    "url, parts",
    [
        ("https://ann:pw@host.org:80/a/b.html?x.y=1&z=2#end", ["https", "ann:pw@host.org:80", "ann:pw", "host.org", "/a/b.html", "1"]),
        ("http://[::1]:80?x.y=3", ["http", "[::1]:80", "", "[::1]", "", "3"]),
        ("/only/path?xzy=4", ["", "", "", "", "/only/path", ""]),
    ],
)
def test_parts_of_urls(con, url, parts):
    text = ibis.literal(url)
    fields = [text.protocol(), text.authority(), text.userinfo(), text.host(), text.path(), text.query("x.y")]
    assert [con.execute(field) for field in fields] == parts
