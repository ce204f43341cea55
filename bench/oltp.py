"""Point statements: Freestone in the process and over PostgreSQL's protocol, SQLite, DuckDB and PostgreSQL.

python bench/oltp.py --rows 1000000 --values 500 --json oltp.json

Needs the packages freestone, duckdb and psycopg; PostgreSQL takes part if its programs are installed. The table has a
primary key whose values are in random order. The statements have parameters: SELECT, INSERT, UPDATE, DELETE and an upsert of
one row. All engines get the same values in the same order and take turns, statement by statement. The rows that SELECT
returns, and at the end all rows of the tables, are compared. A time is from the call to the complete answer in Python;
medians are in microseconds. The durable engines sync each commit; the others (`-nosync`) leave that to the system.
"""

import argparse
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clients import Server
from environment import CACHE, default_freestone, print_medians

#: A prime above every number of rows. Multiples of row numbers modulo this prime are distinct and in random order.
PRIME = 2_000_000_011
FACTOR = 2_654_435_761
COLUMNS = "id BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, amount BIGINT, note VARCHAR(40)"
#: Name and SQL. `?` stands for a parameter, in each engine's own form.
STATEMENTS = {
    "select": "SELECT id, name, amount, note FROM t WHERE id = ?",
    "insert": "INSERT INTO t VALUES (?, ?, ?, ?)",
    "update": "UPDATE t SET amount = ? WHERE id = ?",
    "upsert": "INSERT INTO t VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount",
    "delete": "DELETE FROM t WHERE id = ?",
}

Rows = list[tuple[Any, ...]]
#: Executes SQL with values, and returns the rows.
Run = Callable[[str, Sequence[Any]], Rows]


def row(number: int) -> tuple[int, str, int, str]:
    return (number * FACTOR % PRIME, f"name {number}", number % 1000, f"note {number % 77}")


def values(statement: str, number: int, chance: random.Random, rows: int) -> tuple[Any, ...]:
    """The parameters of the statement's run with this number."""
    known = row(chance.randint(1, rows))
    match statement:
        case "select":
            return known[:1]
        case "insert":
            return row(rows + number + 1)
        case "update":
            return (number, known[0])
        case "upsert":
            return known if number % 2 else row(2 * rows + number + 1)
        case _:
            # The rows that INSERT has added.
            return row(rows + number + 1)[:1]


def numbered(sql: str) -> str:
    for number in range(1, sql.count("?") + 1):
        sql = sql.replace("?", f"${number}", 1)
    return sql


class Engine:
    """An engine with its table. `load` is the statement that fills it, from a CSV file."""

    def __init__(self, run: Run, load: str, close: Callable[[], None]) -> None:
        self.run, self.load, self.close = run, load, close


def freestone_engine(folder: Path, settings: Sequence[str]) -> Engine:
    import freestone

    db = freestone.connect(str(folder))
    for setting in settings:
        db.sql(setting)
    texts = {sql: numbered(sql) for sql in STATEMENTS.values()}

    def run(sql: str, given: Sequence[Any]) -> Rows:
        relation = db.sql(texts.get(sql, sql), given)
        return relation.fetchall() if sql.startswith("SELECT") else []

    return Engine(run, "COPY t FROM '{csv}' (HEADER false)", db.close)


def psycopg_engine(address: str, load: str, stop: Callable[[], None], settings: Sequence[str]) -> Engine:
    import psycopg

    connection = psycopg.connect(address, autocommit=True, prepare_threshold=0)
    cursor = connection.cursor(binary=False)
    for setting in settings:
        cursor.execute(setting)
    texts = {sql: sql.replace("?", "%s") for sql in STATEMENTS.values()}

    def run(sql: str, given: Sequence[Any]) -> Rows:
        cursor.execute(texts.get(sql, sql), given or None)
        return cursor.fetchall() if cursor.description else []

    def close() -> None:
        connection.close()
        stop()

    return Engine(run, load, close)


def freestone_server(folder: Path, program: Path, settings: Sequence[str]) -> Engine:
    server = Server(program, str(folder))
    address = f"host=127.0.0.1 port={server.port} user=user dbname=freestone"
    return psycopg_engine(address, "COPY t FROM '{csv}' (HEADER false)", server.stop, settings)


def sqlite_engine(folder: Path, synchronous: str) -> Engine:
    connection = sqlite3.connect(folder.with_suffix(".sqlite"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")

    def run(sql: str, given: Sequence[Any]) -> Rows:
        return connection.execute(sql, given).fetchall()

    return Engine(run, "", connection.close)


def duckdb_engine(path: str) -> Engine:
    import duckdb

    connection = duckdb.connect(path)

    def run(sql: str, given: Sequence[Any]) -> Rows:
        return connection.execute(sql, given).fetchall()

    return Engine(run, "COPY t FROM '{csv}' (HEADER false)", connection.close)


def postgres_programs() -> Path | None:
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def postgres_engine(folder: Path, programs: Path, settings: Sequence[str]) -> Engine:
    # PostgreSQL refuses to run as root.
    user = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    folder.mkdir(mode=0o700)
    if user:
        shutil.chown(folder, "nobody", "nogroup")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/", **user}
    subprocess.run([programs / "initdb", "-D", folder, "-U", "bench", "-A", "trust"], check=True, **quiet)
    port = random.randint(20_000, 40_000)
    server = subprocess.Popen(
        [programs / "postgres", "-D", folder, "-p", str(port), "-k", folder, "-c", "shared_buffers=1GB"], **quiet
    )
    ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, check=False, **quiet).returncode:
        time.sleep(0.1)

    def stop() -> None:
        server.terminate()
        server.wait(60)

    address = f"host=127.0.0.1 port={port} user=bench dbname=postgres"
    return psycopg_engine(address, "COPY t FROM '{csv}' (FORMAT csv)", stop, settings)


def engines(wanted: set[str], work: Path, program: Path) -> dict[str, Callable[[], Engine]]:
    off = ["SET synchronous_commit = off"]
    known: dict[str, Callable[[], Engine]] = {
        "freestone": lambda: freestone_engine(work / "freestone", []),
        "freestone-nosync": lambda: freestone_engine(work / "freestone-nosync", off),
        "freestone-pg": lambda: freestone_server(work / "freestone-pg", program, []),
        "freestone-pg-nosync": lambda: freestone_server(work / "freestone-pg-nosync", program, off),
        "sqlite": lambda: sqlite_engine(work / "sqlite", "FULL"),
        "sqlite-nosync": lambda: sqlite_engine(work / "sqlite-nosync", "OFF"),
        "duckdb": lambda: duckdb_engine(str(work / "duckdb.duckdb")),
        "duckdb-memory": lambda: duckdb_engine(":memory:"),
    }
    if programs := postgres_programs():
        known["postgres"] = lambda: postgres_engine(work / "postgres", programs, [])
        known["postgres-nosync"] = lambda: postgres_engine(work / "postgres-nosync", programs, off)
    return {name: start for name, start in known.items() if not wanted or name in wanted}


def fill(engine: Engine, csv: Path, rows: int) -> None:
    engine.run(f"CREATE TABLE t ({COLUMNS})", [])
    if engine.load:
        engine.run(engine.load.format(csv=csv), [])
        return
    engine.run("BEGIN", [])
    for number in range(1, rows + 1):
        engine.run(STATEMENTS["insert"], row(number))
    engine.run("COMMIT", [])


def measure(running: dict[str, Engine], runs: int, warm: int, rows: int) -> dict[str, dict[str, float]]:
    chance = random.Random(7)
    found: dict[str, dict[str, float]] = {}
    for name, sql in STATEMENTS.items():
        times: dict[str, list[float]] = {engine: [] for engine in running}
        for number in range(warm + runs):
            given = values(name, number, chance, rows)
            answers = {}
            for engine, peer in running.items():
                started = time.perf_counter()
                answers[engine] = peer.run(sql, given)
                times[engine].append(1e6 * (time.perf_counter() - started))
            if name == "select" and any(answer != [answers_of(given)] for answer in answers.values()):
                sys.exit(f"WRONG RESULT: {sql} with {given}: {answers}")
        found[name] = {engine: statistics.median(taken[warm:]) for engine, taken in times.items()}
        print(name, {engine: round(us, 1) for engine, us in found[name].items()}, file=sys.stderr)
    check = "SELECT count(*), sum(amount), min(id), max(id), min(note) FROM t"
    states = {engine: [tuple(map(str, answer)) for answer in peer.run(check, [])] for engine, peer in running.items()}
    if any(state != next(iter(states.values())) for state in states.values()):
        sys.exit(f"WRONG RESULT: {states}")
    return found


def answers_of(given: Sequence[Any]) -> tuple[Any, ...]:
    """The row with a key, as it was loaded."""
    return row(given[0] * pow(FACTOR, -1, PRIME) % PRIME)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--values", type=int, default=500, help="how often each statement runs, with other values")
    parser.add_argument("--warm", type=int, default=50, help="how often it runs before")
    parser.add_argument("--engines", default="", help="names, separated by commas; all by default")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the program that serves")
    parser.add_argument("--work", type=Path, default=CACHE, help="in a folder `oltp` of this one the databases are made")
    parser.add_argument("--json", type=Path, help="a file for the result")
    options = parser.parse_args()
    work = options.work / "oltp"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    csv = work / "rows.csv"
    csv.write_text("".join(",".join(map(str, row(number))) + "\n" for number in range(1, options.rows + 1)))
    wanted = set(filter(None, options.engines.split(",")))
    running: dict[str, Engine] = {}
    try:
        for name, start in engines(wanted, work, options.freestone).items():
            running[name] = start()
            began = time.perf_counter()
            fill(running[name], csv, options.rows)
            print(f"{name}: loaded in {time.perf_counter() - began:.1f} s", file=sys.stderr)
        found = measure(running, options.values, options.warm, options.rows)
    finally:
        for engine in running.values():
            engine.close()
    print_medians(options.rows, "µs", 0, found, options.json)


if __name__ == "__main__":
    main()
