"""The parts of bench/cluster.py that need no processes: quotas, ratios, and what is said of them."""

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
if not BENCH.exists():
    pytest.skip("the tree's bench folder is not here", allow_module_level=True)
sys.path.insert(0, str(BENCH))

import cgroups  # noqa: E402
import cluster  # noqa: E402
from peers import Outcome  # noqa: E402


def test_hierarchies_are_found_in_the_mounts_of_both_versions():
    old = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
    assert cgroups.hierarchies(old) == [(1, Path("/sys/fs/cgroup/cpu,cpuacct"))]
    both = old + "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\n"
    assert [version for version, _ in cgroups.hierarchies(both)] == [2, 1]
    assert cgroups.hierarchies("proc /proc proc rw 0 0\nbroken\n") == []


@pytest.mark.parametrize(("cores", "quota", "period", "weight"), [(0.2, 1000, 5000, 1), (1.6, 8000, 5000, 8), (0.05, 1000, 20000, 0.25)])
def test_quotas_are_shares_of_short_periods(cores, quota, period, weight):
    """A worker's usual share has the weight that groups have by default, and others have it in proportion."""
    assert cgroups.limits(2, cores) == {"cpu.max": f"{quota} {period}", "cpu.weight": str(round(100 * weight))}
    old = [("cpu.cfs_period_us", str(period)), ("cpu.cfs_quota_us", str(quota)), ("cpu.shares", str(round(1024 * weight)))]
    assert list(cgroups.limits(1, cores).items()) == old


def test_groups_that_cannot_be_made_are_an_error(monkeypatch):
    monkeypatch.setattr(cgroups, "hierarchies", lambda _: [(1, Path("/proc/no-such-folder"))])
    with pytest.raises(cgroups.NotPossible, match="no-such-folder"):
        cgroups.Groups.make()
    monkeypatch.setattr(cgroups, "hierarchies", lambda _: [])
    with pytest.raises(cgroups.NotPossible, match="controller"):
        cgroups.Groups.make()


def times(**medians):
    """Times by query and configuration, from their medians: ``q1={"1": 8.0, "8": 1.0}``."""
    return {query: {at: Outcome(times=[median], rows=[]) for at, median in by.items()} for query, by in medians.items()}


def test_figures_are_compared_with_targets_only_if_cores_are_limited():
    found = times(a={"1": 80, "2": 40, "8": 10, "process": 8}, b={"1": 80, "2": 50, "8": 20, "process": 18})
    figures = {figure.name: figure for figure in cluster.scaling_figures("ssb", found, [1, 2, 8], True)}
    two, eight = figures["SSB, 1 → 2 workers"], figures["SSB, 1 → 8 workers"]
    assert (round(two.found, 2), two.target, two.is_reached) == (1.79, 1.8, False)
    assert (round(eight.found, 2), eight.target, eight.is_reached) == (5.66, 5.5, True)
    process = figures["SSB, 8 workers against one process with all their cores"]
    assert (round(process.found, 2), process.is_reached) == (0.85, True)
    assert "short of it" in " ".join(two.row()) and "reached" in " ".join(eight.row())
    for figures in (cluster.scaling_figures("ssb", found, [1, 2, 8], False), cluster.scaling_figures("ssb", found, [2, 8], True)):
        assert [figure.target for figure in figures if "→" in figure.name] == [None] * (len(figures) - 1)


def test_losses_name_the_queries():
    found = times(a={"8": 10, "process": 8}, b={"8": 20, "process": 30})
    assert cluster.losses(found, "8", "process") == ["a (0.80×)"]
    assert cluster.losses(found, "process", "8") == ["b (0.67×)"]


def test_a_killed_worker_may_cost_so_much():
    assert cluster.kill_bound(1000) == 4200
    figure = cluster.Figure("killed", 4.3, 4.2, "s", is_most=True)
    assert figure.is_reached is False and "at most 4.20 s" in figure.row()


class Fake:
    """A connection that gives the same rows always, or others when it is asked again."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    def timed(self, sql):
        if sql.startswith("SET "):
            return 0.0, []
        self.asked += 1
        return 10.0 * self.asked, self.answers[min(self.asked, len(self.answers)) - 1]


def test_wrong_rows_are_noticed(capsys):
    rows = [["1", "x"], ["2", "y"]]
    right = {"1": Fake(rows), "8": Fake(rows[::-1]), "process": Fake(rows)}
    found = cluster.measure(right, {"q": "-- a title\nSELECT 1"}, 3)["q"]
    assert [outcome.times for outcome in found.values()] == [[30.0, 40.0, 50.0]] * 3
    assert not any(outcome.differs for outcome in found.values())
    wrong = {"1": Fake([["1", "x"], ["3", "y"]]), "8": Fake(rows, rows, rows[:1]), "process": Fake(rows)}
    found = cluster.measure(wrong, {"q": "SELECT 1"}, 1)["q"]
    assert [outcome.differs for outcome in found.values()] == [True, True, False]
    assert capsys.readouterr().err.count("*** WRONG: q with") == 2
    assert "**WRONG**" in "\n".join(cluster.table({"q": found}))


def test_a_run_goes_on_where_the_last_one_ended(tmp_path):
    options = cluster.parse(["--json", str(tmp_path / "kept.json"), "--minutes", "5"])
    kept, rows = cluster.Kept(options, "none"), [["1"]]
    cluster.measure({"1": Fake(rows), "process": Fake(rows)}, {"a": "SELECT 1"}, 2, kept, "ssb")
    kept.keep_part("short", cluster.Part([cluster.Figure("f", 2.0, 1.0)], ["a line"], False))
    kept.end = 0.0
    with pytest.raises(cluster.OutOfTime):
        cluster.measure({"process": Fake(rows)}, {"a": "SELECT 1", "b": "SELECT 2"}, 2, kept, "ssb")
    again, connection = cluster.Kept(options, "none"), Fake(rows)
    found = cluster.measure({"process": connection}, {"a": "SELECT 1", "b": "SELECT 2"}, 2, again, "ssb")
    assert (connection.asked, found["a"]["1"].times, found["b"]["process"].times) == (4, [30.0, 40.0], [30.0, 40.0])
    part = again.part("short")
    assert part is not None and part.lines == ["a line"] and part.figures[0].is_reached and again.part("kill") is None
    for other in (["--scale", "2"], ["--latency", "1"]):
        with pytest.raises(SystemExit):
            cluster.Kept(cluster.parse(["--json", str(tmp_path / "kept.json"), *other]), "none")


def test_options_are_checked(capsys):
    options = cluster.parse(["--workers", "4,1,2,2", "--scale", "0.5"])
    assert options.workers == [1, 2, 4] and options.tpch_scale == 0.5
    for wrong in (["--workers", "0"], ["--share", "0"], ["--only", "ssb,nothing"], ["--runs", "0"]):
        with pytest.raises(SystemExit):
            cluster.parse(wrong)
    assert "unknown part nothing" in capsys.readouterr().err
