"""Tables in persistent memory through SQL: the choice of the iterator, and a table that is larger than its pool.

    python bench/pmem_sql.py [--freestone BINARY] [--rows 20000,200000,1000000] [--queries 100] [--folder /dev/shm/pmem-sql] [--json FILE]

The pool is an ordinary file on tmpfs: its memory is EMULATED, and no figure is one of persistent memory. Each query runs with each iterator
(`SET iterator`) in turn, with one thread; times are medians of what `--timing` prints, answers are compared. A query is right if the chosen
iterator takes at most 1.1 times as long as the better one (Götze, Baumann and Sattler 2018, section V.C, asks for such a choice). The crossover
is the share of the rows from which on blocks are faster. The second part has a table four times its pool: its newest rows are in the
pool, the others were moved to files.
"""

import argparse
import json
import math
import queue
import random
import shutil
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from environment import CACHE

REPEATS = 5
POOL_MIB = 32
TUPLE = "k, k % 1000 AS n, 'text of ' || (k * 7919 % 1000003) AS s, (k * 31 % 999983) / 2.0 AS d"
COLUMNS = "(k BIGINT PRIMARY KEY, n BIGINT, s VARCHAR, d DOUBLE)"
ASKED = "SELECT count(*), sum(n), max(s), sum(d) FROM t WHERE"


class Shell:
    """A process with one database, which answers one statement at a time."""

    def __init__(self, binary: Path, database: Path, pool_mib: int) -> None:
        command = [binary, database, "--pmem", "emulated", "--pmem-size", f"{pool_mib}MiB", "--threads", "1", "--timing", "--format", "csv"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([str(part) for part in command], stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        self.results: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.results.put(line.rstrip("\n"))

    def run(self, sql: str) -> float:
        """Milliseconds."""
        assert self.process.stdin and self.process.stderr
        self.process.stdin.write(sql + ";\n")
        self.process.stdin.flush()
        line = self.process.stderr.readline()
        if not line.startswith("time: "):
            raise RuntimeError(f"{sql}: {line}")
        value, unit = line.split()[1:3]
        return float(value) * {"s": 1e3, "ms": 1, "us": 1e-3, "µs": 1e-3}[unit.rstrip(",")]

    def query(self, sql: str) -> tuple[float, list[str]]:
        """Milliseconds, and the lines of the result without the header."""
        while not self.results.empty():
            self.results.get()
        took = self.run(sql)
        lines = [self.results.get(timeout=10), self.results.get(timeout=10)]
        try:
            while True:
                lines.append(self.results.get(timeout=0.01))
        except queue.Empty:
            return took, lines[1:]

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def in_turn(shell: Shell, sql: str) -> dict[str, float]:
    """The medians of both iterators."""
    times: dict[str, list[float]] = {"block": [], "index": []}
    answers = set()
    for _ in range(REPEATS):
        for iterator, found in times.items():
            shell.run(f"SET iterator = '{iterator}'")
            took, answer = shell.query(sql)
            found.append(took)
            answers.add(tuple(answer))
    if len(answers) != 1:
        raise RuntimeError(f"{sql}: {answers}")
    return {iterator: statistics.median(found) for iterator, found in times.items()}


def choice(binary: Path, folder: Path, rows: int, queries: int) -> dict[str, Any]:
    """How many choices are right, for a table of so many rows."""
    shell = Shell(binary, folder / f"choice-{rows}", 1024)
    shell.run(f"CREATE TABLE t {COLUMNS} WITH (medium = 'pmem', cluster = 'd')")
    shell.run(f"INSERT INTO t SELECT {TUPLE} FROM (SELECT value AS k FROM generate_series(1, {rows}))")
    numbers = random.Random(rows)
    found = []
    for _ in range(queries):
        share = 10 ** numbers.uniform(math.log10(5 / rows), 0)
        low = numbers.randint(1, max(1, int(rows * (1 - share))))
        where = f"k BETWEEN {low} AND {low + int(rows * share)}"
        if numbers.random() < 0.3:
            where += f" AND d < {numbers.uniform(0, 500000):.1f}"
        times = in_turn(shell, f"{ASKED} {where}")
        shell.run("SET iterator = 'auto'")
        plan = "\n".join(shell.query(f"EXPLAIN {ASKED} {where}")[1])
        chosen = plan.split("iterator=")[1].split()[0]
        found.append({"share": share, "chosen": chosen, **times})
    shell.close()
    right = sum(f[f["chosen"]] <= 1.1 * min(f["block"], f["index"]) for f in found)
    # The share that divides queries for which the index is faster from others with the fewest exceptions.
    ordered = sorted(found, key=lambda f: f["share"])
    faster = [f["index"] < f["block"] for f in ordered]
    at = max(range(len(ordered) + 1), key=lambda at: sum(faster[:at]) + sum(not fast for fast in faster[at:]))
    crossover = ordered[min(at, len(ordered) - 1)]["share"]
    return {"rows": rows, "right": right, "queries": queries, "crossover": crossover, "found": found}


def median_of(shell: Shell, sql: str) -> tuple[float, list[str]]:
    """The median time, after one run that is not counted, and the answer."""
    answer = shell.query(sql)[1]
    return statistics.median(shell.query(sql)[0] for _ in range(REPEATS)), answer


def larger(binary: Path, folder: Path, batch: int) -> dict[str, Any]:
    """A table four times its pool, the same in a pool with room for it, and the same on disk."""
    rows = POOL_MIB * 4 * 1024 * 1024 // 66
    shells = {}
    for name, pool, medium in (("larger", POOL_MIB, "pmem"), ("within", 1024, "pmem"), ("disk", POOL_MIB, "disk")):
        shell = Shell(binary, folder / f"larger-{name}", pool)
        shell.run(f"CREATE TABLE t {COLUMNS} WITH (medium = '{medium}', cluster = 'k')")
        for low in range(1, rows + 1, batch):
            high = min(rows, low + batch - 1)
            shell.run(f"INSERT INTO t SELECT {TUPLE} FROM (SELECT value AS k FROM generate_series({low}, {high}))")
        shells[name] = shell
    time.sleep(5)
    in_pool = "SELECT coalesce(sum(rows), 0), count(*) FROM freestone_segments('t') WHERE in_pool"
    placed = {name: shell.query(in_pool)[1][0] for name, shell in shells.items()}
    hot = f"{ASKED} k BETWEEN {rows - rows // 50} AND {rows - rows // 100}"
    whole = f"{ASKED} n >= 0"
    figures: dict[str, Any] = {"rows": rows, "in_pool": placed}
    for of, sql in (("hot", hot), ("whole", whole)):
        found = {name: median_of(shell, sql) for name, shell in shells.items()}
        if len({tuple(answer) for _, answer in found.values()}) != 1:
            raise RuntimeError(f"{sql}: {found}")
        figures[of] = {name: took for name, (took, _) in found.items()}
    for shell in shells.values():
        shell.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freestone", type=Path, default=CACHE / "target" / "release" / "freestone")
    parser.add_argument("--rows", default="20000,200000,1000000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--batch", type=int, default=100_000, help="rows of an INSERT for the table that is larger than its pool")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/freestone-pmem-sql"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    print("EMULATED persistent memory; medians in ms")
    figures: dict[str, Any] = {"choice": []}
    try:
        for rows in map(int, options.rows.split(",")):
            found = choice(options.freestone, options.folder, rows, options.queries)
            figures["choice"].append(found)
            worst = max(found["found"], key=lambda f: f[f["chosen"]] / min(f["block"], f["index"]))
            print(f"{rows} rows: {found['right']} of {found['queries']} choices within 1.1 of the better iterator (asked 95 of 100); ", end="")
            print(f"crossover at {found['crossover']:.2%} of the rows; worst: {worst}")
        figures["larger"] = larger(options.freestone, options.folder, options.batch)
        found = figures["larger"]
        print(f"{found['rows']} rows, four times the pool of {POOL_MIB} MiB; rows and segments in pools: {found['in_pool']}")
        print(f"hot range: {found['hot']}: {found['hot']['larger'] / found['hot']['within']:.2f} times all in the pool (asked 1.1)")
        print(f"whole: {found['whole']}: {found['whole']['larger'] / found['whole']['disk']:.2f} times the disk table (asked 1.2)")
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
