"""TPC-H under a memory limit: each query in a process of its own, without a limit and with one, by Freestone and DuckDB.

python bench/limits.py                            # scale factor 1 within 500 MB
python bench/limits.py --scale 10 --limit 2GB     # about five minutes, and 15 GB of disk

The tables are loaded once, untimed, and the files are in the system's cache. A time is that of the process from its start to
its end, the best of `--runs`; the memory is the largest resident size of the process, mapped files included. Rows are compared
with those without a limit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from environment import CACHE, TABLES, default_freestone, enter_environment, hardware, tpch_data, tpch_queries

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
SECONDS = 600


@dataclass
class Run:
    """What a process printed, its seconds and its largest resident memory in bytes."""

    rows: str
    error: str
    seconds: float
    resident: int


def run(command: list[str]) -> Run:
    with tempfile.TemporaryFile("w+") as rows, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(["timeout", str(SECONDS), *command], stdout=rows, stderr=errors)
        # The largest of the process and of what it waited for, in KiB.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        for file in (rows, errors):
            file.seek(0)
        printed, message = rows.read(), errors.read().strip()
    failed = message.splitlines()[-1:] or [f"status {process.returncode}"]
    return Run(printed, failed[0] if process.returncode else "", seconds, usage.ru_maxrss * 1024)


def load(data: Path) -> str:
    """The statements, of either engine, that make the tables."""
    return ";".join(f"CREATE TABLE {name} AS SELECT * FROM '{data}/{name}.parquet'" for name in TABLES)


class Freestone:
    def __init__(self, options: argparse.Namespace, data: Path, folder: Path) -> None:
        self.binary, self.threads, self.store = str(options.freestone), str(options.threads), folder / "freestone"
        subprocess.run(["rm", "-rf", self.store], check=True)
        subprocess.run([self.binary, self.store, "--threads", self.threads, "-c", load(data)], check=True, stdout=subprocess.DEVNULL)

    def command(self, sql: str, limit: str | None) -> list[str]:
        limited = ["--memory-limit", limit] if limit else []
        return [self.binary, str(self.store), "--threads", self.threads, "--format", "csv", *limited, "-c", sql]


class DuckDB:
    def __init__(self, options: argparse.Namespace, data: Path, folder: Path) -> None:
        self.binary, self.threads, self.store = str(Path(sys.executable).with_name("duckdb")), options.threads, folder / "tpch.duckdb"
        if not self.store.exists():
                subprocess.run([self.binary, self.store, "-c", load(data)], check=True, stdout=subprocess.DEVNULL)

    def command(self, sql: str, limit: str | None) -> list[str]:
        limited = f"SET memory_limit = '{limit}';" if limit else ""
        return [self.binary, str(self.store), "-readonly", "-csv", "-c", f"SET threads = {self.threads};{limited}{sql}"]


def best(runs: list[Run]) -> Run:
    return min((run for run in runs if not run.error), key=lambda run: run.seconds, default=runs[0])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--limit", default="500MB", help="in KB, MB or GB, as both engines read it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--queries", type=lambda text: text.split(","), help="some of q01 to q22")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    return parser.parse_args()


def main() -> None:
    options = parse()
    enter_environment("pulse")
    bound = float(options.limit[:-2]) * UNITS[options.limit[-2:].upper()]
    data = tpch_data(None, options.scale, options.freestone)
    folder = CACHE / "bench" / f"limits-{options.scale:g}"
    folder.mkdir(parents=True, exist_ok=True)
    engines = {"freestone": Freestone(options, data, folder), "duckdb": DuckDB(options, data, folder)}
    sums: dict[tuple[str, bool], float] = {}
    troubles: list[str] = []
    print("| query | Freestone, s | limited, s | resident / limit | DuckDB, s | limited, s | resident / limit |\n|" + "---|" * 7)
    for name, sql in tpch_queries().items():
        if options.queries and name not in options.queries:
            continue
        cells = []
        for engine, commands in engines.items():
            free, limited = (best([run(commands.command(sql, limit)) for _ in range(options.runs)]) for limit in (None, options.limit))
            sums[engine, False] = sums.get((engine, False), 0) + free.seconds
            sums[engine, True] = sums.get((engine, True), 0) + limited.seconds
            for found in (free, limited):
                if found.error:
                    troubles.append(f"{engine} {name}: {found.error}")
            if not limited.error and limited.rows != free.rows:
                troubles.append(f"{engine} {name}: other rows within the limit")
            cells += [f"{free.seconds:.2f}", "failed" if limited.error else f"{limited.seconds:.2f}", f"{limited.resident / bound:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print(f"| sum | {' | '.join(' | '.join((f'{sums[e, False]:.1f}', f'{sums[e, True]:.1f}', '')) for e in engines)} |")
    print(f"scale factor {options.scale:g}, limit {options.limit}, {options.threads} threads, {hardware()}")
    print("\n".join(troubles))
    sys.exit(any(line.startswith("freestone") for line in troubles))


if __name__ == "__main__":
    main()
