"""Runs generated statements that exhaust memory and time on a server, as a user with the role `read`.

Every function, aggregate, window function, table function and setting of the server is called with arguments of a byte to 100
megabytes, alone, for many rows, and within each other. Checks that the server never ends, that its resident memory stays below
1.15 times its limit and 100 MB, that each statement is answered within its timeout and half a second, that no processor time is
used after the answer, and that another client is served meanwhile. A server that ends is started again, so that one run finds
several such statements. Needs only Python's standard library.

    python3 conformance/exhausting.py FREESTONE [--statements 3000] [--seed 1] [--limit 500MB] [--timeout 5s]
"""

import argparse
import collections
import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

from hostile import ADMIN, READER, SET_UP, Client, Server, join, size

# Answers may take this much longer than the timeout, in seconds.
LATE = 0.5
# The time after an answer in which the server may still use the processor, that in which it must not, and the share of one
# processor that its other threads use.
SETTLING, WATCHED, IDLE_SHARE = 0.1, 0.15, 0.3
MEGABYTE = 10**6

REGISTRY = "SELECT DISTINCT routine_name, lower(function_type) FROM information_schema.routines ORDER BY 1, 2"
SETTINGS = "SELECT name, 'setting' FROM duckdb_settings() ORDER BY 1"


def text(r):
    count = 10 ** r.randint(0, 8)
    return r.choice(
        [
            f"repeat('x', {count})",
            f"repeat('é', {count // 2 + 1})",
            f"repeat('a,', {count // 2 + 1})",
            f"repeat('%A {{}} %s', {count // 9 + 1})",
            f"repeat('\"\\', {count // 2 + 1})",
            "''",
            "'a'",
            "'$..a..a..a..a'",
            "'(a*)*b'",
            "'{:>1000000000}'",
            "'%1000000000d'",
            f"'[' || repeat('1,', {count // 2 + 1}) || '1]'",
            f"repeat('{{\"a\":', {k}) || '1' || repeat('}}', {k})" if (k := r.randint(1, 990)) else "",
            f"repeat('[', {k}) || repeat(']', {k})",
        ]
    )


def number(r):
    return str(r.choice([0, 1, -1, 2, 3, 64, 1000, 10**6, 10**8, 10**9, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), "1e308", "0.5"]))


def a_list(r):
    count = 10 ** r.randint(0, 7)
    return r.choice(
        [
            f"range({count})",
            f"list_transform(range({min(count, 10**5)}), x -> 'text ' || x)",
            f"list_transform(range({min(count, 10**4)}), x -> range(100))",
            f"[{text(r)}, {text(r)}]",
            "[]",
            "[1, 2, NULL]",
        ]
    )


def value(r, depth=0):
    kinds = [text] * 5 + [number] * 4 + [a_list] * 3
    kinds += [
        lambda r: r.choice(["DATE '2024-01-01'", "TIMESTAMP '2024-01-01 12:00:00'", "INTERVAL '1 day'", "NULL", "true"]),
        lambda r: f"encode({text(r)})",
        lambda r: f"{{'a': {text(r)}, 'b': {number(r)}}}",
        lambda r: f"MAP {{'a': {text(r)}}}",
        lambda r: "value",
    ]
    if depth < 2:
        kinds.append(lambda r: call(r, r.choice(value.scalars), depth + 1))
    return r.choice(kinds)(r)


# The kinds of arguments, with a small value of each, by which the forms of a function are found.
SMALL = {"text": "'1'", "number": "1", "list": "[1]"}


def forms(client, name, query):
    """The kinds of arguments that a function takes: some of its forms."""
    found = []
    for count in (1, 2, 3):
        for kinds in itertools.product(SMALL, repeat=count):
            sql = query.format(f'"{name}"({", ".join(SMALL[kind] for kind in kinds)})')
            if not isinstance(client.run(sql), str):
                found.append(kinds)
                if len(found) == 4:
                    return found
    return found


def call(r, name, depth=0):
    """A call in one of the forms that were found, or in any form."""
    known = value.forms.get(name)
    if known and r.random() < 0.9:
        makers = {"text": text, "number": number, "list": a_list}
        made = [makers[kind](r) if r.random() < 0.9 else value(r, depth) for kind in r.choice(known)]
        made = [f"{one} || value" if one.startswith("repeat") and r.random() < 0.2 else one for one in made]
        return f'"{name}"({", ".join(made)})'
    return f'"{name}"({join(r.randint(1, 4), ", ", lambda _: value(r, depth))})'


def rows(r, most=8):
    return f"generate_series(1, {10 ** r.randint(0, most)}) AS s(value)"


def of_scalar(r, name):
    made = call(r, name)
    return r.choice(
        [
            f"SELECT {made} IS NULL FROM (SELECT 1 AS value)",
            f"SELECT count({made}) FROM {rows(r)}",
            f"SELECT max(({made})::VARCHAR) FROM {rows(r, 5)}",
            f"SELECT {made} FROM {rows(r, 4)}",
            f"SELECT count(*) FROM {rows(r, 6)} WHERE {made} IS NOT NULL",
            f"SELECT len(list_transform(range({10 ** r.randint(0, 6)}), value -> {made}))",
            f"SELECT value FROM {rows(r, 6)} ORDER BY {made}",
            f"SELECT count(*) FROM {rows(r, 6)} GROUP BY {made}",
        ]
    )


def of_aggregate(r, name):
    made = call(r, name)[len(name) + 3 : -1]
    if r.random() < 0.5:
        made = r.choice(["value", f"{text(r)} || value"]) + made[len(made.split(", ")[0]) :]
    return r.choice(
        [
            f'SELECT "{name}"({made}) IS NULL FROM {rows(r)}',
            f'SELECT count(x) FROM (SELECT "{name}"({made}) AS x FROM {rows(r, 7)} GROUP BY value % {10 ** r.randint(0, 6)})',
            f'SELECT count(x) FROM (SELECT "{name}"({made}) OVER (ORDER BY value) AS x FROM {rows(r, 6)})',
            f'SELECT count(x) FROM (SELECT "{name}"({made}) OVER (ORDER BY value ROWS 1000 PRECEDING) AS x FROM {rows(r, 6)})',
            f'SELECT "{name}"(DISTINCT {made}) IS NULL FROM {rows(r, 7)}',
            f'SELECT "{name}"({made} ORDER BY value) IS NULL FROM {rows(r, 7)}',
        ]
    )


def of_table(r, name):
    arguments = join(r.randint(0, 3), ", ", lambda _: value(r).replace("value", "1"))
    return f'SELECT count(*) FROM "{name}"({arguments})'


def of_setting(r, name):
    chosen = r.choice(["1000000000", "100000", "-1", "0", "18446744073709551616", "'x'", f"'{'x' * 100000}'", "1e300"])
    return f"SET {name} = {chosen}"


def other(r):
    n = r.randint
    return r.choice(
        [
            lambda: f"SELECT CAST(NULL AS INT{'[]' * n(10, 30000)})",
            lambda: f"SELECT count(*) FROM (SELECT unnest({a_list(r)}), {text(r)}) , {rows(r)}",
            lambda: f"SELECT count(l) FROM (SELECT {a_list(r)} AS l) AS a, {rows(r, 6)}",
            lambda: f"SELECT count(l) FROM (SELECT {text(r)} AS l) AS a, {rows(r, 6)}",
            lambda: "SELECT 1 AS a0, " + join(n(5, 60), ", ", lambda i: f"a{i} + a{i} AS a{i + 1}"),
            lambda: f"SELECT {text(r)} LIKE {text(r)}, {text(r)} ~ '(a|b)*c'",
            lambda: f"SELECT ({text(r)} || {text(r)})::BLOB::VARCHAR::JSON",
            lambda: f"WITH RECURSIVE c(x) AS (SELECT {value(r).replace('value', '1')} UNION ALL SELECT [x, x]::VARCHAR FROM c) SELECT max(len(x)) FROM c",
            lambda: f"SELECT list(x) OVER (ORDER BY value) FROM (SELECT value, {text(r)} AS x FROM {rows(r, 6)})",
            lambda: f"PIVOT (SELECT value % {10 ** n(1, 6)} AS v, value FROM {rows(r, 7)}) ON v USING sum(value)",
        ]
    )()


class Watch:
    """What the server and another client of it do meanwhile."""

    def __init__(self, server):
        self.server, self.peak, self.worst, self.ended = server, 0, 0.0, False
        self.threads = [threading.Thread(target=run, daemon=True) for run in (self.memory, self.other)]
        [thread.start() for thread in self.threads]

    def memory(self):
        while not self.ended and self.server.process.poll() is None:
            try:
                self.peak = max(self.peak, self.server.resident())
            except (OSError, StopIteration):
                return
            time.sleep(0.01)

    def other(self):
        try:
            client = Client(self.server.port, ADMIN)
            while not self.ended:
                began = time.monotonic()
                client.run("SELECT a FROM t WHERE a = 7")
                self.worst = max(self.worst, time.monotonic() - began)
                time.sleep(0.05)
        except OSError:
            return

    def processor(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.server.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def known(program):
    """The names of functions and settings, by kind."""
    kinds = collections.defaultdict(list)
    for query in (REGISTRY, SETTINGS):
        answer = subprocess.run([program, "--format", "csv", "-c", query], capture_output=True, text=True, check=True)
        for line in answer.stdout.splitlines()[1:]:
            name, kind = line.rsplit(",", 1)
            kinds[kind].append(name)
    return kinds


class Run:
    def __init__(self, options):
        self.options, self.seconds = options, float(options.timeout.removesuffix("s"))
        self.limit = size(options.limit)
        self.faults, self.states, self.slowest, self.worst = [], collections.Counter(), 0.0, 0.0

    def start(self, folder):
        self.server = Server(self.options.program, folder, self.options.limit, self.options.timeout)
        admin = Client(self.server.port, ADMIN)
        if not os.path.exists(f"{folder}/set up"):
            for sql in SET_UP[:2]:
                if isinstance(state := admin.run(sql), str):
                    sys.exit(f"{sql}: {state}")
            open(f"{folder}/set up", "w").close()
        self.kinds = known(self.options.program)
        value.scalars, value.forms = self.kinds["scalar"], getattr(value, "forms", {})
        self.watch, self.client = Watch(self.server), Client(self.server.port, READER)

    def stop(self):
        self.worst = max(self.worst, self.watch.worst)
        self.watch.ended = True
        if self.server.process.poll() is None:
            self.server.process.terminate()
        self.server.process.wait(30)

    def statement(self, number):
        r = random.Random(f"{self.options.seed} {number}")
        # Each function in its turn, and other statements between them.
        turns = [(kind, name) for kind in MAKERS for name in self.kinds[kind]]
        if r.random() < 0.1:
            return other(r)
        kind, name = turns[(number * 7919 + self.options.seed) % len(turns)]
        if name not in value.forms and kind in QUERIES:
            value.forms[name] = forms(self.client, name, QUERIES[kind])
        return MAKERS[kind](r, name)

    def one(self, number, folder):
        sql, began = self.statement(number), time.monotonic()
        self.watch.peak = 0
        try:
            answer = self.client.run(sql)
        except OSError as error:
            self.fault(number, sql, f"{error}; the server said {''.join(self.server.said[-2:])[-200:]!r}")
            self.stop()
            return self.start(folder)
        took = time.monotonic() - began
        self.slowest = max(self.slowest, took)
        self.states[answer[:5] if isinstance(answer, str) else "rows"] += 1
        if took > self.seconds + LATE:
            self.fault(number, sql, f"was answered after {took:.1f} s")
        if isinstance(answer, str) and answer.startswith("XX000"):
            self.fault(number, sql, answer[:200])
        time.sleep(SETTLING)
        before = self.watch.processor()
        time.sleep(WATCHED)
        used = self.watch.processor() - before
        if used > IDLE_SHARE * WATCHED:
            # What does not end at once may end later; the next statement must not be blamed for it.
            time.sleep(1)
            before = self.watch.processor()
            time.sleep(1)
            used = self.watch.processor() - before
            if used > 0.2:
                self.fault(number, sql, f"uses the processor after its answer, {used:.1f} s of one second")
                self.stop()
                return self.start(folder)
        if self.watch.peak > 1.15 * self.limit + 100 * MEGABYTE:
            self.fault(number, sql, f"took {self.watch.peak / 1e6:.0f} MB")
            self.stop()
            self.start(folder)

    def fault(self, number, sql, what):
        shown = sql if len(sql) < 400 else f"{sql[:400]}…"
        self.faults.append(f"{number}: {what}: {shown}")
        print(f"fault {self.faults[-1]}", file=sys.stderr, flush=True)


MAKERS = {
    "scalar": of_scalar,
    "aggregate": of_aggregate,
    "window": of_aggregate,
    "table": of_table,
    "setting": of_setting,
}
QUERIES = {"scalar": "SELECT {}", "aggregate": "SELECT {}", "window": "SELECT {} OVER (ORDER BY 1)"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--statements", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first statement")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", default="500MB")
    parser.add_argument("--timeout", default="5s", help="seconds, as 5s")
    parser.add_argument("--show", action="store_true", help="print the statements instead of running them")
    options = parser.parse_args()
    run = Run(options)
    with tempfile.TemporaryDirectory() as folder:
        run.start(folder)
        for number in range(options.first, options.first + options.statements):
            if options.show:
                print(run.statement(number), flush=True)
                continue
            run.one(number, folder)
            if number % 100 == 99:
                print(f"{number + 1} statements, {len(run.faults)} faults", file=sys.stderr, flush=True)
        run.stop()
    print(f"statements: {sum(run.states.values())}, by SQLSTATE: {dict(sorted(run.states.items()))}")
    print(f"slowest answer: {run.slowest:.2f} s, to another client: {run.worst:.2f} s")
    for fault in run.faults:
        print(f"fault: {fault}")
    sys.exit(bool(run.faults))


if __name__ == "__main__":
    main()
