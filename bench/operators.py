"""How far each operator is from the machine's limit: one thread and two, and ten times the rows.

python bench/operators.py                      # 1 and 10 million synthetic rows, about five minutes and 2 GB of disk
python bench/operators.py --rows 200000 --only scan,sort

An operator is a query whose time is almost only its own, hot, the median of `--runs`. Its bytes are those of the values of the columns that it
reads, decoded: what a program that finds them in memory has to touch once. They are compared with the bandwidth of memory that
`freestone calibrate` measures before the queries, on as many threads. Compressed columns are smaller than that, so a scan can be ahead of it.
Both numbers of threads and of partitions must give the same rows.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from environment import CACHE, default_freestone, hardware

#: The columns of a table of n rows: their expressions over `i`, and the bytes of a decoded value.
COLUMNS = {
    "id": ("(i * 7368787) % {n}", 8),
    "few": ("((i * 48271) % 100)::int", 4),
    "many": ("((i * 69621) % ({n} // 4))::int", 4),
    "x": ("((i * 40692) % 1000003)::int", 4),
    "price": ("(((i * 16807) % 5000000) / 100)::decimal(12,2)", 8),
    "day": ("date '2020-01-01' + ((i * 104729) % 2500)::int", 4),
    "word": ("'word ' || (i * 6007) % 1000", 8),
    "url": ("'http://example.org/' || (i * 15485863) % 97 || '/' || (i * 32452843) % ({n} // 10)", 27),
}


@dataclass
class Operator:
    sql: str
    columns: str

    def bytes(self, rows: int) -> float:
        """The bytes of the decoded values that it reads."""
        return rows * sum(COLUMNS[column][1] for column in self.columns.split())


OPERATORS = {
    "scan, sum": Operator("SELECT sum(x), sum(price) FROM t", "x price"),
    "filter": Operator("SELECT count(*) FROM t WHERE x < 500000 AND day >= DATE '2022-01-01'", "x day"),
    "expression": Operator("SELECT sum(price * (1 - x % 10) + few) FROM t", "price x few"),
    "few groups": Operator("SELECT few, sum(price), count(*) FROM t GROUP BY few", "few price"),
    "many groups": Operator("SELECT count(*), sum(s) FROM (SELECT many, sum(price) AS s FROM t GROUP BY many) a", "many price"),
    "groups of texts": Operator("SELECT count(*), max(n) FROM (SELECT url, count(*) AS n FROM t GROUP BY url) a", "url"),
    "distinct": Operator("SELECT count(DISTINCT many) FROM t", "many"),
    "small join": Operator("SELECT sum(price) FROM t JOIN (SELECT i::int AS few FROM range(0, 100, 3) r(i)) d USING (few)", "few price"),
    "large join": Operator("SELECT sum(t.price), count(*) FROM t JOIN keys USING (many)", "many price many"),
    "sort": Operator("SELECT sum(r % 1000) FROM (SELECT row_number() OVER (ORDER BY x, id) AS r FROM t) a", "x id"),
    "top rows": Operator("SELECT id, x FROM t ORDER BY x, id LIMIT 10", "x id"),
    "window": Operator("SELECT max(s) FROM (SELECT sum(x) OVER (PARTITION BY few ORDER BY id) AS s FROM t) a", "few id x"),
    "like": Operator("SELECT count(*) FROM t WHERE url LIKE '%77%9%'", "url"),
    "text function": Operator("SELECT sum(length(url)), max(upper(word)) FROM t", "url word"),
}


class Tables:
    """A database with the tables, one of which has this number of rows."""

    def __init__(self, binary: Path, rows: int) -> None:
        self.binary, self.rows, self.store = str(binary), rows, CACHE / "bench" / f"operators-{rows}"
        if not self.store.exists():
            columns = ", ".join(f"{value.format(n=rows)} AS {name}" for name, (value, _) in COLUMNS.items())
            keys = "CREATE TABLE keys AS SELECT DISTINCT many FROM t WHERE many % 2 = 0"
            self.execute([f"CREATE TABLE t AS SELECT {columns} FROM range({rows}) r(i)", keys], 2)

    def execute(self, statements: list[str], threads: int) -> subprocess.CompletedProcess[str]:
        command = [self.binary, self.store, "--threads", str(threads), "--timing", "--format", "csv", "-c", ";\n".join(statements)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"error: {done.stderr.strip()}")
        return done

    def milliseconds(self, sql: str, threads: int, runs: int) -> tuple[float, str]:
        """The median time of a query, and its rows."""
        done = self.execute([sql] * (runs + 1), threads)
        times = [float(time) for time in re.findall(r"time: ([0-9.]+) ms", done.stderr)]
        return statistics.median(times[1:]), "\n".join(sorted(done.stdout.splitlines()))


def bandwidth(binary: Path) -> dict[int, float]:
    """The bandwidth of memory by number of threads, in bytes a millisecond."""
    printed = subprocess.run([binary, "calibrate", "--json"], capture_output=True, text=True, check=True).stdout
    points = json.loads(printed)["hardware"]["bandwidth"]["points"]
    return {int(threads): point["value"] * 1e6 for threads, point in points}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the smaller table; the larger one has ten times as many")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {', '.join(OPERATORS)}; the beginning of a name is enough")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    return parser.parse_args()


def main() -> None:
    options = parse()
    limits = bandwidth(options.freestone)
    small, large = Tables(options.freestone, options.rows), Tables(options.freestone, 10 * options.rows)
    print("| operator | M rows/s | GB/s | of the bandwidth | two threads | ten times the rows |\n|" + "---|" * 6)
    for name, operator in OPERATORS.items():
        if options.only and not any(name.startswith(only.strip()) for only in options.only):
            continue
        one, rows = large.milliseconds(operator.sql, 1, options.runs)
        two, others = large.milliseconds(operator.sql, 2, options.runs)
        tenth, _ = small.milliseconds(operator.sql, 2, options.runs)
        if rows != others:
            sys.exit(f"error: {name}: other rows with two threads")
        speed = operator.bytes(large.rows) / two
        print(
            f"| {name} | {large.rows / two / 1e3:.0f} | {speed / 1e6:.2f} | {100 * speed / limits[2]:.0f} % | {one / two:.2f} × | {two / tenth:.1f} × |",
            flush=True,
        )
    measured = ", ".join(f"{speed / 1e6:.1f} GB/s on {threads}" for threads, speed in limits.items())
    print(f"{small.rows:,} and {large.rows:,} rows, medians of {options.runs}; bandwidth of memory by threads: {measured}; {hardware()}")


if __name__ == "__main__":
    main()
