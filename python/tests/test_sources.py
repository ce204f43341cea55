"""Tables of the caller: variables by name, and loading."""

import sys
import weakref

import freestone
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

frame_of_module = pa.table({"x": [10, 20]})


def sum_of(db, frame):
    return db.sql("select sum(x), count(*) from frame where x > $1", [1]).fetchall()


def sources():
    data = {"x": [1, 2, 3], "s": ["a", None, "ccc"]}
    table = pa.table(data)

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    return {
        "pandas": lambda: pd.DataFrame(data),
        "pandas with an index": lambda: pd.DataFrame({"x": [0, *data["x"]]}, index=list("abcd")).iloc[1:],
        "polars": lambda: pl.DataFrame(data),
        "polars, lazy": lambda: pl.LazyFrame(data),
        "table": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "reader": lambda: table.to_reader(),
        "dataset": lambda: pyarrow.dataset.dataset(table),
        "capsule": Capsule,
        "relation": lambda: freestone.connect().sql("select * from (values (1, 'a'), (2, null), (3, 'c')) as t(x, s)"),
    }


@pytest.mark.parametrize("kind", sources())
def test_scans_and_loads(db, kind):
    make = sources()[kind]
    assert sum_of(db, make()) == [(5, 2)]
    assert db.load("t", make()) == 3
    assert db.load("t", make(), append=True) == 3
    assert db.sql("select sum(x) from t").fetchall() == [(12,)]


def test_names(db):
    frame = pd.DataFrame({"x": [1]})
    Frame2 = pl.DataFrame({"x": [2]})
    assert db.sql("select x from frame").fetchall() == [(1,)]
    assert db.sql("select x from Frame2").fetchall() == [(2,)]
    assert db.sql('select x from "Frame2"').fetchall() == [(2,)]
    assert db.sql("select sum(x) from frame_of_module").fetchall() == [(30,)]
    assert [db.sql("select x from frame").fetchone() for _ in range(2)] == [(1,), (1,)]
    assert (lambda: db.sql("select sum(x) from frame_of_module").fetchone())() == (30,)
    db.sql("create table frame as select 9 as x")
    assert db.sql("select x from frame").fetchall() == [(9,)]
    assert db.sql("with frame2 as (select 5 as x) select x from frame2").fetchall() == [(5,)]
    größe = pa.table({"ä b": [1]})
    assert db.sql('select "ä b" from größe').fetchall() == [(1,)]
    not_a_table = 5
    with pytest.raises(freestone.ProgrammingError, match="no table or view not_a_table"):
        db.sql("select * from not_a_table")


def test_names_are_found_when_sql_is_called(db):
    frame = pa.table({"x": [1]})
    relation = db.sql("select x from frame")
    frame = pa.table({"x": [2]})
    assert relation.fetchall() == [(1,)] and list(relation) == [(1,)]


def test_joins_and_writes(db):
    left = pd.DataFrame({"k": np.arange(100_000), "v": np.arange(100_000) * 2.0})
    right = pl.DataFrame({"k": [5, 7, 100_001]})
    a, b = left, right
    assert db.sql("select sum(v) from a join b using (k)").fetchall() == [(24.0,)]
    db.sql("create table t with (design = 'row') as select * from a where k < $1", [10])
    assert db.sql("insert into t select k, null from b").rowcount == 3
    assert db.sql("delete from t using b where t.k = b.k").rowcount == 5
    with pytest.raises(freestone.ProgrammingError):
        db.sql("create view v as select * from a")
    assert "a" not in db.tables()


def test_copy_reads_frames(db, tmp_path):
    frame = pd.DataFrame({"x": [1, 2]})
    db.sql(f"copy (select * from frame) to '{tmp_path}/f.parquet' (format parquet)")
    assert pq.read_table(tmp_path / "f.parquet").num_rows == 2


def test_a_stream_is_read_once(db):
    def batches():
        for start in range(3):
            yield pa.record_batch({"x": [start]})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    relation = db.sql("select sum(x) from reader")
    assert relation.fetchall() == [(3,)]
    with pytest.raises(freestone.ProgrammingError, match="once"):
        relation.arrow()


def test_a_stream_that_fails(db):
    def batches():
        yield pa.record_batch({"x": [1]})
        raise ValueError("the tap is dry")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), batches())
    with pytest.raises(freestone.Error, match="the tap is dry"):
        db.load("t", reader)
    assert db.tables() == []


def test_unreadable_frames(db):
    frame = pd.DataFrame({"x": [1, "a", object()]})
    with pytest.raises(freestone.DataError, match="DataFrame"):
        db.sql("select * from frame")
    with pytest.raises(freestone.ProgrammingError, match="cannot load"):
        db.load("t", 5)


def test_types_of_frames(db):
    frame = pd.DataFrame({
        "c": pd.Categorical(["a", "b", "a"]),
        "t": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
        "z": pd.to_datetime(["2024-01-01"] * 3).tz_localize("Europe/Berlin"),
        "i": pd.array([1, None, 3], dtype="Int64"),
        "b": [True, False, True],
        5: [1.5, np.nan, 2.5],
    })
    assert db.sql("select c, count(*) from frame group by c order by c").fetchall() == [("a", 2), ("b", 1)]
    assert db.load("t", frame) == 3
    row = db.sql("select * from t limit 1").fetchone()
    assert row[0] == "a" and row[1].year == 2024 and row[2].utcoffset().seconds == 3600 and row[3:5] == (1, True)
    assert db.sql('select count("5"), count(i) from t').fetchall()[0][1] == 2
    colors = pl.DataFrame({"c": ["r", "g", "r"]}, schema={"c": pl.Categorical})
    assert db.sql("select count(distinct c) from colors").fetchall() == [(2,)]
    nested = pa.table({"l": [[1], [2, 3]]})
    assert db.sql("select l[1] from nested").fetchall() == [(1,), (2,)]
    assert db.load("n", nested) == 2
    assert db.sql("select * from n").fetchall() == [([1],), ([2, 3],)]


def test_zero_copy(here):
    db = here
    numbers = np.arange(1_000_000)
    array = pa.array(numbers)
    frame = pa.table({"x": array})
    scanned = db.sql("select x from frame").arrow()["x"].chunk(0)
    start, end = array.buffers()[1].address, array.buffers()[1].address + array.buffers()[1].size
    assert start <= scanned.buffers()[1].address < end


def test_references_are_given_back(db):
    def use():
        frame = pa.table({"x": np.arange(1000)})
        db.sql("select sum(x) from frame").fetchall()
        relation = db.sql("select x from frame")
        relation.arrow()
        return weakref.ref(frame)

    assert use()() is None
    before = pa.total_allocated_bytes()
    for _ in range(20):
        use_once(db)
    assert pa.total_allocated_bytes() - before < 4_000_000


def use_once(db):
    frame = pa.table({"x": pa.array(range(100_000))})
    assert db.sql("select count(*) from frame").fetchall() == [(100_000,)]


FILES = ["f.csv", "f.parquet", "f.arrow", "it's.json"]


@pytest.mark.parametrize("name", FILES)
def test_load_files(db, tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    if name.endswith("csv"):
        pa.csv.write_csv(table, name)
    elif name.endswith("parquet"):
        pq.write_table(table, name)
    elif name.endswith("arrow"):
        with pa.ipc.new_file(name, table.schema) as writer:
            writer.write_table(table)
    else:
        with open(name, "w") as file:
            file.write('{"a": 1, "b": "x"}\n{"a": 2, "b": null}\n{"a": 3, "b": "z"}\n')
    assert db.load("t", name, design="column", sort="a") == 3
    assert db.design("t")["sort"] == "a"
    assert db.load("t", tmp_path / name, append=True) == 3
    assert db.sql("select count(*), sum(a) from t").fetchall() == [(6, 12)]
    with pytest.raises(freestone.ProgrammingError, match="exists") as error:
        db.load("t", name)
    assert "DROP" in error.value.hint
    with pytest.raises(freestone.ProgrammingError):
        db.load("u", "missing.csv")
    with pytest.raises(freestone.ProgrammingError, match="design"):
        db.load("t", name, design="row", append=True)


def test_load_by_names(db):
    db.sql("create table t (a int, b varchar, c double not null)")
    assert db.load("t", pl.DataFrame({"c": [1.5], "a": [1]}), append=True) == 1
    assert db.sql("select * from t").fetchall() == [(1, None, 1.5)]
    with pytest.raises(freestone.Error):
        db.load("t", pl.DataFrame({"a": [1]}), append=True)
    with pytest.raises(freestone.Error):
        db.load("t", pl.DataFrame({"c": [1.0], "nowhere": [1]}), append=True)
    with pytest.raises(freestone.DataError):
        db.load("t", pl.DataFrame({"c": ["no number"]}), append=True)
    assert db.sql("select count(*) from t").fetchone() == (1,)


def test_designs(db):
    frame = pl.DataFrame({"a": [3, 1, 2], "b": [1, 2, 3]})
    db.load("s", frame, design={"preset": "pax", "page_size": "64KiB"})
    assert db.design("s")["preset"] == "pax"
    db.load("weird \" name;'", frame, design="row")
    assert db.sql('select count(*) from "weird "" name;\'"').fetchall() == [(3,)]
    assert db.design("weird \" name;'")["preset"] == "row"
    with pytest.raises(freestone.ProgrammingError, match="preset"):
        db.load("u", frame, design="triangular")
    with pytest.raises(freestone.Error):
        db.load("u", frame, colour="red")
    with pytest.raises(freestone.ProgrammingError):
        db.load("u", frame, **{"a = '1') --": "x"})
    with pytest.raises(freestone.ProgrammingError, match="no table nowhere"):
        db.design("nowhere")
    assert sorted(db.tables()) == ["s", "weird \" name;'"]


def test_loading_streams(db):
    import subprocess

    script = """
import freestone, pyarrow as pa, numpy as np, tempfile
schema = pa.schema({"a": pa.int64(), "b": pa.float64()})
def batches():
    for start in range(300):
        yield pa.record_batch([np.arange(start * 100_000, start * 100_000 + 100_000), np.random.rand(100_000)], schema=schema)
with tempfile.TemporaryDirectory() as folder, freestone.connect(folder + "/db", threads=2, memory_limit="256MB") as db:
    assert db.load("t", pa.RecordBatchReader.from_batches(schema, batches())) == 30_000_000
    assert db.sql("select max(a) from t").fetchone() == (29_999_999,)
print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 480, "MiB, of 480 MB in the stream"
