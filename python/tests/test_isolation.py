"""Short variants of the tests of transactions in `conformance/`, whose programs run longer ones."""

import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "conformance"))

import histories  # noqa: E402
import isolation  # noqa: E402
import pgbench  # noqa: E402
import server  # noqa: E402

CLIENTS = ("psycopg-text", "adbc-flight", "adbc-freestone", "freestone-python", "freestone-embedded")


@pytest.fixture(scope="module")
def connectors():
    with server.running() as running:
        yield dict(isolation.connectors(running))


@pytest.mark.parametrize("name", CLIENTS)
def test_anomalies_are_as_the_levels_say(connectors, name):
    cases = isolation.cases(pathlib.Path(isolation.__file__).with_name("isolation.txt"))
    try:
        wrong = isolation.check(name, connectors[name], cases)
    except isolation.clients.Unavailable as reason:
        pytest.skip(str(reason))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", [1, 2])
def test_histories_have_no_anomaly(seed):
    transactions, final = histories.history_of(server.BINARY, seed, 4, 1, False)
    assert sum(t.state == histories.OK for t in transactions) > 20, f"seed {seed}"
    assert histories.check(transactions, final) == [], f"seed {seed}"


def test_the_checker_finds_lost_appends():
    transactions, final = histories.history_of(server.BINARY, 3, 2, 0, True)
    assert histories.check(transactions, final)


def of(number, state, *steps):
    return histories.Transaction(number, list(steps), state)


@pytest.mark.parametrize(
    ("transactions", "final", "part"),
    [
        ([of(1, "ok", ("append", 0, 1)), of(2, "failed", ("append", 0, 2))], {0: [1, 2]}, "has failed"),
        ([of(1, "ok", ("append", 0, 1), ("append", 0, 2))], {0: [1]}, "has committed"),
        ([of(1, "failed", ("append", 0, 1)), of(2, "ok", ("read", 0, [1]))], {0: []}, "G1a"),
        ([of(1, "ok", ("append", 0, 1), ("append", 0, 2)), of(2, "ok", ("read", 0, [1]))], {0: [1, 2]}, "G1b"),
        (
            [
                of(1, "ok", ("append", 0, 1), ("append", 1, 11)),
                of(2, "ok", ("append", 0, 2), ("append", 1, 12)),
            ],
            {0: [1, 2], 1: [12, 11]},
            "a cycle",
        ),
        (
            [of(1, "ok", ("append", 0, 1), ("append", 1, 11)), of(2, "ok", ("read", 0, [1]), ("read", 1, []))],
            {0: [1], 1: [11]},
            "a cycle",
        ),
        (
            [of(1, "ok", ("append", 0, 1), ("read", 1, [11])), of(2, "ok", ("append", 1, 11), ("read", 0, [1]))],
            {0: [1], 1: [11]},
            "a cycle",
        ),
        (
            [of(1, "ok", ("read", 0, []), ("append", 1, 11)), of(2, "ok", ("read", 1, []), ("append", 0, 1))],
            {0: [1], 1: [11]},
            None,
        ),
    ],
)
def test_the_checker_knows_the_anomalies(transactions, final, part):
    wrong = histories.check(transactions, final)
    assert any(part in line for line in wrong) if part else wrong == []


@pytest.mark.skipif(not shutil.which("pgbench"), reason="pgbench is not installed")
def test_pgbench_runs():
    assert pgbench.run(server.BINARY, 1, 4, 2) == []
