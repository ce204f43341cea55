"""Random histories of changes of rows and tables, against a model.

    python conformance/random_rows.py FREESTONE [HISTORIES] [SEED]

A history creates tables with keys in random designs and media (disk, memory, and persistent memory, emulated), with columns of all
kinds of types, and executes INSERT, UPDATE, DELETE, MERGE, ON CONFLICT, TRUNCATE, CREATE and ALTER TABLE, SET DESIGN, copies and
VACUUM, within transactions with savepoints and outside. After each step the rows of all tables are those of the model
(`row_model.py`), also for a second session, which sees no change before its commit. In between, the server is stopped and started
again, or killed in the middle of a statement, which then has happened as a whole or not at all.

Prints the seed of each history that differs, with its statements. The exit status is 1 if there is one. One history is repeated by
its seed: `python conformance/random_rows.py FREESTONE 1 SEED`.
"""

import argparse
import collections
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

import clients
import histories
import row_definitions
import row_model
from row_model import Fails

#: The classes of errors for values that violate a constraint or do not fit.
VIOLATIONS = ("21", "22", "23", "2B")
#: The classes of errors that no statement may have.
FAULTS = ("XX", "58", "08", "40")


class Differs(Exception):
    """The database has other rows than the model."""


def texts(connection, sql, parameters=None):
    """The rows of a query, as texts."""
    result = connection.execute(sql, parameters).pgresult
    cell = lambda row, at: None if (value := result.get_value(row, at)) is None else value.decode()
    return [[cell(row, at) for at in range(result.nfields)] for row in range(result.ntuples)]


def contents(connection, table):
    """The rows of a table of the model, as they are stored."""
    reads = [column.type.reads(column.name) for column in table.columns]
    found = collections.Counter()
    for row in texts(connection, f"SELECT {', '.join(part for parts in reads for part in parts)} FROM {table.name}"):
        values, at = [], 0
        for column, parts in zip(table.columns, reads):
            value = column.type.parse(row[at : at + len(parts)])
            values.append(None if value is None else column.type.exact(value))
            at += len(parts)
        found[tuple(values)] += 1
    return found


def difference(connection, state):
    """How the tables differ from those of a state; None if they do not."""
    names = sorted(name for (name,) in texts(connection, "SELECT name FROM freestone_tables()"))
    if names != sorted(state):
        return f"the tables are {names}, and should be {sorted(state)}"
    psycopg = clients.needs("psycopg")
    for table in state.values():
        wanted = table.contents()
        try:
            found = contents(connection, table)
        except psycopg.Error as error:
            return f"{table.name} cannot be read: {error}"
        if found != wanted:
            return f"{table.name} has {found - wanted} too much, and lacks {wanted - found}"
    return None


class History:
    def __init__(self, binary, seed, folder):
        self.r = random.Random(seed)
        self.server = histories.Killed(binary, folder, "--pmem", "emulated")
        #: The committed state, that of the open transaction with its savepoints, and whether it has failed.
        self.state, self.open, self.savepoints, self.has_failed = {}, None, [], False
        self.log, self.counts = [], collections.Counter()
        self.connect()

    def connect(self):
        # Statements whose tables change are not prepared.
        self.session, self.other = (self.server.connect(prepare_threshold=None) for _ in range(2))
        if self.r.random() < 0.3:
            self.session.execute("SET synchronous_commit = off")

    def now(self):
        return self.state if self.open is None else self.open

    def run(self, steps):
        self.set_up()
        for _ in range(steps):
            self.step()
            self.compare()
        if self.open is not None:
            self.control("ROLLBACK")
        if problems := texts(self.session, "CHECK"):
            raise Differs(f"CHECK: {problems}")
        self.restart(signal.SIGTERM)
        self.compare()

    def set_up(self):
        if self.r.random() > 0.12:
            for _ in range(self.r.randrange(1, 3)):
                self.execute(row_definitions.create(self.r, self.state))
            return
        # Segments in files beside several tables in persistent memory, read by a process that has written none of them.
        for medium in ("disk", "pmem", "pmem", "pmem"):
            self.execute(row_definitions.create(self.r, self.state, medium))
            name = max(self.state)
            count = 17_000 if medium == "disk" else 40
            self.execute(row_model.insert_many(self.r, self.state[name], count))
        self.restart(signal.SIGTERM)

    def step(self):
        r, state = self.r, self.now()
        kind = r.random()
        if self.has_failed or (self.open is not None and kind < 0.3):
            return self.in_transaction()
        if kind < 0.04:
            return self.restart(signal.SIGTERM)
        if kind < 0.1 and state:
            return self.killed()
        if self.open is None and kind < 0.2:
            return self.begin()
        if not state:
            return self.execute(row_definitions.create(r, state))
        if kind < 0.3:
            return self.execute(row_definitions.definition(r, state))
        if kind < 0.35 and self.open is None:
            return self.execute(row_definitions.maintenance(r, state))
        if kind < 0.5:
            return self.query(state[r.choice(sorted(state))])
        return self.execute(row_model.change(r, state))

    def begin(self):
        self.control("BEGIN ISOLATION LEVEL " + self.r.choice(("READ COMMITTED", "REPEATABLE READ")))
        self.open, self.savepoints = self.state, []

    def in_transaction(self):
        """A savepoint, a return to one, or the end of the transaction."""
        r = self.r
        kind = r.random()
        if kind < 0.35 and not self.has_failed:
            name = f"s{r.randrange(3)}"
            self.control(f"SAVEPOINT {name}")
            self.savepoints.append((name, self.open))
        elif kind < 0.7 and self.savepoints:
            at = r.randrange(len(self.savepoints))
            name = self.savepoints[at][0]
            # A name stands for the last savepoint that has it.
            at = max(place for place, (known, _) in enumerate(self.savepoints) if known == name)
            if not self.has_failed and r.random() < 0.3:
                self.control(f"RELEASE {name}")
                del self.savepoints[at:]
            else:
                self.control(f"ROLLBACK TO {name}")
                self.open, self.has_failed = self.savepoints[at][1], False
                del self.savepoints[at + 1 :]
        elif kind < 0.9 and not self.has_failed:
            self.control("COMMIT")
            self.state, self.open = self.open, None
        else:
            self.control("ROLLBACK")
            self.open, self.has_failed = None, False

    def control(self, sql):
        self.log.append(sql)
        self.session.execute(sql)

    def execute(self, statement):
        """A statement, whose outcome is that of the model."""
        psycopg = clients.needs("psycopg")
        self.log.append(shown(statement))
        before = self.now()
        expected = self.expected(statement)
        self.counts["statements"] += 1
        try:
            self.session.execute(statement.sql, statement.parameters or None)
        except psycopg.Error as error:
            if self.open is not None:
                self.has_failed = True
            self.log[-1] += f" -- {error.sqlstate} {error}".replace("\n", " ")
            self.counts["failed"] += 1
            state = error.sqlstate or "XX000"
            if statement.may_fail and state[:2] not in FAULTS or expected is None and state[:2] in VIOLATIONS:
                return
            raise Differs(f"it fails: {error.sqlstate} {error}") from error
        if expected is None:
            raise Differs("it succeeds, and should not")
        if self.open is None:
            self.state = expected
        else:
            self.open = expected
        self.counts["changed"] += expected is not before

    def expected(self, statement):
        """The state after a statement; None if it fails."""
        try:
            return statement.after(self.now())
        except Fails:
            return None

    def query(self, table):
        """A query whose rows are those of the model, once or twice, as it may be known then."""
        statement, wanted = row_model.query(self.r, table)
        self.log.append(shown(statement))
        for _ in range(self.r.randrange(1, 3)):
            found = texts(self.session, statement.sql, statement.parameters or None)
            if found != wanted:
                raise Differs(f"it gives {found}, and should give {wanted}")
        if table.rows and table.keys:
            self.lookup(table)

    def lookup(self, table):
        """The row of a key, as a point query."""
        key = self.r.choice(table.keys)
        row = self.r.choice(table.rows)
        w = row_model.Writer(self.r)
        columns = [(table.of(name), row[table.place(name)]) for name in key.columns]
        when = " AND ".join(f"{column.name} = {w.value(column.type, value)}" for column, value in columns)
        statement = w.statement(f"SELECT * FROM {table.name} WHERE {when}", None)
        self.log.append(shown(statement))
        wanted = int(all(value is not None for _, value in columns))
        for _ in range(2):
            if (found := len(texts(self.session, statement.sql, statement.parameters or None))) != wanted:
                raise Differs(f"it finds {found} rows, and should find {wanted}")

    def compare(self):
        if not self.has_failed and (problem := difference(self.session, self.now())):
            raise Differs(problem)
        if self.r.random() < 0.3 and (problem := difference(self.other, self.state)):
            raise Differs(f"another session: {problem}")

    def restart(self, how):
        self.log.append(f"-- {how.name}")
        self.counts[how.name] += 1
        self.server.end(how)
        self.open, self.savepoints, self.has_failed = None, [], False
        self.server.start()
        self.connect()

    def killed(self):
        """Kills the server during a statement, which then has happened or not."""
        r, before = self.r, self.state
        if self.open is not None and r.random() < 0.5:
            sql, parameters, after = "COMMIT", None, self.open
            self.log.append(sql)
        else:
            make = r.choice((row_model.change, row_model.change, row_definitions.definition, row_definitions.maintenance))
            statement = make(r, self.now())
            if statement.is_alone and self.open is not None:
                statement = row_model.change(r, self.now())
            self.log.append(shown(statement))
            sql, parameters, after = statement.sql, statement.parameters or None, self.expected(statement)
            if self.open is not None or after is None:
                after = before
        outcome = []
        session = self.session
        running = threading.Thread(target=lambda: outcome.append(attempt(session, sql, parameters)))
        running.start()
        time.sleep(r.choice((0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.03)) * r.random())
        self.restart(signal.SIGKILL)
        running.join(60)
        possible = [after] if outcome == ["done"] else [before] if outcome == ["refused"] else [after, before]
        problems = [difference(self.session, state) for state in possible]
        found = [state for state, problem in zip(possible, problems) if not problem]
        if not found:
            raise Differs(f"after the kill, neither: {problems}")
        if len(found) == 2 and after != before:
            raise Ambiguous
        self.state = found[0]
        self.counts["killed, stored" if self.state is not before else "killed, not stored"] += 1


class Ambiguous(Exception):
    """The history ends here: the states before and after have the same rows, and different constraints or defaults."""


def attempt(session, sql, parameters):
    psycopg = clients.needs("psycopg")
    try:
        session.execute(sql, parameters)
        return "done"
    except psycopg.Error as error:
        return "refused" if error.sqlstate and not error.sqlstate.startswith(("57", "08")) else "unknown"


def shown(statement):
    return f"{statement.sql} {statement.parameters}" if statement.parameters else statement.sql


def history_of(binary, seed, steps=40):
    """Runs a history. Returns what is wrong, or None, its statements, and counts of what happened."""
    with tempfile.TemporaryDirectory() as folder:
        history = History(binary, seed, pathlib.Path(folder))
        try:
            history.run(steps)
            return None, history.log, history.counts
        except Ambiguous:
            return None, history.log, history.counts
        except Differs as difference:
            return str(difference), history.log, history.counts
        finally:
            history.server.end(signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path, help="the program freestone")
    parser.add_argument("histories", type=int, nargs="?", default=100)
    parser.add_argument("seed", type=int, nargs="?", default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seeds {options.seed} to {options.seed + options.histories - 1}")
    counts, wrong = collections.Counter(), 0
    for seed in range(options.seed, options.seed + options.histories):
        problem, log, counted = history_of(options.binary, seed)
        counts += counted
        if problem:
            wrong += 1
            print(f"seed {seed}: {problem[:2000]}", *log[-25:], sep="\n    ", flush=True)
    print(f"{options.histories} histories, {wrong} differ: {dict(counts)}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
