"""The Star Schema Benchmark on Freestone and other engines, with interleaved repetitions and compared answers.

    python bench/ssb.py --scale 1 --threads 2 --runs 7 --json result.json
    python bench/ssb.py --design clustered=designs/ssb.sql --engines freestone,freestone:clustered,duckdb
    python bench/ssb.py --database mine=/data/ssb1 --engines freestone:mine,duckdb:sorted

Engines: freestone (design `auto`), freestone:NAME (after the statements of `--design NAME=FILE`, or the database of
`--database NAME=FOLDER`), duckdb, duckdb:sorted (lineorder by lo_orderdate), clickhouse, datafusion.
"""

import argparse
import hashlib
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from engines import Job
from environment import environment_python, hardware, ssb_data, ssb_queries
from peers import QUERY_SECONDS, Described, Outcome, Results, Rows, Worker, cell, measure, run_parser

KINDS = ("freestone", "duckdb", "clickhouse", "datafusion")
PEERS = ("duckdb", "duckdb:sorted")
COUNTERS = ("rows_scanned", "rows_selected", "zones", "zones_pruned", "zones_whole", "pages_used", "bytes_used")


def exact(rows: Rows) -> list[list[str]]:
    """The sorted rows with one text per number: all numbers are integers, for which the engines use different types."""

    def plain(cell: str | None) -> str:
        try:
            return f"{Decimal(cell or '').normalize():f}"
        except InvalidOperation:
            return cell or ""

    return sorted([plain(cell) for cell in row] for row in rows)


def compare_exactly(name: str, outcomes: dict[str, Outcome]) -> None:
    """Marks every engine whose rows differ from those of the first DuckDB, or without one, of the first engine."""
    answers = {engine: exact(outcome.rows) for engine, outcome in outcomes.items() if outcome.rows is not None}
    reference = next((engine for engine in [*PEERS, *answers] if engine in answers), None)
    for engine, rows in answers.items():
        outcomes[engine].digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:12]
        outcomes[engine].differs = rows != answers[reference or engine]
        if outcomes[engine].differs:
            print(f"*** WRONG: {name} on {engine} is not {reference}'s answer", file=sys.stderr)


def medians(results: Results, engine: str) -> list[float | None]:
    return [outcomes[engine].median for outcomes in results.values()]


def ratio(results: Results, engine: str, peers: Sequence[str]) -> tuple[float, list[str]]:
    """The geometric mean of time(fastest peer) / time(engine), and the queries on which the engine is slower."""
    ratios, lost = [], []
    for name, outcomes in results.items():
        ours = outcomes[engine].median
        theirs = [median for peer in peers if (median := outcomes[peer].median)]
        if ours and theirs:
            ratios.append(min(theirs) / ours)
            if ours > min(theirs):
                lost.append(f"{name} ({min(theirs) / ours:.2f}×)")
    return (statistics.geometric_mean(ratios) if ratios else float("nan")), lost


def table(rows: list[list[str]]) -> list[str]:
    """The rows as text, the header first. All columns except the first are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def report(options: argparse.Namespace, described: Described, results: Results, profiles: dict) -> str:
    engines = list(described)
    peers = [peer for peer in PEERS if peer in described]
    rows = [["ms", *engines]]
    for name, outcomes in results.items():
        reference = outcomes.get(peers[0]) if peers else None
        rows.append([name, *(cell(outcomes[engine], reference) for engine in engines)])
    complete = [engine for engine in engines if all(medians(results, engine))]
    means = {engine: statistics.geometric_mean(medians(results, engine)) for engine in complete}
    totals = {engine: sum(medians(results, engine)) for engine in complete}
    rows.append(["geomean", *(f"{means[engine]:.1f}" if engine in means else "–" for engine in engines)])
    rows.append(["total", *(f"{totals[engine]:.0f}" if engine in totals else "–" for engine in engines)])
    rows.append(["size, MB", *(f"{described[engine]['bytes'] / 1e6:.1f}" for engine in engines)])
    lines = [
        f"Star Schema Benchmark, scale factor {options.scale:g}, {options.threads} threads, hot, "
        f"median of {options.runs} runs (in brackets: times as fast as {peers[0] if peers else 'nothing'}).",
        f"Synthetic data after its specification. {hardware()}.",
        "",
        *table(rows),
        "",
    ]
    for engine in engines:
        if not engine.startswith("freestone"):
            continue
        for against in ([peer] for peer in peers):
            mean, lost = ratio(results, engine, against)
            lines.append(f"{engine}: {mean:.2f}× {against[0]}; slower on {', '.join(lost) or 'none'}")
        if len(peers) > 1:
            mean, lost = ratio(results, engine, peers)
            lines.append(
                f"{engine}: {mean:.2f}× the faster of them, query by query; slower on {', '.join(lost) or 'none'}"
            )
    for engine, by_query in profiles.items():
        body = [["read by " + engine, *COUNTERS]]
        body += [[name, *(f"{counters.get(c, 0):,.0f}" for c in COUNTERS)] for name, counters in by_query.items()]
        lines += ["", *table(body)]
    lines += [
        "",
        *(f"{engine} {described[engine]['version'].split()[-1]}: {described[engine]['note']}." for engine in engines),
    ]
    return "\n".join(lines)


def named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError("expected NAME=PATH")
    return name, Path(path)


def parse() -> argparse.Namespace:
    parser = run_parser(
        __doc__,
        only="queries, as q1.1,q2.3",
        engines="default: all, with every design and database",
        files="five",
        json="every time, hash, size and counter",
    )
    parser.add_argument(
        "--design",
        type=named,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="SQL run once after loading: ALTER TABLE … SET DESIGN, VACUUM",
    )
    parser.add_argument(
        "--database", type=named, action="append", default=[], metavar="NAME=FOLDER", help="a loaded Freestone database"
    )
    parser.add_argument(
        "--reload", action="store_true", help="loads Freestone's databases again, as after a change of its format"
    )
    parser.add_argument("--text", type=Path, help="writes the printed report here, too")
    options = parser.parse_args()
    options.design, options.database = dict(options.design), dict(options.database)
    ours = [f"freestone:{name}" for name in [*options.design, *options.database]]
    known = ["freestone", *ours, "duckdb", "duckdb:sorted", "clickhouse", "datafusion"]
    options.engines = options.engines or known
    if unknown := [name for name in options.engines if name not in known]:
        parser.error(f"unknown engine {', '.join(unknown)}; there are {', '.join(known)}")
    return options


def job(engine: str, data: Path, stores: Path, options: argparse.Namespace) -> Job:
    """The job of an engine's worker. The store's name has a hash of the script, so each script has its own store."""
    name = engine.partition(":")[2] if engine.startswith("freestone") else ""
    database = str(options.database[name].resolve()) if name in options.database else ""
    script = options.design[name].read_text() if name in options.design else ""
    suffix = f"-{hashlib.sha256(script.encode()).hexdigest()[:8]}" if script else ""
    store = stores / (engine.replace(":", "-") + suffix)
    if options.reload and engine.startswith("freestone"):
        shutil.rmtree(store, ignore_errors=True)
    return Job(engine, str(data), str(store), options.threads, str(options.freestone.resolve()), database, script)


def main() -> None:
    options = parse()
    queries = ssb_queries()
    if unknown := set(options.only or []) - queries.keys():
        sys.exit(f"error: unknown query {', '.join(sorted(unknown))}; there are {', '.join(queries)}")
    queries = {name: sql for name, sql in queries.items() if not options.only or name in options.only}
    python = environment_python()
    data = ssb_data(options.data, options.scale, options.freestone).resolve()
    stores = options.work.resolve() / f"stores-ssb-sf{options.scale:g}"
    workers = {
        engine: Worker(python, job(engine, data, stores, options), "ssb_engines.py") for engine in options.engines
    }
    described: Described = {}
    for engine, worker in list(workers.items()):
        answer = worker.ask(QUERY_SECONDS, do="describe")
        print(f"{engine} {answer.get('error', 'is ready')}", file=sys.stderr)
        if "error" in answer:
            workers.pop(engine).stop()
        else:
            described[engine] = answer
    if not workers:
        sys.exit("error: no engine could be opened")
    results: Results = {}
    profiles: dict[str, dict[str, dict[str, float]]] = {
        engine: {} for engine in workers if engine.startswith("freestone")
    }
    for name, sql in queries.items():
        results[name] = measure(workers, name, sql, options.runs)
        compare_exactly(name, results[name])
        for engine in profiles:
            profiles[engine][name] = workers[engine].ask(QUERY_SECONDS, do="profile", sql=sql).get("profile", {})
        print(
            name,
            {engine: outcome.median and round(outcome.median, 1) for engine, outcome in results[name].items()},
            file=sys.stderr,
        )
    for worker in workers.values():
        worker.stop()
    text = report(options, described, results, profiles)
    print(text)
    if options.text:
        options.text.write_text(text + "\n")
    if options.json:
        outcomes = {
            name: {
                engine: asdict(replace(outcome, rows=None))
                | {"median": outcome.median, "least": min(outcome.times, default=None)}
                for engine, outcome in by_engine.items()
            }
            for name, by_engine in results.items()
        }
        peers = [peer for peer in PEERS if peer in described]
        document = {
            "benchmark": "ssb",
            "machine": hardware(),
            "scale": options.scale,
            "threads": options.threads,
            "runs": options.runs,
            "engines": described,
            "results": outcomes,
            "read": profiles,
            "ratio_to_faster_duckdb": {engine: ratio(results, engine, peers)[0] for engine in described}
            if peers
            else {},
        }
        options.json.write_text(json.dumps(document, indent=1))
    if any(outcome.differs for by_engine in results.values() for outcome in by_engine.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
