"""Result export: time, bytes on the wire, CPU time and memory until a client has a complete Arrow table, per engine.

python bench/export.py --scale 1 --runs 5 --json result.json
python bench/export.py --engines freestone,flight-cpp,flight-cpp:lz4 --forms stored
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from environment import BENCH, CACHE, default_freestone, environment_python, hardware, laboratory

INSIDE = "FREESTONE_EXPORT_NAMESPACE"
#: The networks that `freestone-lab link` emulates: rate, one-way delay, loss.
NETWORKS = {
    "lan": ("1gbit", "0.3ms", "0%"),
    "wan": ("100mbit", "25ms", "0%"),
    "wan-loss": ("100mbit", "25ms", "1%"),
}
#: Once the runs of an engine have taken this many seconds, it is not repeated. At least one run is measured.
BUDGET_SECONDS = 60.0


@dataclass(frozen=True)
class Engine:
    """A server and a client. `what` describes the measurement in the legend of the table. With `is_new`, each run
    selects the columns in another order, so that a server cannot return a cached result."""

    server: str
    client: str
    what: str
    options: dict[str, Any] = field(default_factory=dict)
    is_new: bool = False


#: The numbers of rows per batch correspond to about 1, 2 and 4 MB of lineitem.
ENGINES: dict[str, Engine] = {
    "freestone": Engine("freestone", "freestone", "Freestone wire over TCP, one stream", {"shared_memory": "false"}),
    "freestone:2": Engine(
        "freestone", "freestone", "the same, two streams, ordered", {"shared_memory": "false", "streams": 2}
    ),
    "freestone:4": Engine(
        "freestone", "freestone", "the same, four streams, ordered", {"shared_memory": "false", "streams": 4}
    ),
    "freestone:8": Engine(
        "freestone", "freestone", "the same, eight streams, ordered", {"shared_memory": "false", "streams": 8}
    ),
    "freestone:unordered": Engine(
        "freestone",
        "freestone",
        "four streams, in any order",
        {"shared_memory": "false", "streams": 4, "ordered": "false"},
    ),
    "freestone:memory": Engine("freestone", "freestone", "Freestone wire over shared memory (what local clients get)"),
    "freestone:memory-new": Engine(
        "freestone", "freestone", "the same, rows that nobody has asked for of late", is_new=True
    ),
    "freestone:flight": Engine("freestone", "flight-sql", "Freestone's Flight SQL by Apache's ADBC driver"),
    "freestone:pg-adbc": Engine(
        "freestone", "adbc-postgres", "Freestone's PostgreSQL protocol by Apache's ADBC driver"
    ),
    "freestone:pg-text": Engine(
        "freestone", "psycopg", "Freestone's COPY as text by psycopg, parsed by Arrow", {"how": "copy-text"}
    ),
    "flight-cpp": Engine("peers", "flight", "Arrow Flight C++ (pyarrow), batches of 64 Ki rows"),
    "flight-cpp:8k": Engine("peers", "flight", "batches of 8 Ki rows", {"rows": 8192}),
    "flight-cpp:16k": Engine("peers", "flight", "batches of 16 Ki rows", {"rows": 16384}),
    "flight-cpp:dict": Engine(
        "peers",
        "flight",
        "batches of 8 Ki rows, texts of few values as dictionaries",
        {"rows": 8192, "dictionaries": True},
    ),
    "flight-cpp:computes": Engine(
        "peers",
        "flight",
        "the same, computed by Arrow for each request, where the others hold the computed result ready",
        {"rows": 8192, "dictionaries": True, "computes": True},
    ),
    "flight-cpp:lz4": Engine("peers", "flight", "batches of 16 Ki rows, LZ4", {"rows": 16384, "codec": "lz4"}),
    "flight-cpp:zstd": Engine("peers", "flight", "batches of 16 Ki rows, Zstandard", {"rows": 16384, "codec": "zstd"}),
    "flight-rust": Engine("flight-rust", "flight", "Arrow Flight Rust (arrow-flight), its default messages of 2 MB"),
    "flight-rust:4m": Engine("flight-rust", "flight", "messages of 4 MB", {"message": 4 << 20}),
    "flight-rust:ahead": Engine(
        "flight-rust", "flight", "four messages encoded ahead, batches of 8 Ki rows", {"rows": 8192, "ahead": 4}
    ),
    "flight-rust:dict": Engine(
        "flight-rust", "flight", "messages of 2 MB, dictionaries resent", {"dictionaries": True}
    ),
    "flight-rust:lz4": Engine(
        "flight-rust", "flight", "messages of 2 MB, LZ4, encoded ahead", {"codec": "lz4", "ahead": 4}
    ),
    "flight-rust:zstd": Engine(
        "flight-rust", "flight", "messages of 2 MB, Zstandard, encoded ahead", {"codec": "zstd", "ahead": 4}
    ),
    "postgres:text": Engine("postgres", "psycopg", "psycopg 3, text, rows made into columns", {"how": "rows"}),
    "postgres:copy-text": Engine(
        "postgres", "psycopg", "COPY as text by psycopg, parsed by Arrow", {"how": "copy-text"}
    ),
    "postgres:copy-binary": Engine(
        "postgres", "psycopg", "binary COPY by psycopg, thrown away: no table is made", {"how": "copy-binary"}
    ),
    "postgres:adbc": Engine("postgres", "adbc-postgres", "binary COPY by Apache's ADBC driver"),
    "postgres:connectorx": Engine("postgres", "connectorx", "binary rows by ConnectorX"),
    "mariadb": Engine(
        "mariadb", "connectorx", "text rows by ConnectorX", {"protocol": "text", "prefer_socket": "false"}
    ),
    "mariadb:compressed": Engine(
        "mariadb",
        "connectorx",
        "the same, compressed protocol",
        {"protocol": "text", "prefer_socket": "false", "compress": "true"},
    ),
    "clickhouse": Engine("clickhouse", "clickhouse", "native protocol by clickhouse-driver"),
    "clickhouse:lz4": Engine("clickhouse", "clickhouse", "native protocol, LZ4", {"compression": "lz4"}),
    "quack": Engine("duckdb", "quack", "DuckDB's Quack, by DuckDB as the client"),
    "csv": Engine("peers", "csv", "CSV over a socket, parsed by Arrow"),
    "csv:gzip": Engine("peers", "csv", "the same, gzip while sending", {"codec": "gzip"}),
    "csv:lz4": Engine("peers", "csv", "the same, LZ4 while sending", {"codec": "lz4"}),
    "csv:zstd": Engine("peers", "csv", "the same, Zstandard 1 while sending", {"codec": "zstd"}),
    "csv:drained": Engine("peers", "csv", "CSV over a socket, thrown away: no table is made", {"drain": True}),
    "socket": Engine(
        "peers", "socket", "the ceiling: Arrow's bytes into memory that is warm already", {"into": "warm"}
    ),
    "socket:fresh": Engine("peers", "socket", "Arrow's bytes into fresh memory", {"into": "fresh"}),
    "socket:drained": Engine("peers", "socket", "Arrow's bytes into one megabyte: no table is made", {"into": "drain"}),
}

#: Freestone with one encoding and codec for all columns, named as in `serve --wire-forms`.
FIXED = tuple(f"{form}{codec}" for form in ("plain", "encoded") for codec in ("", "-lz4", "-zstd", "-snappy"))
ENGINES |= {
    f"fixed:{forms}": Engine(
        f"freestone/{forms}", "freestone", f"Freestone, all columns {forms}", {"shared_memory": "false"}
    )
    for forms in FIXED
}

#: The two prototypes of Raasveldt and Mühleisen (2017), which differ in the form of NULL, without and with compression (C).
PROTOTYPES = {
    "sentinel": "MonetDB++: arrays, NULL as a value that no row has",
    "sentinel-snappy": "MonetDB++C: the same, Snappy",
    "mask": "PostgreSQL++: arrays, a bitmask where there are NULLs, and no values for these",
    "mask-snappy": "PostgreSQL++C: the same, Snappy",
}
ENGINES |= {
    f"paper:{forms}": Engine(f"freestone/{forms}", "freestone", f"Freestone as {what}", {"shared_memory": "false"})
    for forms, what in PROTOTYPES.items()
}

#: The variants of Flight. The best of these is "tuned Flight" in the claims.
FLIGHTS = tuple(name for name in ENGINES if name.startswith("flight-"))


@dataclass
class Run:
    """One measured fetch. Times are in seconds, `wire` and `peak` in bytes."""

    seconds: float
    first: float | None
    wire: int
    server_cpu: float
    client_cpu: float
    peak: int
    #: The seconds after which the client had this number of rows, for clients that note that.
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    #: The seconds of a connection, which are not part of `seconds`; None where the client makes it within its fetch.
    connect: float | None = None


@dataclass
class Outcome:
    """The runs of one engine with one form of one data set."""

    runs: list[Run] = field(default_factory=list)
    error: str = ""
    spent: float = 0.0
    #: Whether the client made a table, and whether its checksums are right.
    checked: str = ""

    def median(self, name: str) -> float | None:
        values = [value for run in self.runs if (value := getattr(run, name)) is not None]
        return statistics.median(values) if values else None


def tree_cpu(roots: Sequence[int]) -> float:
    """CPU seconds of processes and all their descendants, with those that have ended and were waited for."""
    ticks, parents = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
    chosen = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in chosen} - chosen:
        chosen |= more
    return sum(ticks.get(pid, 0) for pid in chosen) / os.sysconf("SC_CLK_TCK")


def received_bytes(pid: int) -> int:
    """Bytes that the network interfaces in the namespace of a process have received, with headers."""
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    return sum(int(line.partition(":")[2].split()[0]) for line in lines)


class ClientProcess:
    """`export_client.py` in a process of its own."""

    def __init__(self, job: dict[str, Any], prefix: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        command = [*prefix, sys.executable, str(BENCH / "export_client.py"), json.dumps(job)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.process.kill()
        said = self.process.communicate()[1].strip().splitlines()
        raise ClientError(" ".join(said[-3:]) if said else f"the client ended with status {self.process.returncode}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class ClientError(Exception):
    """A client failed. The text is the end of its error output."""


def fetch(
    engine: Engine, server: Any, form: str, outcome: Outcome, options: argparse.Namespace, repetition: int
) -> Run:
    """One run, in a client process of its own."""
    import export_data as data

    dataset = server.dataset
    job = {
        "client": engine.client,
        "options": engine.options,
        "endpoint": server.endpoint,
        "form": form,
        "schema": dataset.schema.serialize().to_pybytes().hex(),
        "query": data.query(dataset, form, server.dialect, first=repetition + 1 if engine.is_new else 0),
        "warm_query": data.query(dataset, form, server.dialect, 100),
        "bytes": dataset.bytes[form],
        "package": str(options.package or ""),
        "check": True,
        "change": options.change and {"rows": options.change[0] * dataset.rows, "bits_per_second": options.change[1]},
    }
    reset_rate(options)
    client = ClientProcess(job, options.client_prefix)
    try:
        client.line()
        roots = [process.pid for process in server.processes]
        wire, server_cpu = received_bytes(client.process.pid), tree_cpu(roots)
        client.go()
        measured = client.line()
        wire, server_cpu = received_bytes(client.process.pid) - wire, tree_cpu(roots) - server_cpu
        client.go()
        checked = client.line()
        outcome.checked = verdict(dataset.sums[form], checked["sums"])
    finally:
        client.end()
    seconds, first, arrivals = measured["seconds"], measured.get("first"), measured["arrivals"]
    return Run(seconds, first, wire, server_cpu, measured["cpu"], int(measured["peak"]), arrivals, measured["connect"])


def reset_rate(options: argparse.Namespace) -> None:
    """Gives the link the rate with which it began, if a client has changed it."""
    if options.change:
        from export_client import change_rate

        measured = link_measured()
        assert measured is not None, "parse() refuses changes where no link is"
        change_rate(measured["link"]["bits_per_second"])


def verdict(expected: dict[str, list[int]], found: dict[str, list[int]] | None) -> str:
    """`yes` or `no table`. A wrong result raises an error, so it is never reported as a measurement."""
    import export_data as data

    if found is None:
        return "no table"
    wrong = data.differences(expected, found)
    if wrong:
        raise ClientError(f"WRONG RESULT: {'; '.join(wrong[:3])}")
    return "yes"


def measure(
    names: Sequence[str], servers: dict[str, Any], form: str, options: argparse.Namespace
) -> dict[str, Outcome]:
    """One warm-up run, then repetitions in turns over the engines, so that a disturbance affects all of them."""
    outcomes = {name: Outcome() for name in names}
    for repetition in range(options.runs + 1):
        for name, outcome in outcomes.items():
            engine = ENGINES[name]
            server = servers[engine.server]
            if isinstance(server, str):
                outcome.error = server
            if outcome.error or (outcome.runs and outcome.spent > options.budget):
                continue
            try:
                run = fetch(engine, server, form, outcome, options, repetition)
            except ClientError as error:
                outcome.error = str(error)
                print(f"{name}, {form}: {outcome.error}", file=sys.stderr)
                continue
            outcome.spent += run.seconds
            # A first run longer than the budget counts as a measurement, because it is not repeated.
            if repetition > 0 or run.seconds > options.budget:
                outcome.runs.append(run)
            print(f"{form} {repetition} {name}: {run.seconds:.3f} s", file=sys.stderr)
    return outcomes


def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def rows_of(outcomes: dict[str, Outcome], gigabytes: float) -> Iterator[list[str]]:
    """The rows of the table: the fastest engine first, failures last."""
    order = sorted(outcomes.items(), key=lambda item: item[1].median("seconds") or 1e9)
    for name, outcome in order:
        if not outcome.runs:
            yield [name, *["–"] * 8, f"failed: {outcome.error[:160]}"]
            continue
        seconds, wire = outcome.median("seconds"), outcome.median("wire")
        server, client, peak = (outcome.median(what) for what in ("server_cpu", "client_cpu", "peak"))
        assert None not in (seconds, wire, server, client, peak)
        yield [
            name,
            number(seconds, 3),
            number(gigabytes / seconds),
            number(outcome.median("first"), 4),
            number(wire / 1e6, 1),
            number(server / gigabytes),
            number(client / gigabytes),
            number(peak / 1e6, 0),
            str(len(outcome.runs)),
            outcome.checked,
        ]


HEADER = [
    "",
    "s",
    "GB/s",
    "first, s",
    "wire, MB",
    "server CPU, s/GB",
    "client CPU, s/GB",
    "peak, MB",
    "runs",
    "checked",
]


def table(outcomes: dict[str, Outcome], gigabytes: float) -> list[str]:
    """The table as lines of Markdown."""
    lines = [HEADER, ["---", *["---:"] * 8, "---"], *rows_of(outcomes, gigabytes)]
    widths = [max(len(row[at]) for row in lines) for at in range(len(HEADER))]
    return [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in lines
    ]


@dataclass(frozen=True)
class Claim:
    """The claim that min(`theirs`) / min(`ours`) ≥ `least`; the values are `what`: seconds, or bytes on the wire."""

    ours: tuple[str, ...]
    least: float
    theirs: tuple[str, ...]
    words: str
    what: str = "seconds"


#: The claim that Freestone is at most 5 % slower.
NEVER_SLOWER = Claim(
    ("freestone",), 0.952, tuple(f"fixed:{forms}" for forms in FIXED), "as fast as the best fixed codec"
)
ONE, SEVERAL = ("freestone",), ("freestone:2", "freestone:4", "freestone:8", "freestone:unordered")
CSV = ("csv", "csv:drained")
#: The claims per network.
CLAIMS = {
    "local": (
        Claim(ONE, 2, FLIGHTS, "Arrow Flight, tuned, C++ and Rust"),
        Claim(ONE, 25, ("postgres:text",), "PostgreSQL's text rows"),
        Claim(ONE, 10, ("postgres:copy-binary", "postgres:adbc"), "PostgreSQL's binary COPY"),
        Claim(("freestone:memory",), 1.5, ONE, "our own TCP"),
    ),
    "lan": (Claim(ONE, 2, tuple(name for name in FLIGHTS if "lz4" in name), "Arrow Flight with LZ4"),),
    "wan": (
        Claim(ONE, 4, CSV, "fewer bytes than CSV", "wire"),
        Claim(ONE, 1.3, tuple(name for name in FLIGHTS if "zstd" in name), "Arrow Flight with Zstandard"),
    ),
    "wan-loss": (
        Claim(SEVERAL, 2, ONE, "one stream"),
        Claim(SEVERAL, 1.3, tuple(name for name in FLIGHTS if "zstd" in name), "Arrow Flight with Zstandard"),
    ),
}


def verdicts(outcomes: dict[str, Outcome], network: str) -> list[str]:
    """The claims with their measured ratios, each won or lost."""
    seconds = {name: value for name, outcome in outcomes.items() if (value := outcome.median("seconds"))}
    lines = []
    for claim in (*CLAIMS.get(network, ()), NEVER_SLOWER):
        taken = {name: outcomes[name].median(claim.what) for name in seconds}
        ours, theirs = ([name for name in names if name in taken] for names in (claim.ours, claim.theirs))
        if not ours or not theirs:
            continue
        mine, best = (min(names, key=lambda name: taken[name]) for names in (ours, theirs))
        ratio = taken[best] / taken[mine]
        won = "won " if ratio >= claim.least else "LOST"
        lines.append(f"- {won}: {mine} at least {claim.least:g} × {claim.words} ({best}): {ratio:.2f} ×")
    if "freestone" not in seconds:
        return lines
    for ceiling in ("socket", "socket:fresh"):
        if ceiling in seconds:
            share = seconds[ceiling] / seconds["freestone"]
            lines.append(f"- freestone reaches {100 * share:.0f} % of the rate of {ceiling}")
    faster = [
        f"{name} ({seconds['freestone'] / seconds[name]:.2f} ×)"
        for name in sorted(seconds, key=lambda name: seconds[name])
        if not name.startswith(("freestone", "paper", "socket")) and seconds[name] < seconds["freestone"]
    ]
    lines.append(f"- faster than freestone over one TCP stream: {', '.join(faster) or 'nothing'}")
    return lines


def bound_by(outcome: Outcome, gigabytes: float, megabits: float) -> str:
    """The utilization of the link, and of a core at the server and at the client."""
    seconds = outcome.median("seconds")
    wire, server, client = (outcome.median(what) for what in ("wire", "server_cpu", "client_cpu"))
    assert None not in (seconds, wire, server, client)
    return (
        f"{100 * wire * 8 / seconds / 1e6 / megabits:.0f} % of the link's {megabits:.0f} Mbit/s, "
        f"{100 * server / seconds:.0f} % of a core at the server, {100 * client / seconds:.0f} % at the client"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="lineitem", help="lineitem, acs or ontime")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="scale factor: lineitem has 6 million rows at 1, the others 1 million"
    )
    parser.add_argument("--runs", type=int, default=5, help="measured repetitions, behind one that warms up")
    parser.add_argument(
        "--budget", type=float, default=BUDGET_SECONDS, help="seconds after which an engine is not repeated"
    )
    parser.add_argument(
        "--engines", type=lambda text: text.split(","), help="names, or the part before the colon, or NAME+option=value"
    )
    parser.add_argument(
        "--network",
        default="local",
        help=f"local, {', '.join(NETWORKS)}, or RATE:DELAY:LOSS as 10mbit:5ms:0%%; a link needs root",
    )
    parser.add_argument(
        "--change",
        type=parse_change,
        help="SHARE:RATE as 0.5:10mbit: the link has that rate once a client of Freestone wire has this share of the rows",
    )
    parser.add_argument(
        "--congestion", choices=("reno", "cubic", "bbr"), default="cubic", help="TCP's congestion control on a link"
    )
    parser.add_argument(
        "--forms", type=lambda text: text.split(","), default=["stored", "computed"], help="stored, computed"
    )
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument(
        "--package", type=Path, help="folder that holds the package freestone, when it is not installed"
    )
    parser.add_argument(
        "--data", type=Path, default=CACHE / "bench", help="folder of the Parquet files; made when missing"
    )
    parser.add_argument("--work", type=Path, help="folder for the servers' files; kept, and used again")
    parser.add_argument("--json", type=Path, help="writes every run here")
    options = parser.parse_args()
    options.names = chosen(parser, options.engines)
    if options.network not in ("local", *NETWORKS) and options.network.count(":") != 2:
        parser.error(f"--network {options.network}: it is local, {', '.join(NETWORKS)}, or RATE:DELAY:LOSS")
    if options.change and (options.network == "local" or not all(may_change(name) for name in options.names)):
        parser.error("--change needs a link, and engines whose client is Freestone wire's")
    options.client_prefix = []
    if options.work is None:
        # Servers that refuse to run as root cannot access its home folder.
        options.work = Path("/var/tmp/freestone-export") if os.geteuid() == 0 else CACHE / "export"
    if options.package is None:
        installed = sorted((CACHE / "python-venv").glob("lib/python*/site-packages/freestone"))
        options.package = installed[-1].parent if installed else None
    return options


def parse_change(text: str) -> tuple[float, int]:
    """The share of the rows, and the bits per second from then on."""
    share, _, rate = text.partition(":")
    units = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
    try:
        found = float(share), int(float(rate[:-4]) * units[rate[-4:]])
    except (KeyError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text} is not SHARE:RATE, as 0.5:10mbit") from error
    if not 0 < found[0] < 1:
        raise argparse.ArgumentTypeError(f"{text}: the share is between 0 and 1")
    return found


def may_change(name: str) -> bool:
    return ENGINES[name].client == "freestone"


def chosen(parser: argparse.ArgumentParser, wanted: list[str] | None) -> list[str]:
    if wanted is None:
        return [name for name in ENGINES if not name.startswith(("fixed:", "paper:"))]
    for word in wanted:
        if "+" in word:
            varied(parser, word)
    # `csv:` is that engine only; `csv` is all engines whose name begins with `csv:`, too.
    exact = {word.removesuffix(":") for word in wanted if word.endswith(":")}
    wanted = [word for word in wanted if not word.endswith(":")]
    unknown = [word for word in wanted if not any(word in (name, name.partition(":")[0]) for name in ENGINES)]
    unknown += [word for word in exact if word not in ENGINES]
    if unknown:
        parser.error(f"unknown engine {', '.join(unknown)}; there are {', '.join(ENGINES)}")
    return [name for name in ENGINES if name in exact or name in wanted or name.partition(":")[0] in wanted]


def varied(parser: argparse.ArgumentParser, word: str) -> None:
    """Defines the engine `NAME+option=value+…`: the engine NAME with further options."""
    name, *options = word.split("+")
    if name not in ENGINES or not all("=" in option for option in options):
        parser.error(f"engine {word}: it is NAME+option=value, with a name of {', '.join(ENGINES)}")
    engine = ENGINES[name]
    given = dict(option.split("=", 1) for option in options)
    given = {key: int(value) if value.isdigit() else value for key, value in given.items()}
    ENGINES[word] = replace(engine, what=f"{engine.what}; {', '.join(options)}", options=engine.options | given)


def enter_namespace(options: argparse.Namespace) -> None:
    """Restarts this program in a network namespace of its own, so that its interface counts no other traffic. With a
    link, this is the namespace of the clients."""
    if os.environ.get(INSIDE):
        return
    words = [sys.executable, *sys.argv]
    os.environ[INSIDE] = "1"
    if options.network != "local":
        rate, delay, loss = NETWORKS.get(options.network) or options.network.split(":")
        link = [str(laboratory(options.freestone)), "link", "--rate", rate, "--delay", delay, "--loss", loss]
        link += ["--congestion", options.congestion, "--", *words]
        os.execvp(link[0], link)
    if os.geteuid() == 0 and shutil.which("unshare"):
        up = 'ip link set lo up && exec "$@"'
        os.execvp("unshare", ["unshare", "--net", "--", "sh", "-c", up, "sh", *words])
    print("note: without root, bytes on the wire include other traffic of the loopback interface", file=sys.stderr)


def server_place() -> Any:
    """Where servers run: in the namespace of the clients, or at the other end of the link."""
    from export_servers import Place

    namespace = os.environ.get("FREESTONE_LINK_NAMESPACE")
    if namespace is None:
        return Place()
    return Place(["nsenter", f"--net={namespace}"], os.environ["FREESTONE_LINK_SERVER"])


def link_measured() -> dict[str, Any] | None:
    """The measurements of the link by `freestone-lab link`, made before it started this program."""
    text = os.environ.get("FREESTONE_LINK_MEASURED")
    return json.loads(text) if text else None


def fetch_packages(options: argparse.Namespace) -> None:
    """Downloads the packages of the servers while the network can be reached. Failures are reported by `running`."""
    from export_servers import SERVERS, NotAvailable

    for kind in {ENGINES[name].server.partition("/")[0] for name in options.names}:
        with suppress(NotAvailable):
            SERVERS[kind].fetch(options.work)


@contextmanager
def running(names: Sequence[str], dataset: Any, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The running servers of these engines; for a server that is not available, the reason instead."""
    from export_servers import SERVERS, NotAvailable

    settings = {"freestone": str(options.freestone), "forms": options.forms, "work": options.work}
    with ExitStack() as stack:
        servers: dict[str, Any] = {}
        for kind in dict.fromkeys(ENGINES[name].server for name in names):
            try:
                name, _, variant = kind.partition("/")
                given = settings | ({"variant": variant} if variant else {})
                servers[kind] = SERVERS[name](dataset, server_place(), options.work, given)
                stack.callback(servers[kind].stop)
            except (NotAvailable, OSError, subprocess.CalledProcessError) as error:
                servers[kind] = f"{kind} cannot be had: {error}"
                print(servers[kind], file=sys.stderr)
        yield servers


def main() -> None:
    options = parse()
    python = environment_python("export")
    if Path(sys.prefix).resolve() != python.parent.parent:
        os.execv(python, [str(python), *sys.argv])
    if not os.environ.get(INSIDE):
        fetch_packages(options)
    enter_namespace(options)
    import export_data as data

    # SIGTERM ends the program in the usual way, so that the servers are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.work.mkdir(parents=True, exist_ok=True)
    file = data.generate(options.dataset, options.scale, options.freestone, options.data)
    dataset = data.prepare(options.dataset, options.scale, file, options.work)
    results, notes = {}, {}
    with running(options.names, dataset, options) as servers:
        for form in options.forms:
            results[form] = measure(options.names, servers, form, options)
        for kind, server in servers.items():
            notes[kind] = server if isinstance(server, str) else f"{server.version()}: {server.note}".removeprefix(": ")
    print(report(options, dataset, results, notes))
    if options.json:
        document = {
            "machine": hardware(),
            "dataset": options.dataset,
            "scale": options.scale,
            "rows": dataset.rows,
            "bytes": dataset.bytes,
            "network": options.network,
            "link": link_measured(),
            "servers": notes,
            "engines": {name: ENGINES[name].what for name in options.names},
            "results": {
                form: {name: asdict(outcome) for name, outcome in found.items()} for form, found in results.items()
            },
        }
        options.json.write_text(json.dumps(document, indent=1))
    if any(outcome.error.startswith("WRONG") for found in results.values() for outcome in found.values()):
        sys.exit(1)


def report(
    options: argparse.Namespace, dataset: Any, results: dict[str, dict[str, Outcome]], notes: dict[str, str]
) -> str:
    lines = [
        f"{options.dataset}, {dataset.rows:,} rows, to a complete Arrow table in Python; medians of up to {options.runs} runs",
        "behind one that warms up; every client in a process of its own, connected before the clock starts. GB are those of",
        "the result as an Arrow table; wire: bytes that the client's network interface received; peak: the client's memory",
        f"above what it held before. Machine: {hardware()}.",
    ]
    link = link_measured()
    if link:
        lines += [
            f"Network {options.network}: measured round trip {link['ping_ms']:.2f} ms, {link['rate_mbit']:.1f} Mbit/s, "
            f"{link['loss_percent']:.2f} % lost,",
            f"{link['tcp_mbit']:.1f} Mbit/s by one TCP stream ({link['link']['congestion']}); packets of at most 1500 bytes; Freestone alone is behind TLS.",
        ]
    for form, outcomes in results.items():
        gigabytes = dataset.bytes[form] / 1e9
        lines += [
            "",
            f"## {form} ({gigabytes:.2f} GB)",
            "",
            *table(outcomes, gigabytes),
            "",
            *verdicts(outcomes, options.network),
        ]
        if link and outcomes.get("freestone", Outcome()).runs:
            lines.append(f"- freestone uses {bound_by(outcomes['freestone'], gigabytes, link['rate_mbit'])}")
    lines += ["", "## Engines", "", *(f"- {name}: {ENGINES[name].what}" for name in options.names)]
    lines += ["", "## Servers", "", *(f"- {kind}: {note}" for kind, note in notes.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
