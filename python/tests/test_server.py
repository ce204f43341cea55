"""A server's database, through the same interface as one in this process."""

import datetime
import decimal
import os
import pathlib
import signal
import subprocess
import threading

import pyarrow
import pytest

import freestone

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path.home() / ".cache/freestone/target"))
ROWS = 200_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server with one user, whose database has one table."""
    folder = tmp_path_factory.mktemp("server") / "db"
    with freestone.connect(folder) as db:
        db.sql(
            f"CREATE TABLE t AS SELECT v AS id, v % 7 AS g, CAST(v AS DECIMAL(12, 2)) / 4 AS price, "
            f"CASE WHEN v % 5 = 0 THEN NULL ELSE 'text ' || (v % 1000) END AS s FROM generate_series(1, {ROWS}) AS n(v)"
        )
    command = [TARGET / "release" / "freestone", "serve", folder, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    found = {}
    for line in process.stderr:
        name, _, value = line.strip().partition(": ")
        found[name] = value
        if name == "listening":
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    yield found["listening"].replace("://", f"://{found['user']}:{found['password']}@")
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


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


def test_cancel(server):
    with freestone.connect(server) as db:
        timer = threading.Timer(0.5, db.cancel)
        timer.start()
        with pytest.raises(freestone.Error):
            db.sql("SELECT count(*) FROM t AS a, t AS b WHERE a.id * b.id % 1000003 = 7").fetchall()
        assert db.sql("SELECT 3").fetchall() == [(3,)]
