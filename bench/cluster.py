"""Queries on the workers of one machine: how much faster several are, and what a killed worker, a slow one, and short statements cost.

    python bench/cluster.py --scale 1 --json cluster.json --minutes 9
    python bench/cluster.py --only ssb,kill --workers 1,2,4 --share 0.4 --runs 5

Parts: ssb, tpch (1 to 8 workers, against one process with all their cores), short (statements under 20 ms, against a server without
workers), kill (statements of which a worker is killed), slow (one worker with a quarter of its share), requests (of a warm query and of
a commit), cold (a scan against the rate of the store), ninth (what is fetched again when a ninth worker comes).

Each worker has a share of the processor (`--share`, in cores) by a quota of its control group, with periods of 5 ms, and `--memory`. The
servers have `--server-share` each, and the one process has all shares of the largest cluster and of its server. This needs Linux, and the
right to make control groups, which root has. With `--limit none` there are no quotas: then workers compete for the cores, so the figures
say nothing about several machines, and none is compared with a target.

The database is in an object store of this machine, freestone-mock-store, which answers after `--latency` milliseconds; its processor time
is not limited. `--store folder` has it in a folder. For the part `cold`, the store sends `--rate` megabytes per second.

Data is generated from a fixed seed and loaded once; neither is timed. Queries are warm: each ran twice with every number of workers before,
first without claims, so that each worker has its own parts in its cache. Repetitions alternate among all configurations, which run at the
same time. A time is from sending a statement to its last row, as the shell sees it, which is a client of the server. All rows are compared
with those of the one process. A ratio is the geometric mean of the queries' ratios of medians.

With `--json`, each query and each part is kept when it is measured. A run with the same file and options goes on where the last one ended,
and with `--minutes` it ends after so many, with status 3 if something is left. Needs only Python's standard library.
"""

import argparse
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cgroups import Groups, NotPossible
from cluster_processes import Cluster, Connection, Place, Server
from engines import statements
from environment import CACHE, QUERIES, SSB_TABLES, TABLES, default_freestone, hardware, ssb_data, ssb_queries, tpch_data, tpch_queries
from peers import Outcome, Rows, normalised, same
from remote import Store

PARTS = ("ssb", "tpch", "short", "kill", "slow", "requests", "cold", "ninth")
SHORT_RUNS, KILLS, COMMITS = 30, 3, 5
#: The bucket of the store, which anybody may read.
BUCKET = "public-bench"
#: Threads and bytes of the requests with which the store's rate is measured.
READERS, RANGE = 16, 8 << 20
#: Reads all numbers of the largest table. The sums are of no column alone, which its zones would have.
SCAN = (
    "SELECT max(lo_orderkey + lo_linenumber), max(lo_custkey + lo_partkey), max(lo_suppkey + lo_orderdate), max(lo_quantity + lo_tax), "
    "max(lo_extendedprice + lo_discount), max(lo_ordtotalprice + lo_revenue), max(lo_supplycost + lo_commitdate) FROM lineorder"
)
#: The query that parts `kill` and `slow` repeat: a join of all tables.
LONG_QUERY = "q4.1"
SHORT_QUERIES = {
    "count": "SELECT count(*) FROM supplier WHERE s_region = 'ASIA'",
    "groups": "SELECT d_year, count(*), max(d_datekey) FROM date GROUP BY d_year",
    "key": "SELECT s_name, s_city FROM supplier WHERE s_suppkey = 7",
    "join": "SELECT s_nation, count(*) FROM supplier JOIN customer ON s_city = c_city WHERE s_region = 'EUROPE' AND c_custkey < 500 GROUP BY 1",
    "first rows": "SELECT p_brand1, p_name FROM part WHERE p_size = 7 ORDER BY p_partkey LIMIT 10",
}

#: Medians by query, then by configuration: a number of workers, `alone`, or `process`.
Times = dict[str, dict[str, Outcome]]


@dataclass
class Figure:
    """One ratio or time, and what it should be."""

    name: str
    found: float
    target: float | None
    unit: str = "×"
    #: Whether the target is the most that the figure may be.
    is_most: bool = False

    @property
    def is_reached(self) -> bool | None:
        if self.target is None:
            return None
        return self.found <= self.target if self.is_most else self.found >= self.target

    def row(self) -> list[str]:
        bound = "at most" if self.is_most else "at least"
        target = f"{bound} {self.target:.2f} {self.unit}" if self.target is not None else "–"
        verdict = {True: "reached", False: "**short of it**", None: "–"}[self.is_reached]
        return [self.name, target, f"{self.found:.2f} {self.unit}", verdict]


#: The least speed-ups over one worker, by benchmark and number of workers, and the least ratio against one process with all cores.
SPEED_UPS = {"ssb": {2: 1.8, 4: 3.3, 8: 5.5}, "tpch": {8: 3.5}}
AGAINST_PROCESS = {"ssb": 0.7, "tpch": 0.5}
SHORT_LEAST, SHORT_MILLISECONDS = 0.87, 20.0
#: How much faster a statement with a slow worker is if others claim what that one has not begun.
CLAIMS_LEAST = 2.0
#: The share of the store's rate, the requests of a warm query and of a commit, and the share that a new worker fetches again.
RATE_LEAST, REQUESTS_MOST, REFETCHED_MOST = 0.8, 1, 1.3 / 9
TITLES = {"ssb": "SSB", "tpch": "TPC-H"}


def ratio(times: Times, slower: str, faster: str) -> float:
    """The geometric mean of median(slower) / median(faster) over the queries that both have answered."""
    pairs = [(outcomes[slower].median, outcomes[faster].median) for outcomes in times.values()]
    found = [a / b for a, b in pairs if a and b]
    return statistics.geometric_mean(found) if found else float("nan")


def scaling_figures(benchmark: str, times: Times, workers: Sequence[int], is_limited: bool) -> list[Figure]:
    """The speed-ups over one worker, and the ratio against one process. Without limits there are no targets."""
    title, first, most = TITLES[benchmark], str(min(workers)), str(max(workers))
    targets = SPEED_UPS[benchmark] if is_limited and min(workers) == 1 else {}
    figures = [
        Figure(f"{title}, {first} → {count} workers", ratio(times, first, str(count)), targets.get(count)) for count in sorted(workers) if str(count) != first
    ]
    least = AGAINST_PROCESS[benchmark] if is_limited and max(workers) == 8 else None
    figures.append(Figure(f"{title}, {most} workers against one process with all their cores", ratio(times, "process", most), least))
    return figures


def losses(times: Times, ours: str, theirs: str) -> list[str]:
    """The queries that take longer with `ours`, with median(theirs) / median(ours)."""
    lost = []
    for name, outcomes in times.items():
        a, b = outcomes[ours].median, outcomes[theirs].median
        if a and b and a > b:
            lost.append(f"{name} ({b / a:.2f}×)")
    return lost


def kill_bound(usual: float) -> float:
    """The most milliseconds that a statement may take whose worker is killed, by what it takes otherwise."""
    return 2.2 * usual + 2000


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] + ["---:"] * (len(head) - 1), *body]]


def table(times: Times) -> list[str]:
    """The medians in milliseconds, their sums and geometric means."""
    configurations = list(next(iter(times.values())))
    cell = lambda outcome: outcome.error or f"{outcome.median or float('nan'):.1f}" + (" **WRONG**" if outcome.differs else "")
    rows = [["ms", *configurations]]
    rows += [[name, *(cell(outcomes[at]) for at in configurations)] for name, outcomes in times.items()]
    columns = [[outcomes[at].median for outcomes in times.values() if outcomes[at].median] for at in configurations]
    rows.append(["total", *(f"{sum(column):.0f}" for column in columns)])
    rows.append(["geomean", *(f"{statistics.geometric_mean(column):.1f}" if column else "–" for column in columns)])
    return markdown(rows)


class OutOfTime(Exception):
    """The time of this run is over, and something is left to be measured."""


def measure(connections: dict[str, Connection], queries: dict[str, str], runs: int, kept: "Kept | None" = None, part: str = "") -> Times:
    """Warm-up runs, then repetitions in turns. Rows are compared with those of the last configuration, the one process.

    Raises:
        OutOfTime: what was measured is kept.
    """
    results: Times = kept.times(part) if kept else {}
    for name, sql in queries.items():
        if name in results:
            continue
        if kept:
            kept.check_time()
        plain = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
        outcomes = {at: Outcome() for at in connections}
        for connection in connections.values():
            for statement in ("SET distribution_claims = off", plain, "SET distribution_claims = on"):
                connection.timed(statement)
        for repetition in range(1 + runs):
            for at, connection in connections.items():
                milliseconds, rows = connection.timed(plain)
                if repetition:
                    outcomes[at].times.append(milliseconds)
                check(name, at, outcomes[at], normalised(rows))
        compare(name, outcomes)
        results[name] = outcomes
        if kept:
            kept.keep_times(part, results)
        print(name, {at: round(outcome.median or 0, 1) for at, outcome in outcomes.items()}, file=sys.stderr)
    return results


def check(name: str, at: str, outcome: Outcome, rows: Rows) -> None:
    """Keeps the rows of the first run, with which those of the others must be the same."""
    if outcome.rows is None:
        outcome.rows = rows
    elif not same(outcome.rows, rows):
        outcome.differs = True
        print(f"*** WRONG: {name} with {at} gave other rows when it was repeated", file=sys.stderr)


def compare(name: str, outcomes: dict[str, Outcome]) -> None:
    """Marks the configurations whose rows are not those of the last one."""
    *others, reference = outcomes
    expected = outcomes[reference].rows
    for at in others:
        if expected is None or not same(expected, outcomes[at].rows or []):
            outcomes[at].differs = True
            print(f"*** WRONG: {name} with {at} is not the answer of {reference}", file=sys.stderr)


@dataclass
class Part:
    """What a part has found."""

    figures: list[Figure] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    is_wrong: bool = False


class Kept:
    """What was measured, in a file from which the next run goes on."""

    def __init__(self, options: argparse.Namespace, limits: str) -> None:
        self.path, self.end = options.json, time.monotonic() + options.minutes * 60 if options.minutes else None
        names = ("scale", "tpch_scale", "workers", "share", "server_share", "memory", "threads", "runs", "store", "latency", "rate")
        head = {"machine": hardware(), "limits": limits, "options": {name: getattr(options, name) for name in names}}
        self.document: dict = head | {"parts": {}, "times": {}}
        if self.path and self.path.exists():
            found = json.loads(self.path.read_text())
            if {name: found.get(name) for name in head} != head:
                sys.exit(f"error: {self.path} has figures of other options or of another machine\nhint: name another file, or remove it")
            self.document = found

    def check_time(self) -> None:
        if self.end is not None and time.monotonic() > self.end:
            raise OutOfTime

    def times(self, part: str) -> Times:
        known = self.document["times"].get(part, {})
        outcome = lambda one: Outcome(times=one["times"], differs=one["differs"])
        return {query: {at: outcome(one) for at, one in by.items()} for query, by in known.items()}

    def keep_times(self, part: str, times: Times) -> None:
        kept = lambda outcome: {"times": outcome.times, "median": outcome.median, "differs": outcome.differs}
        self.document["times"][part] = {query: {at: kept(one) for at, one in by.items()} for query, by in times.items()}
        self.write()

    def part(self, name: str) -> Part | None:
        found = self.document["parts"].get(name)
        return Part([Figure(**figure) for figure in found["figures"]], found["lines"], found["is_wrong"]) if found else None

    def keep_part(self, name: str, part: Part) -> None:
        self.document["parts"][name] = asdict(part)
        self.write()

    def write(self) -> None:
        if self.path:
            self.path.write_text(json.dumps(self.document, indent=1))


class Laboratory:
    """What is measured, and what came out."""

    def __init__(self, options: argparse.Namespace, groups: Groups | None) -> None:
        self.options, self.groups = options, groups
        self.kept = Kept(options, groups.kind if groups else "none")
        self.found = Part()

    def parts(self) -> dict[str, Part]:
        """The parts that are known, in order."""
        return {name: part for name in PARTS if (part := self.kept.part(name))}

    def run(self) -> None:
        with_cluster = {"ssb": self.ssb, "short": self.short, "kill": self.kill, "slow": self.slow, "requests": self.requests}
        self.on("ssb", with_cluster)
        self.on("tpch", {"tpch": lambda cluster, _: self.scaling("tpch", cluster, tpch_queries())})
        self.alone("cold", self.cold)
        self.alone("ninth", self.ninth)

    def is_due(self, name: str) -> bool:
        return name in self.options.only and self.kept.part(name) is None

    def begin(self) -> None:
        self.kept.check_time()
        self.found = Part()

    def on(self, benchmark: str, parts: dict[str, Callable[[Cluster, Store | None], None]]) -> None:
        """Runs parts on a cluster with the tables of a benchmark, and says how busy the machine was otherwise."""
        due = {name: part for name, part in parts.items() if self.is_due(name)}
        if not due:
            return
        self.kept.check_time()
        folder = self.loaded(benchmark)
        store = self.store(folder)
        cluster = Cluster(self.place(folder, store), folder, self.options, self.groups)
        try:
            cluster.start()
            for name, part in due.items():
                self.begin()
                before = busy_seconds(), cluster.processor_seconds() + sum(os.times()[:2]), time.perf_counter()
                part(cluster, store)
                after = busy_seconds(), cluster.processor_seconds() + sum(os.times()[:2]), time.perf_counter()
                all_busy, own, seconds = (b - a for a, b in zip(before, after, strict=True))
                others = max(0.0, all_busy - own) / seconds
                self.found.lines += ["", f"Meanwhile, other processes, of which one is the store, used {others:.2f} of {os.cpu_count()} cores."]
                self.kept.keep_part(name, self.found)
        finally:
            cluster.stop()
            if store:
                store.stop()

    def alone(self, name: str, part: Callable[[Path], None]) -> None:
        """Runs a part that starts its own processes, which needs an object store."""
        if not self.is_due(name):
            return
        self.begin()
        if self.options.store == "folder":
            self.found.lines += ["", f"The part `{name}` was left out: it needs `--store s3`."]
        else:
            part(self.loaded("ssb"))
        self.kept.keep_part(name, self.found)

    def scale(self, benchmark: str) -> float:
        return self.options.scale if benchmark == "ssb" else self.options.tpch_scale

    def loaded(self, benchmark: str) -> Path:
        folder = self.options.work / f"cluster-{benchmark}-sf{self.scale(benchmark):g}"
        load(benchmark, folder, self.scale(benchmark), self.options)
        return folder

    def store(self, folder: Path, rate: int | None = None) -> Store | None:
        """A store with a copy of the database, which is not kept."""
        if self.options.store == "folder":
            return None
        return Store(self.options.serve, folder / "store", self.options.latency, BUCKET, rate)

    def place(self, folder: Path, store: Store | None) -> Place:
        return Place(f"s3://{BUCKET}", store.environment()) if store else Place(f"file://{folder}/store")

    def keep(self, name: str, times: Times) -> None:
        self.kept.keep_times(name, times)
        self.found.is_wrong |= any(outcome.differs for outcomes in times.values() for outcome in outcomes.values())

    def ssb(self, cluster: Cluster, _: Store | None) -> None:
        self.scaling("ssb", cluster, ssb_queries())

    def scaling(self, benchmark: str, cluster: Cluster, queries: dict[str, str]) -> None:
        """All queries with each number of workers. All are divided, however short they are predicted to be."""
        servers = {name: server for name, server in cluster.servers.items() if name != "alone"}
        for server in servers.values():
            server.connection.timed("SET distribution_threshold = 0")
        connections = {name: server.connection for name, server in servers.items()}
        times = measure(connections, queries, self.options.runs, self.kept, benchmark)
        self.keep(benchmark, times)
        workers = self.options.workers
        self.found.figures += scaling_figures(benchmark, times, workers, self.groups is not None)
        most, first = str(max(workers)), str(min(workers))
        self.found.lines += ["", f"{TITLES[benchmark]}, scale factor {self.scale(benchmark):g}, by the number of workers:", "", *table(times), ""]
        self.found.lines.append(f"- Slower with {most} workers than with {first}: {', '.join(losses(times, most, first)) or 'none'}.")
        self.found.lines.append(f"- Slower with {most} workers than in the one process: {', '.join(losses(times, most, 'process')) or 'none'}.")

    def short(self, cluster: Cluster, _: Store | None) -> None:
        """Statements that stay on the server: with workers, and without."""
        servers = {"with workers": cluster.largest, "alone": cluster.servers["alone"]}
        connections = {name: server.connect() for name, server in servers.items()}
        times = measure(connections, SHORT_QUERIES, SHORT_RUNS)
        self.keep("short", times)
        longest = max(outcome.median or 0 for outcomes in times.values() for outcome in outcomes.values())
        target = SHORT_LEAST if longest < SHORT_MILLISECONDS else None
        self.found.figures.append(Figure("short statements, against a server without workers", ratio(times, "alone", "with workers"), target))
        note = "" if target else f" One takes {longest:.0f} ms here, so the target, for statements under {SHORT_MILLISECONDS:g} ms, is not applied."
        self.found.lines += ["", f"Short statements, median of {SHORT_RUNS} runs.{note}", "", *table(times)]

    def usual(self, server: Server, sql: str, claims: str = "on") -> tuple[float, Rows]:
        """The median time of a statement that is divided, and its rows."""
        for statement in ("SET distribution_threshold = 0", "SET distribution_claims = off", sql, f"SET distribution_claims = {claims}"):
            server.connection.timed(statement)
        found = [server.connection.timed(sql) for _ in range(1 + self.options.runs)]
        return statistics.median(milliseconds for milliseconds, _ in found[1:]), normalised(found[0][1])

    def kill(self, cluster: Cluster, _: Store | None) -> None:
        """Kills a worker in the middle of a statement."""
        server, sql, worst = cluster.largest, ssb_queries()[LONG_QUERY], (0.0, 1.0, 0.0)
        lines = []
        for at in range(KILLS):
            usual, expected = self.usual(server, sql)
            worker = cluster.workers[at % len(cluster.workers)]
            assert worker.process is not None
            timer = threading.Timer(usual / 2000, worker.process.kill)
            timer.start()
            milliseconds, rows = server.connection.timed(sql)
            timer.join()
            if not same(expected, normalised(rows)):
                self.found.is_wrong = True
                print(f"*** WRONG: {LONG_QUERY} gave other rows when a worker was killed", file=sys.stderr)
            worker.start()
            server.wait_for_workers(len(cluster.workers))
            lines.append(f"{milliseconds:.0f} ms instead of {usual:.0f}")
            worst = max(worst, (milliseconds / kill_bound(usual), milliseconds, usual))
        _, milliseconds, usual = worst
        target = kill_bound(usual) / 1000 if self.groups else None
        self.found.figures.append(Figure(f"SSB {LONG_QUERY} whose worker is killed", milliseconds / 1000, target, "s", is_most=True))
        self.found.lines += ["", f"SSB {LONG_QUERY} with {len(cluster.workers)} workers, one of which was killed in the middle: {'; '.join(lines)}."]

    def slow(self, cluster: Cluster, _: Store | None) -> None:
        """Gives a worker a quarter of its share."""
        if self.groups is None:
            self.found.lines += ["", "No worker was slowed, because there are no quotas."]
            return
        sql, server, title = ssb_queries()[LONG_QUERY], cluster.largest, f"SSB {LONG_QUERY} with one of {len(cluster.workers)} workers slowed to a quarter"
        usual, expected = self.usual(server, sql)
        cluster.slow(0, self.options.share / 4)
        slowed = {}
        for claims in ("off", "on"):
            slowed[claims], rows = self.usual(server, sql, claims)
            self.found.is_wrong |= not same(expected, rows)
        cluster.slow(0, self.options.share)
        self.found.figures.append(Figure(f"{title}, claims on against off", slowed["off"] / slowed["on"], CLAIMS_LEAST))
        self.found.figures.append(Figure(f"{title}, its time", slowed["on"] / usual, None))

    def requests(self, cluster: Cluster, store: Store | None) -> None:
        """The requests of warm queries and of commits."""
        if store is None:
            self.found.lines += ["", "Requests were not counted: a folder has none."]
            return
        for name, server in {"without workers": cluster.servers["alone"], f"with {len(cluster.workers)} workers": cluster.largest}.items():
            sql = ssb_queries()[LONG_QUERY]
            self.usual(server, sql)
            found = [requests_of(store, server, sql) for _ in range(self.options.runs)]
            self.found.figures.append(Figure(f"requests of a warm query {name}", statistics.median(found), REQUESTS_MOST, "requests", is_most=True))
        server = cluster.servers["alone"]
        for sql in ("CREATE TABLE IF NOT EXISTS bench_commits (a INT)", "INSERT INTO bench_commits VALUES (0)"):
            server.connection.timed(sql)
        alone, committed = [], []
        for at in range(COMMITS):
            alone.append(requests_of(store, server, f"INSERT INTO bench_commits VALUES ({at})"))
            server.connection.timed("BEGIN")
            server.connection.timed(f"INSERT INTO bench_commits VALUES ({at})")
            committed.append(requests_of(store, server, "COMMIT"))
        self.found.figures.append(Figure("requests of COMMIT", statistics.median(committed), REQUESTS_MOST, "requests", is_most=True))
        self.found.figures.append(Figure("requests of an INSERT with its snapshot and commit", statistics.median(alone), None, "requests"))
        server.connection.timed("DROP TABLE bench_commits")

    def cold(self, folder: Path) -> None:
        """A scan of what no process has read yet, against the rate at which the store sends."""
        rate = int(self.options.rate * 1e6)
        for name, workers in {"in the one process": 0, f"with {max(self.options.workers)} workers": max(self.options.workers)}.items():
            store = self.store(folder, rate)
            assert store is not None
            cluster = Cluster(self.place(folder, store), folder, self.options, self.groups)
            try:
                for _ in range(workers):
                    cluster.add_worker().start()
                cores = self.options.server_share if workers else max(self.options.workers) * self.options.share + self.options.server_share
                server = cluster.add_server("cold", cluster.workers, cores)
                if workers:
                    server.wait_for_workers(workers)
                server.connection.timed("SET distribution_threshold = 0")
                server.connection.timed("SELECT 1")
                store.traffic()
                milliseconds, _ = server.connection.timed(SCAN)
                requests, sent = store.traffic()
                reached = plain_rate(store, folder / "store")
            finally:
                cluster.stop()
                store.stop()
            share = sent / (milliseconds / 1000) / reached
            self.found.figures.append(Figure(f"cold scan {name}, share of the store's rate", share, RATE_LEAST if self.groups else None))
            self.found.lines += [
                "",
                f"Cold scan {name}: {sent / 1e6:.0f} MB by {requests} requests in {milliseconds / 1000:.1f} s. "
                f"The store sends {self.options.rate:g} MB/s, of which {READERS} plain readers had {reached / 1e6:.1f}.",
            ]

    def ninth(self, folder: Path) -> None:
        """What is fetched again when one more worker comes."""
        store = self.store(folder)
        assert store is not None
        cluster, count = Cluster(self.place(folder, store), folder, self.options, self.groups), max(self.options.workers)
        try:
            for _ in range(count + 1):
                cluster.add_worker()
            for worker in cluster.workers[:count]:
                worker.start()
            server = cluster.add_server("ninth", cluster.workers, self.options.server_share)
            server.wait_for_workers(count)
            # Who claims reads what another one has in its cache.
            for sql in ("SET distribution_threshold = 0", "SET distribution_claims = off"):
                server.connection.timed(sql)
            first, warm = (bytes_of(store, server, SCAN) for _ in range(2))
            cluster.workers[count].start()
            server.wait_for_workers(count + 1)
            again = bytes_of(store, server, SCAN)
            server.connection.timed("SET distribution_claims = on")
            claimed = [bytes_of(store, server, SCAN) for _ in range(self.options.runs)]
        finally:
            cluster.stop()
            store.stop()
        most = REFETCHED_MOST if count == 8 else None
        self.found.figures.append(Figure(f"fetched again when worker {count + 1} comes, of all bytes", again / first, most, "", is_most=True))
        self.found.lines += [
            "",
            f"A scan with {count} workers fetched {first / 1e6:.1f} MB, when it was repeated {warm / 1e6:.1f} MB, and with one worker more "
            f"{again / 1e6:.1f} MB, the footers for that worker included. With claims, repetitions fetched "
            f"{', '.join(f'{one / 1e6:.1f}' for one in claimed)} MB.",
        ]


#: The requests for the marker that a connection selects after each statement, outside of transactions: for a snapshot.
MARKER_REQUESTS = 1


def requests_of(store: Store, server: Server, sql: str) -> int:
    """The requests that the store gets for a statement, in no transaction when it ends."""
    store.traffic()
    server.connection.timed(sql)
    return store.traffic()[0] - MARKER_REQUESTS


def bytes_of(store: Store, server: Server, sql: str) -> int:
    """The bytes that the store sends while a statement runs."""
    store.traffic()
    server.connection.timed(sql)
    return store.traffic()[1]


def plain_rate(store: Store, folder: Path) -> float:
    """The bytes per second at which plain readers have the segments of a database."""
    files = sorted((folder / "segments").iterdir())
    ranges = [(file.name, at, min(at + RANGE, file.stat().st_size)) for file in files for at in range(0, file.stat().st_size, RANGE)]
    host = store.endpoint.removeprefix("http://")

    def read(part: tuple[str, int, int]) -> int:
        name, start, end = part
        connection = http.client.HTTPConnection(host)
        connection.request("GET", f"/{BUCKET}/segments/{name}", headers={"Range": f"bytes={start}-{end - 1}"})
        sent = len(connection.getresponse().read())
        connection.close()
        return sent

    began = time.perf_counter()
    with ThreadPoolExecutor(READERS) as readers:
        sent = sum(readers.map(read, ranges))
    return sent / (time.perf_counter() - began)


def busy_seconds() -> float:
    """The time for which the machine's cores have been busy since it started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _, _, interrupts, soft, steal = (int(field) for field in fields)
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")


def load(benchmark: str, folder: Path, scale: float, options: argparse.Namespace) -> None:
    """Loads the tables of a benchmark into a store in a folder, unless it has them."""
    store, done = f"file://{folder}/store", folder / "loaded"
    if done.exists() and not options.reload:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if benchmark == "ssb":
        data = ssb_data(None, scale, options.freestone)
        script = statements((QUERIES / "ssb" / "schema.sql").read_text())
        script += [f"COPY {table} FROM '{data}/{table}.parquet' (FORMAT parquet)" for table in SSB_TABLES]
    else:
        data = tpch_data(None, scale, options.freestone)
        script = [f"CREATE TABLE {table} WITH (preset = 'auto') AS SELECT * FROM '{data}/{table}.parquet'" for table in TABLES]
    print(f"loading {TITLES[benchmark]} into {store}", file=sys.stderr)
    ran = subprocess.run([options.freestone, store, "-f", "-"], input=";\n".join(script) + ";\n", text=True, capture_output=True)
    if ran.returncode:
        sys.exit(f"error: {benchmark} cannot be loaded: {ran.stderr}")
    done.touch()


def report(lab: Laboratory) -> str:
    options, parts = lab.options, lab.parts()
    limits = f"{options.share:g} cores per worker, {options.server_share:g} per server, by {lab.groups.kind}" if lab.groups else "no quotas"
    place = "in folders of this machine" if options.store == "folder" else f"in an object store of this machine that answers after {options.latency} ms"
    head = [
        f"Workers on one machine, {limits}; {options.memory} of memory per worker; warm, median of {options.runs} runs.",
        f"Databases are {place}. Synthetic data. {hardware()}.",
        "",
        *markdown([["", "target", "found", ""], *(figure.row() for part in parts.values() for figure in part.figures)]),
    ]
    return "\n".join([*head, *(line for part in parts.values() for line in part.lines)])


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of SSB")
    parser.add_argument("--tpch-scale", type=float, help="scale factor of TPC-H [default: that of SSB]")
    parser.add_argument("--workers", type=lambda text: sorted({int(n) for n in text.split(",")}), default=[1, 2, 4, 8], help="numbers of workers")
    parser.add_argument("--share", type=float, default=0.2, help="cores of a worker")
    parser.add_argument("--server-share", type=float, default=0.4, help="cores of a server")
    parser.add_argument("--memory", default="1GiB", help="memory of a worker")
    parser.add_argument("--threads", type=int, default=2, help="threads of a statement, on servers and workers")
    parser.add_argument("--runs", type=int, default=3, help="measured repetitions of each query")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=f"of {','.join(PARTS)}")
    parser.add_argument("--limit", choices=["cgroup", "none"], default="cgroup", help="how processor time is limited")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument("--work", type=Path, default=CACHE / "bench", help="folder for the stores")
    parser.add_argument("--store", choices=["s3", "folder"], default="s3", help="where the database is")
    parser.add_argument("--latency", type=int, default=15, help="milliseconds until the store answers")
    parser.add_argument("--rate", type=float, default=50.0, help="megabytes per second of the store in the part `cold`")
    parser.add_argument("--serve", type=Path, help="the example `serve` of freestone-mock-store [default: where cargo builds it]")
    parser.add_argument("--reload", action="store_true", help="loads the stores again, as after a change of the format")
    parser.add_argument("--json", type=Path, help="a file for times and figures, from which the next run goes on")
    parser.add_argument("--minutes", type=float, help="begins nothing new after so many minutes")
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if not options.workers or min(options.workers) < 1 or options.share <= 0 or options.server_share <= 0 or options.runs < 1:
        parser.error("workers and runs are 1 or more, and shares above 0")
    options.tpch_scale = options.tpch_scale or options.scale
    options.freestone, options.work = options.freestone.resolve(), options.work.resolve()
    options.serve = (options.serve or options.freestone.parent / "examples" / "serve").resolve()
    return options


def main() -> None:
    options = parse()
    if options.store == "s3" and not options.serve.exists():
        sys.exit("error: there is no object store\nhint: cargo build --release -p freestone-mock-store --example serve, or --store folder")
    # Who ends this program also ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        groups = Groups.make() if options.limit == "cgroup" else None
    except NotPossible as error:
        sys.exit(f"error: processor time cannot be limited here: {error}\nhint: run it as root on Linux, or without quotas by --limit none")
    lab, is_over = Laboratory(options, groups), True
    try:
        lab.run()
    except OutOfTime:
        is_over = False
    finally:
        if groups:
            groups.remove()
    print(report(lab))
    if any(part.is_wrong for part in lab.parts().values()):
        sys.exit(1)
    if not is_over:
        print("The time is over, and something is left: run it again to go on.", file=sys.stderr)
        sys.exit(3)


if __name__ == "__main__":
    main()
