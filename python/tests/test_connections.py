"""Opening, closing, errors, cancelling."""

import os
import subprocess
import sys
import threading
import time

import freestone
import freestone.adbc
import freestone.dbapi
import pytest

ENDLESS = (
    "select x.value as a from generate_series(1, 1000) as x, generate_series(1, 1000000000) as y "
    "where x.value * y.value % 7 = 9"
)


def test_folders(tmp_path):
    path = tmp_path / "db"
    with pytest.raises(freestone.Error):
        freestone.connect(path, read_only=True)
    with freestone.connect(path) as db:
        db.sql("create table t as select 1 as a")
        with freestone.connect(str(path)) as other:
            assert other.sql("select * from t").fetchall() == [(1,)]
    with freestone.connect(path, read_only=True, threads=1, memory_limit=256 << 20) as db:
        assert db.sql("select * from t").fetchall() == [(1,)]
        with pytest.raises(freestone.OperationalError, match="read"):
            db.sql("insert into t values (2)")


@pytest.mark.parametrize("options", [{"threads": 0}, {"memory_limit": "lots"}, {"read_only": True}])
def test_wrong_options(options):
    with pytest.raises(freestone.ProgrammingError):
        freestone.connect(**options)


def test_closing():
    db = freestone.connect()
    relation = db.sql("select 1")
    reader = db.sql("select value from generate_series(1, 100000000)").batches()
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    for use in [lambda: db.sql("select 1"), db.tables, db.cursor, relation.fetchall, relation.arrow, db.__enter__]:
        with pytest.raises(freestone.InterfaceError, match="closed"):
            use()
    with pytest.raises(freestone.Error):
        reader.read_all()
    db.cancel()


def test_rows_end_with_their_connection():
    for read in [lambda r: r.fetchone(), lambda r: r.fetchmany(2), lambda r: r.fetchall(), next]:
        db = freestone.connect()
        relation = db.sql("select value from range(5000)")
        rows = iter(relation) if read is next else relation
        assert read(rows)
        db.close()
        with pytest.raises(freestone.InterfaceError, match="closed"):
            read(rows)
    with freestone.dbapi.connect() as connection:
        cursor = connection.execute("select value from range(10)")
        assert len(cursor.fetchmany(3)) == 3
    with pytest.raises(freestone.InterfaceError, match="closed"):
        cursor.fetchmany(3)


def test_a_folder_with_other_files_is_no_database(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    with pytest.raises(freestone.Error, match="data/, notes.txt"):
        freestone.connect(tmp_path)
    with pytest.raises(freestone.Error):
        freestone.connect(tmp_path, read_only=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "notes.txt"]


def test_cursors(db):
    db.sql("create table t as select 1 as a; set threads = 1")
    cursor = db.cursor()
    assert cursor.sql("select a from t").fetchall() == [(1,)]
    assert cursor.sql("show threads").fetchone()[1] == "2"
    cursor.close()
    assert db.sql("select a from t").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "sql, kind, part",
    [
        ("selec 1", freestone.ProgrammingError, "syntax error"),
        ("select 'abc", freestone.ProgrammingError, "(?i)unterminated"),
        ("select * from t where b = 1", freestone.ProgrammingError, "no column b"),
        ("select * from tt", freestone.ProgrammingError, "no table or view tt"),
        ("create table t (a int)", freestone.ProgrammingError, "exists"),
        ("insert into t values (null)", freestone.IntegrityError, "NOT NULL"),
        ("insert into t values ('x')", freestone.DataError, "x"),
        ("select * from 'missing.csv'", freestone.ProgrammingError, "missing.csv"),
    ],
)
def test_errors(db, sql, kind, part):
    db.sql("create table t (a int not null)")
    with pytest.raises(kind, match=part) as caught:
        db.sql(sql).fetchall()
    error = caught.value
    assert isinstance(error, freestone.DatabaseError) and isinstance(error, freestone.Error)
    assert str(error) == (f"{error.message}\nhint: {error.hint}" if error.hint else error.message)
    assert db.sql("select 1").fetchall() == [(1,)]


def test_errors_have_hints_and_travel(db):
    import pickle

    db.sql("create table lineitem (a int)")
    with pytest.raises(freestone.ProgrammingError) as caught:
        db.sql("select * from lineitm")
    assert caught.value.hint == "did you mean lineitem?"
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), copy.message, copy.hint) == (freestone.ProgrammingError, caught.value.message, caught.value.hint)
    assert (copy.sqlstate, freestone.Error("x").sqlstate) == ("42P01", None)


def test_advice_follows_the_queries(db):
    columns = ", ".join(f"(value * {n} + 7) % 1000 as c{n}" for n in range(12))
    db.sql(f"create table t with (design = 'row') as select {columns} from range(100000)")
    with pytest.raises(freestone.ProgrammingError, match="nothing to advise"):
        db.advise("t")
    for _ in range(3):
        db.sql("select sum(c1) from t where c2 < 500").fetchall()
    advice = db.advise("t", budget="1GB").arrow().to_pylist()
    # Whether the best one gains enough for whole statements is measured, and the machine may be busy.
    found = [row["advice"] for row in advice]
    assert found[:2] in (["now", "recommended"], ["keep", "other"]) and "recommended" not in found[2:]
    best = advice[1]
    assert best["rank"] == 1 and best["measured_ms"] > 0 and best["apply"].startswith('ALTER TABLE "t" SET DESIGN')
    log = db.sql("select statement, runs from freestone_workload()").fetchall()
    # The order is that of the time spent, and a shared server also logs the statements of other tests.
    assert ("select sum(c1) from t where c2 < ?", 3) in [(statement.lower(), runs) for statement, runs in log]


def test_copies_are_read_and_may_be_advised(db):
    db.sql("create table t as select value as k, value * 7919 % 100003 as a, value % 10 as b from range(100000)")
    db.sql("alter table t add copy by_a with (design = 'row', sort = 'a')")
    query = "select * from t where a = 7919"
    assert "copy=by_a" in str(db.sql(f"explain {query}").fetchall())
    assert db.sql(query).fetchall() == [(1, 7919, 1)]
    db.sql("set copies = false")
    assert "copy=" not in str(db.sql(f"explain {query}").fetchall())
    assert db.sql(query).fetchall() == [(1, 7919, 1)]
    db.sql("insert into t values (-1, 7919, 0)")
    assert db.sql("select name, current, rows from freestone_copies()").fetchall() == [("by_a", True, 100001)]
    advice = db.advise("t", copies=3, budget="1GB").arrow().to_pylist()
    assert {row["advice"] for row in advice} <= {"keep", "now", "recommended", "other", "copy"}


def cancel_soon(db):
    def cancel():
        time.sleep(0.3)
        db.cancel()

    threading.Thread(target=cancel).start()


@pytest.mark.parametrize("use", ["fetchall", "arrow", "batches", "write"])
def test_cancel(db, use):
    start = time.monotonic()
    cancel_soon(db)
    with pytest.raises(freestone.CancelledError, match="cancelled"):
        if use == "write":
            db.sql(f"create table t as {ENDLESS}")
        elif use == "batches":
            db.sql(ENDLESS).batches().read_all()
        else:
            getattr(db.sql(ENDLESS), use)()
    assert time.monotonic() - start < 5
    assert db.sql("select 1").fetchall() == [(1,)]
    db.sql("create table t (a int)")


def test_cancelling_one_cursor_leaves_the_other(db):
    other = db.cursor()
    cancel_soon(other)
    assert db.sql("select count(*) from generate_series(1, 20000000)").fetchall() == [(20000000,)]


INTERRUPTED = """
import freestone, os, signal, sys, threading, time
db = freestone.connect(threads=2)
use = sys.argv[1]
def interrupt():
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
sql = %r
start = time.monotonic()
try:
    if use == "write":
        db.sql("create table t as " + sql)
    elif use == "batches":
        db.sql(sql).batches().read_all()
    elif use == "polars":
        db.sql(sql).pl()
    else:
        db.sql(sql).fetchall()
except KeyboardInterrupt:
    elapsed = time.monotonic() - start
    assert elapsed < 3, elapsed
    assert db.sql("select 41 + 1").fetchall() == [(42,)]
    db.sql("create table t (a int)")
    print("interrupted")
""" % ENDLESS


@pytest.mark.parametrize("use", ["fetchall", "write", "batches", "polars"])
def test_interrupt(use):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, use], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "interrupted", done.stderr


def test_a_fork_is_told(db):
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            db.sql("select 1")
        except freestone.InterfaceError as error:
            os.write(writer, b"told" if "forked" in str(error) else b"other")
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 10) == b"told"
    os.waitpid(child, 0)


def test_the_process_ends_with_open_results():
    script = "import freestone; db = freestone.connect(); r = db.sql('select value from generate_series(1, 10000000)'); b = r.batches(); b.read_next_batch()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_adbc(tmp_path, monkeypatch):
    monkeypatch.setenv(freestone.adbc.VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(freestone.NotSupportedError, match="none.so"):
        freestone.adbc.driver_path()
    (tmp_path / "none.so").touch()
    assert freestone.adbc.driver_path() == str(tmp_path / "none.so")


def test_transactions_are_blocks(tmp_path):
    with freestone.connect(tmp_path / "db") as db, freestone.connect(tmp_path / "db") as other:
        db.sql("create table accounts as select 1 as id, 100 as amount")

        def amounts(connection):
            return connection.sql("select amount from accounts order by amount").fetchall()

        with db.transaction():
            db.sql("update accounts set amount = amount - 30")
            db.sql("insert into accounts values (2, 30)")
            assert amounts(db) == [(30,), (70,)]
            assert amounts(other) == [(100,)]
        assert amounts(other) == [(30,), (70,)]
        with pytest.raises(ZeroDivisionError), db.transaction():
            db.sql("delete from accounts")
            raise ZeroDivisionError
        with pytest.raises(freestone.OperationalError, match="nothing was committed"), db.transaction():
            db.sql("delete from accounts")
            with pytest.raises(freestone.ProgrammingError):
                db.sql("select * from missing")
        with pytest.raises(freestone.OperationalError, match="only read"), db.transaction(read_only=True):
            db.sql("delete from accounts")
        with pytest.raises(freestone.NotSupportedError), db.transaction("SERIALIZABLE"):
            pass
        with db.transaction("READ COMMITTED"):
            assert amounts(db) == [(30,), (70,)]


def test_connections_of_a_process_share_the_database(tmp_path):
    path = str(tmp_path / "db")
    with freestone.connect(path) as one, freestone.connect(path) as other:
        one.sql("CREATE TABLE t (a INT)")
        with one.transaction():
            one.sql("INSERT INTO t VALUES (1)")
            other.sql("INSERT INTO t VALUES (2)")
            assert other.sql("SELECT count(*) FROM t").fetchall() == [(1,)]
        assert other.sql("SELECT sum(a) FROM t").fetchall() == [(3,)]
    # The last one that closes gives the folder free.
    with freestone.connect(path, read_only=True) as reader:
        assert reader.sql("SELECT count(*) FROM t").fetchall() == [(2,)]
