"""TPC-H on Freestone and other engines: the same data and queries, with interleaved repetitions and compared answers.

python bench/peers.py --scale 1 --threads 2 --runs 7 --json result.json
"""

import argparse
import hashlib
import json
import math
import re
import select
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from engines import ENGINES, Job
from environment import CACHE, default_freestone, environment_python, hardware, tpch_data, tpch_queries

WARM_UPS = 2
OPEN_SECONDS = 1800
QUERY_SECONDS = 120
REFERENCE = "duckdb"

Rows = list[list[str | None]]


class Worker:
    """One engine in a process of its own, which is restarted if a query crashes it or exceeds its time limit."""

    def __init__(self, python: Path, job: Job, engines: str = "engines.py") -> None:
        self.command = [str(python), str(Path(__file__).with_name(engines)), json.dumps(asdict(job))]
        self.process: subprocess.Popen[str] | None = None

    def ask(self, seconds: float, **request: Any) -> dict[str, Any]:
        if self.process is None:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True, bufsize=1)
            seconds += OPEN_SECONDS
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        # A worker writes one line per request, so the buffer, which select does not see, is empty here.
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.stop()
        return {"error": "the engine's process died" if ready else f"no answer within {seconds} s"}

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Outcome:
    """The times and the answer of one engine for one query."""

    times: list[float] = field(default_factory=list)
    mark: str = ""
    digest: str = ""
    rows: Rows | None = None
    error: str = ""
    differs: bool = False

    @property
    def median(self) -> float | None:
        return statistics.median(self.times) if self.times and not self.error else None


Results = dict[str, dict[str, Outcome]]
Described = dict[str, dict[str, Any]]


def extra_queries(scale: float) -> dict[str, str]:
    """The queries in addition to TPC-H. l_partkey is in random order, so its ranges select scattered rows."""
    parts = int(200_000 * scale)
    order = int(3_000_000 * scale) // 32 * 32 + 1
    return {
        "scan1pct": "SELECT sum(l_extendedprice) AS s FROM lineitem "
        f"WHERE l_partkey BETWEEN {parts // 2} AND {parts // 2 + parts // 100 - 1}",
        "fullscan": "SELECT count(*) AS n, sum(l_orderkey) AS a, sum(l_partkey) AS b, sum(l_suppkey) AS c, "
        "sum(l_linenumber) AS d, sum(l_quantity) AS e, sum(l_extendedprice) AS f, sum(l_discount) AS g, "
        "sum(l_tax) AS h, max(l_returnflag) AS i, max(l_linestatus) AS j, max(l_shipdate) AS k, "
        "max(l_commitdate) AS l, max(l_receiptdate) AS m, max(l_shipinstruct) AS o, max(l_shipmode) AS p, "
        "max(l_comment) AS q FROM lineitem",
        "topn": "SELECT l_orderkey, l_linenumber, l_extendedprice, l_comment FROM lineitem "
        "ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 100",
        "point": f"SELECT * FROM lineitem WHERE l_orderkey = {order}",
    }


def measure(workers: dict[str, Worker], name: str, sql: str, runs: int) -> dict[str, Outcome]:
    """Warm-up runs, then repetitions in turns over the engines, so that a disturbance affects all of them."""
    outcomes = {engine: Outcome() for engine in workers}
    load = name == "load"
    warm_ups = 0 if load else WARM_UPS
    for repetition in range(warm_ups + runs):
        for engine, worker in workers.items():
            outcome = outcomes[engine]
            if outcome.error:
                continue
            request = {"do": "load"} if load else {"do": "run", "name": name, "sql": sql, "check": repetition == 0}
            reply = worker.ask(QUERY_SECONDS, **request)
            outcome.error = reply.get("error", "").splitlines()[0] if "error" in reply else ""
            outcome.mark = reply.get("mark", "")
            if reply.get("rows") is not None:
                outcome.rows = normalised(reply["rows"])
                outcome.digest = digest(outcome.rows)
            if repetition >= warm_ups and not outcome.error:
                outcome.times.append(reply["ms"])
    compare(name, outcomes)
    return outcomes


def number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def normalised(rows: Rows) -> Rows:
    """The rows without the differences of format between engines: order, NULL, timestamps, midnight in dates."""
    time = re.compile(r"^(\d{4}-\d\d-\d\d)T")
    plain = [[time.sub(r"\1 ", cell).removesuffix(" 00:00:00") if cell else None for cell in row] for row in rows]
    texts = lambda row: [cell or "" for cell in row if number(cell) is None]  # noqa: E731
    numbers = lambda row: [value for cell in row if (value := number(cell)) is not None]  # noqa: E731
    return sorted(plain, key=lambda row: (texts(row), numbers(row)))


def digest(rows: Rows) -> str:
    """A hash of the rows, with numbers rounded to six significant digits."""
    cells = [[cell if (value := number(cell)) is None else f"{value:.6g}" for cell in row] for row in rows]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:12]


def same(left: Rows, right: Rows) -> bool:
    """Whether the rows are equal. Numbers may differ relatively by 1e-5, or absolutely by 1e-6."""

    def equal(a: str | None, b: str | None) -> bool:
        x, y = number(a), number(b)
        return a == b or (x is not None and y is not None and math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-6))

    return len(left) == len(right) and all(
        len(a) == len(b) and all(map(equal, a, b)) for a, b in zip(left, right, strict=True)
    )


def compare(name: str, outcomes: dict[str, Outcome]) -> None:
    """Marks every engine whose answer differs from that of the reference, and prints a message."""
    answered = {engine: outcome for engine, outcome in outcomes.items() if outcome.rows is not None}
    reference = answered.get(REFERENCE) or next(iter(answered.values()), None)
    for engine, outcome in answered.items():
        assert reference is not None and reference.rows is not None and outcome.rows is not None
        outcome.differs = not same(reference.rows, outcome.rows)
        if outcome.differs:
            print(
                f"*** MISMATCH: {name} on {engine}: {outcome.digest}, {len(outcome.rows)} rows; "
                f"reference {reference.digest}, {len(reference.rows)} rows",
                file=sys.stderr,
            )
    for engine, outcome in outcomes.items():
        if outcome.error:
            print(f"{name} on {engine}: {outcome.error}", file=sys.stderr)


def cell(outcome: Outcome, reference: Outcome | None) -> str:
    """Median milliseconds and, in brackets, time(reference) / time(engine); below 1, the engine is slower."""
    if outcome.median is None:
        return "–"
    base = reference.median if reference else None
    ratio = f" ({base / outcome.median:.2f}×)" if base and outcome is not reference else ""
    return f"{outcome.median:.1f}{outcome.mark}{ratio}" + (" **WRONG**" if outcome.differs else "")


def summary(engines: Sequence[str], results: Results) -> list[list[str]]:
    """Geometric mean and total per engine over the TPC-H queries that all engines answer."""
    tpch = [outcomes for name, outcomes in results.items() if name.startswith("q")]
    common = [outcomes for outcomes in tpch if all(outcomes[engine].median for engine in engines)]
    if not common:
        return []
    columns = [[outcomes[engine].median or 0.0 for outcomes in common] for engine in engines]
    return [
        [f"**geomean of {len(common)}**", *(f"{statistics.geometric_mean(times):.1f}" for times in columns)],
        [f"**total of {len(common)}**", *(f"{sum(times):.0f}" for times in columns)],
    ]


def report(options: argparse.Namespace, described: Described, results: Results) -> str:
    """The results as Markdown."""
    engines = list(described)
    heading = [f"{engine} {described[engine]['version'].split()[-1]}" for engine in engines]
    body = [
        [name, *(cell(outcomes[engine], outcomes.get(REFERENCE)) for engine in engines)]
        for name, outcomes in results.items()
    ]
    body += summary(engines, results)
    if "load" in results:
        loads = [(described[engine]["rows"], results["load"][engine].median) for engine in engines]
        rates = [rows / milliseconds / 1000 if milliseconds else None for rows, milliseconds in loads]
        body.append(["load, M rows/s", *("–" if rate is None else f"{rate:.2f}" for rate in rates)])
    body.append(["size, MB", *(f"{described[engine]['bytes'] / 1e6:.0f}" for engine in engines)])
    lines = [
        f"TPC-H data at scale {options.scale:g}, {options.threads} threads, hot, median of {options.runs} runs in ms",
        f"(in brackets: times as fast as {REFERENCE}; below 1 is a loss). Machine: {hardware()}.",
        "",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in [["", *heading], ["---"] + ["---:"] * len(engines), *body]]
    lines += ["", *(f"- {engine}: {described[engine]['note']}." for engine in engines)]
    lines += [losses(engine, results) for engine in engines if engine.startswith("freestone") and REFERENCE in engines]
    return "\n".join(lines)


def losses(engine: str, results: Results) -> str:
    """The queries on which an engine is slower than the reference, with time(reference) / time(engine)."""
    lost = []
    for name, outcomes in results.items():
        ours, theirs = outcomes[engine].median, outcomes[REFERENCE].median
        if ours and theirs and ours > theirs:
            lost.append(f"{name} ({theirs / ours:.2f}×)")
    return f"- {engine} loses to {REFERENCE} on: {', '.join(lost) or 'none'}."


def run_parser(description: str | None, *, only: str, engines: str, files: str, json: str) -> argparse.ArgumentParser:
    """The command-line options of every comparison of engines. The keywords are parts of its help texts."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor")
    parser.add_argument("--threads", type=int, default=2, help="threads of every engine")
    parser.add_argument("--runs", type=int, default=7, help="measured repetitions of each query")
    parser.add_argument("--only", type=lambda text: text.split(","), help=only)
    parser.add_argument("--engines", type=lambda text: text.split(","), help=engines)
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument("--data", type=Path, help=f"folder of the {files} Parquet files; made when missing")
    parser.add_argument("--work", type=Path, default=CACHE / "bench", help="folder for the engines' own files")
    parser.add_argument("--json", type=Path, help=f"writes {json} here")
    return parser


def parse() -> argparse.Namespace:
    parser = run_parser(
        __doc__,
        only="names: q01 or q1, tpch, scan1pct, load, …",
        engines=f"of {', '.join(ENGINES)}; freestone:row takes another design than auto, freestone:clustered that of designs/tpch-clustered.sql",
        files="eight",
        json="every time, hash and size",
    )
    parser.set_defaults(engines=list(ENGINES))
    options = parser.parse_args()
    if unknown := [name for name in options.engines if name.partition(":")[0] not in ENGINES]:
        parser.error(f"unknown engine {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    return options


def selected(only: list[str] | None, queries: dict[str, str]) -> dict[str, str]:
    if only is None:
        return queries
    wanted = {f"q{int(name[1:]):02}" if name[:1] == "q" and name[1:].isdigit() else name for name in only}
    if unknown := wanted - queries.keys() - {"tpch"}:
        sys.exit(f"error: unknown query {', '.join(sorted(unknown))}; there are {', '.join(queries)}, tpch")
    return {name: sql for name, sql in queries.items() if name in wanted or ("tpch" in wanted and name[0] == "q")}


def main() -> None:
    options = parse()
    queries = selected(options.only, tpch_queries() | extra_queries(options.scale) | {"load": ""})
    python = environment_python()
    data = tpch_data(options.data, options.scale, options.freestone).resolve()
    stores = options.work.resolve() / f"stores-sf{options.scale:g}"
    workers = {
        engine: Worker(
            python,
            Job(engine, str(data), str(stores / engine.replace(":", "-")), options.threads, str(options.freestone)),
        )
        for engine in options.engines
    }
    described = {}
    for engine, worker in workers.items():
        described[engine] = worker.ask(QUERY_SECONDS, do="describe")
        print(f"{engine} {described[engine].get('error', 'is ready')}", file=sys.stderr)
        if "error" in described[engine]:
            worker.stop()
    workers = {engine: worker for engine, worker in workers.items() if "error" not in described[engine]}
    described = {engine: described[engine] for engine in workers}
    if not workers:
        sys.exit("error: no engine could be opened")
    results = {}
    for name, sql in queries.items():
        results[name] = measure(workers, name, sql, options.runs)
        medians = {engine: outcome.median for engine, outcome in results[name].items()}
        print(name, {engine: median and round(median, 1) for engine, median in medians.items()}, file=sys.stderr)
    for worker in workers.values():
        worker.stop()
    print(report(options, described, results))
    if options.json:
        outcomes = {
            name: {
                engine: asdict(replace(outcome, rows=None)) | {"median": outcome.median}
                for engine, outcome in by_engine.items()
            }
            for name, by_engine in results.items()
        }
        document = {
            "machine": hardware(),
            "scale": options.scale,
            "threads": options.threads,
            "runs": options.runs,
            "engines": described,
            "results": outcomes,
        }
        options.json.write_text(json.dumps(document, indent=1))
    if any(outcome.differs for by_engine in results.values() for outcome in by_engine.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
