"""Point and range lookups: Freestone and DuckDB, each with and without its indexes, in one process.

python bench/lookups.py --rows 10000000 --values 50 --json lookups.json

Needs the packages freestone and duckdb. The table is generated from a seed: an id and a string in random order,
a column that ascends with the row number, and further columns. Each run of a query has other values. The engines take
turns, and all answers are compared. A time is from the SQL text to the complete Arrow table; medians are in
milliseconds. Caches are warm: before it is measured, a query runs --warm times with other values.
"""

import argparse
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environment import CACHE, print_medians

#: A prime above every number of rows. Multiples of row numbers modulo this prime are distinct and in random order.
PRIME = 2_000_000_011
COLUMNS = f"""(v * 2654435761 % {PRIME})::bigint AS id, 'user' || (v * 7919 % {PRIME})::varchar || '@example.org' AS email,
    ((v - v % 1000) / 1000)::int AS town, v * 0.37 AS amount, 'note ' || (v % 1001)::varchar AS note, (v % 777)::int AS g"""

Value = Callable[[random.Random, int], str]


def some_id(chance: random.Random, rows: int) -> str:
    return str(chance.randint(1, rows) * 2654435761 % PRIME)


def some_email(chance: random.Random, rows: int) -> str:
    return f"'user{chance.randint(1, rows) * 7919 % PRIME}@example.org'"


def ids(chance: random.Random, rows: int) -> str:
    return ", ".join(some_id(chance, rows) for _ in range(20))


def span(share: float) -> Value:
    def of(chance: random.Random, rows: int) -> str:
        low = chance.randint(0, PRIME)
        return f"{low} AND {low + int(PRIME * share)}"

    return of


#: Name, SQL with placeholders for table and value, and the function that makes the value.
QUERIES: list[tuple[str, str, Value]] = [
    ("row by id", "SELECT * FROM {table} WHERE id = {value}", some_id),
    ("row by email", "SELECT * FROM {table} WHERE email = {value}", some_email),
    ("no such id", "SELECT * FROM {table} WHERE id = -{value}", some_id),
    ("20 rows by id", "SELECT * FROM {table} WHERE id IN ({value})", ids),
    ("join with 20 ids", "SELECT t.* FROM {table} t JOIN wanted w ON t.id = w.id WHERE w.id <> {value}", some_id),
    ("0.01 % by id", "SELECT count(*), sum(g) FROM {table} WHERE id BETWEEN {value}", span(1e-4)),
    ("1 % by id", "SELECT count(*), sum(g) FROM {table} WHERE id BETWEEN {value}", span(1e-2)),
    ("10 % by id", "SELECT count(*), sum(g) FROM {table} WHERE id BETWEEN {value}", span(1e-1)),
]


def freestone_engines(work: Path, rows: int) -> dict[str, Callable[[str], Any]]:
    import freestone

    db = freestone.connect(str(work / "freestone"))
    made = f"SELECT {COLUMNS} FROM generate_series(1, {rows}) AS s(v)"
    for name, options in {"plain": "preset = 'auto'", "indexed": "index = '(id), (email)'"}.items():
        started = time.perf_counter()
        db.sql(f"CREATE TABLE {name} WITH ({options}) AS {made}")
        print(f"freestone {name}: {time.perf_counter() - started:.1f} s to make", file=sys.stderr)
    db.sql(f"CREATE TABLE wanted AS {wanted(rows)}")
    sizes = db.sql("SELECT name, bytes / 1e6 FROM freestone_tables() ORDER BY name").fetchall()
    print(f"freestone MB: {sizes}", file=sys.stderr)
    return {
        f"freestone {name}": lambda text, name=name: db.sql(text.format(table=name)).arrow()
        for name in ("plain", "indexed")
    }


def duckdb_engines(work: Path, rows: int) -> dict[str, Callable[[str], Any]]:
    import duckdb

    engines = {}
    for name in ("plain", "indexed"):
        db = duckdb.connect(str(work / f"{name}.duckdb"))
        started = time.perf_counter()
        db.execute(f"CREATE TABLE t AS SELECT {COLUMNS} FROM generate_series(1, {rows}) AS s(v)")
        if name == "indexed":
            db.execute("CREATE INDEX by_id ON t (id)")
            db.execute("CREATE INDEX by_email ON t (email)")
        db.execute(f"CREATE TABLE wanted AS {wanted(rows)}")
        db.execute("CHECKPOINT")
        size = (work / f"{name}.duckdb").stat().st_size / 1e6
        print(f"duckdb {name}: {time.perf_counter() - started:.1f} s to make, {size:.0f} MB", file=sys.stderr)
        engines[f"duckdb {name}"] = lambda text, db=db: db.sql(text.format(table="t")).to_arrow_table()
    return engines


def wanted(rows: int) -> str:
    values = ", ".join(f"({value})" for value in ids(random.Random(5), rows).split(", "))
    return f"SELECT column1::bigint AS id FROM (VALUES {values}) AS w(column1)"


def canonical(table: Any) -> list[tuple[str, ...]]:
    # The types of sums and amounts (integer, decimal, double) differ between the engines.
    def one(value: Any) -> str:
        if value is None or isinstance(value, str):
            return repr(value)
        return str(int(value)) if value == int(value) else f"{float(value):.9g}"

    return sorted(tuple(one(value) for value in row.values()) for row in table.to_pylist())


def measure(engines: dict[str, Callable[[str], Any]], values: int, warm: int, rows: int) -> dict[str, dict[str, float]]:
    chance = random.Random(11)
    found: dict[str, dict[str, float]] = {}
    for name, text, value in QUERIES:
        times: dict[str, list[float]] = {engine: [] for engine in engines}
        for turn in range(warm + values):
            statement = text.replace("{value}", value(chance, rows))
            answers = {}
            for engine, run in engines.items():
                started = time.perf_counter()
                result = run(statement)
                times[engine].append(1000 * (time.perf_counter() - started))
                if turn >= warm:
                    answers[engine] = canonical(result)
            if any(answer != next(iter(answers.values())) for answer in answers.values()):
                sys.exit(f"WRONG RESULT: {statement}: {answers}")
        found[name] = {engine: statistics.median(taken[warm:]) for engine, taken in times.items()}
        print(name, {engine: round(ms, 3) for engine, ms in found[name].items()}, file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--values", type=int, default=50, help="how often each query runs, with other values")
    parser.add_argument("--warm", type=int, default=400, help="how often it runs before")
    parser.add_argument("--work", type=Path, default=CACHE, help="in a folder `lookups` of this one the databases are made")
    parser.add_argument("--json", type=Path, help="a file for the result")
    options = parser.parse_args()
    work = options.work / "lookups"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    engines = freestone_engines(work, options.rows) | duckdb_engines(work, options.rows)
    found = measure(engines, options.values, options.warm, options.rows)
    print_medians(options.rows, "ms", 2, found, options.json)


if __name__ == "__main__":
    main()
