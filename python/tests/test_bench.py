"""The checksums with which bench/export.py checks results, and the message format of bench/protocol_design.py."""

import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
if not BENCH.exists():
    pytest.skip("the tree's bench folder is not here", allow_module_level=True)
sys.path.insert(0, str(BENCH))

import export_data as data  # noqa: E402
import protocol_verdicts as verdicts  # noqa: E402


def table():
    return pa.table(
        {
            "i": pa.array([1, -2, None, 2**31 - 1], pa.int32()),
            "d": pa.array([Decimal("1.50"), Decimal("-0.01"), None, Decimal("9999999.99")], pa.decimal128(15, 2)),
            "t": pa.array(["a", "", None, "größer"], pa.string()),
            "day": pa.array([date(1970, 1, 1), date(1998, 12, 1), None, date(2024, 2, 29)], pa.date32()),
            "at": pa.array([datetime(2024, 1, 1, 12), None, None, datetime(1969, 1, 1)], pa.timestamp("us")),
            "x": pa.array([1.5, -0.25, None, 1e300], pa.float64()),
        }
    )


def test_sums_do_not_depend_on_order_chunks_or_representation():
    whole, expected = table(), data.sums(table())
    assert data.differences(expected, data.sums(whole.take([3, 1, 0, 2]))) == []
    cut = pa.concat_tables([whole.slice(2), whole.slice(0, 1), whole.slice(1, 1)])
    assert data.differences(expected, data.sums(cut)) == []
    other = whole.set_column(0, "i", whole["i"].cast(pa.int64()))
    other = other.set_column(2, "t", whole["t"].cast(pa.string_view()))
    other = other.set_column(1, "d", whole["d"].cast(pa.decimal128(38, 2)))
    assert data.differences(expected, data.sums(other)) == []
    dictionaries = whole.set_column(2, "t", whole["t"].dictionary_encode())
    assert data.differences(expected, data.sums(dictionaries)) == []


@pytest.mark.parametrize("column", range(6))
def test_one_wrong_value_is_noticed(column):
    whole, name = table(), table().column_names[column]
    values = whole[name].to_pylist()
    wrong = whole.set_column(column, name, pa.array([values[1], values[1], values[2], values[3]], whole[name].type))
    assert any(name in text for text in data.differences(data.sums(whole), data.sums(wrong)))
    missing = whole.set_column(column, name, pa.array([None, *values[1:]], whole[name].type))
    assert any("NULL" in text for text in data.differences(data.sums(whole), data.sums(missing)))


def test_rows_that_are_lost_or_doubled_are_noticed():
    whole = table()
    for wrong in (whole.slice(1), pa.concat_tables([whole, whole.slice(0, 1)])):
        assert any("rows" in text for text in data.differences(data.sums(whole), data.sums(wrong)))
    assert data.differences(data.sums(whole), data.sums(whole.drop_columns(["x"])))


def test_decimals_come_back_from_doubles_and_other_scales():
    whole, expected = table().drop_columns(["x"]), data.sums(table().drop_columns(["x"]))
    doubles = whole.set_column(1, "d", whole["d"].cast(pa.float64()))
    assert data.differences(expected, data.sums(data.recover(doubles, whole.schema))) == []
    scaled = whole.set_column(1, "d", whole["d"].cast(pa.decimal128(38, 10)))
    assert data.differences(expected, data.sums(data.recover(scaled, whole.schema))) == []


def test_computed_values_are_others_of_the_same_types():
    whole = table()
    made = data.compute(whole)
    assert made.schema == whole.schema
    assert made["i"].to_pylist() == [-1, 2, None, -(2**31) + 1]
    assert made["t"].to_pylist() == ["a!", "!", None, "größer!"]
    assert made["day"].to_pylist()[1] == date(1998, 12, 2)


def test_packed_integers_have_the_bits_that_they_need():
    numpy = pytest.importorskip("numpy")
    design = pytest.importorskip("protocol_design")
    numbers = numpy.arange(1000, 1000 + 4096, dtype=numpy.int32)
    # 13 bits per value below 8192; 7 bits per difference within a block of 128.
    assert len(design.packed(numbers, "binpack")) == 1 + 4096 * 13 // 8
    assert len(design.packed(numbers, "pfor")) == 32 * 4 + 32 + 4096 * 7 // 8
    bits = numpy.unpackbits(numpy.frombuffer(design.packed(numbers, "binpack")[1:], numpy.uint8), bitorder="little")
    assert (bits.reshape(-1, 13) @ (1 << numpy.arange(13))).tolist() == numbers.tolist()


def test_messages_hold_the_values_in_the_papers_forms():
    design = pytest.importorskip("protocol_design")
    batch = pa.record_batch({"n": pa.array([1, 2], pa.int32()), "t": pa.array(["ab", "c"])})
    assert design.by_rows(batch) == b"\1\0\0\0ab\0\2\0\0\0c\0"
    assert design.by_columns(batch, "nul", "none") == b"\2" + bytes(7) + b"\1\0\0\0\2\0\0\0" + b"\5" + bytes(7) + b"ab\0c\0"
    assert design.texts(batch["t"], "prefix") == b"\2ab\1c"
    assert design.texts(batch["t"], "fixed:3") == b"ab\0c\0\0"


def test_chunks_of_fixed_texts_have_the_size_that_was_asked_for():
    design = pytest.importorskip("protocol_design")
    texts = pa.table({"t": pa.array(["abc"] * 1000)})
    sizes = [len(chunk) for chunk in design.chunks(texts, {"form": "fixed:1000", "chunk": 10_000})]
    assert len(sizes) == 100
    assert max(sizes) < 10_100


def test_verdicts_follow_from_the_figures():
    def checked(found):
        return {verdict.statement.partition(":")[2].strip() or verdict.statement: verdict.holds for verdict in found}

    seconds = {"csv:drained": 0.1, "mariadb": 2.0, "postgres:text": 1.5}
    assert list(checked(verdicts.survey(seconds, {}))) == [
        "a CSV file over a socket is an order of magnitude faster than every database's protocol"
    ]
    assert all(checked(verdicts.survey(seconds, {})).values())
    assert not any(checked(verdicts.survey(seconds | {"postgres:text": 0.9}, {})).values())
    wire = {"csv": 10.0, "mariadb": 14.0, "mariadb:compressed": 3.0, "postgres:text": 18.0}
    assert list(checked(verdicts.survey({}, wire)).values()) == [True, True]
    assert list(checked(verdicts.survey({}, wire | {"mariadb:compressed": 12.0})).values()) == [False, True]
    small, mega, large = 2048, 1 << 20, 100 << 20
    best, poor = verdicts.chunk_sizes("t", {small: 3.0, mega: 1.0, large: 1.2})
    assert best.holds and poor.holds
    best, poor = verdicts.chunk_sizes("t", {small: 1.2, mega: 1.2, large: 1.0})
    assert not best.holds and not poor.holds
    assert list(verdicts.chunk_sizes("t", {small: 1.2, mega: None, large: 1.0})) == []
    # The paper's figures of lineitem, by its 60 million rows.
    published = {small: {"bytes": 109.3, "ratio": 1.38}, mega: {"bytes": 96.7, "ratio": 2.25}, large: {"bytes": 102.5, "ratio": 2.23}}
    assert all(verdict.holds for verdict in verdicts.chunk_bytes("t", published))
    worse = published | {small: {"bytes": 109.3, "ratio": 2.3}, large: {"bytes": 1.0, "ratio": 3.0}}
    assert not any(verdict.holds for verdict in verdicts.chunk_bytes("t", worse))
    (gains,) = verdicts.rates((10, 100), {"mariadb": [8.0, 2.0], "mariadb:compressed": [2.0, 1.0]})
    assert gains.holds
    (gains,) = verdicts.rates((10, 100), {"mariadb": [2.0, 2.0], "mariadb:compressed": [2.0, 1.0]})
    assert not gains.holds
    known = {"postgres:text": [30.0, 1.0], "mariadb": [8.0, 2.0], "mariadb:compressed": [2.0, 1.0]}
    assert [verdict.holds for verdict in verdicts.rates((10, 1000), known)] == [True, True]
    known["postgres:text"][0] = 8.5
    assert [verdict.holds for verdict in verdicts.rates((10, 1000), known)] == [True, False]
    lan = {"None": 10.0, "Snappy": 5.0, "LZ4": 6.0, "GZIP": 60.0, "XZ": 700.0}
    slow = {"None": 850.0, "Snappy": 400.0, "LZ4": 380.0, "GZIP": 230.0, "XZ": 650.0}
    assert all(verdict.holds for verdict in verdicts.codecs(lan, slow)), "the paper's own figures"
    assert not all(verdict.holds for verdict in verdicts.codecs(slow, lan))


#: Seconds and gigabytes of the paper's Tables 10 and 11, under the names of the engines that stand for its systems.
TABLE_10 = {
    "local": {"paper:sentinel": 10.6, "paper:sentinel-snappy": 15.5, "paper:mask": 39.3, "paper:mask-snappy": 42.4}
    | {"mariadb": 98.8, "mariadb:compressed": 380.3, "postgres:text": 205.8},
    "lan": {"paper:sentinel": 50.3, "paper:sentinel-snappy": 19.9, "paper:mask": 46.1, "paper:mask-snappy": 43.8}
    | {"mariadb": 108.9, "mariadb:compressed": 379.4, "postgres:text": 301.1},
}
SIZES_10 = {"paper:sentinel": 5.80, "paper:sentinel-snappy": 2.27, "paper:mask": 5.36, "paper:mask-snappy": 2.53}
SIZES_10 |= {"mariadb": 7.44, "mariadb:compressed": 2.85, "postgres:text": 10.4}
SIZES_11 = {"paper:sentinel": 9.49, "paper:sentinel-snappy": 2.49, "paper:mask": 8.24, "paper:mask-snappy": 2.17}
SIZES_11 |= {"mariadb": 5.78, "mariadb:compressed": 1.48, "postgres:text": 12.5}


def test_the_papers_own_figures_fulfil_its_claims():
    found = [*verdicts.compression("lineitem", TABLE_10), *verdicts.transferred("lineitem", SIZES_10)]
    found += [*verdicts.transferred("acs", SIZES_11), *verdicts.prototypes("acs", SIZES_11, {})]
    assert len(found) == 7
    assert all(verdict.holds for verdict in found), [verdict for verdict in found if not verdict.holds]
    swapped = {"local": TABLE_10["lan"], "lan": TABLE_10["local"] | {"mariadb:compressed": 700.0}}
    assert not any(verdict.holds for verdict in verdicts.compression("lineitem", swapped))
    assert not any(verdict.holds for verdict in verdicts.transferred("acs", SIZES_10 | {"postgres:text": 1.0}))
    assert list(verdicts.compression("lineitem", {"local": {"mariadb": 1.0}})) == []


def entries(names, seconds, sizes):
    return {name: {"seconds": time, "bytes": size * 1e6} for name, time, size in zip(names, seconds, sizes, strict=True)}


#: The paper's Tables 6 and 7: seconds by network, and megabytes.
PACKED = ("None", "Binpack", "PFOR", "Snappy", "Binpack+Sy", "PFOR+Sy")
TABLE_6 = {
    "lineitem": ((5.3, 6.0, 5.7, 6.8, 5.8, 5.7), (15.7, 8.0, 8.1, 12.3, 7.5, 7.5), (159.0, 82.0, 82.1, 103.9, 76.4, 77.5)),
    "acs": ((15.2, 120.5, 166.8, 20.5, 152.6, 165.8), (78.6, 133.9, 170.1, 22.8, 160.9, 168.4), (800.6, 421.2, 300.9, 204.5, 190.0, 185.4)),
    "ontime": ((1.3, 1.4, 1.6, 1.4, 1.8, 1.8), (5.8, 6.2, 5.8, 1.4, 1.9, 1.9), (54.4, 44.4, 44.4, 3.2, 5.7, 5.9)),
}
SIZES_6 = {
    "lineitem": (1844.2, 944.1, 948.0, 1204.9, 882.0, 885.9),
    "acs": (9244.8, 4288.2, 2703.4, 2434.8, 1694.6, 1203.2),
    "ontime": (649.1, 529.3, 528.6, 39.0, 67.7, 70.5),
}
MESSAGES = ("Custom", "Custom+C", "Protobuf", "Protobuf+C")
TABLE_7 = {"local": (10.3, 18.3, 33.1, 35.7), "LAN": (64.1, 25.4, 45.5, 47.3), "WAN": (498.9, 221.4, 391.6, 195.2)}
SIZES_7 = (5943.3, 2637.4, 4656.1, 2315.9)


def test_the_papers_own_packing_fulfils_its_claims_over_networks():
    of = lambda at: {name: entries(PACKED, times[at], SIZES_6[name]) for name, times in TABLE_6.items()}  # noqa: E731
    by_network = {network: of(at) for at, network in enumerate(("local", "LAN", "WAN"))}
    found = [*verdicts.integers(by_network["local"]), *verdicts.integers_by_network(by_network)]
    assert len(found) == 5 + 4
    assert all(verdict.holds for verdict in found), [verdict for verdict in found if not verdict.holds]
    alike = {network: {name: entries(PACKED, [1.0] * 6, SIZES_6[name]) for name in TABLE_6} for network in by_network}
    assert not any(verdict.holds for verdict in verdicts.integers_by_network(alike))
    messages = {network: entries(MESSAGES, times, SIZES_7) for network, times in TABLE_7.items()}
    found = [*verdicts.protobuf(messages)]
    assert len(found) == 5
    assert all(verdict.holds for verdict in found), [verdict for verdict in found if not verdict.holds]
    alike = {network: entries(MESSAGES, [1.0] * 4, [1.0] * 4) for network in messages}
    assert not any(verdict.holds for verdict in verdicts.protobuf(alike))


def test_results_of_chunks_have_the_bytes_that_were_asked_for():
    design = pytest.importorskip("protocol_design")
    rows = pa.table({"n": pa.array(range(1000), pa.int32()), "t": pa.array(["abc"] * 1000)})
    assert design.row_bytes(rows, "nul") == 8
    assert [design.sized(rows, size).num_rows for size in (1, 800, 20_000)] == [1, 100, 2500]
    sizes = [len(chunk) for chunk in design.chunks(rows, {"chunk": 800})]
    assert len(sizes) == 10 and max(sizes) <= 800 + 16


class FakeLaboratory:
    """Runs that take no time: twice as many seconds on each slower network."""

    def __new__(cls, tmp_path):
        import argparse

        import protocol

        class Fake(protocol.Laboratory):
            def __init__(self):
                self.options = argparse.Namespace(scale=0.01, parts=tmp_path / "parts.json", short=False)
                self.late = ""
                self.work, self.parts, self.checks, self.runs, self.reason = tmp_path, [], [], 0, ""

            def no_link(self):
                return self.reason

            def no_time(self):
                return self.late

            def export(self, network, engines, dataset="lineitem", forms="stored", scale=None):
                self.runs += 1
                engines = ["paper:sentinel", "paper:mask", *engines] if "paper" in engines else engines
                run = {"seconds": 1.0 + self.runs, "first": 0.5, "connect": 0.25, "wire": 2e6, "server_cpu": 0.1, "client_cpu": 0.1, "peak": 1e6}
                one = {"runs": [run], "error": "", "checked": "yes"}
                found = {name.removesuffix(":"): one for name in engines}
                return {
                    "results": {"stored": found},
                    "bytes": {"stored": 25e6},
                    "rows": 60000,
                    "servers": {"csv": "a socket"},
                    "link": None,
                    "engines": {name: name for name in found},
                }

            def design(self, network, tables, runs=3):
                import protocol_design as design

                entry = lambda: {"seconds": 1.0, "bytes": 1e6, "ratio": 2.0}  # noqa: E731
                pair = lambda: {"None": entry(), "Snappy": entry()}  # noqa: E731
                ways = ("None", "Binpack", "PFOR", "Snappy", "Binpack+Sy", "PFOR+Sy")
                forms = ("Null-terminated", "Varint prefix", "VARCHAR(44)", "VARCHAR(100)", "VARCHAR(1000)", "VARCHAR(10000)")
                chunk = {"rows": 1, "sent": 9, "seconds": 1e-6, "bytes": 90.0, "packed_seconds": 1e-6, "ratio": 2.0}
                return {
                    "link": None,
                    "3": {name: {str(size): chunk for size in design.CHUNKS} for name in protocol.DATASETS},
                    "4": {name: {"column": entry(), "row": entry()} for name in design.CODECS},
                    "5": {name: entry() for name in design.CODECS},
                    "6": {name: {way: entry() for way in ways} for name in protocol.DATASETS},
                    "7": {name: entry() for name in ("Custom", "Custom+C", "Protobuf", "Protobuf+C")},
                    "8": {name: pair() for name in ("Varint prefix", "Null-terminated", "VARCHAR(1)")},
                    "9": {name: pair() for name in forms},
                }

        return Fake()


def test_experiments_of_the_protocol_become_parts(tmp_path, monkeypatch):
    protocol = pytest.importorskip("protocol")
    pytest.importorskip("numpy")
    for name, least in (("survey", 5), ("design", 20), ("networks", 12)):
        lab = FakeLaboratory(tmp_path)
        monkeypatch.setattr(protocol, "prepare_design", lambda lab: None)
        getattr(protocol, name)(lab)
        assert len(lab.checks) >= least, name
        assert all(check["holds"] or check.get("why") or not check.get("place") for check in lab.checks), lab.checks
        assert {part["kind"] for part in lab.parts} <= {"section", "table", "lines", "stacks", "bars", "code"}
    missing = {}
    for name in ("survey", "design"):
        lab = FakeLaboratory(tmp_path)
        lab.reason = "no root"
        getattr(protocol, name)(lab)
        missing[name] = [check["place"].rpartition(", ")[2] for check in lab.checks if check.get("is_unmeasured")]
        assert all(check["detail"] == "no root" for check in lab.checks if check.get("is_unmeasured"))
        assert sum(part["kind"] == "table" for part in lab.parts) >= 1
    assert missing == {"survey": ["Figure 3", "Figure 4"], "design": ["Table 5", "Table 6", "Table 7"]}


def test_the_papers_conclusions_follow_from_bytes_and_processor_time():
    # The paper's Table 1: gigabytes of 60 million rows. Its PostgreSQL sends more than the file, its MySQL hardly.
    row_bytes = {"csv": 119.8, "mariadb": 124.0, "postgres:text": 173.2}
    cpu = {"csv:drained": 0.5, "mariadb": 9.0, "postgres:text": 18.0}
    found = [*verdicts.conclusions(row_bytes, {"mariadb": 12.0, "postgres:text": 20.0}, cpu)]
    assert [verdict.holds for verdict in found] == [False, True, True, True]
    assert "1.45 ×" in found[1].detail and all(verdict.why for verdict in found)
    found = [*verdicts.conclusions({}, {"mariadb": 30.0}, cpu | {"mariadb": 4.0})]
    assert [verdict.holds for verdict in found] == [False, False]
    assert [*verdicts.conclusions({"mariadb": 9.0}, {}, {"csv:drained": 1.0})] == []
    protocol = pytest.importorskip("protocol")
    assert protocol.cpu_seconds({"runs": [{"server_cpu": 0.0, "client_cpu": 0.0}]}) == protocol.TICK
    assert protocol.cpu_seconds({"runs": []}) is None


def test_the_parts_of_a_fetch_are_told_apart():
    protocol = pytest.importorskip("protocol")
    run = {"seconds": 2.0, "first": 0.1, "connect": 0.02}
    outcomes = [
        ("postgres:copy-text", {"runs": [run, run]}),
        ("postgres:text", {"runs": [run | {"first": None}]}),
        ("quack", {"runs": [run | {"connect": None}]}),
        ("mariadb", {"runs": []}),
    ]
    figure = protocol.figure_1(outcomes)
    assert figure["parts"][0] == "connection" and len(figure["parts"]) == 3
    (group,) = figure["groups"]
    assert [(bar["label"], bar["values"]) for bar in group["bars"]] == [("postgres:copy-text", [0.02, 0.1, 1.9])]
    assert "not postgres:text, quack, which" in group["note"]
    (little,) = verdicts.steps(protocol.divided(outcomes))
    assert little.holds and "5.94 %" in little.detail
    (little,) = verdicts.steps({"postgres:adbc": [0.1, 0.1, 1.0], "csv": [0.0, 0.0, 1.0]})
    assert not little.holds
    assert list(verdicts.steps({"csv": [0.0, 0.0, 1.0]})) == []


def test_a_second_connection_is_timed_and_closed():
    clients = pytest.importorskip("export_client")

    class Slow(clients.Client):
        opened, closed = 0, 0

        def connect(self):
            Slow.opened += 1

        def close(self):
            Slow.closed += 1

    job = {"endpoint": {}, "options": {}}
    assert 0 <= Slow(job, None).connecting() < 10
    assert (Slow.opened, Slow.closed) == (2, 1)
    Slow.connects = False
    assert Slow(job, None).connecting() is None


def test_short_and_late_runs_name_what_they_leave_out(tmp_path, monkeypatch):
    protocol = pytest.importorskip("protocol")
    pytest.importorskip("numpy")
    monkeypatch.setattr(protocol, "prepare_design", lambda lab: None)
    named = lambda lab: [check["statement"] for check in lab.checks if check.get("is_unmeasured")]  # noqa: E731
    lab = FakeLaboratory(tmp_path)
    lab.options.short = True
    protocol.networks(lab)
    assert lab.runs == len(protocol.DATASETS) * len(protocol.REDUCED_NETWORKS)
    assert sum("wan" in statement for statement in named(lab)) == 2 * len(protocol.DATASETS)
    assert sum(part["kind"] == "table" for part in lab.parts) == len(protocol.DATASETS)
    groups = [group for part in lab.parts if part["kind"] == "bars" for group in part["groups"]]
    assert [group["label"] for group in groups] == ["local", "lan"] * len(protocol.DATASETS)
    assert all(group["bars"][0] == {"label": "Netcat", "value": 1.0} for group in groups)
    protocol.chunk_tables(lab)
    assert [len(part["series"]) for part in lab.parts if part["kind"] == "lines"] == [3, 3]
    assert "Freestone's own protocol" in named(lab)[-1]
    for name, fewest in (("survey", 2), ("design", 2), ("networks", 12), ("adaptation", 2)):
        lab = FakeLaboratory(tmp_path)
        lab.late = "the time of the run was over"
        getattr(protocol, name)(lab)
        assert len(named(lab)) >= fewest, name


def test_steps_are_left_out_when_the_longest_so_far_would_not_fit():
    import math
    import time

    protocol = pytest.importorskip("protocol")
    lab = object.__new__(protocol.Laboratory)
    assert lab.no_time() == ""
    lab.longest, lab.deadline = 3600.0, time.monotonic() + 60
    assert "over" in lab.no_time()
    lab.deadline = math.inf
    assert lab.no_time() == ""
