"""What Raasveldt and Mühleisen (2017) say about their tables, checked against measurements. Nothing here measures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: The client protocols of database systems, of those that are measured.
DATABASES = ("mariadb", "mariadb:compressed", "postgres:text", "clickhouse")
LIGHT = ("Snappy", "LZ4")
#: The paper's own protocol: MonetDB++ and PostgreSQL++, and both with compression.
PLAIN, PACKED = ("paper:sentinel", "paper:mask"), ("paper:sentinel-snappy", "paper:mask-snappy")


class Verdict(NamedTuple):
    """A statement of the paper, whether it holds, the figures, the place, and the reason if it does not."""

    statement: str
    holds: bool
    detail: str
    place: str
    why: str


Times = Mapping[str, float]


def listed(values: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{name} {value:.3g} {unit}" for name, value in values.items())


def survey(seconds: Times, wire: Times) -> Iterator[Verdict]:
    """Table 1, from the seconds and the megabytes on the wire of each engine."""
    databases = {name: seconds[name] for name in DATABASES if name in seconds}
    if "csv:drained" in seconds and databases:
        base = seconds["csv:drained"]
        yield Verdict(
            "a CSV file over a socket is an order of magnitude faster than every database's protocol",
            min(databases.values()) >= 10 * base,
            f"{base:.3g} s for the file, which nobody parses; {listed(databases, 's')}",
            "2.1, Table 1",
            "these clients end with a table in Arrow's format, and newer protocols than the paper's send columns",
        )
    sizes = {name: wire[name] for name in ("csv", *DATABASES) if name in wire}
    if "mariadb:compressed" in sizes and len(sizes) > 2:
        yield Verdict(
            "MySQL's compressed protocol transfers the least",
            min(sizes, key=lambda name: sizes[name]) == "mariadb:compressed",
            listed(sizes, "MB"),
            "2.1, Table 1",
            "another of these protocols compresses, too",
        )
    plain = [name for name in DATABASES if name in sizes and not name.endswith(":compressed")]
    if "csv" in sizes and plain:
        more = [name for name in plain if sizes["csv"] < sizes[name] < 10 * sizes["csv"]]
        yield Verdict(
            "most uncompressed protocols transfer more than the CSV file, but not ten times as much",
            2 * len(more) > len(plain),
            listed({name: sizes[name] / sizes["csv"] for name in plain}, "×"),
            "2.1, Table 1",
            "values in binary are shorter than their digits",
        )


#: The databases whose protocols send rows, and what their bytes per row are made of.
ROWS = {
    "mariadb": "a header of four bytes per row, and lengths of one byte in the place of CSV's separators",
    "postgres:text": "fields are long here, so that lengths of four bytes are a small part of a row",
}


def conclusions(row_bytes: Times, seconds: Times, cpu: Times) -> Iterator[Verdict]:
    """Section 5, on one machine: bytes on the wire per row, and per gigabyte the elapsed seconds and the processor time of both
    sides, by engine."""
    for name, why in ROWS.items():
        if name in row_bytes and "csv" in row_bytes:
            more = row_bytes[name] / row_bytes["csv"]
            yield Verdict(
                f"{name}: the protocol suffers from per-row overhead (a tenth more bytes than the row's line in CSV)",
                more >= 1.1,
                f"{row_bytes[name]:.1f} bytes per row, the line in CSV has {row_bytes['csv']:.1f}: {more:.2f} ×",
                "5",
                why,
            )
    spent = {name: cpu[name] for name in DATABASES if name in cpu}
    if spent and "csv:drained" in cpu:
        base = cpu["csv:drained"]
        yield Verdict(
            "protocols of databases suffer from expensive (de)serialization (ten times the processor time of a file over a socket)",
            min(spent.values()) >= 10 * base,
            f"{base:.3g} s/GB for the file, which nobody parses; {listed(spent, 's/GB')}, for server and client, with execution",
            "5",
            "these clients end with a table in Arrow's format, and newer protocols than the paper's send columns",
        )
    shares = {name: spent[name] / seconds[name] for name in spent if seconds.get(name)}
    if shares:
        yield Verdict(
            "on one machine most of the time is (de)serialization (processor time is more than half of the elapsed time)",
            min(shares.values()) > 0.5,
            f"processor time per elapsed time: {listed(shares, '×')}",
            "2.1",
            "server and client wait for each other, and what they wait for costs no processor time",
        )


def steps(divided: Mapping[str, Sequence[float]]) -> Iterator[Verdict]:
    """Figure 1: the seconds of connecting, of executing and of the transfer, by engine."""
    known = {name: values for name, values in divided.items() if name.partition(":")[0] in ("postgres", "mariadb", "clickhouse")}
    shares = {name: 100 * sum(values[:2]) / max(sum(values), 1e-9) for name, values in known.items()}
    if shares:
        yield Verdict(
            "connecting and executing take little of the time, and (de)serialization and transfer most (less than a tenth)",
            max(shares.values()) < 10,
            f"connecting and executing take {listed(shares, '%')}",
            "2.1, Figure 1",
            "this scale has few rows, which today's clients of columns fetch in a fraction of a second",
        )


def latencies(x: Sequence[float], seconds: Mapping[str, Sequence[float]]) -> Iterator[Verdict]:
    """Figure 3: seconds by delay in ms."""
    growth = {name: values[-1] / values[0] for name, values in seconds.items() if len(values) == len(x)}
    if growth:
        yield Verdict(
            "all systems are heavily influenced by a high latency (at least twice the time)",
            min(growth.values()) >= 2,
            f"at {x[-1]:g} ms instead of {x[0]:g} ms: {listed(growth, '×')}",
            "2.2, Figure 3",
            "today's TCP opens its window quickly, so that a transfer of seconds waits for few acknowledgements",
        )


def rates(x: Sequence[float], seconds: Mapping[str, Sequence[float]]) -> Iterator[Verdict]:
    """Figure 4: seconds by Mbit/s, of which the first is the lowest."""
    known = {name: values for name, values in seconds.items() if len(values) == len(x)}
    if "mariadb" in known and "mariadb:compressed" in known:
        gains = [plain / packed for plain, packed in zip(known["mariadb"], known["mariadb:compressed"], strict=True)]
        yield Verdict(
            "the lower the throughput, the more compression gains",
            gains == sorted(gains, reverse=True) and gains[0] > 1,
            ", ".join(f"{gain:.2f} × at {rate:g} Mbit/s" for rate, gain in zip(x, gains, strict=True)),
            "2.2, Figure 4",
            "neighbouring rates differ by less than runs do",
        )
    if "postgres:text" in known and len(known) > 1:
        others = {name: values for name, values in known.items() if name != "postgres:text"}
        slowest = max(others, key=lambda name: others[name][0])
        lost = known["postgres:text"][0] / others[slowest][0]
        yield Verdict(
            "at low rates PostgreSQL's protocol is significantly slower than the others (by a tenth)",
            lost >= 1.1,
            f"at {x[0]:g} Mbit/s {lost:.2f} times what {slowest} takes, the slowest of the others; at {x[-1]:g} Mbit/s "
            f"{known['postgres:text'][-1] / max(values[-1] for values in others.values()):.2f} times the slowest",
            "2.2, Figure 4",
            "another protocol sends as many bytes per row",
        )


def chunk_sizes(what: str, seconds: Mapping[int, float | None]) -> Iterator[Verdict]:
    """Table 3: seconds on one machine by the bytes of a chunk."""
    known = {size: value for size, value in seconds.items() if value is not None}
    if len(known) < len(seconds) or 1 << 20 not in known:
        return
    best = min(known.values())
    detail = ", ".join(f"{size:,} bytes {value / best:.2f} ×" for size, value in known.items()) + " the time of the best"
    yield Verdict(
        f"{what}: chunks of about 1 MB are optimal (within a tenth of the best size)",
        known[1 << 20] <= 1.1 * best,
        detail,
        "3.2, Table 3",
        "sizes around the best differ by less than repetitions do",
    )
    yield Verdict(
        f"{what}: the smallest chunks perform poorly (half as much time again as the best)",
        known[min(known)] >= 1.5 * best,
        detail,
        "3.2, Table 3",
        "a small chunk costs no round trip and no allocation here",
    )


def chunk_bytes(dataset: str, found: Mapping[int, Mapping[str, float]]) -> Iterator[Verdict]:
    """Table 3: bytes per row and the ratio of Snappy, by the bytes of a chunk."""
    small, large = found[min(found)], found[1 << 20]
    yield Verdict(
        f"{dataset}: small chunks transfer more, and compress worse",
        small["bytes"] > large["bytes"] and small["ratio"] < large["ratio"],
        f"{min(found):,} bytes: {small['bytes']:.1f} bytes per row, ratio {small['ratio']:.2f}; "
        f"1 MB: {large['bytes']:.1f} bytes per row, ratio {large['ratio']:.2f}",
        "3.2, Table 3",
        "headers of chunks are few bytes, and Snappy finds in a few rows what repeats",
    )
    largest = found[max(found)]
    yield Verdict(
        f"{dataset}: the ratio converges, so that chunks beyond 1 MB compress as well (within a tenth)",
        abs(largest["ratio"] / large["ratio"] - 1) <= 0.1,
        f"1 MB: {large['ratio']:.2f}; {max(found):,} bytes: {largest['ratio']:.2f}",
        "3.2, Table 3",
        "columns of a larger chunk are longer, and what repeats is further apart",
    )


def codecs(lan: Times, slow: Times) -> Iterator[Verdict]:
    """Table 5: seconds by codec at 1000 and at 10 Mbit/s."""
    place = "3.2, Table 5"
    light = lambda times: min(times[name] for name in LIGHT)  # noqa: E731
    chosen = ("None", *LIGHT, "GZIP", "XZ")
    shown = lambda times: listed({name: times[name] for name in chosen}, "s")  # noqa: E731
    bound = "Python compresses here on one thread, and at small scales a handful of chunks hide what the link costs"
    claims = (
        ("at 1 Gbit/s light compression is worthwhile", light(lan) < lan["None"], lan),
        ("at 1 Gbit/s no compression is better than heavy compression", lan["None"] < min(lan["GZIP"], lan["XZ"]), lan),
        ("at 10 Mbit/s heavy compression (GZIP) is better than light compression", slow["GZIP"] < light(slow), slow),
        ("even at 10 Mbit/s XZ performs poorly (slower than GZIP)", slow["XZ"] > slow["GZIP"], slow),
    )
    for statement, holds, times in claims:
        yield Verdict(statement, holds, shown(times), place, bound)


def integers(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Verdict]:
    """Table 6: bytes and seconds by data set and way of packing, on one machine."""
    place = "3.2, Table 6"
    sizes = {name: {way: entry["bytes"] / 1e6 for way, entry in ways.items()} for name, ways in found.items()}
    line, acs, ontime = sizes["lineitem"], sizes["acs"], sizes["ontime"]
    yield Verdict(
        "lineitem: PFOR and bit packing make integers smaller than Snappy does",
        max(line["PFOR"], line["Binpack"]) < line["Snappy"],
        listed(line, "MB"),
        place,
        "keys in order repeat, which Snappy finds",
    )
    yield Verdict(
        "lineitem: both with Snappy are smaller still",
        line["PFOR+Sy"] < line["PFOR"] and line["Binpack+Sy"] < line["Binpack"],
        listed(line, "MB"),
        place,
        "packed bits have no repetitions left",
    )
    times = {way: entry["seconds"] for way, entry in found["lineitem"].items()}
    yield Verdict(
        "lineitem: on one machine not compressing is the fastest",
        min(times, key=lambda way: times[way]) == "None",
        listed(times, "s"),
        place,
        "the ways differ by less than repetitions do",
    )
    yield Verdict(
        "ACS: PFOR packs better than bit packing",
        acs["PFOR"] < acs["Binpack"],
        listed(acs, "MB"),
        place,
        "the synthetic columns begin near 0, so that a block's minimum saves nothing",
    )
    yield Verdict(
        "ontime: both pack worse than Snappy",
        min(ontime["PFOR"], ontime["Binpack"]) > ontime["Snappy"],
        listed(ontime, "MB"),
        place,
        "synthetic values repeat less than those of real flights",
    )


#: Seconds and bytes by the name of a way to send a table.
Entries = Mapping[str, Mapping[str, float]]


def integers_by_network(found: Mapping[str, Mapping[str, Entries]]) -> Iterator[Verdict]:
    """Table 6 by network, data set and way of packing: on one machine (`local`), over the LAN, and over the WAN, which is last."""
    place = "3.2, Table 6"
    slow = "numpy packs here on one thread, which on a fast link takes longer than the bytes that it saves"
    of = lambda dataset, network: {way: entry["seconds"] for way, entry in found[network][dataset].items()}  # noqa: E731
    shown = lambda dataset, networks: "; ".join(f"{name}: {listed(of(dataset, name), 's')}" for name in networks)  # noqa: E731
    networks, wan = [*found], [*found][-1]
    links = networks[1:]
    yield Verdict(
        "lineitem: PFOR and bit packing are faster than Snappy in all scenarios",
        all(max(times["PFOR"], times["Binpack"]) < times["Snappy"] for times in (of("lineitem", name) for name in networks)),
        shown("lineitem", networks),
        place,
        slow,
    )
    yield Verdict(
        "ACS: of 265 integer columns a chunk has few rows, so that both are slower than Snappy in all scenarios (by a tenth)",
        all(min(times["PFOR"], times["Binpack"]) > 1.1 * times["Snappy"] for times in (of("acs", name) for name in networks)),
        shown("acs", networks),
        place,
        "over the WAN the fewer bytes of the packed synthetic columns decide, and not what packing costs",
    )
    yield Verdict(
        "ACS: where the link decides, PFOR is faster than bit packing",
        of("acs", wan)["PFOR"] < of("acs", wan)["Binpack"],
        shown("acs", [wan]),
        place,
        "the synthetic columns begin near 0, so that a block's minimum saves nothing",
    )
    yield Verdict(
        "ontime: over networks both perform worse than Snappy",
        all(min(times["PFOR"], times["Binpack"]) > times["Snappy"] for times in (of("ontime", name) for name in links)),
        shown("ontime", links),
        place,
        "synthetic values repeat less than those of real flights",
    )


def protobuf(found: Mapping[str, Entries]) -> Iterator[Verdict]:
    """Table 7 by network, as in `integers_by_network`: protobuf, and the paper's format (Custom), each with Snappy (+C), too."""
    place = "3.2, Table 7"
    of = lambda network: {way: entry["seconds"] for way, entry in found[network].items()}  # noqa: E731
    networks, (local, lan, wan) = [*found], [*found]
    shown = lambda names: "; ".join(f"{name}: {listed(of(name), 's')}" for name in names)  # noqa: E731
    yield Verdict(
        "on one machine the custom format is significantly faster than protobuf, with Snappy and without (by half)",
        all(of(local)[f"Protobuf{end}"] >= 1.5 * of(local)[f"Custom{end}"] for end in ("", "+C")),
        shown([local]),
        place,
        "runs differ by more than the formats",
    )
    sizes = {way: entry["bytes"] / 1e6 for way, entry in found[local].items()}
    yield Verdict(
        "protobuf messages are smaller than the custom format's, but not by much (more than half)",
        0.5 < sizes["Protobuf"] / sizes["Custom"] < 1,
        listed(sizes, "MB"),
        place,
        "keys of several bytes and short texts take as many bytes in both",
    )
    yield Verdict(
        "a compression algorithm saves more than protobuf's short numbers, at less cost, in all scenarios",
        sizes["Custom+C"] < sizes["Protobuf"] and all(of(name)["Custom+C"] < of(name)["Protobuf"] for name in networks),
        f"{shown(networks)}; {listed(sizes, 'MB')}",
        place,
        "Snappy finds less in synthetic rows",
    )
    yield Verdict(
        "the table's figures: over networks the smaller protobuf messages are ahead without Snappy",
        all(of(name)["Protobuf"] < of(name)["Custom"] for name in (lan, wan)),
        shown([lan, wan]),
        place,
        "Google's package for Python takes longer to make and read messages than the link takes for the bytes that they save",
    )
    yield Verdict(
        "the table's figures: with Snappy the custom format is ahead over the LAN, and protobuf over the WAN",
        of(lan)["Custom+C"] < of(lan)["Protobuf+C"] and of(wan)["Protobuf+C"] < of(wan)["Custom+C"],
        shown([lan, wan]),
        place,
        "a WAN with loss is measured once here, and the costs of Python's messages weigh more than C++'s there",
    )


def texts(short: Mapping[str, Any], long: Mapping[str, Any]) -> Iterator[Verdict]:
    """Tables 8 and 9: entries of seconds and bytes by form and codec."""
    size = lambda form: short[form]["None"]["bytes"]  # noqa: E731
    yield Verdict(
        "a text of one character takes half the bytes in fixed width that it takes with a length or an end",
        abs(size("Null-terminated") / size("VARCHAR(1)") - 2) < 0.1 and size("Varint prefix") > 1.9 * size("VARCHAR(1)"),
        listed({form: size(form) / 1e6 for form in short}, "MB"),
        "3.2, Table 8",
        "headers of chunks count at this scale",
    )
    seconds = {form: entry["None"]["seconds"] for form, entry in long.items()}
    near = max(seconds["Null-terminated"], seconds["Varint prefix"], seconds["VARCHAR(44)"])
    yield Verdict(
        "l_comment: lengths, ends and VARCHAR(44) perform alike (within a half)",
        near <= 1.5 * min(seconds["Null-terminated"], seconds["Varint prefix"], seconds["VARCHAR(44)"]),
        listed(seconds, "s"),
        "3.2, Table 9",
        "Arrow's kernels and numpy make these forms here, which differ by more than the forms do",
    )
    yield Verdict(
        "l_comment: in a wide fixed width (VARCHAR(10000)) it is an order of magnitude slower",
        seconds["VARCHAR(10000)"] >= 10 * seconds["Null-terminated"],
        listed(seconds, "s"),
        "3.2, Table 9",
        "zeros are made and copied at the speed of memory",
    )


def networks(dataset: str, found: Mapping[str, Times]) -> Iterator[Verdict]:
    """Tables 10 to 12: seconds by network and engine, of one data set."""
    for network, seconds in found.items():
        theirs = {name: value for name, value in seconds.items() if name.split(":")[0] in ("mariadb", "postgres")}
        ours = {name: value for name, value in seconds.items() if name.startswith("freestone")}
        if not theirs or not ours:
            continue
        factor = min(theirs.values()) / min(ours.values())
        wanted = 10 if network == "local" else 1
        yield Verdict(
            f"{dataset}, {network}: columns in chunks are "
            + ("an order of magnitude faster than" if wanted == 10 else "faster than")
            + " the protocols of MariaDB and PostgreSQL",
            factor >= wanted,
            f"{factor:.1f} times as fast as the best of them",
            "4.3, Tables 10 to 12",
            "their newer clients (binary COPY, ADBC) are counted, too, and the link is the limit for all",
        )


def compression(dataset: str, found: Mapping[str, Times]) -> Iterator[Verdict]:
    """Tables 10 to 12: whether the paper's protocol is the fastest client protocol without compression on one machine, and with
    it over a network. Of seconds by network and engine."""
    for network, seconds in found.items():
        ours = {name: seconds[name] for name in (*PLAIN, *PACKED) if name in seconds}
        if len(ours) < len(PLAIN) + len(PACKED):
            continue
        shown = ours | {name: seconds[name] for name in DATABASES if name in seconds}
        fastest = min(shown, key=lambda name: shown[name])
        how, wanted = ("without", PLAIN) if network == "local" else ("with", PACKED)
        yield Verdict(
            f"{dataset}, {network}: the paper's protocol is the fastest {how} compression",
            fastest in wanted,
            f"the fastest is {fastest}: {listed(shown, 's')}",
            "4.3, Tables 10 to 12",
            "at this scale a transfer takes milliseconds, of which neither codec nor link is the larger part",
        )
    local, lan = (found.get(network, {}).get("mariadb:compressed") for network in ("local", "lan"))
    if local and lan:
        yield Verdict(
            f"{dataset}: MySQL's compressed protocol takes as long over the LAN as on one machine (within a tenth)",
            abs(lan / local - 1) <= 0.1,
            f"{local:.3g} s and {lan:.3g} s",
            "4.3, Tables 10 to 12",
            "at this scale round trips count, which compression does not hide",
        )


def transferred(dataset: str, wire: Times) -> Iterator[Verdict]:
    """Tables 10 and 11: bytes on the wire of one machine, by engine."""
    sizes = {name: value / 1e6 for name, value in wire.items() if name in (*PLAIN, *PACKED, *DATABASES)}
    if dataset == "lineitem" and "mariadb:compressed" in sizes and all(name in sizes for name in PACKED):
        yield Verdict(
            "lineitem: the compressed columns have fewer bytes than MySQL's compressed rows",
            min(sizes[name] for name in PACKED) < sizes["mariadb:compressed"],
            listed(sizes, "MB"),
            "4.3, Table 10",
            "Snappy has no entropy stage, which MySQL's zlib has",
        )
    if dataset == "acs" and "mariadb" in sizes and all(name in sizes for name in PLAIN):
        yield Verdict(
            "acs: MySQL's texts have fewer bytes than binary columns, as most values are small",
            sizes["mariadb"] < min(sizes[name] for name in PLAIN),
            listed(sizes, "MB"),
            "4.3, Table 11",
            "the columns that most rows lack cost nothing under a mask, and synthetic weights have more digits",
        )
    if dataset == "acs" and "postgres:text" in sizes:
        others = {name: value for name, value in sizes.items() if name != "postgres:text"}
        yield Verdict(
            "acs: PostgreSQL transfers the most, as each field has a length of four bytes",
            bool(others) and sizes["postgres:text"] > max(others.values()),
            listed(sizes, "MB"),
            "4.3, Table 11",
            "the lengths are there, but digits of small values are shorter than four bytes",
        )


def prototypes(dataset: str, wire: Times, wan: Times) -> Iterator[Verdict]:
    """MonetDB++ (sentinel) and PostgreSQL++ (mask) in Tables 10 to 12: bytes on the wire of one machine, and seconds on the WAN, if
    it was measured."""
    sizes = {name: wire[f"paper:{name}"] / 1e6 for name in ("sentinel", "mask") if f"paper:{name}" in wire}
    packed = {name: wire[f"paper:{name}-snappy"] / 1e6 for name in sizes if f"paper:{name}-snappy" in wire}
    times = {name: wan[f"paper:{name}"] for name in sizes if f"paper:{name}" in wan}
    if len(sizes) < 2 or len(packed) < 2:
        return
    few_nulls = "the synthetic table has other shares of NULLs than the published one"
    if dataset == "lineitem":
        yield Verdict(
            "lineitem: without NULLs neither form of NULL costs anything (the same bytes, within 1 %)",
            abs(sizes["sentinel"] / sizes["mask"] - 1) <= 0.01,
            listed(sizes, "MB"),
            "4.3, Table 10",
            "headers of packets count at this scale",
        )
        return
    place = "4.3, Table 11" if dataset == "acs" else "4.3, Table 12"
    yield Verdict(
        f"{dataset}: PostgreSQL++ transfers less than MonetDB++, as NULLs have no values",
        sizes["mask"] < sizes["sentinel"],
        listed(sizes, "MB"),
        place,
        few_nulls,
    )
    if dataset == "acs":
        if len(times) < 2:
            return
        yield Verdict(
            "acs: so PostgreSQL++ is faster on the WAN",
            times["mask"] < times["sentinel"],
            listed(times, "s"),
            place,
            "both wait for the link's delay more than for its rate at this scale",
        )
        return
    yield Verdict(
        "ontime: MonetDB++ compresses significantly better, to fewer bytes than PostgreSQL++",
        packed["sentinel"] < packed["mask"],
        f"with Snappy {listed(packed, 'MB')}",
        place,
        "where whole columns are NULL, no value at all is shorter than a value that repeats",
    )


def changes(title: str, seconds: Times, halves: Mapping[str, Sequence[float]]) -> Iterator[Verdict]:
    """A link whose rate changes: seconds by form, of which `freestone` is the measured choice, and the seconds of one run before
    and after the change."""
    fixed = {name: value for name, value in seconds.items() if name != "freestone"}
    if "freestone" not in seconds or not fixed:
        return
    best = min(fixed, key=lambda name: fixed[name])
    (before, after), (best_before, best_after) = halves["freestone"], halves[best]
    where = "before the change, while forms are tried" if before - best_before > after - best_after else "after the change"
    yield Verdict(
        f"{title}: codecs chosen by the rate are as fast as the best form that stays as it is (within a tenth)",
        seconds["freestone"] <= 1.1 * fixed[best],
        f"{seconds['freestone']:.2f} s, the best is {best} with {fixed[best]:.2f} s; {listed(seconds, 's')}",
        "5.1",
        f"most is lost {where}: {before:.2f} and {after:.2f} s for the halves, {best} {best_before:.2f} and {best_after:.2f} s",
    )
