"""The database of a server, through the same interface as a database in this process."""

import datetime
import decimal
import os
import subprocess
import sys
import threading
import time

import freestone
import pyarrow
import pyarrow.parquet
import pytest
from conftest import serving

ROWS = 200_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server with one user and one table."""
    folder = tmp_path_factory.mktemp("server") / "db"
    with freestone.connect(folder) as db:
        db.sql(
            f"CREATE TABLE t AS SELECT v AS id, v % 7 AS g, CAST(v AS DECIMAL(12, 2)) / 4 AS price, "
            f"CASE WHEN v % 5 = 0 THEN NULL ELSE 'text ' || (v % 1000) END AS s FROM generate_series(1, {ROWS}) AS n(v)"
        )
    with serving(folder) as address:
        yield address


def test_rows_are_those_of_the_table(server):
    with freestone.connect(server) as db:
        table = db.sql("SELECT * FROM t").arrow()
        assert table.num_rows == ROWS
        assert table.column("id").combine_chunks().to_pylist() == list(range(1, ROWS + 1))
        assert table.column("s").null_count == ROWS // 5
        assert table.column("price")[3].as_py() == decimal.Decimal("1")
        some = db.sql("SELECT g, count(*) AS n, sum(id) AS s FROM t WHERE id > $1 GROUP BY g ORDER BY g", [100]).fetchall()
        assert [n for _, n, _ in some] == [sum(1 for v in range(101, ROWS + 1) if v % 7 == g) for g in range(7)]


def test_batches_are_read_one_by_one(server):
    with freestone.connect(server) as db:
        reader = db.sql("SELECT s, id FROM t").batches()
        assert isinstance(reader, pyarrow.RecordBatchReader)
        assert sum(batch.num_rows for batch in reader) == ROWS
        assert db.sql("SELECT 1 AS a").fetchall() == [(1,)]


def test_values_and_statements(server):
    with freestone.connect(server) as db:
        db.sql("CREATE TABLE w (a INT, b VARCHAR, d DATE)")
        db.sql("INSERT INTO w VALUES ($1, $2, $3)", [1, "one", datetime.date(2024, 2, 29)])
        db.sql("INSERT INTO w VALUES (2, NULL, NULL)")
        assert db.sql("SELECT * FROM w ORDER BY a").fetchall() == [(1, "one", datetime.date(2024, 2, 29)), (2, None, None)]
        db.sql("DROP TABLE w")


def test_errors_are_typed(server):
    with freestone.connect(server) as db:
        with pytest.raises(freestone.ProgrammingError, match="nowhere"):
            db.sql("SELECT * FROM nowhere").fetchall()
        with pytest.raises(freestone.ProgrammingError):
            db.sql("SELEC 1")
        assert db.sql("SELECT 2").fetchall() == [(2,)]
    with pytest.raises(freestone.Error):
        freestone.connect(server.replace("freestone://freestone:", "freestone://freestone:x"))
    with pytest.raises(freestone.Error):
        freestone.connect("freestone://a:b@127.0.0.1:1")


# A join of 40 billion pairs, none of which satisfies the condition, so that it returns no row for a long time.
NOTHING = "SELECT count(*) FROM t AS a, t AS b WHERE a.id * b.id % 1000003 = -7"


def test_cancel(server):
    with freestone.connect(server) as db, freestone.connect(server) as other:
        for _ in range(3):
            threading.Timer(0.3, db.cancel).start()
            with pytest.raises(freestone.CancelledError):
                db.sql(NOTHING).fetchall()
        # The threads of the server are available again.
        start = time.monotonic()
        assert other.sql("SELECT sum(id) FROM t").fetchall() == [(ROWS * (ROWS + 1) // 2,)]
        assert time.monotonic() - start < 2
        assert db.sql("SELECT 3").fetchall() == [(3,)]


def test_closing_ends_what_runs(server):
    with freestone.connect(server) as db:
        threading.Timer(0.3, db.close).start()
        with pytest.raises(freestone.Error):
            db.sql(NOTHING).fetchall()


def test_options_of_the_server_are_not_options_here(server):
    for options in [{"threads": 2}, {"read_only": True}, {"memory_limit": "1GB"}]:
        with pytest.raises(freestone.ProgrammingError, match="in this process"):
            freestone.connect(server, **options)


def test_the_password_may_be_in_the_environment(server, monkeypatch):
    scheme, _, rest = server.partition("://")
    login, _, place = rest.partition("@")
    monkeypatch.setenv("FREESTONE_PASSWORD", login.partition(":")[2])
    with freestone.connect(f"{scheme}://{place}") as db:
        assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_files_are_those_of_this_machine(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with freestone.connect(server) as db:
        assert db.sql("SELECT id, s FROM t WHERE id <= $1", [5]).to_parquet("out.parquet") == 5
        assert pyarrow.parquet.read_table("out.parquet")["id"].to_pylist() == [1, 2, 3, 4, 5]
        (tmp_path / "codes.csv").write_text("code,n\n007,1\n008,2\n")
        db.sql("CREATE TABLE codes (code VARCHAR, n INT)")
        try:
            assert db.load("codes", "codes.csv", append=True) == 2
            assert db.sql("SELECT code FROM codes ORDER BY n").fetchall() == [("007",), ("008",)]
        finally:
            db.sql("DROP TABLE codes")


def test_a_busy_connection_says_so(server):
    with freestone.connect(server) as db:
        reader = db.sql("SELECT a.id FROM t AS a, t AS b").batches()
        reader.read_next_batch()
        with pytest.raises(freestone.ProgrammingError, match="busy") as error:
            db.sql("SELECT 1").fetchall()
        assert "cursor" in error.value.hint
        assert db.cursor().sql("SELECT 1").fetchall() == [(1,)]


def test_rows_larger_than_a_chunk(server):
    large = pyarrow.table({"s": [os.urandom(1_500_000).hex()]})  # noqa: F841
    with freestone.connect(server) as db:
        assert db.sql("SELECT length(s) FROM large").fetchall() == [(3_000_000,)]
        assert db.sql("SELECT repeat('abc', 1000000) AS a").fetchall() == [("abc" * 1_000_000,)]
    with freestone.connect(f"{server}?row_size=2000000") as db:
        with pytest.raises(freestone.Error, match="connect with row_size=") as error:
            db.sql("SELECT repeat('abc', 1000000) AS a").fetchall()
        # The connection is still usable.
        assert db.sql("SELECT 1").fetchall() == [(1,)]
    needed = str(error.value).partition("row_size=")[2].split()[0]
    with freestone.connect(f"{server}?row_size={needed}") as db:
        assert db.sql("SELECT repeat('abc', 1000000) AS a").fetchall() == [("abc" * 1_000_000,)]


def test_a_connection_is_free_once_its_result_was_left(server):
    with freestone.connect(server) as db:
        for _ in range(20):
            reader = db.sql("SELECT a.id FROM t AS a, t AS b").batches()
            reader.read_next_batch()
            del reader
            assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_loading_needs_little_memory(server):
    """Streams many more rows to the server than the memory limit of either process allows to store."""
    script = """
import sys, freestone, pyarrow as pa, numpy as np
schema = pa.schema({"a": pa.int64(), "b": pa.float64()})
def batches():
    for start in range(300):
        yield pa.record_batch([np.arange(start * 100_000, start * 100_000 + 100_000), np.random.rand(100_000)], schema=schema)
with freestone.connect(sys.argv[1]) as db:
    assert db.load("stream", pa.RecordBatchReader.from_batches(schema, batches())) == 30_000_000
    assert db.sql("select max(a) from stream").fetchone() == (29_999_999,)
    db.sql("drop table stream")
print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script, server], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400, "MiB, of 480 MB in the stream"
