"""The pulse: a few minutes' look at the speed of everything that users run, each query beside DuckDB in turn.

python bench/pulse.py                  # compares with bench/pulse.json, and says what lost
python bench/pulse.py --save           # writes bench/pulse.json: with every change that touches the path of queries
python bench/pulse.py --only hits,load
python bench/pulse.py --hyper          # also with Hyper, and says what is behind the better of both

TPC-H and the Star Schema Benchmark as stored (the latter also clustered), 43 queries on page views, the 15 tasks of the
db-benchmark, TPC-H on Parquet files in place, 25 statements of every day, loading, `SELECT 1` and the start of a process. Times are medians, hot, with as
many threads for both. A ratio is DuckDB's time divided by Freestone's: above 1 is ahead. What lost more than 8 % of its saved
ratio is measured again with more repetitions, and reported only if it loses again. The exit status is 1 if something lost or
an answer is wrong.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pulse_data
from environment import BENCH, CACHE, DESIGNS, default_freestone, enter_environment, hardware, ssb_data, ssb_queries, tpch_data, tpch_queries
from peers import QUERY_SECONDS, Job, Worker, measure

SAVED = BENCH / "pulse.json"
#: The share of its saved ratio that a query may lose.
LOSS = 0.08
RUNS, RUNS_AGAIN = 3, 11
SETS = ("fixed", "tpch", "ssb", "clustered", "hits", "tasks", "files", "everyday")


def queries(kind: str) -> dict[str, str]:
    """The queries of a set, by the names under which ratios are saved."""
    found = {
        "fixed": {"select 1": "SELECT 1", "count": "SELECT count(*) FROM lineitem", "load": ""},
        "tpch": tpch_queries(),
        "ssb": ssb_queries(),
        "clustered": ssb_queries(),
        "hits": pulse_data.HITS,
        "tasks": pulse_data.TASKS,
        "files": tpch_queries(),
        "everyday": pulse_data.EVERYDAY,
    }[kind]
    return {f"{kind} {name}": sql for name, sql in found.items()}


def synthetic(rows: int) -> Path:
    """The folder with the tables of `pulse_data`, as Parquet, which are made if they do not exist."""
    import duckdb

    folder = CACHE / "bench" / f"pulse-{rows}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, sql in pulse_data.tables(rows).items():
        file = folder / f"{name}.parquet"
        if not file.exists():
            duckdb.sql(sql).write_parquet(f"{file}.new")
            Path(f"{file}.new").rename(file)
    return folder


class Pair:
    """Freestone and DuckDB with the tables of one set."""

    def __init__(self, kind: str, options: argparse.Namespace) -> None:
        tables = {"fixed": "tpch", "everyday": "tpch", "clustered": "ssb"}.get(kind, kind)
        if tables in ("tpch", "files"):
            data = tpch_data(None, options.scale, options.freestone)
        else:
            data = ssb_data(None, options.scale, options.freestone) if tables == "ssb" else synthetic(options.rows)
        stores = CACHE / "bench" / f"pulse-stores-{options.scale:g}-{options.rows}"
        script = (DESIGNS / "ssb-clustered.sql").read_text() if kind == "clustered" else ""

        def worker(engine: str, engines: str = "pulse_engines.py") -> Worker:
            store = stores / f"{engine.replace(':', '-')}-{tables}"
            job = Job(engine, str(data), str(store), options.threads, str(options.freestone), script=script)
            return Worker(Path(sys.executable), job, engines)

        clustered = worker("freestone:clustered", "ssb_engines.py") if script else None
        # A database of an earlier build would have its segments and statistics.
        subprocess.run(["rm", "-rf", stores / "freestone-clustered-ssb"], check=True)
        self.workers = {"freestone": clustered or worker(f"freestone:{tables}"), "duckdb": worker(f"duckdb:{tables}")}
        if options.hyper:
            self.workers["hyper"] = worker(f"hyper:{tables}")
        for running in self.workers.values():
            found = running.ask(QUERY_SECONDS, do="about")
            if "error" in found:
                sys.exit(f"error: {kind}: {found['error']}")
        #: The milliseconds of the better of DuckDB and Hyper, and ours, by query.
        self.best: dict[str, tuple[float, float]] = {}

    def ratio(self, name: str, sql: str, runs: int) -> tuple[float, float, bool] | None:
        """DuckDB's and our milliseconds, and whether the answers are equal; `None` if one of both fails."""
        # Only these two are timed for loading and fixed costs.
        peers = {engine: worker for engine, worker in self.workers.items() if engine != "hyper" or sql}
        found = measure(peers, name.partition(" ")[2], sql, runs)
        theirs, ours = found["duckdb"].median, found["freestone"].median
        if not theirs or not ours:
            return None
        if "hyper" in found:
            self.best[name] = (min(theirs, found["hyper"].median or theirs), ours)
        return theirs, ours, not found["freestone"].differs

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop()


def start_ratio(options: argparse.Namespace) -> tuple[float, float, bool]:
    """The milliseconds of a process that answers `SELECT 1` from a new database in memory, of both command lines."""
    commands = {
        "duckdb": [str(Path(sys.executable).with_name("duckdb")), ":memory:", "-c", "SELECT 1"],
        "freestone": [str(options.freestone), ":memory:", "-c", "SELECT 1"],
    }
    times: dict[str, list[float]] = {engine: [] for engine in commands}
    for _ in range(options.runs + 2):
        for engine, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            times[engine].append((time.perf_counter() - started) * 1000)
    return statistics.median(times["duckdb"][1:]), statistics.median(times["freestone"][1:]), True


def measured(kind: str, options: argparse.Namespace, saved: dict[str, float]) -> dict[str, tuple[float, float, bool]]:
    """The times of a set. What seems to have lost is measured again."""
    pair, found = Pair(kind, options), {}
    for name, sql in queries(kind).items():
        runs = RUNS_AGAIN if kind == "fixed" and sql else options.runs
        result = pair.ratio(name, sql, runs)
        if result is None:
            print(f"{name}: no answer", file=sys.stderr)
            continue
        if has_lost(saved.get(name), result):
            result = pair.ratio(name, sql, RUNS_AGAIN) or result
        found[name] = result
    pair.stop()
    if pair.best:
        print(summary(f"{kind}, the better of DuckDB and Hyper", {name: (*times, True) for name, times in pair.best.items()}))
    return found


def has_lost(before: float | None, result: tuple[float, float, bool]) -> bool:
    return before is not None and result[0] / result[1] < before * (1 - LOSS)


def summary(kind: str, found: dict[str, tuple[float, float, bool]]) -> str:
    """The mean of the ratios, the ratio of the sums, and what is behind, the worst first."""
    ratios = {name.partition(" ")[2]: theirs / ours for name, (theirs, ours, _) in found.items()}
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    total = sum(theirs for theirs, _, _ in found.values()) / sum(ours for _, ours, _ in found.values())
    behind = sorted((ratio, name) for name, ratio in ratios.items() if ratio < 1)
    listed = ", ".join(f"{name} {ratio:.2f}" for ratio, name in behind) or "none"
    return f"{kind}: mean {mean:.2f}, sum {total:.2f}, behind in {len(behind)} of {len(ratios)}: {listed}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=SETS, help=f"of {', '.join(SETS)}")
    parser.add_argument("--hyper", action="store_true", help="also runs Hyper, which takes about twice as long")
    parser.add_argument("--save", action="store_true", help="writes the ratios to bench/pulse.json")
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H and the Star Schema Benchmark")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the other tables")
    parser.add_argument("--threads", type=int, default=2, help="threads of both engines")
    parser.add_argument("--runs", type=int, default=RUNS, help="measured repetitions of each query")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    options = parser.parse_args()
    if unknown := set(options.only) - set(SETS):
        parser.error(f"unknown set {', '.join(sorted(unknown))}; there are {', '.join(SETS)}")
    return options


def main() -> None:
    options = parse()
    enter_environment("pulse")
    document = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    saved: dict[str, float] = document.get("ratios", {})
    started, found = time.monotonic(), {}
    for kind in options.only:
        of_kind = measured(kind, options, saved)
        if kind == "fixed":
            of_kind["fixed process start"] = start_ratio(options)
        found |= of_kind
        print(summary(kind, of_kind), flush=True)
    ratios = {name: round(theirs / ours, 3) for name, (theirs, ours, _) in found.items()}
    lost = [f"{name} {saved[name]:.2f} -> {ratios[name]:.2f}" for name in ratios if has_lost(saved.get(name), found[name])]
    wrong = [name for name, (_, _, is_right) in found.items() if not is_right]
    print(f"{time.monotonic() - started:.0f} s; {hardware()}; DuckDB's time over ours, above 1 is ahead")
    print(f"lost more than {LOSS:.0%}: {', '.join(lost) or 'none'}" if saved else "nothing saved to compare with")
    if wrong:
        print(f"wrong answers: {', '.join(wrong)}")
    if options.save:
        kept = {"machine": hardware(), "threads": options.threads, "ratios": saved | ratios}
        SAVED.write_text(json.dumps(kept, indent=1) + "\n")
    sys.exit(bool(wrong or lost))


if __name__ == "__main__":
    main()
