"""Short variants of the tests of transactions and changes in `conformance/`, whose programs run longer ones."""

import pathlib
import shutil
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "conformance"))

import histories  # noqa: E402
import isolation  # noqa: E402
import pgbench  # noqa: E402
import random_rows  # noqa: E402
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


@pytest.mark.parametrize("seed", range(1, 13))
def test_random_changes_are_those_of_the_model(seed):
    problem, log, counts = random_rows.history_of(server.BINARY, seed)
    assert not problem, "\n".join([f"seed {seed}: {problem}", *log[-30:]])
    assert counts["changed"] > 3


def test_the_model_notices_what_differs(tmp_path):
    history = random_rows.History(server.BINARY, 1, tmp_path)
    try:
        history.execute(random_rows.row_definitions.create(history.r, {}, "disk"))
        history.execute(random_rows.row_model.insert_many(history.r, history.state["t0"], 5))
        name = "t0"
        history.session.execute(f"ALTER TABLE {name} RENAME TO other")
        with pytest.raises(random_rows.Differs):
            history.compare()
        history.session.execute(f"ALTER TABLE other RENAME TO {name}")
        history.compare()
        history.state[name] = random_rows.row_model.dataclasses.replace(history.state[name], rows=(*history.state[name].rows, ()))
        with pytest.raises(random_rows.Differs):
            history.compare()
    finally:
        history.server.kill()


def test_transfers_succeed_at_the_default_level(tmp_path):
    psycopg = pytest.importorskip("psycopg")
    killed = histories.Killed(server.BINARY, tmp_path)
    failed = []

    def transfer(seed):
        chance = random_rows.random.Random(seed)
        with killed.connect(autocommit=False) as connection:
            for _ in range(60):
                # In one order, so that no two wait for each other.
                low, high = sorted(chance.sample(range(4), 2))
                try:
                    connection.execute("SELECT balance FROM accounts WHERE id = %s", (low,)).fetchone()
                    connection.execute("UPDATE accounts SET balance = balance - 1 WHERE id = %s", (low,))
                    connection.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", (high,))
                    connection.commit()
                except psycopg.Error as error:
                    failed.append(str(error))
                    connection.rollback()

    try:
        with killed.connect() as connection:
            assert connection.execute("SHOW default_transaction_isolation").fetchone() == ("read committed",)
            connection.execute("CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT)")
            connection.execute("INSERT INTO accounts SELECT i, 100 FROM generate_series(0, 3) AS s(i)")
            threads = [threading.Thread(target=transfer, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failed == []
            assert connection.execute("SELECT sum(balance) FROM accounts").fetchone() == (400,)
    finally:
        killed.kill()


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
