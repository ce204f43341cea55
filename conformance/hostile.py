"""Runs generated hostile statements on a server, as a user with the role `read`.

Checks that each statement is answered or refused within its timeout and two more seconds, that other clients are served
meanwhile, that the server's resident memory stays below 1.15 times its limit, and that the server does not end. Needs only
Python's standard library.

    python3 conformance/hostile.py FREESTONE [--statements 1000] [--seed 1] [--limit 1GB] [--timeout 10s]
"""

import argparse
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ADMIN, READER, PASSWORD = "ann", "bob", "a long password"


class Client:
    """A client of PostgreSQL's protocol, which authenticates with SCRAM."""

    def __init__(self, port, user):
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.settimeout(120)
        self.buffer = bytearray()
        body = b"user\0" + user.encode() + b"\0\0"
        self.socket.sendall(struct.pack(">ii", len(body) + 8, 196608) + body)
        self.scram(user)
        while self.message()[0] != b"Z":
            pass

    def scram(self, user):
        import base64
        import hashlib
        import hmac

        digest = lambda key, text: hmac.new(key, text, hashlib.sha256).digest()
        bare = b"n=,r=" + base64.b64encode(random.randbytes(18))
        first = b"n,," + bare
        self.expect(10)
        body = b"SCRAM-SHA-256\0" + struct.pack(">i", len(first)) + first
        self.socket.sendall(b"p" + struct.pack(">i", len(body) + 4) + body)
        challenge = self.expect(11)
        fields = dict(part.split(b"=", 1) for part in challenge.split(b","))
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), base64.b64decode(fields[b"s"]), int(fields[b"i"]))
        without_proof = b"c=biws,r=" + fields[b"r"]
        client_key = digest(salted, b"Client Key")
        signature = digest(hashlib.sha256(client_key).digest(), bare + b"," + challenge + b"," + without_proof)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature)))
        last = without_proof + b",p=" + proof
        self.socket.sendall(b"p" + struct.pack(">i", len(last) + 4) + last)
        self.expect(12)

    def expect(self, kind):
        tag, body = self.message()
        if tag != b"R" or struct.unpack(">i", body[:4])[0] != kind:
            raise ConnectionError(f"login failed: {body!r}")
        return body[4:]

    def read(self, count):
        while len(self.buffer) < count:
            more = self.socket.recv(1 << 18)
            if not more:
                raise ConnectionError("the server hung up")
            self.buffer += more
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    def message(self):
        tag, length = struct.unpack(">ci", self.read(5))
        return tag, self.read(length - 4)

    def run(self, sql, values=None):
        """The SQLSTATE and message of a statement's error, or the number of its rows, whose first values go into a list."""
        text = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack(">i", len(text) + 4) + text)
        rows, state = 0, None
        while True:
            tag, body = self.message()
            if tag == b"D":
                rows += 1
                if values is not None:
                    values.append(body[6 : 6 + struct.unpack(">i", body[2:6])[0]].decode())
            elif tag == b"E":
                fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
                state = f"{fields[b'C'].decode()} {fields[b'M'].decode(errors='replace')}"
            elif tag == b"Z":
                return state or rows


def join(count, separator, term):
    return separator.join(term(at) for at in range(count))


def chain(levels, first, step):
    parts = [f"c0 AS ({first})"] + [f"c{at} AS ({step(f'c{at - 1}')})" for at in range(1, levels + 1)]
    return "WITH " + ", ".join(parts) + f" SELECT * FROM c{levels}"


def series(rows):
    return f"generate_series(1, {rows})"


def generators(r):
    """One function for each kind of hostile statement."""
    deep = lambda open_, close: (lambda n: f"SELECT {open_ * n}value{close * n} FROM {series(3)}")(r.randint(10, 3000))
    n = r.randint
    return {
        "and": lambda: f"SELECT * FROM t WHERE {join(n(100, 30000), ' AND ', lambda i: f'a <> {i}')}",
        "or": lambda: f"SELECT * FROM t WHERE {join(n(100, 30000), ' OR ', lambda i: f'a = {i} AND b < {i}')}",
        "plus": lambda: f"SELECT {join(n(10, 5000), ' + ', lambda _: 'a')} FROM t",
        "concat": lambda: f"SELECT {join(n(10, 5000), ' || ', lambda _: 's')} FROM t",
        "case": lambda: f"SELECT CASE {join(n(10, 20000), ' ', lambda i: f'WHEN a = {i} THEN {i}')} END FROM t",
        "in": lambda: f"SELECT count(*) FROM t WHERE a + 1 IN ({join(n(1000, 1000000), ',', str)})",
        "values": lambda: f"SELECT count(*) FROM (VALUES {join(n(1000, 300000), ',', lambda i: f'({i})')})",
        "parentheses": lambda: deep("(", ")"),
        "not": lambda: f"SELECT {'NOT ' * n(10, 5000)} true",
        "minus": lambda: deep("-(", ")"),
        "abs": lambda: deep("abs(", ")"),
        "subqueries": lambda: "SELECT * FROM (" * (k := n(2, 400)) + "SELECT 1" + ") AS q" * k,
        "scalar subqueries": lambda: "SELECT (" * (k := n(2, 400)) + "SELECT 1" + ")" * k,
        "unions": lambda: join(n(2, 2000), " UNION ", lambda i: f"SELECT {i} AS a"),
        "unions all": lambda: join(n(2, 2000), " UNION ALL ", lambda i: f"SELECT {i} AS a"),
        "columns": lambda: f"SELECT {join(n(100, 20000), ', ', lambda i: f'a + {i} AS c{i}')} FROM t",
        "wide and deep": lambda: "SELECT * FROM (" * (k := n(2, 30))
        + f"SELECT {join(n(50, 800), ', ', lambda i: f'a + {i} AS c{i}')} FROM t"
        + ") AS q" * k,
        "joined twice": lambda: chain(n(2, 40), "SELECT a AS v FROM t", lambda c: f"SELECT x.v FROM {c} x JOIN {c} y ON x.v = y.v"),
        "added twice": lambda: chain(n(2, 60), "SELECT 1 AS v", lambda c: f"SELECT x.v + y.v AS v FROM {c} x, {c} y"),
        "united twice": lambda: chain(n(2, 40), "SELECT a AS v FROM t", lambda c: f"SELECT v FROM {c} UNION SELECT v + 1 FROM {c}"),
        "united all twice": lambda: chain(n(2, 40), "SELECT a AS v FROM t", lambda c: f"SELECT v FROM {c} UNION ALL SELECT v FROM {c}"),
        "crossed twice": lambda: chain(n(2, 12), "SELECT a AS v FROM t", lambda c: f"SELECT x.v FROM {c} x, {c} y"),
        "grown conditions": lambda: chain(n(5, 90), "SELECT a AS v, b AS w FROM t", lambda c: f"SELECT v + w AS v, v - w AS w FROM {c}")
        + " WHERE v > 0",
        "inlined": lambda: chain(n(2, 30), "SELECT a AS v FROM t", lambda c: f"SELECT x.v FROM {c} x JOIN {c} y ON x.v = y.v").replace(
            " AS (", " AS NOT MATERIALIZED ("
        ),
        "correlated": lambda: "SELECT ("
        + chain(n(2, 24), "SELECT t.a AS v", lambda c: f"SELECT x.v FROM {c} x, {c} y").replace("SELECT *", "SELECT max(v)")
        + ") FROM t",
        "views": lambda: "SELECT count(*) FROM v20 AS x, v19 AS y",
        "cube": lambda: f"SELECT count(*) FROM wide GROUP BY CUBE ({join(n(2, 20), ', ', lambda i: f'c{i}')})",
        "rollup": lambda: f"SELECT count(*) FROM wide GROUP BY ROLLUP ({join(n(2, 20), ', ', lambda i: f'c{i}')})",
        "sets": lambda: f"SELECT count(*) FROM wide GROUP BY GROUPING SETS ({join(n(2, 2000), ', ', lambda i: f'(c{i % 20}, c{i * 7 % 20})')})",
        "joins": lambda: f"SELECT count(*) FROM {join(k := n(2, 60), ', ', lambda i: f't AS t{i}')} WHERE "
        + join(k - 1, " AND ", lambda i: f"t{i}.a = t{i + 1}.a"),
        "cross joins": lambda: f"SELECT count(*) FROM {join(n(2, 12), ', ', lambda i: f'{series(1000)} AS s{i}')}",
        "cross rows": lambda: f"SELECT x.value, y.value FROM {series(100000)} AS x, {series(100000)} AS y",
        "cross texts": lambda: f"SELECT repeat('x', 1000) || x.value || y.value FROM {series(10000)} AS x, {series(10000)} AS y ORDER BY 1",
        "patterns": lambda: f"SELECT count(*) FROM {series(1000)} WHERE regexp_like(repeat('a', {n(10, 10000)}), '(a+)+{'a?' * n(1, 500)}b')",
        "counted pattern": lambda: "SELECT regexp_like('a', '" + "(" * (k := n(1, 6)) + "a" + "{1,100}){1,100}" * k + "')",
        "likes": lambda: f"SELECT repeat('a', 100000) LIKE '{'%a' * n(10, 5000)}b'",
        "repeat": lambda: f"SELECT length(repeat('x', {10 ** n(3, 15)}))",
        "repeated rows": lambda: f"SELECT repeat('x', {10 ** n(2, 7)}) FROM {series(10 ** n(1, 4))}",
        "padded": lambda: f"SELECT length(lpad('x', {10 ** n(3, 9)}, 'y'))",
        "series": lambda: f"SELECT count(*) FROM {series(10 ** n(6, 18))}",
        "series rows": lambda: f"SELECT value, value * 2 FROM {series(10 ** n(5, 18))}",
        "ranges": lambda: f"SELECT range(1, {10 ** n(3, 18)})",
        "endless": lambda: "WITH RECURSIVE r AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM r) SELECT count(*) FROM r",
        "endless rows": lambda: "WITH RECURSIVE r AS (SELECT 1 AS v UNION ALL SELECT v + 1 FROM r) SELECT * FROM r",
        "endless growth": lambda: "WITH RECURSIVE r AS (SELECT 1 AS v UNION ALL SELECT x.v + 1 FROM r AS x, t) SELECT count(*) FROM r",
        "endless text": lambda: "WITH RECURSIVE r AS (SELECT 'x' AS v UNION ALL SELECT v || v FROM r) SELECT max(length(v)) FROM r",
        "sorts": lambda: f"SELECT * FROM (SELECT value, md5(value::text) AS h FROM {series(10 ** n(5, 8))}) ORDER BY h",
        "groups": lambda: f"SELECT count(*) FROM (SELECT md5(value::text) AS h, count(*) FROM {series(10 ** n(5, 8))} GROUP BY 1)",
        "distinct": lambda: f"SELECT count(DISTINCT value) FROM {series(10 ** n(5, 9))}",
        "lists": lambda: f"SELECT length(string_agg(value::text, ',')) FROM {series(10 ** n(4, 9))}",
        "arrays": lambda: f"SELECT array_agg(value) FROM {series(10 ** n(4, 9))}",
        "windows": lambda: f"SELECT sum(value) OVER (ORDER BY value) FROM {series(10 ** n(4, 8))}",
        "self join": lambda: f"SELECT count(*) FROM {series(k := 10 ** n(3, 7))} AS x JOIN {series(k)} AS y ON x.value % 7 = y.value % 7",
        "hash join": lambda: f"SELECT count(*) FROM {series(k := 10 ** n(5, 8))} AS x JOIN {series(k)} AS y ON x.value = y.value",
        "long text": lambda: f"SELECT length('{'x' * 10 ** n(4, 7)}')",
        "long name": lambda: f'SELECT 1 AS "{"x" * 10 ** n(3, 6)}"',
        "long number": lambda: f"SELECT {'9' * n(10, 100000)}",
        "many statements": lambda: join(n(10, 2000), "; ", lambda i: f"SELECT {i}"),
        "broken": lambda: "SELECT " + "".join(r.choices("()[]{}',\"$1a+- *", k=n(1, 2000))),
        "reads files": lambda: "SELECT * FROM '/etc/passwd'",
        "writes": lambda: r.choice(["DELETE FROM t", "DROP TABLE t", "CREATE TABLE u (a INT)", "COPY t TO '/tmp/x'"]),
    }


SET_UP = [
    "CREATE TABLE t (a INT, b INT, s VARCHAR)",
    "INSERT INTO t SELECT value, value % 10, 'text ' || value FROM generate_series(1, 1000)",
    "CREATE TABLE wide AS SELECT " + join(20, ", ", lambda i: f"value % {i + 2} AS c{i}") + " FROM generate_series(1, 100)",
    "CREATE VIEW v0 AS SELECT a AS v FROM t",
] + [f"CREATE VIEW v{i} AS SELECT x.v FROM v{i - 1} AS x JOIN v{i - 1} AS y ON x.v = y.v" for i in range(1, 21)]


class Server:
    def __init__(self, program, folder, limit, timeout):
        users = f"{folder}/users"
        for name, role in [(ADMIN, "admin"), (READER, "read")]:
            arguments = [program, "user", "add", name, "--role", role, "--users", users]
            subprocess.run(arguments, input=PASSWORD + "\n", text=True, check=True, capture_output=True)
        arguments = [program, "serve", f"{folder}/db", "--pg", "127.0.0.1:0", "--users", users]
        arguments += ["--memory-limit", limit, "--statement-timeout", timeout]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if "postgres://" in line:
                self.port = int(line.rsplit(":", 1)[1])
                break
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def size(text):
    units = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}
    unit = next((unit for unit in units if text.endswith(unit)), None)
    return int(text[: -len(unit)]) * units[unit] if unit else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", default="1GB")
    parser.add_argument("--timeout", default="10s", help="seconds, as 10s")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--only", help="one kind of statement")
    options = parser.parse_args()
    seconds = float(options.timeout.removesuffix("s"))
    faults, states, slow = [], {}, []
    peak, worst = [0, ""], [0.0]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(options.program, folder, options.limit, options.timeout)
        admin = Client(server.port, ADMIN)
        for sql in SET_UP:
            if isinstance(state := admin.run(sql), str):
                sys.exit(f"{sql}: {state}")
        running, ended = {}, threading.Event()

        def watch():
            """Checks that others are served, and that the memory stays within its limit."""
            other = Client(server.port, READER)
            while not ended.is_set():
                began = time.monotonic()
                try:
                    other.run("SELECT count(*) FROM t WHERE a < 10")
                except OSError as error:
                    faults.append(f"another client: {error}")
                    return
                worst[0] = max(worst[0], time.monotonic() - began)
                if (now := server.resident()) > peak[0]:
                    peak[:] = [now, ", ".join(running.values())]
                time.sleep(0.02)

        watcher = threading.Thread(target=watch)
        watcher.start()
        numbers = iter(range(options.statements))
        lock = threading.Lock()

        def attack(me):
            client = Client(server.port, READER)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None or server.process.poll() is not None:
                    return
                kinds = generators(random.Random(f"{options.seed} {number}"))
                names = list(kinds)
                kind = options.only or names[number % len(names)]
                sql = kinds[kind]()
                running[me] = f"{kind} ({number})"
                began = time.monotonic()
                try:
                    answer = client.run(sql)
                except OSError as error:
                    faults.append(f"{kind} ({number}): {error}")
                    if server.process.poll() is not None:
                        return
                    client = Client(server.port, READER)
                    continue
                took = time.monotonic() - began
                if number % 100 == 99:
                    print(f"{number + 1} statements, {peak[0] / 1e6:.0f} MB", file=sys.stderr, flush=True)
                state = answer[:5] if isinstance(answer, str) else "rows"
                states[state] = states.get(state, 0) + 1
                # Each statement of a script has a timeout of its own.
                if took > seconds + 2 and kind != "many statements":
                    slow.append(f"{kind} ({number}): {took:.1f} s")
                if state == "XX000":
                    faults.append(f"{kind} ({number}): {answer[:200]}")

        attackers = [threading.Thread(target=attack, args=(me,)) for me in range(options.clients)]
        [attacker.start() for attacker in attackers]
        [attacker.join() for attacker in attackers]
        ended.set()
        watcher.join()
        alive = server.process.poll() is None
        if alive:
            server.process.terminate()
            server.process.wait(30)
        else:
            faults.append(f"the server ended with {server.process.returncode}: {''.join(server.said[-5:])}")
    limit = size(options.limit)
    print(f"statements: {sum(states.values())}, by SQLSTATE: {dict(sorted(states.items()))}")
    print(f"peak of resident memory: {peak[0] / 1e6:.0f} MB, {peak[0] / limit:.2f} of the limit, during {peak[1]}")
    print(f"slowest answer to another client: {worst[0]:.2f} s")
    for fault in faults + slow:
        print(f"fault: {fault}")
    if peak[0] > 1.15 * limit:
        print("fault: the memory is past 1.15 of the limit")
    sys.exit(bool(faults or slow or not alive or peak[0] > 1.15 * limit))


if __name__ == "__main__":
    main()
