"""Differential test with random star joins: compares the answers of Freestone and DuckDB.

    python bench/ssb_random.py --data FOLDER --database DB [--database OTHER …] --queries 3000 --seed 1

Each DB contains the tables of the Star Schema Benchmark, loaded from FOLDER, in any design. A query joins some of the
dimensions, in one of several forms of SQL. Its predicates (equality, range, IN, OR, LIKE prefix, IN of a subquery, and
disjunctions and negations of these) are on any level of region/nation/city, year/month/week/day and
manufacturer/category/brand, and on columns of the fact table. All values are integers and strings, so answers are
compared exactly. `--show` prints the queries of a seed. The exit status is 1 if an answer differs or a query fails, and
each such query is written to `--failures`.
"""

import argparse
import json
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from environment import SSB_TABLES, default_freestone, enter_environment

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Dimension:
    table: str
    foreign_key: str
    key: str
    # The columns for predicates and grouping, from coarse to fine.
    levels: tuple[str, ...]


DIMENSIONS = (
    Dimension(
        "date",
        "lo_orderdate",
        "d_datekey",
        (
            "d_year",
            "d_yearmonthnum",
            "d_yearmonth",
            "d_month",
            "d_weeknuminyear",
            "d_sellingseason",
            "d_datekey",
            "d_dayofweek",
        ),
    ),
    Dimension("customer", "lo_custkey", "c_custkey", ("c_region", "c_nation", "c_city", "c_mktsegment", "c_custkey")),
    Dimension("supplier", "lo_suppkey", "s_suppkey", ("s_region", "s_nation", "s_city", "s_suppkey")),
    Dimension(
        "part", "lo_partkey", "p_partkey", ("p_mfgr", "p_category", "p_brand1", "p_color", "p_size", "p_partkey")
    ),
)
FACTS = (
    "lo_quantity",
    "lo_discount",
    "lo_orderdate",
    "lo_commitdate",
    "lo_custkey",
    "lo_partkey",
    "lo_revenue",
    "lo_shipmode",
    "lo_orderkey",
)
# Columns for GROUP BY. With more distinct values, printing an answer would take longer than computing it.
GROUPS = (
    "d_year",
    "d_yearmonthnum",
    "d_sellingseason",
    "c_region",
    "c_nation",
    "s_region",
    "s_nation",
    "s_city",
    "p_mfgr",
    "p_category",
    "p_brand1",
)
MEASURES = (
    "count(*)",
    "sum(lo_revenue)",
    "sum(lo_extendedprice * lo_discount)",
    "sum(lo_revenue - lo_supplycost)",
    "min(lo_orderdate)",
    "max(lo_commitdate)",
    "min(lo_shipmode)",
    "max(lo_quantity)",
    "count(DISTINCT lo_discount)",
)

# The time limit. For a disjunction over two dimensions, DuckDB may compute their cross product, which takes minutes.
DUCKDB_SECONDS = 10

Domains = dict[str, list[Any]]


class Writer:
    """Writes random queries with values of the columns."""

    def __init__(self, seed: int, domains: Domains) -> None:
        self.random = random.Random(seed)
        self.domains = domains

    def query(self) -> str:
        chance = self.random
        joined = chance.sample(DIMENSIONS, chance.choices((0, 1, 2, 3, 4), (1, 3, 4, 4, 3))[0])
        measures = ["count(*)", *chance.sample(MEASURES[1:], chance.randint(1, 3))]
        selected = ", ".join(f"{measure} AS m{number}" for number, measure in enumerate(measures))
        facts = [self.predicate(FACTS) for _ in range(chance.choices((0, 1, 2), (5, 3, 1))[0])]
        style = chance.choice(("comma", "join", "cte", "subquery", "in", "exists")) if joined else "comma"
        # With IN and EXISTS, columns of the dimensions are not visible in SELECT and GROUP BY.
        columns = [] if style in ("in", "exists") else [c for d in joined for c in d.levels if c in GROUPS]
        groups = chance.sample(columns, min(len(columns), chance.choices((0, 1, 2, 3), (3, 4, 3, 1))[0]))
        tail = f" GROUP BY {', '.join(groups)}" if groups else ""
        if groups and chance.random() < 0.1:
            tail += f" HAVING count(*) > {chance.randint(1, 100)}"
        head = f"SELECT {''.join(group + ', ' for group in groups)}{selected} FROM "
        return self.spelled(style, joined, head, facts, tail)

    def spelled(self, style: str, joined: list[Dimension], head: str, facts: list[str], tail: str) -> str:
        tests = {d: self.tests(d) for d in joined}
        keys = {d: f"{d.foreign_key} = {d.key}" for d in joined}
        flat = [test for d in joined for test in tests[d]]
        if style == "comma":
            if len(joined) == 2 and len(flat) > 1 and self.random.random() < 0.2:
                flat = ["(" + " OR ".join(flat) + ")"]
            names = ["lineorder", *(d.table for d in joined)]
            self.random.shuffle(names)
            return head + ", ".join(names) + where([*keys.values(), *flat, *facts]) + tail
        if style == "join":
            # The predicates of a dimension are part of its join condition, or in WHERE.
            in_join = self.random.random() < 0.5
            joins = [f" JOIN {d.table} ON {' AND '.join([keys[d], *(tests[d] if in_join else [])])}" for d in joined]
            return head + "lineorder" + "".join(joins) + where(facts + ([] if in_join else flat)) + tail
        chosen = {d: f"SELECT * FROM {d.table}{where(tests[d])}" for d in joined}
        if style == "cte":
            named = ", ".join(f"chosen_{d.table} AS ({chosen[d]})" for d in joined)
            names = ", ".join(["lineorder", *(f"chosen_{d.table}" for d in joined)])
            return f"WITH {named} {head}{names}" + where([*keys.values(), *facts]) + tail
        if style == "subquery":
            joins = [f" JOIN ({chosen[d]}) AS chosen_{d.table} ON {keys[d]}" for d in joined]
            return head + "lineorder" + "".join(joins) + where(facts) + tail
        if style == "in":
            keyed = [f"{d.foreign_key} IN (SELECT {d.key} FROM {d.table}{where(tests[d])})" for d in joined]
        else:
            keyed = [f"EXISTS (SELECT 1 FROM {d.table}{where([keys[d], *tests[d]])})" for d in joined]
        return head + "lineorder" + where([*keyed, *facts]) + tail

    def tests(self, dimension: Dimension) -> list[str]:
        return [self.predicate(dimension.levels) for _ in range(self.random.choices((0, 1, 2, 3), (2, 6, 3, 1))[0])]

    def predicate(self, columns: tuple[str, ...]) -> str:
        simple = self.simple(columns)
        match self.random.random():
            case draw if draw < 0.15:
                return f"({simple} OR {self.simple(columns)})"
            case draw if draw < 0.2:
                return f"NOT ({simple})"
            case draw if draw < 0.23:
                return f"({simple} AND {self.simple(columns)} OR {self.simple(columns)})"
        return simple

    def simple(self, columns: tuple[str, ...]) -> str:
        column = self.random.choice(columns)
        values = self.domains[column]
        kind = self.random.choice(("equal", "equal", "in", "between", "compare", "or", "like", "unequal"))
        some = lambda most: [literal(self.value(values)) for _ in range(self.random.randint(1, most))]  # noqa: E731
        match kind:
            case "in":
                return f"{column} {self.random.choice(('IN', 'IN', 'IN', 'NOT IN'))} ({', '.join(some(8))})"
            case "between":
                low, high = sorted((self.value(values), self.value(values)))
                if self.random.random() < 0.05:
                    low, high = high, low
                return f"{column} BETWEEN {literal(low)} AND {literal(high)}"
            case "compare":
                return f"{column} {self.random.choice(('<', '<=', '>', '>='))} {literal(self.value(values))}"
            case "or":
                return "(" + " OR ".join(f"{column} = {value}" for value in some(3)) + ")"
            case "like" if isinstance(values[0], str):
                text = self.value(values)
                return f"{column} LIKE {literal(text[: self.random.randint(1, len(text))] + '%')}"
            case "unequal":
                return f"{column} <> {literal(self.value(values))}"
        return f"{column} = {literal(self.value(values))}"

    def value(self, values: list[Any]) -> Any:
        """A value of the column, or with probability 0.06 a neighbor of one, which may not occur in the column."""
        value = self.random.choice(values)
        if self.random.random() < 0.06:
            return (
                value + self.random.choice(("x", " "))
                if isinstance(value, str)
                else value + self.random.choice((-1, 1))
            )
        return value


def where(tests: list[str]) -> str:
    return f" WHERE {' AND '.join(tests)}" if tests else ""


def literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@dataclass
class Freestone:
    """One command-line process: statements on standard input, one JSON object per row back, a marker per answer."""

    binary: Path
    database: Path
    threads: int
    process: "subprocess.Popen[str] | None" = None
    errors: "queue.Queue[str]" = field(default_factory=queue.Queue)
    statements: int = 0
    seconds: float = 0.0

    def rows(self, sql: str) -> list[Row]:
        began = time.perf_counter()
        self.process = self.process or self.start()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.statements += 1
        marker = {"end_of_statement": self.statements}
        try:
            self.process.stdin.write(f"{sql};\nSELECT {self.statements} AS end_of_statement;\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        rows: list[Row] = []
        for line in self.process.stdout:
            row = json.loads(line)
            if row == marker:
                self.seconds += time.perf_counter() - began
                return rows
            rows.append(tuple(row.values()))
        self.process.wait()
        self.process = None
        time.sleep(0.1)
        raise RuntimeError(
            "".join(self.errors.get() for _ in range(self.errors.qsize())).strip() or "the process ended"
        )

    def start(self) -> "subprocess.Popen[str]":
        command = [self.binary, self.database, "--read-only", "--format", "ndjson", "--threads", str(self.threads)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        assert process.stderr is not None
        threading.Thread(target=forward, args=(process.stderr, self.errors), daemon=True).start()
        return process


def forward(stream: TextIO, lines: "queue.Queue[str]") -> None:
    for line in stream:
        lines.put(line)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(value is not None, str(value)) for value in row])


def domains(connection: Any) -> Domains:
    """At most 2,000 distinct values of each column."""

    def values(table: str, column: str) -> list[Any]:
        sql = f"SELECT DISTINCT {column} FROM {table} ORDER BY hash({column}), {column} LIMIT 2000"
        return [row[0] for row in connection.execute(sql).fetchall()]

    found = {column: values(d.table, column) for d in DIMENSIONS for column in d.levels}
    return found | {column: values("lineorder", column) for column in FACTS}


def difference(found: list[Row], expected: list[Row]) -> str:
    if len(found) != len(expected):
        return f"{len(found)} rows, DuckDB has {len(expected)}"
    return next((f"{a}, DuckDB has {b}" for a, b in zip(found, expected, strict=True) if a != b), "")


def check(engines: list[Freestone], sql: str, duckdb: Callable[[str], list[Row]]) -> list[str]:
    """The differences of each database from the answer of DuckDB."""
    expected = in_order(duckdb(sql))
    failures = []
    for engine in engines:
        try:
            wrong = difference(in_order(engine.rows(sql)), expected)
        except RuntimeError as error:
            wrong = f"failed: {str(error).splitlines()[0]}"
        if wrong:
            failures.append(f"{engine.database}: {wrong}")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the five Parquet files")
    parser.add_argument(
        "--database", type=Path, action="append", default=[], help="a Freestone database with the tables"
    )
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument(
        "--failures", type=Path, default=Path("ssb_random.failures.sql"), help="where failing queries go"
    )
    parser.add_argument("--show", action="store_true", help="prints the queries and runs none")
    options = parser.parse_args()
    enter_environment()
    import duckdb

    connection = duckdb.connect(config={"threads": options.threads})
    for table in SSB_TABLES:
        kind = "VIEW" if options.show else "TABLE"
        connection.execute(f"CREATE {kind} {table} AS SELECT * FROM '{options.data / table}.parquet'")
    writer = Writer(options.seed, domains(connection))
    engines = [Freestone(options.freestone, database, options.threads) for database in options.database]
    failed, empty, skipped, seconds = [], 0, 0, 0.0
    for number in range(options.queries):
        sql = writer.query()
        if options.show:
            print(sql + ";")
            continue

        def ask(sql: str) -> list[Row]:
            nonlocal empty, seconds
            began = time.perf_counter()
            limit = threading.Timer(DUCKDB_SECONDS, connection.interrupt)
            limit.start()
            try:
                rows = connection.execute(sql).fetchall()
            finally:
                limit.cancel()
            seconds += time.perf_counter() - began
            empty += not rows or rows[0][-1] is None
            return rows

        try:
            wrong = check(engines, sql, ask)
        except duckdb.InterruptException:
            skipped += 1
            continue
        if wrong:
            failed.append(
                "".join(f"-- query {number}, {text}\n".replace("\n", "\n-- ").removesuffix("-- ") for text in wrong)
                + sql
                + ";\n"
            )
            print(failed[-1], file=sys.stderr, flush=True)
        if (number + 1) % 250 == 0:
            print(f"{number + 1} queries, {len(failed)} wrong", file=sys.stderr, flush=True)
    if options.show:
        return
    times = ", ".join(f"{engine.database} {engine.seconds:.1f} s" for engine in engines)
    print(
        f"seed {options.seed}: {options.queries} queries, {empty} with no rows selected, {skipped} skipped "
        f"because DuckDB took over {DUCKDB_SECONDS} s, {len(failed)} wrong; "
        f"DuckDB {seconds:.1f} s, {times}"
    )
    if failed:
        options.failures.write_text("\n".join(failed))
        sys.exit(1)


if __name__ == "__main__":
    main()
