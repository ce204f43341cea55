"""Changes of many rows: loads with a key, upserts, files under updates, opening after a kill; Freestone and DuckDB.

python bench/changes.py --rows 10000000 --experiments keys,upserts,files,opening --json changes.json

Needs the packages duckdb and psycopg. Freestone is a server, DuckDB runs in the process; statements are few and long, so the
protocol costs nothing. The rows are made from a seed and stored as Parquet first, in random order of their key. Both engines
read the same files, and what they answer afterwards is compared. Times are seconds of one statement; `/` is Freestone's over
DuckDB's.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients import Server
from environment import CACHE, default_freestone
from oltp import FACTOR, PRIME, Engine, duckdb_engine, freestone_server

COLUMNS = "id BIGINT {key}, name VARCHAR, amount BIGINT"
CHECK = "SELECT count(*), sum(id), sum(amount) FROM t"
UPSERT = "INSERT INTO t SELECT * FROM '{file}' ON CONFLICT (id) DO UPDATE SET amount = excluded.amount"
#: Rows per INSERT of the experiment `opening`.
BATCH = 10_000


def parquet(work: Path, name: str, first: int, rows: int, amount: str) -> Path:
    """A file with `rows` rows from number `first`, whose keys are in random order."""
    import duckdb

    file = work / f"{name}.parquet"
    duckdb.sql(
        f"COPY (SELECT ((i::HUGEINT * {FACTOR}) % {PRIME})::BIGINT AS id, 'name ' || i AS name, ({amount})::BIGINT AS amount"
        f" FROM range({first}, {first + rows}) AS r (i)) TO '{file}' (FORMAT parquet)"
    )
    return file


def timed(run: Callable[..., Any], *given: Any) -> float:
    begin = time.perf_counter()
    run(*given)
    return time.perf_counter() - begin


def same(engines: dict[str, Engine], what: str) -> None:
    answers = {name: [str(value) for value in engine.run(CHECK, [])[0]] for name, engine in engines.items()}
    if len(set(map(str, answers.values()))) > 1:
        sys.exit(f"error: after {what} the engines differ: {answers}")


def memory(pid: int) -> int:
    """The resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def both(work: Path, program: Path) -> dict[str, Engine]:
    for path in (work / "freestone", work / "duckdb.duckdb", work / "duckdb.duckdb.wal"):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return {"freestone": freestone_server(work / "freestone", program, []), "duckdb": duckdb_engine(str(work / "duckdb.duckdb"))}


def close(engines: dict[str, Engine]) -> None:
    for engine in engines.values():
        engine.close()


def keys(work: Path, program: Path, rows: int) -> dict[str, Any]:
    """Loads without and with a primary key, and the memory of Freestone after opening the table with a key."""
    file, result = parquet(work, "rows", 0, rows, "i % 1000"), {}
    for key in ("", "PRIMARY KEY"):
        engines = both(work, program)
        for name, engine in engines.items():
            engine.run(f"CREATE TABLE t ({COLUMNS.format(key=key)})", [])
            seconds = timed(engine.run, f"INSERT INTO t SELECT * FROM '{file}'", [])
            result[f"{name} {'with' if key else 'without'} key, s"] = seconds
        same(engines, "loading")
        close(engines)
    server = Server(program, str(work / "freestone"))
    before = memory(server.process.pid)
    import psycopg

    with psycopg.connect(f"host=127.0.0.1 port={server.port} user=user dbname=freestone", autocommit=True) as connection:
        connection.execute("SELECT amount FROM t WHERE id = 5")
        connection.execute("INSERT INTO t VALUES (-1, 'x', 0)")
    result["bytes a row in memory after opening, one lookup and one insert"] = (memory(server.process.pid) - before) / rows
    server.stop()
    return result


def upserts(work: Path, program: Path, rows: int) -> dict[str, Any]:
    """100,000 rows, half of them new, into all rows; and 1,000 rows into tables of three sizes."""
    result = {}
    for count, size in [(100_000, rows), (1000, rows // 100), (1000, rows // 10), (1000, rows)]:
        file = parquet(work, "rows", 0, size, "i % 1000")
        more = parquet(work, "more", size - count // 2, count, "i % 77")
        engines = both(work, program)
        for name, engine in engines.items():
            engine.run(f"CREATE TABLE t ({COLUMNS.format(key='PRIMARY KEY')})", [])
            engine.run(f"INSERT INTO t SELECT * FROM '{file}'", [])
            seconds = timed(engine.run, UPSERT.format(file=more), [])
            result[f"{name}, {count:,} rows into {size:,}, s"] = seconds
        same(engines, "upserting")
        close(engines)
    return result


def files(work: Path, program: Path, rows: int) -> dict[str, Any]:
    """1,500 rows, updated one by one: the largest size of the files, and the size when nobody has written for 10 seconds."""
    folder = work / "freestone"
    shutil.rmtree(folder, ignore_errors=True)
    engine = freestone_server(folder, program, ["SET synchronous_commit = off"])
    engine.run("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT, note VARCHAR)", [])
    engine.run("INSERT INTO t SELECT i, 0, 'note ' || i FROM range(1500) AS r (i)", [])
    largest, begin = 0, time.perf_counter()
    for number in range(rows):
        engine.run("UPDATE t SET v = %s WHERE id = %s", [number, number * 7919 % 1500])
        if number % 1000 == 0:
            largest = max(largest, size_of(folder))
    seconds = time.perf_counter() - begin
    time.sleep(10)
    left = size_of(folder)
    found = engine.run("SELECT count(*), count(DISTINCT id) FROM t", [])[0]
    engine.close()
    if found != (1500, 1500):
        sys.exit(f"error: {found} rows are left of 1,500")
    return {"updates": rows, "updates a second": rows / seconds, "largest, MiB": largest / 2**20, "after 10 s, MiB": left / 2**20}


def size_of(folder: Path) -> int:
    """The bytes of a folder whose files come and go."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(Path(base) / name).st_size
            except FileNotFoundError:
                pass
    return total


DUCKDB_KILLED = """
import duckdb, os, signal, sys
connection = duckdb.connect(sys.argv[1])
connection.execute("SET checkpoint_threshold = '1GB'")
for statement in sys.stdin.read().splitlines():
    connection.execute(statement)
os.kill(os.getpid(), signal.SIGKILL)
"""


def opening(work: Path, program: Path, rows: int) -> dict[str, Any]:
    """The first answer after a kill, when the last rows are in the log alone: 60 MB of them, in inserts of 10,000 rows."""
    both_paths = (work / "freestone", work / "duckdb.duckdb")
    close(both(work, program))
    for path in both_paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    count = min(rows, 1_200_000)
    select = "SELECT i AS id, 'name ' || i, i % 1000 FROM range({}, {}) AS r (i)"
    statements = [f"CREATE TABLE t ({COLUMNS.format(key='PRIMARY KEY')})"]
    statements += [f"INSERT INTO t {select.format(first, first + BATCH)}" for first in range(0, count, BATCH)]
    subprocess.run(
        [sys.executable, "-c", DUCKDB_KILLED, both_paths[1]], input="\n".join(statements), text=True, check=False
    )
    server = Server(program, str(both_paths[0]))
    import psycopg

    connection = psycopg.connect(f"host=127.0.0.1 port={server.port} user=user dbname=freestone", autocommit=True)
    for statement in statements:
        connection.execute(statement)
    hot = connection.execute("SELECT sum(bytes) FROM freestone_hot('t')").fetchone()
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    answers: dict[str, Any] = {}

    def freestone() -> None:
        command = [program, both_paths[0] / "db", "-c", "SELECT count(*), max(amount) FROM t", "--format", "csv"]
        answers["freestone"] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]

    def duck() -> None:
        script = "import duckdb, sys; print(*duckdb.connect(sys.argv[1]).execute('SELECT count(*), max(amount) FROM t').fetchone(), sep=',')"
        command = [sys.executable, "-c", script, both_paths[1]]
        answers["duckdb"] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]

    def nothing() -> None:
        subprocess.run([sys.executable, "-c", "import duckdb; duckdb.connect(':memory:')"], check=True)

    result = {"hot bytes": int(hot[0] or 0) if hot else 0, "freestone, s": timed(freestone), "duckdb, s": timed(duck)}
    result["of it Python with DuckDB, s"] = timed(nothing)
    if len(set(answers.values())) > 1:
        sys.exit(f"error: after the kill the engines differ: {answers}")
    return result


EXPERIMENTS: dict[str, Callable[[Path, Path, int], dict[str, Any]]] = {
    "keys": keys,
    "upserts": upserts,
    "files": files,
    "opening": opening,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--updates", type=int, default=1_000_000, help="for the experiment files")
    parser.add_argument("--experiments", default=",".join(EXPERIMENTS), help="names, separated by commas; all by default")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the program that serves")
    parser.add_argument("--work", type=Path, default=CACHE / "bench", help="in a folder `changes` of this one the databases are made")
    parser.add_argument("--json", type=Path, help="a file for the result")
    options = parser.parse_args()
    work = options.work / "changes"
    work.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in options.experiments.split(","):
        if name not in EXPERIMENTS:
            sys.exit(f"error: no experiment {name}; there are {', '.join(EXPERIMENTS)}")
        results[name] = EXPERIMENTS[name](work, options.freestone, options.updates if name == "files" else options.rows)
        print(f"{name}:")
        for what, value in results[name].items():
            print(f"  {what}: {value:,.3f}")
    shutil.rmtree(work)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
