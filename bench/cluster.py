"""Queries on the workers of one machine: how much faster several are, and what a killed worker, a slow one, and short statements cost.

    python bench/cluster.py --scale 1 --json cluster.json
    python bench/cluster.py --only ssb,kill --workers 1,2,4 --share 0.4 --runs 5

Parts: ssb, tpch (1 to 8 workers, against one process with all their cores), short (statements under 20 ms, against a server without
workers), kill (statements of which a worker is killed), slow (one worker with a quarter of its share).

Each worker has a share of the processor (`--share`, in cores) by a quota of its control group, with periods of 5 ms, and `--memory`. The
servers have `--server-share` each, and the one process has all shares of the largest cluster and of its server. This needs Linux, and the
right to make control groups, which root has. With `--limit none` there are no quotas: then workers compete for the cores, so the figures
say nothing about several machines, and none is compared with a target.

Data is generated from a fixed seed and loaded once; neither is timed. Queries are warm: each ran once with every number of workers
before. Repetitions alternate among all configurations, which run at the same time. A time is from sending a statement to its last
row, as the shell sees it, which is a client of the server. All rows are compared with those of the one process. A ratio is the geometric mean
of the queries' ratios of medians. Needs only Python's standard library.
"""

import argparse
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
from dataclasses import asdict, dataclass
from pathlib import Path

from cgroups import Groups, NotPossible
from cluster_processes import Cluster, Connection, Server
from engines import statements
from environment import CACHE, QUERIES, SSB_TABLES, TABLES, default_freestone, hardware, ssb_data, ssb_queries, tpch_data, tpch_queries
from peers import Outcome, Rows, normalised, same

PARTS = ("ssb", "tpch", "short", "kill", "slow")
SHORT_RUNS, KILLS = 30, 3
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


def measure(connections: dict[str, Connection], queries: dict[str, str], runs: int) -> Times:
    """Warm-up runs, then repetitions in turns. Rows are compared with those of the last configuration, the one process."""
    results: Times = {}
    for name, sql in queries.items():
        plain = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
        outcomes = {at: Outcome() for at in connections}
        for repetition in range(1 + runs):
            for at, connection in connections.items():
                milliseconds, rows = connection.timed(plain)
                if repetition:
                    outcomes[at].times.append(milliseconds)
                check(name, at, outcomes[at], normalised(rows))
        compare(name, outcomes)
        results[name] = outcomes
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


class Laboratory:
    """What is measured, and what came out."""

    def __init__(self, options: argparse.Namespace, groups: Groups | None) -> None:
        self.options, self.groups = options, groups
        self.figures: list[Figure] = []
        self.lines: list[str] = []
        self.results: dict[str, Times] = {}
        self.is_wrong = False

    def wants(self, *parts: str) -> bool:
        return any(part in self.options.only for part in parts)

    def run(self) -> None:
        if self.wants("ssb", "short", "kill", "slow"):
            self.on("ssb", self.with_ssb)
        if self.wants("tpch"):
            self.on("tpch", lambda cluster: self.scaling("tpch", cluster, tpch_queries()))

    def on(self, benchmark: str, part: Callable[[Cluster], None]) -> None:
        """Runs parts on a cluster with the tables of a benchmark, and says how busy the machine was otherwise."""
        folder = self.options.work / f"cluster-{benchmark}-sf{self.scale(benchmark):g}"
        store = loaded(benchmark, folder, self.scale(benchmark), self.options)
        cluster = Cluster()
        try:
            cluster.start(self.options.freestone, store, folder, self.options, self.groups)
            before = busy_seconds(), cluster.processor_seconds() + sum(os.times()[:2]), time.perf_counter()
            part(cluster)
            after = busy_seconds(), cluster.processor_seconds() + sum(os.times()[:2]), time.perf_counter()
            all_busy, own, seconds = (b - a for a, b in zip(before, after, strict=True))
            others = max(0.0, all_busy - own) / seconds
            self.lines += ["", f"While {TITLES[benchmark]} was measured, other processes used {others:.2f} of {os.cpu_count()} cores."]
        finally:
            cluster.stop()

    def scale(self, benchmark: str) -> float:
        return self.options.scale if benchmark == "ssb" else self.options.tpch_scale

    def with_ssb(self, cluster: Cluster) -> None:
        if self.wants("ssb"):
            self.scaling("ssb", cluster, ssb_queries())
        if self.wants("short"):
            self.short(cluster)
        if self.wants("kill"):
            self.kill(cluster)
        if self.wants("slow"):
            self.slow(cluster)

    def keep(self, name: str, times: Times) -> None:
        self.results[name] = times
        self.is_wrong |= any(outcome.differs for outcomes in times.values() for outcome in outcomes.values())

    def scaling(self, benchmark: str, cluster: Cluster, queries: dict[str, str]) -> None:
        """All queries with each number of workers. All are divided, however short they are predicted to be."""
        servers = {name: server for name, server in cluster.servers.items() if name != "alone"}
        for server in servers.values():
            server.connection.timed("SET distribution_threshold = 0")
        times = measure({name: server.connection for name, server in servers.items()}, queries, self.options.runs)
        self.keep(benchmark, times)
        workers = self.options.workers
        self.figures += scaling_figures(benchmark, times, workers, self.groups is not None)
        most, first = str(max(workers)), str(min(workers))
        self.lines += ["", f"{TITLES[benchmark]}, scale factor {self.scale(benchmark):g}, by the number of workers:", "", *table(times), ""]
        self.lines.append(f"- Slower with {most} workers than with {first}: {', '.join(losses(times, most, first)) or 'none'}.")
        self.lines.append(f"- Slower with {most} workers than in the one process: {', '.join(losses(times, most, 'process')) or 'none'}.")

    def short(self, cluster: Cluster) -> None:
        """Statements that stay on the server: with workers, and without."""
        servers = {"with workers": cluster.largest, "alone": cluster.servers["alone"]}
        connections = {name: server.connect() for name, server in servers.items()}
        times = measure(connections, SHORT_QUERIES, SHORT_RUNS)
        self.keep("short", times)
        longest = max(outcome.median or 0 for outcomes in times.values() for outcome in outcomes.values())
        target = SHORT_LEAST if longest < SHORT_MILLISECONDS else None
        self.figures.append(Figure("short statements, against a server without workers", ratio(times, "alone", "with workers"), target))
        note = "" if target else f" One takes {longest:.0f} ms here, so the target, for statements under {SHORT_MILLISECONDS:g} ms, is not applied."
        self.lines += ["", f"Short statements, median of {SHORT_RUNS} runs.{note}", "", *table(times)]

    def usual(self, server: Server, sql: str) -> tuple[float, Rows]:
        """The median time of a statement that is divided, and its rows."""
        server.connection.timed("SET distribution_threshold = 0")
        found = [server.connection.timed(sql) for _ in range(1 + self.options.runs)]
        return statistics.median(milliseconds for milliseconds, _ in found[1:]), normalised(found[0][1])

    def kill(self, cluster: Cluster) -> None:
        """Kills a worker in the middle of a statement."""
        server, sql, worst = cluster.largest, ssb_queries()[LONG_QUERY], (0.0, 1.0, 0.0)
        lines = []
        for at in range(KILLS):
            usual, expected = self.usual(server, sql)
            worker = cluster.workers[at % len(cluster.workers)]
            timer = threading.Timer(usual / 2000, worker.process.kill)
            timer.start()
            milliseconds, rows = server.connection.timed(sql)
            timer.join()
            if not same(expected, normalised(rows)):
                self.is_wrong = True
                print(f"*** WRONG: {LONG_QUERY} gave other rows when a worker was killed", file=sys.stderr)
            worker.start()
            server.wait_for_workers(len(cluster.workers))
            lines.append(f"{milliseconds:.0f} ms instead of {usual:.0f}")
            worst = max(worst, (milliseconds / kill_bound(usual), milliseconds, usual))
        _, milliseconds, usual = worst
        target = kill_bound(usual) / 1000 if self.groups else None
        self.figures.append(Figure(f"SSB {LONG_QUERY} whose worker is killed", milliseconds / 1000, target, "s", is_most=True))
        self.lines += ["", f"SSB {LONG_QUERY} with {len(cluster.workers)} workers, one of which was killed in the middle: {'; '.join(lines)}."]

    def slow(self, cluster: Cluster) -> None:
        """Gives a worker a quarter of its share."""
        if self.groups is None:
            self.lines += ["", "No worker was slowed, because there are no quotas."]
            return
        sql, server, title = ssb_queries()[LONG_QUERY], cluster.largest, f"SSB {LONG_QUERY} with one of {len(cluster.workers)} workers slowed to a quarter"
        usual, expected = self.usual(server, sql)
        cluster.slow(0, self.options.share / 4)
        slowed = {}
        for claims in ("off", "on"):
            server.connection.timed(f"SET distribution_claims = {claims}")
            slowed[claims], rows = self.usual(server, sql)
            self.is_wrong |= not same(expected, rows)
        cluster.slow(0, self.options.share)
        self.figures.append(Figure(f"{title}, claims on against off", slowed["off"] / slowed["on"], CLAIMS_LEAST))
        self.figures.append(Figure(f"{title}, its time", slowed["on"] / usual, None))


def busy_seconds() -> float:
    """The time for which the machine's cores have been busy since it started."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _, _, interrupts, soft, steal = (int(field) for field in fields)
    return (user + nice + system + interrupts + soft + steal) / os.sysconf("SC_CLK_TCK")


def loaded(benchmark: str, folder: Path, scale: float, options: argparse.Namespace) -> str:
    """The store with the tables of a benchmark, which is loaded if it is not there."""
    store, done = f"file://{folder}/store", folder / "loaded"
    if done.exists() and not options.reload:
        return store
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
    return store


def report(lab: Laboratory) -> str:
    options = lab.options
    limits = f"{options.share:g} cores per worker, {options.server_share:g} per server, by {lab.groups.kind}" if lab.groups else "no quotas"
    head = [
        f"Workers on one machine, {limits}; {options.memory} of memory per worker; warm, median of {options.runs} runs.",
        f"Stores are folders of this machine. Synthetic data. {hardware()}.",
        "",
        *markdown([["", "target", "found", ""], *(figure.row() for figure in lab.figures)]),
    ]
    return "\n".join([*head, *lab.lines])


def document(lab: Laboratory) -> dict:
    options = lab.options
    kept = lambda outcome: {"times": outcome.times, "median": outcome.median, "differs": outcome.differs}
    return {
        "machine": hardware(),
        "limits": lab.groups.kind if lab.groups else "none",
        "options": {name: getattr(options, name) for name in ("scale", "tpch_scale", "workers", "share", "server_share", "memory", "threads", "runs")},
        "figures": [asdict(figure) | {"reached": figure.is_reached} for figure in lab.figures],
        "results": {
            part: {name: {at: kept(outcome) for at, outcome in outcomes.items()} for name, outcomes in times.items()} for part, times in lab.results.items()
        },
        "notes": [line for line in lab.lines if line and not line.startswith("|")],
    }


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
    parser.add_argument("--reload", action="store_true", help="loads the stores again, as after a change of the format")
    parser.add_argument("--json", type=Path, help="a file for times and figures")
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if not options.workers or min(options.workers) < 1 or options.share <= 0 or options.server_share <= 0 or options.runs < 1:
        parser.error("workers and runs are 1 or more, and shares above 0")
    options.tpch_scale = options.tpch_scale or options.scale
    options.freestone, options.work = options.freestone.resolve(), options.work.resolve()
    return options


def main() -> None:
    options = parse()
    # Who ends this program also ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        groups = Groups.make() if options.limit == "cgroup" else None
    except NotPossible as error:
        sys.exit(f"error: processor time cannot be limited here: {error}\nhint: run it as root on Linux, or without quotas by --limit none")
    lab = Laboratory(options, groups)
    try:
        lab.run()
    finally:
        if groups:
            groups.remove()
    print(report(lab))
    if options.json:
        options.json.write_text(json.dumps(document(lab), indent=1))
    if lab.is_wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
