"""Runs the cases of isolation.txt through every client, and prints what differs.

    python conformance/isolation.py                        # all installed clients, on a server of its own
    python conformance/isolation.py --client psycopg-text
"""

import argparse
import pathlib
import queue
import sys
import threading

import clients
import server

#: A statement that has not ended after this many seconds waits.
WAIT = 0.4
#: A statement that should end does so within this many seconds.
END = 20


class Case:
    def __init__(self, name):
        self.name, self.level, self.steps = name, "", []


def cases(path):
    """The cases of a file: for each step the session, the statement (None for one that waited) and what it gives."""
    found = []
    for line in path.read_text().splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word == "#" or word.startswith("#"):
            continue
        if word == "case":
            found.append(Case(rest))
        elif word == "level":
            found[-1].level = rest
        else:
            sql, _, expected = (" " + rest).partition(" => ")
            found[-1].steps.append((int(word), sql.strip() or None, expected.strip() or "done"))
    return found


class Session:
    """A client in a thread of its own, so that others go on while its statement waits."""

    def __init__(self, connect):
        self.client, self.todo, self.done = connect(), queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while (sql := self.todo.get()) is not None:
            try:
                rows = self.client.execute(sql)
                is_query = sql.upper().startswith("SELECT")
                self.done.put(("; ".join(rows) or "nothing") if is_query else "done")
            except clients.Failed as failed:
                self.done.put(f"error {failed.state}")
            except Exception as error:  # A client that breaks is a result, too.
                self.done.put(f"broken: {error}")

    def begin(self, sql):
        self.todo.put(sql)

    def result(self, seconds):
        try:
            return self.done.get(timeout=seconds)
        except queue.Empty:
            return "waits"

    def run(self, sql):
        self.begin(sql)
        return self.result(END)

    def close(self):
        self.todo.put(None)


def differences(case, sessions):
    """What a case gives other than it should."""
    for sql in ("DROP TABLE IF EXISTS test", "CREATE TABLE test (id INT PRIMARY KEY, value INT)",
                "INSERT INTO test VALUES (1, 10), (2, 20)"):
        if (given := sessions[1].run(sql)) != "done":
            return [f"{sql}: {given}"]
    open_ones, ended = set(), set()
    for number, sql, expected in case.steps:
        session = sessions[number]
        if sql and number not in open_ones | ended:
            if (given := session.run(f"BEGIN ISOLATION LEVEL {case.level.upper()}")) != "done":
                return [f"BEGIN in session {number}: {given}"]
            open_ones.add(number)
        if sql:
            session.begin(sql)
        given = session.result(WAIT if expected == "waits" else END)
        if given != expected:
            for number in open_ones:
                sessions[number].begin("ROLLBACK")
            return [f"session {number}, {sql or 'what it waited for'}: expected {expected}, got {given}"]
        if sql in ("COMMIT", "ROLLBACK"):
            open_ones.discard(number)
            ended.add(number)
    return [f"session {number} is still in its transaction" for number in open_ones]


class Embedded(clients.Freestone):
    """The Python package with a database in its own process."""

    name = "freestone-embedded"

    def __init__(self, database):
        self.freestone, self.connection = clients.needs("freestone"), database.cursor()


def embedded():
    database = clients.needs("freestone").connect()
    return lambda: Embedded(database)


def connectors(running):
    yield "psycopg-text", lambda: clients.Psycopg(running, "text")
    yield "psycopg-binary", lambda: clients.Psycopg(running, "binary")
    yield "adbc-flight", lambda: clients.Adbc(running, "flight")
    yield "adbc-freestone", lambda: clients.Adbc(running, "freestone")
    yield "freestone-python", lambda: clients.Freestone(running)
    try:
        yield "freestone-embedded", embedded()
    except clients.Unavailable as reason:
        print(f"freestone-embedded: left out: {reason}")


def check(name, connect, all_cases):
    """The differences of a client; `None` if it is not installed."""
    wrong = []
    for case in all_cases:
        # A case that went wrong leaves sessions behind that may be in a transaction.
        sessions = {number: Session(connect) for number in (1, 2, 3)}
        wrong += [f"{name}: {case.name} at {case.level}: {what}" for what in differences(case, sessions)]
        for session in sessions.values():
            session.close()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--client", help="only this client")
    parser.add_argument("--binary", type=pathlib.Path, default=server.BINARY, help="the program freestone")
    options = parser.parse_args()
    all_cases = cases(pathlib.Path(__file__).with_name("isolation.txt"))
    wrong, ran = [], 0
    with server.running(options.binary) as running:
        for name, connect in connectors(running):
            if options.client not in (None, name):
                continue
            try:
                found = check(name, connect, all_cases)
            except clients.Unavailable as reason:
                print(f"{name}: left out: {reason}")
                continue
            ran += 1
            print(f"{name}: {len(all_cases) - len(found)} of {len(all_cases)} cases are right")
            wrong += found
    print("\n".join(wrong))
    sys.exit(1 if wrong or not ran else 0)


if __name__ == "__main__":
    main()
