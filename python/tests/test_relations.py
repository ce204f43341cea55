"""Relations: when queries run, and how rows are read."""

import contextlib
import io
import threading

import freestone
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest


def test_queries_run_when_they_are_read(db):
    db.sql("create table t as select 1 as a")
    relation = db.sql("select count(*) from t")
    db.sql("insert into t values (2)")
    assert relation.fetchall() == [(2,)]
    db.sql("insert into t values (3)")
    assert relation.arrow().to_pydict() == {"count(*)": [3]}
    assert list(relation) == [(3,)]


def test_writes_run_at_once(db):
    created = db.sql("create table t (a int)")
    assert (created.rowcount, created.columns) == (-1, [])
    inserted = db.sql("insert into t values (1), (2)")
    assert inserted.rowcount == 2
    assert "INSERT 2" in repr(inserted)
    assert db.sql("delete from t where a = 1").rowcount == 1
    with pytest.raises(freestone.InterfaceError, match="INSERT returns no rows"):
        inserted.fetchall()
    assert db.tables() == ["t"]


def test_a_relation_shows_its_first_rows(db):
    relation = db.sql("select value as n, 'x<' || value as s from range(25) order by n")
    assert repr(db.sql("select 1 as one, 'x' as two")).splitlines() == [
        "┌────────┬─────────┐", "│    one │ two     │", "│ BIGINT │ VARCHAR │", "├────────┼─────────┤",
        "│      1 │ x       │", "└────────┴─────────┘", "1 row",
    ]  # fmt: skip
    lines = repr(relation).splitlines()
    assert (len(lines), lines[-1], lines[-3].split()) == (27, "the first 20 rows", ["│", "…", "│", "…", "│"])
    page = relation._repr_html_()
    assert page.count("<tr>") == 21 and "x&lt;19" in page and "x&lt;20" not in page and "<small>BIGINT</small>" in page
    assert relation.fetchone() == (0, "x<0"), "what was shown is still there"
    stream = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), [])  # noqa: F841
    reading = db.sql("select a from stream")
    assert repr(reading) == "<freestone.Relation (a BIGINT) of a stream>"
    assert reading.fetchall() == []


def test_a_shared_database_needs_no_connection():
    numbers = pa.table({"a": [1, 2, 3]})
    assert freestone.sql("select sum(a)::int from numbers where a > $1", [1]).fetchall() == [(5,)]
    assert numbers.num_rows == 3
    freestone.execute("create table shared_here as select 7 as a")
    assert freestone.sql("table shared_here").fetchall() == [(7,)]
    freestone.execute("drop table shared_here")


def test_pandas_gets_dates_as_numbers_and_decimals_on_request(db):
    relation = db.execute("select date '2024-02-29' as day, 1.25 as price union all select null, null")
    frame = relation.df()
    assert frame["day"].dtype.kind == "M" and str(frame["day"].max().date()) == "2024-02-29"
    assert frame["price"].dtype == object
    assert relation.df(decimals_as_floats=True)["price"].sum() == 1.25
    assert relation.df(date_as_object=True)["day"].dtype == object
    assert str(db.sql("select date '9999-12-31' as d").df()["d"].iloc[0].date()) == "9999-12-31"


def test_scripts(db):
    relation = db.sql("create table t (a int); insert into t values (1); select 7; select a + $1 from t -- end", [1])
    assert relation.fetchall() == [(2,)]
    with pytest.raises(freestone.ProgrammingError, match="no statement"):
        db.sql(" -- nothing")
    with pytest.raises(freestone.ProgrammingError):
        db.sql("insert into t values (5); select * from missing; insert into t values (6)")
    assert db.sql("select a from t order by a").fetchall() == [(1,), (5,)]


def test_statements_of_all_kinds(db):
    db.sql("create table t as select 1 as a; create view v as select * from t")
    assert db.sql("show tables").columns
    assert db.sql("describe t").fetchall()
    assert db.sql("check").fetchall() == []
    db.sql("set threads = 1")
    assert db.sql("show threads").fetchone()[1] == "1"
    db.sql("prepare p as select a + $1 from t")
    assert db.sql("execute p (5)").fetchall() == [(6,)]
    db.sql("prepare i as insert into t values ($1)")
    db.sql("execute i (9)")
    assert db.sql("select max(a) from v").fetchall() == [(9,)]
    assert "Scan: " in db.sql("select * from t").explain()
    assert "rows_scanned" in db.sql("select a + $1 from t", [1]).explain(analyze=True)


def test_columns_of_one_name(db):
    relation = db.sql("select 1 as a, 2 as a, 2 as a, 'x' like '/x' escape '/' as b")
    assert relation.columns == ["a", "a", "a", "b"]
    assert relation.fetchall() == [(1, 2, 2, True)]
    assert relation.arrow().column_names == relation.columns
    assert db.sql("select 1, 1").fetchall() == [(1, 1)]


def test_libraries_of_arrow_compute_with_strings(db, tmp_path):
    db.sql("create table t as select value as n, 'text number ' || value as s from generate_series(1, 5) as g(value)")
    relation = db.sql("select n, s, s::binary as b, [s, 'b'] as l from t order by n")
    table = relation.arrow()
    assert [field.type for field in table.schema] == [pa.int64(), pa.string(), pa.binary(), pa.list_(pa.string())]
    assert relation.batches().schema == table.schema == pa.table(relation).schema
    assert table.filter(pc.field("s") == "text number 3")["n"].to_pylist() == [3]
    assert table.sort_by([("s", "descending")])["n"].to_pylist() == [5, 4, 3, 2, 1]
    assert table.take([1])["l"].to_pylist() == [["text number 2", "b"]]
    views = relation.arrow(string_views=True)
    assert views.schema.field("s").type == pa.string_view()
    assert views.to_pylist() == table.to_pylist()
    assert relation.batches(string_views=True).read_all().equals(views)
    # The result of a statement that ran at once is stored, and is returned in both forms.
    described = db.sql("describe t").arrow()
    assert described.column(0).type == pa.string() and described.column(0).to_pylist() == ["n", "s"]
    relation.to_parquet(tmp_path / "t.parquet")
    assert pq.read_schema(tmp_path / "t.parquet").field("s").type == pa.string()


def test_fetching_goes_on(db):
    relation = db.sql("select value from generate_series(1, 20000) order by 1")
    assert relation.fetchone() == (1,)
    assert relation.fetchmany(2) == [(2,), (3,)]
    assert relation.fetchmany(10000)[-1] == (10003,)
    assert relation.fetchall()[-1] == (20000,)
    assert relation.fetchone() is None and relation.fetchall() == []
    assert sum(1 for _ in relation) == 20000


def test_no_rows(db):
    relation = db.sql("select 1 as a, 'x' as b where false")
    assert relation.arrow().shape == (0, 2)
    assert relation.pl().shape == (0, 2)
    assert relation.df().shape == (0, 2)
    assert relation.batches().read_all().shape == (0, 2)
    assert relation.fetchall() == []


def test_show(db):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        db.sql("select value as n, 'a\nb' as s, null as z from generate_series(1, 100)").show(max_rows=3)
        db.sql("create table t as select 1 as a").show()
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("┌") and "│ 1 │" in lines[3] and "a\\nb" in lines[3] and "NULL" in lines[3]
    assert "…" in lines[6]
    assert lines[-1] == "CREATE TABLE 1"


def test_parquet(db, tmp_path):
    path = tmp_path / "it's.parquet"
    rows = db.sql("select value as a from generate_series(1, 5000) where value <= $1", [1000]).to_parquet(path, compression="zstd")
    assert rows == 1000
    assert pq.read_table(path)["a"].to_pylist() == list(range(1, 1001))
    with pytest.raises(freestone.InterfaceError):
        db.sql("create table t (a int)").to_parquet(path)


def test_arrow_protocol(db):
    relation = db.sql("select value as a from generate_series(1, 100000)")
    assert pa.table(relation).num_rows == 100000
    assert pl.DataFrame(relation).shape == (100000, 1)
    assert pa.RecordBatchReader.from_stream(relation).read_all().num_rows == 100000


def test_batches_end_early(db):
    reader = db.sql("select value from generate_series(1, 100000000)").batches()
    assert reader.read_next_batch().num_rows > 0
    del reader
    assert db.sql("select 1").fetchall() == [(1,)]


def test_errors_of_batches_are_typed(db):
    reader = db.sql("select 1 / (value - 50000) as q from generate_series(1, 100000)").batches()
    with pytest.raises(freestone.Error, match="division by zero"):
        reader.read_all()


def test_streaming_needs_little_memory(tmp_path):
    import subprocess
    import sys

    script = """
import sys, freestone
db = freestone.connect(threads=2, memory_limit="256MB")
sql = "select value as a, value * 2 as b, repeat('x', 100) as c from generate_series(1, 4000000)"
rows = 0
for batch in db.sql(sql).batches():
    rows += batch.num_rows
for _ in zip(range(1000), db.sql(sql)):
    pass
assert rows == 4000000
print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 450, "MiB, of a result of 500 MB"


def test_threads_share_a_connection(here):
    db = here
    db.sql("create table t as select value as a from generate_series(1, 100000)")
    found = []

    def work(n):
        for _ in range(5):
            found.append(db.sql("select sum(a) + $1 from t", [n]).fetchone()[0] - n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5000050000] * 40


def test_the_interpreter_goes_on_while_a_query_runs(db):
    counted = 0
    done = threading.Event()

    def query():
        db.sql("select count(*) from generate_series(1, 30000000)").fetchall()
        done.set()

    thread = threading.Thread(target=query)
    thread.start()
    while not done.wait(0.001):
        counted += 1
    thread.join()
    assert counted > 3
