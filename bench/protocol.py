"""The experiments of Raasveldt and Mühleisen (2017), in the form of the laboratory. `freestone-lab run protocol-…` runs
this program.

python bench/protocol.py survey|design|networks|adaptation --scale 0.05 --freestone BINARY --parts parts.json
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import export as exports
import protocol_verdicts as verdicts
from environment import BENCH, CACHE, default_freestone, environment_python, laboratory

Part = dict[str, Any]

#: The systems of the paper that are available, and newer ones.
SURVEY = (
    "csv", "csv:gzip", "csv:lz4", "csv:zstd", "csv:drained", "mariadb", "mariadb:compressed", "postgres", "clickhouse", "quack",
    "flight-cpp", "flight-cpp:lz4", "flight-rust", "flight-rust:lz4", "freestone", "freestone:memory", "freestone:flight",
    "socket", "socket:fresh",
)  # fmt: skip
#: The engines of Figures 3 and 4.
PLOTTED = (
    "csv",
    "mariadb",
    "mariadb:compressed",
    "postgres:text",
    "flight-cpp:16k",
    "flight-cpp:lz4",
    "freestone",
)
DELAYS_MS = (0, 1, 5, 10, 25, 50)
RATES_MBIT = (10, 100, 1000)
#: The engines of Tables 10 to 12.
COMPARED = (
    "csv", "csv:gzip", "csv:lz4", "csv:zstd", "mariadb", "mariadb:compressed", "postgres:text", "postgres:copy-binary",
    "postgres:adbc", "clickhouse", "clickhouse:lz4", "flight-cpp:16k", "flight-cpp:lz4", "flight-cpp:zstd", "flight-rust",
    "flight-rust:lz4", "flight-rust:zstd", "fixed", "paper", "freestone", "freestone:2", "freestone:4", "freestone:8",
    "freestone:memory",
)  # fmt: skip
#: Those of the report, which has half an hour for all papers, and their networks.
REDUCED = ("csv", "mariadb", "mariadb:compressed", "postgres:text", "paper", "freestone")
REDUCED_NETWORKS = ("local", "lan")
#: Names that stand for all engines of a kind.
GROUPS = ("postgres", "clickhouse", "fixed", "paper")
DATASETS = ("lineitem", "acs", "ontime")
NETWORKS = ("local", "lan", "wan", "wan-loss")
#: Table 3 by Freestone's own protocol, whose chunks have at most 65,536 rows (13 MB of lineitem): bytes of a chunk, and the
#: scale at which lineitem has 500 MB.
CHUNKS = (2 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20)
CHUNKS_SCALE = 0.4
#: Table 5: links that only limit the rate, in Mbit/s, as in the paper.
CODEC_RATES = (1000, 100, 10)
#: The systems of Tables 10 to 12, by the engine that stands for each.
SYSTEMS = {"csv": "Netcat", "csv:gzip": "Netcat+GZ", "mariadb": "MySQL", "mariadb:compressed": "MySQL+C"}
SYSTEMS |= {"postgres:text": "PostgreSQL", "paper:sentinel": "MonetDB++", "paper:sentinel-snappy": "MonetDB++C"}
SYSTEMS |= {"paper:mask": "PostgreSQL++", "paper:mask-snappy": "PostgreSQL++C", "freestone": "Freestone"}
#: The paper's WAN loses packets.
WAN = "wan-loss"
#: Links whose rate changes when half of the rows are there: before, afterwards.
CHANGES = (("1gbit", "20mbit"), ("20mbit", "1gbit"))
#: The measured choice, and forms that stay as they are. Small chunks, so that a result has many of them at a small scale.
ADAPTED = tuple(
    f"{name}+chunk_size=262144"
    for name in ("freestone", "fixed:plain", "fixed:plain-lz4", "fixed:plain-zstd", "fixed:encoded", "fixed:encoded-zstd")
)
#: Seconds by which the system counts the processor time of other processes.
TICK = 1 / os.sysconf("SC_CLK_TCK")
#: The shares of the rows at which arrivals are drawn, in percent.
ARRIVED = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


class Laboratory:
    """Runs the parts of an experiment and collects their results."""

    #: When the run should be over, and the seconds of its longest step so far.
    deadline, longest = math.inf, 0.0

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.deadline = time.monotonic() + options.seconds
        self.python = environment_python("export")
        self.work = Path("/var/tmp/freestone-export") if os.geteuid() == 0 else CACHE / "export"
        self.parts: list[Part] = []
        self.checks: list[Part] = []

    def export(
        self,
        network: str,
        engines: Sequence[str],
        dataset: str = "lineitem",
        forms: str = "stored",
        change: str | None = None,
        scale: float | None = None,
    ) -> dict[str, Any]:
        """One run of export.py."""
        print(f"{dataset}, {network}", file=sys.stderr)
        start = time.monotonic()
        file = self.options.parts.with_suffix(".run")
        file.unlink(missing_ok=True)
        options = self.options
        names = [name if ":" in name or "+" in name or name in GROUPS else f"{name}:" for name in engines]
        command = [
            self.python,
            BENCH / "export.py",
            "--network",
            network,
            "--engines",
            ",".join(names),
            "--json",
            file,
        ]
        command += [
            "--dataset",
            dataset,
            "--scale",
            f"{scale or options.scale:g}",
            "--forms",
            forms,
            "--runs",
            str(options.runs),
        ]
        command += ["--budget", str(options.budget), "--freestone", options.freestone]
        command += ["--change", change] if change else []
        if options.package:
            command += ["--package", options.package]
        done = subprocess.run([str(word) for word in command], stdout=subprocess.DEVNULL)
        if not file.exists():
            sys.exit(f"error: export.py ended with status {done.returncode} on network {network}; see above")
        run = json.loads(file.read_text())
        file.unlink()
        self.longest = max(self.longest, time.monotonic() - start)
        self.check(f"{dataset} over {network}: every result is complete and right", *wrong(run))
        return run

    def design(self, network: str, tables: str, runs: int = 3) -> dict[str, Any]:
        """One run of protocol_design.py, on the files that `prepare_design` made."""
        print(f"tables {tables}, {network}", file=sys.stderr)
        start = time.monotonic()
        file = self.options.parts.with_suffix(".run")
        command = [self.python, BENCH / "protocol_design.py", "--folder", self.work / "design", "--tables", tables]
        command += ["--runs", runs, "--json", file]
        if network != "local":
            rate, delay, loss = exports.NETWORKS.get(network) or network.split(":")
            link = [laboratory(self.options.freestone), "link", "--rate", rate, "--delay", delay, "--loss", loss]
            command = [*link, "--congestion", "cubic", "--", *command]
        subprocess.run([str(word) for word in command], check=True)
        found = json.loads(file.read_text())
        file.unlink()
        self.longest = max(self.longest, time.monotonic() - start)
        return found

    def no_time(self) -> str:
        """Why the next step is left out; empty if there is time for one like the longest so far."""
        left = self.deadline - time.monotonic()
        return "the time of the run was over" if left < 1.2 * self.longest else ""

    def no_link(self) -> str:
        """Why no link can be emulated here, in the words of the program that makes it; empty if one can."""
        command = [laboratory(self.options.freestone), "link", "--rate", "1gbit", "--congestion", "cubic", "--", "true"]
        tried = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        words = tried.stderr.strip().splitlines()
        return "" if tried.returncode == 0 else (words[-1] if words else f"status {tried.returncode}").removeprefix("error: ")

    def section(self, title: str, text: str) -> None:
        self.parts.append({"kind": "section", "title": title, "text": text})

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], text_columns: int = 1) -> None:
        cells = [[{"text": show(cell)} for cell in row] for row in rows]
        self.parts.append(
            {"kind": "table", "title": title, "header": list(header), "text_columns": text_columns, "rows": cells}
        )

    def lines(
        self, title: str, x_label: str, x: Sequence[float], series: dict[str, list[float]], y_label: str = "s"
    ) -> None:
        """A line chart of the engines that have a value at every x."""
        whole = [{"label": name, "values": values} for name, values in series.items() if len(values) == len(x)]
        chart = {"kind": "lines", "title": title, "x_label": x_label, "y_label": y_label, "x": list(x), "series": whole}
        self.parts.append(chart | {"mark": None})

    def check(self, statement: str, holds: bool, detail: str, place: str = "", why: str = "") -> None:
        """Adds a statement that holds or not. With `place`, it is the claim of the paper at that place, and `why` the reason if it
        does not hold."""
        claim = {"place": f"Raasveldt and Mühleisen 2017, {place}"} if place else {}
        reason = {"why": why} if why and not holds else {}
        self.checks.append({"statement": statement, "holds": holds, "detail": detail} | claim | reason)

    def check_all(self, found: Iterable[verdicts.Verdict]) -> None:
        """Adds statements of the paper, with the reason where one does not hold."""
        for verdict in found:
            self.check(verdict.statement, verdict.holds, verdict.detail, verdict.place, verdict.why)

    def unmeasured(self, statement: str, reason: str, place: str) -> None:
        """Adds a statement of the paper that this machine cannot test."""
        self.check(statement, False, reason, place)
        self.checks[-1]["is_unmeasured"] = True

    def link(self, network: str, measured: dict[str, Any] | None) -> None:
        """Checks that an emulated link has the delay and rate that were requested."""
        if measured is None:
            return
        asked = measured["link"]
        mbit = asked["bits_per_second"] / 1e6
        trip = 2000 * (asked["delay"]["secs"] + asked["delay"]["nanos"] / 1e9)
        detail = (
            f"asked {trip:.2f} ms, {mbit:g} Mbit/s, {100 * asked['loss']:g} % lost; measured {measured['ping_ms']:.2f} ms, "
            f"{measured['rate_mbit']:.1f} Mbit/s, {measured['loss_percent']:.2f} %; one TCP stream {measured['tcp_mbit']:.1f} Mbit/s"
        )
        near = abs(measured["ping_ms"] - trip) <= 0.1 * trip + 1.0 and abs(measured["rate_mbit"] - mbit) <= 0.1 * mbit
        self.check(f"the link {network} is as asked, to a tenth", near, detail)


def show(cell: Any) -> str:
    if not isinstance(cell, float):
        return "–" if cell is None else str(cell)
    return f"{cell:.3g}" if abs(cell) < 100 else f"{cell:,.0f}"


def median(outcome: dict[str, Any], what: str) -> float | None:
    values = sorted(run[what] for run in outcome["runs"] if run[what] is not None)
    middle = len(values) // 2
    if not values:
        return None
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def cpu_seconds(outcome: dict[str, Any]) -> float | None:
    """The processor time of server and client; at least a tick, by which the server's is counted."""
    server, client = median(outcome, "server_cpu"), median(outcome, "client_cpu")
    return None if server is None or client is None else max(server + client, TICK)


def wrong(run: dict[str, Any]) -> tuple[bool, str]:
    """Whether no engine returned a wrong result, and a text with the engines that returned none."""
    outcomes = {name: outcome for found in run["results"].values() for name, outcome in found.items()}
    bad = [name for name, outcome in outcomes.items() if outcome["error"].startswith("WRONG")]
    absent = [f"{name}: {outcome['error'][:120]}" for name, outcome in outcomes.items() if not outcome["runs"]]
    right = sum(1 for outcome in outcomes.values() if outcome["checked"] == "yes")
    drained = sum(1 for outcome in outcomes.values() if outcome["checked"] == "no table")
    detail = f"{right} tables right, {drained} without a table"
    return not bad, "; ".join([detail, *(f"WRONG: {name}" for name in bad), *(f"none by {text}" for text in absent)])


def survey(lab: Laboratory) -> None:
    """Runs the experiments of Table 1 and Figures 3 and 4."""
    run = lab.export("local", SURVEY)
    gigabytes = run["bytes"]["stored"] / 1e9
    outcomes = sorted(run["results"]["stored"].items(), key=lambda item: median(item[1], "seconds") or math.inf)
    lab.section(
        "Table 1: the whole of lineitem over the loopback interface",
        f"{run['rows']:,} rows, {gigabytes:.3f} GB as an Arrow table in Python, from the statement to the complete table; connecting is not part of it, "
        "except with ConnectorX and Quack, which connect for each fetch. "
        "Servers: " + " ".join(f"{kind}: {note}." for kind, note in run["servers"].items()),
    )
    rows = [
        [
            name,
            run["engines"][name],
            median(outcome, "seconds"),
            median(outcome, "first"),
            (median(outcome, "wire") or 0.0) / 1e6,
            (median(outcome, "server_cpu") or 0.0) / gigabytes,
            (median(outcome, "client_cpu") or 0.0) / gigabytes,
            (median(outcome, "peak") or 0.0) / 1e6,
        ]
        for name, outcome in outcomes
        if outcome["runs"]
    ]
    header = ["", "what", "s", "first rows, s", "wire, MB", "server CPU, s/GB", "client CPU, s/GB", "client memory, MB"]
    lab.table("Table 1", header, rows, text_columns=2)
    seconds = {name: value for name, found in outcomes if (value := median(found, "seconds"))}
    wire = {name: value / 1e6 for name, found in outcomes if (value := median(found, "wire"))}
    lab.check_all(verdicts.survey(seconds, wire))
    cpu = {name: value for name, found in outcomes if (value := cpu_seconds(found))}
    lab.check_all(
        verdicts.conclusions(
            {name: 1e6 * value / run["rows"] for name, value in wire.items()},
            {name: value / gigabytes for name, value in seconds.items()},
            {name: value / gigabytes for name, value in cpu.items()},
        )
    )
    lab.check_all(verdicts.steps(divided(outcomes)))
    lab.parts.append(figure_1(outcomes))
    claims = {
        "Figure 3": "all systems are heavily influenced by a high latency",
        "Figure 4": "the lower the throughput, the more compression gains, and the more PostgreSQL loses",
    }
    if reason := lab.no_link():
        for figure, claim in claims.items():
            lab.unmeasured(claim, reason, f"2.2, {figure}")
        return
    delays = {f"{delay} ms": f"1gbit:{delay}ms:0%" for delay in DELAYS_MS}
    rates = {f"{rate} Mbit/s": f"{rate}mbit:0ms:0%" for rate in RATES_MBIT}
    figures = (
        ("Figure 3", "time as the delay grows", "one-way delay, ms, at 1 Gbit/s", DELAYS_MS, delays, verdicts.latencies),
        ("Figure 4", "time as the rate falls", "Mbit/s, without delay", RATES_MBIT, rates, verdicts.rates),
    )
    for figure, title, label, x, links, judge in figures:
        found = sweep(lab, f"{figure}: {title}", label, x, links)
        if found is None:
            lab.unmeasured(claims[figure], lab.no_time(), f"2.2, {figure}")
        else:
            lab.check_all(judge(x, found))


def figure_1(outcomes: Sequence[tuple[str, dict[str, Any]]]) -> Part:
    """Where the time goes: connecting, executing until the first rows are there, and the transfer of the others."""
    known = divided(outcomes)
    bars = [{"label": name, "values": values} for name, values in known.items()]
    left_out = [name for name, outcome in outcomes if outcome["runs"] and name not in known]
    note = "clients that tell the three parts apart"
    note += f"; not {', '.join(left_out)}, which connect within a fetch or have the whole result at once" if left_out else ""
    group = {"label": "lineitem, loopback interface", "note": note, "bars": bars}
    parts = ["connection", "query execution, to the first rows", "result set transfer, the other rows"]
    return {"kind": "stacks", "title": "Figure 1: where the time goes", "unit": "s", "parts": parts, "groups": [group]}


def divided(outcomes: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, list[float]]:
    """The seconds of connecting, of executing and of the rest, by engine, where a client tells them apart."""
    found = {}
    for name, outcome in outcomes:
        whole, first, connect = (median(outcome, what) for what in ("seconds", "first", "connect"))
        if whole is not None and first is not None and connect is not None:
            found[name] = [connect, min(first, whole), max(whole - first, 0.0)]
    return found


def sweep(
    lab: Laboratory, title: str, label: str, x: Sequence[float], networks: dict[str, str]
) -> dict[str, list[float]] | None:
    """Seconds by engine on each link; none if the time does not allow them all."""
    seconds: dict[str, list[float]] = {name: [] for name in PLOTTED}
    for network in networks.values():
        if lab.no_time():
            return None
        run = lab.export(network, PLOTTED)
        lab.link(network, run["link"])
        for name, outcome in run["results"]["stored"].items():
            value = median(outcome, "seconds")
            if value is not None:
                seconds[name].append(value)
    lab.lines(title, label, x, seconds)
    complete = {name: values for name, values in seconds.items() if len(values) == len(x)}
    lab.table(f"{title}, seconds", ["", *networks], [[name, *values] for name, values in complete.items()])
    return complete


def design(lab: Laboratory) -> None:
    """Runs the experiments of Tables 3 to 9."""
    prepare_design(lab)
    reason = lab.no_link()
    chunk_tables(lab)
    lab.section(
        "Tables 4 to 9: the paper's own messages",
        "Chunks of 1 MB; packing is by numpy, so its times are an upper bound; protobuf is Google's package for Python.",
    )
    local = lab.design("local", "4,6,8,9" if reason else "4,5,6,7,8,9")
    row_and_column_tables(lab, local)
    lab.check_all(verdicts.integers(local["6"]))
    text_tables(lab, local)
    packing = (("packing integers gains where a network is the limit", "Table 6"), ("protobuf costs more than it saves", "Table 7"))
    steps = ((codec_table, (("the best codec depends on the network", "Table 5"),)), (network_tables, packing))
    for measure, claims in steps:
        if left_out := reason or lab.no_time():
            for claim, table in claims:
                lab.unmeasured(claim, left_out, f"3.2, {table}")
        else:
            measure(lab, local)


def chunk_tables(lab: Laboratory) -> None:
    """Table 3: by the paper's messages, and by Freestone's own protocol unless the run is a reduced one."""
    lab.section(
        "Table 3: chunk sizes",
        "The paper's messages on this machine, of results of 500 MB: the rows of each table, repeated. Chunks below 1 MB are "
        "a thousand at most, as each costs the same; so times and bytes are those of a row. A message is made by Python, whose "
        "calls per column weigh more in small chunks than a server's would.",
    )
    found = lab.design("local", "3", runs=1)["3"]
    rows = [
        [dataset, f"{int(size):,}", of["rows"], of["sent"], 1e6 * of["seconds"], of["bytes"], 1e6 * of["packed_seconds"], of["ratio"]]
        for dataset, sizes in found.items()
        for size, of in sizes.items()
    ]
    header = ["", "chunk, bytes", "rows per chunk", "rows", "s per million", "bytes per row", "s per million, Snappy", "ratio"]
    lab.table("Table 3", header, rows, text_columns=2)
    sizes = [int(size) for size in next(iter(found.values()))]
    mega = str(1 << 20)
    times = {name: [of["seconds"] / by_size[mega]["seconds"] for of in by_size.values()] for name, by_size in found.items()}
    ratios = {name: [of["ratio"] for of in by_size.values()] for name, by_size in found.items()}
    lab.lines("Table 3: time, relative to chunks of 1 MB", "bytes of a chunk", sizes, times, "× 1 MB")
    lab.lines("Table 3: Snappy's ratio", "bytes of a chunk", sizes, ratios, "ratio")
    for dataset, sizes in found.items():
        by_size = {int(size): of for size, of in sizes.items()}
        lab.check_all(verdicts.chunk_sizes(dataset, {size: of["seconds"] for size, of in by_size.items()}))
        lab.check_all(verdicts.chunk_bytes(dataset, by_size))
    statement = "Freestone's own protocol on lineitem of 500 MB: chunks of about 1 MB are optimal"
    if lab.options.short:
        lab.unmeasured(statement, "the short variant makes no result of 500 MB in a server", "3.2, Table 3")
        return
    engines = {size: f"freestone+chunk_size={size}" for size in CHUNKS}
    run = lab.export("local", tuple(engines.values()), scale=max(CHUNKS_SCALE, lab.options.scale))
    found = run["results"]["stored"]
    seconds = {size: median(found[name], "seconds") for size, name in engines.items()}
    wire = {size: median(found[name], "wire") for size, name in engines.items()}
    rows = [[f"{size:,}", seconds[size], None if wire[size] is None else wire[size] / 1e6] for size in CHUNKS]
    megabytes = run["bytes"]["stored"] / 1e6
    lab.table(f"Table 3 by Freestone's own protocol: lineitem, {megabytes:,.0f} MB in memory", ["chunk, bytes", "s", "MB"], rows)
    lab.check_all(verdicts.chunk_sizes("lineitem by Freestone's own protocol", seconds))


def mega(entry: dict[str, float]) -> float:
    return entry["bytes"] / 1e6


def row_and_column_tables(lab: Laboratory, local: Any) -> None:
    """Table 4."""
    rows = [
        [codec, layout, mega(entry), entry["ratio"]]
        for codec, layouts in local["4"].items()
        for layout, entry in layouts.items()
    ]
    lab.table("Table 4: one message of all rows, by columns and by rows", ["", "", "MB", "ratio"], rows, text_columns=2)
    smaller = [
        codec
        for codec, found in local["4"].items()
        if codec != "None" and found["column"]["bytes"] < found["row"]["bytes"]
    ]
    expected = len(local["4"]) - 1
    of = f"{len(smaller)} of {expected}"
    why = "a codec without an entropy stage finds as many repetitions in rows of one width"
    lab.check("every codec packs columns better than rows", len(smaller) == expected, of, "Table 4", why)


def codec_table(lab: Laboratory, local: Any) -> None:
    """Table 5."""
    links = {rate: lab.design(f"{rate}mbit:0ms:0%", "5") for rate in CODEC_RATES}
    for rate, found in links.items():
        lab.link(f"{rate} Mbit/s", found["link"])
    every = [local, *links.values()]
    rows = [[name, *(found["5"][name]["seconds"] for found in every), mega(local["5"][name])] for name in local["5"]]
    header = ["", "local, s", *(f"{rate} Mbit/s, s" for rate in CODEC_RATES), "MB"]
    lab.table("Table 5: codecs on links that limit the rate", header, rows)
    rates = sorted(CODEC_RATES)
    plain = [links[rate]["5"]["None"]["seconds"] for rate in rates]
    gained = {
        name: [links[rate]["5"][name]["seconds"] / of for rate, of in zip(rates, plain, strict=True)] for name in local["5"]
    }
    lab.lines("Table 5: time, relative to no compression", "Mbit/s", rates, gained, "× none")
    slow = links[min(CODEC_RATES)]
    best = min(local["5"], key=lambda name: local["5"][name]["seconds"])
    why = "the codec and the socket share one thread of Python, whose copies a codec makes shorter"
    lab.check("on one machine no codec is the fastest", best == "None", f"the fastest is {best}", "Table 5", why)
    best = min(slow["5"], key=lambda name: slow["5"][name]["seconds"])
    why = "the link is not the limit at this scale"
    lab.check("at 10 Mbit/s a codec is the fastest", best != "None", f"the fastest is {best}", "Table 5", why)
    fast = links[max(CODEC_RATES)]
    lab.check_all(verdicts.codecs(*({name: entry["seconds"] for name, entry in of["5"].items()} for of in (fast, slow))))


def network_tables(lab: Laboratory, local: Any) -> None:
    """Tables 6 and 7, over the paper's LAN and WAN. The WAN loses packets and takes minutes, so that it is measured once."""
    lan, wan = lab.design("lan", "6,7"), lab.design(WAN, "6,7", runs=1)
    for network, found in (("lan", lan), (WAN, wan)):
        lab.link(network, found["link"])
    every = (local, lan, wan)
    rows = [
        [dataset, name, *(found["6"][dataset][name]["seconds"] for found in every), mega(local["6"][dataset][name])]
        for dataset in DATASETS
        for name in local["6"][dataset]
    ]
    header = ["", "local, s", "LAN, s", "WAN with 1 % loss, s", "MB"]
    lab.table("Table 6: the integer columns", ["", *header], rows, text_columns=2)
    rows = [[name, *(found["7"][name]["seconds"] for found in every), mega(local["7"][name])] for name in local["7"]]
    lab.table("Table 7: the paper's format and protobuf", header, rows)
    networks = {"local": local, "LAN": lan, "WAN": wan}
    lab.check_all(verdicts.integers_by_network({name: found["6"] for name, found in networks.items()}))
    lab.check_all(verdicts.protobuf({name: found["7"] for name, found in networks.items()}))


def text_tables(lab: Laboratory, local: Any) -> None:
    """Tables 8 and 9."""
    lab.check_all(verdicts.texts(local["8"], local["9"]))
    for table, column in (("8", "l_returnflag"), ("9", "l_comment")):
        rows = [
            [name, found["None"]["seconds"], found["Snappy"]["seconds"], mega(found["None"]), mega(found["Snappy"])]
            for name, found in local[table].items()
        ]
        lab.table(f"Table {table}: forms of texts, {column}", ["", "s", "s, Snappy", "MB", "MB, Snappy"], rows)


def prepare_design(lab: Laboratory) -> None:
    """Makes the Arrow files of all data sets available in the folder of protocol_design.py."""
    folder = lab.work / "design"
    folder.mkdir(parents=True, exist_ok=True)
    for dataset in DATASETS:
        made = lab.work / f"{dataset}-{lab.options.scale:g}" / "stored.arrow"
        if not made.exists():
            lab.export("local", ["freestone"], dataset)
        link = folder / f"{dataset}.arrow"
        link.unlink(missing_ok=True)
        link.symlink_to(made)


def networks(lab: Laboratory) -> None:
    """Runs the experiments of Tables 10 to 12."""
    engines, places = (REDUCED, REDUCED_NETWORKS) if lab.options.short else (COMPARED, NETWORKS)
    lab.section(
        "Tables 10 to 12: three tables over four networks",
        "LAN: 1000 Mbit/s and 0.3 ms; WAN: 100 Mbit/s and 25 ms, and the same with 1 % of the packets lost; delays are one-way. "
        "ACS and ontime are synthetic tables of the published shapes. On links Freestone alone is behind TLS. The engines paper: are "
        "the paper's MonetDB++ (sentinel) and PostgreSQL++ (mask), without and with Snappy.",
    )
    no_link = lab.no_link()
    for number, dataset in enumerate(DATASETS, 10):
        found: dict[str, Any] = {}
        for network in NETWORKS:
            left_out = "" if network in places else "the short variant has one machine and the LAN"
            if reason := left_out or (no_link if network != "local" else "") or lab.no_time():
                lab.unmeasured(f"{dataset}, {network}: columns in chunks are the fastest", reason, f"4.3, Table {number}")
                continue
            run = lab.export(network, engines, dataset)
            lab.link(network, run["link"])
            found[network] = run["results"]["stored"]
        if found:
            network_table(lab, number, f"{dataset}, {run['rows']:,} rows", found)
            lab.parts.append(network_bars(f"Table {number}: {dataset}, time relative to Netcat", found))
            judge_networks(lab, dataset, found)
            standings = {"kind": "code", "caption": f"{dataset}: where Freestone wins and loses", "text": standing(found)}
            lab.parts.append(standings)


def judge_networks(lab: Laboratory, dataset: str, found: dict[str, Any]) -> None:
    times = {
        network: {name: value for name, outcome in outcomes.items() if (value := median(outcome, "seconds"))}
        for network, outcomes in found.items()
    }
    lab.check_all(verdicts.networks(dataset, times))
    lab.check_all(verdicts.compression(dataset, times))
    wire = {name: value for name, outcome in found.get("local", {}).items() if (value := median(outcome, "wire"))}
    lab.check_all(verdicts.transferred(dataset, wire))
    lab.check_all(verdicts.prototypes(dataset, wire, times.get(WAN, {})))


def network_bars(title: str, found: dict[str, Any]) -> Part:
    """The paper's systems on each network, relative to a CSV file over a socket, so that they can stand beside the paper's."""
    groups = []
    for network, outcomes in found.items():
        seconds = {name: value for name in SYSTEMS if name in outcomes and (value := median(outcomes[name], "seconds"))}
        if base := seconds.get("csv"):
            bars = [{"label": SYSTEMS[name], "value": value / base} for name, value in seconds.items()]
            groups.append({"label": network, "note": f"Netcat takes {base:.3g} s here", "bars": bars})
    return {"kind": "bars", "title": title, "unit": "×", "tie": 0.0, "groups": groups}


def network_table(lab: Laboratory, number: int, title: str, found: dict[str, Any]) -> None:
    """One of Tables 10 to 12, in the order of the slowest network."""
    last = [*found][-1]
    known = [name for name in found[last] if any(outcomes[name]["runs"] for outcomes in found.values())]
    rows = []
    for name in sorted(known, key=lambda name: median(found[last][name], "seconds") or math.inf):
        times = [median(outcomes[name], "seconds") for outcomes in found.values()]
        megabytes = [median(outcomes[name], "wire") for outcomes in found.values()]
        rows.append([name, *times, *(None if value is None else value / 1e6 for value in megabytes)])
    header = ["", *(f"{network}, s" for network in found), *(f"{network}, MB" for network in found)]
    lab.table(f"Table {number}: {title}", header, rows)


def adaptation(lab: Laboratory) -> None:
    """Measures results over links whose rate changes in the middle of the transfer (section 5.1, future work)."""
    statement = "the choice of codecs follows a link whose rate changes in the middle of a transfer"
    if reason := lab.no_link():
        lab.unmeasured(statement, reason, "5.1")
        return
    lab.section(
        "A link that changes",
        "lineitem, with 1 ms of delay. When the client has half of the rows, it changes the rate of both directions; what waits to "
        "be sent keeps its time. Chunks of 256 KiB. The other lines are forms that stay as they are for all columns. Times of one "
        "run, whose result is checked, and medians in the table.",
    )
    for before, after in CHANGES:
        if reason := lab.no_time():
            lab.unmeasured(f"{before}, then {after}: {statement}", reason, "5.1")
            continue
        run = lab.export(f"{before}:1ms:0%", ADAPTED, forms="computed", change=f"0.5:{after}")
        lab.link(f"{before}, before the change", run["link"])
        outcomes = {name.partition("+")[0]: found for name, found in run["results"]["computed"].items() if found["runs"]}
        title = f"{before}, then {after}"
        curves = {name: arrival_times(found["runs"][0], run["rows"]) for name, found in outcomes.items()}
        lab.lines(f"{title}: seconds until the rows are there", "% of the rows", ARRIVED, curves)
        halves = {name: halves_of(curve) for name, curve in curves.items()}
        rows = [
            [name, median(found, "seconds"), *halves[name], (median(found, "wire") or 0.0) / 1e6]
            for name, found in outcomes.items()
        ]
        lab.table(title, ["", "s", "first half, s", "second half, s", "wire, MB"], rows)
        seconds = {name: value for name, found in outcomes.items() if (value := median(found, "seconds"))}
        lab.check_all(verdicts.changes(title, seconds, halves))


def arrival_times(run: dict[str, Any], rows: int) -> list[float]:
    """The seconds after which a client had each share of the rows."""
    return [next(at for at, arrived in run["arrivals"] if arrived >= share / 100 * rows) for share in ARRIVED]


def halves_of(curve: Sequence[float]) -> tuple[float, float]:
    """The seconds of the first half of the rows, and of the second."""
    middle = curve[ARRIVED.index(50)]
    return middle, curve[-1] - middle


def standing(found: dict[str, Any]) -> str:
    """The best variant of Freestone compared with the best other engine, per network."""
    lines = []
    for network, outcomes in found.items():
        times = {name: value for name, outcome in outcomes.items() if (value := median(outcome, "seconds"))}
        ours = {name: value for name, value in times.items() if name.startswith("freestone")}
        fixed = {name: value for name, value in times.items() if name.startswith("fixed:")}
        paper = {name for name in times if name.startswith("paper:")}
        theirs = {name: value for name, value in times.items() if name not in ours and name not in fixed and name not in paper}
        if not ours or not theirs:
            lines.append(f"{network}: no comparison")
            continue
        mine, best = min(ours, key=lambda name: ours[name]), min(theirs, key=lambda name: theirs[name])
        ratio = theirs[best] / ours[mine]
        word = "wins" if ratio >= 1 else "LOSES"
        if fixed and "freestone" in times:
            codec = min(fixed, key=lambda name: fixed[name])
            share = times["freestone"] / fixed[codec]
            lines.append(
                f"{network}: the measured choice takes {share:.2f} times what {codec} takes, the best fixed one"
            )
        lines.append(
            f"{network}: {mine} {word} against {best}: {ours[mine]:.3f} s, {theirs[best]:.3f} s, {ratio:.2f} ×"
        )
    return "\n".join(lines)


def main() -> None:
    made = {"survey": survey, "design": design, "networks": networks, "adaptation": adaptation}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=made)
    parser.add_argument(
        "--scale", type=float, default=0.02, help="1 is 6 million rows of lineitem, a million of the others"
    )
    parser.add_argument("--runs", type=int, help="measured repetitions of an engine [default: 3, or 1 with --short]")
    parser.add_argument(
        "--short", action="store_true", help="few engines, one machine and the LAN; no result of 500 MB from a server"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="what does not fit this time is left out, and named")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds after which an engine is not repeated")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument(
        "--package", type=Path, help="folder that holds the package freestone, when it is not installed"
    )
    parser.add_argument("--parts", type=Path, required=True, help="writes the findings here")
    options = parser.parse_args()
    options.runs = options.runs or (1 if options.short else 3)
    lab = Laboratory(options)
    made[options.experiment](lab)
    lab.parts.append({"kind": "checks", "checks": lab.checks})
    options.parts.write_text(json.dumps(lab.parts))


if __name__ == "__main__":
    main()
