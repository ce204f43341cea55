"""Random histories of transactions, and a checker of them in the manner of Elle.

    python conformance/histories.py --seconds 20 --kills 2     # 8 clients over PostgreSQL's protocol
    python conformance/histories.py --blind                    # the checker must find what this loses

Transactions append numbers to lists and read lists, at random. A list shows the order of its appends, and so which transaction
came before which: the next append to a list follows the one before (ww), a read follows the append of its last number (wr) and
comes before the append of the next one (rw). Snapshot isolation has no cycle of these without two rw in a row. Kingsbury and
Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020; Adya, PhD thesis, MIT 1999.

The server is killed at random times and started again. An acknowledged append must be there at the end, one of a transaction
that failed must never be seen. With `--blind`, clients read a list and write it back with their number at READ COMMITTED, where
nothing refuses this; that the checker then finds lost appends shows that it can find some.
"""

import argparse
import collections
import dataclasses
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import clients
import server

LISTS = 6
OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclasses.dataclass
class Transaction:
    number: int
    #: ("append", key, value) and ("read", key, values).
    steps: list
    state: str = UNKNOWN


class History:
    def __init__(self):
        self.transactions, self.lock, self.next = [], threading.Lock(), 0

    def begin(self):
        with self.lock:
            self.next += 1
            self.transactions.append(Transaction(self.next, []))
            return self.transactions[-1]


def appends(transaction):
    """The values that a transaction appended to each list, in order."""
    by_key = collections.defaultdict(list)
    for step in transaction.steps:
        if step[0] == "append":
            by_key[step[1]].append(step[2])
    return by_key


def reads(transaction):
    """The reads of a transaction, each without the transaction's own appends before it."""
    own = collections.defaultdict(list)
    for step in transaction.steps:
        if step[0] == "append":
            own[step[1]].append(step[2])
        else:
            yield step[1], step[2], list(own[step[1]])


def check(transactions, final):
    """What is wrong with a history, whose lists at its end are `final`."""
    wrong = []
    writer = {(key, value): t for t in transactions for key, values in appends(t).items() for value in values}
    seen = [t for t in transactions if t.state != FAILED]
    all_reads = [(t, key, values, own) for t in seen for key, values, own in reads(t)]
    for key, order in final.items():
        if len(set(order)) != len(order):
            wrong.append(f"list {key} has a number twice: {order}")
    for t, key, values, own in all_reads:
        if values[len(values) - len(own):] != own:
            wrong.append(f"transaction {t.number} does not see its own appends {own} in list {key}: {values}")
        outside = values[: len(values) - len(own)]
        if outside != final[key][: len(outside)] and t.state == OK:
            wrong.append(f"transaction {t.number} read list {key} as {outside}, which is no beginning of {final[key]}")
        for value in outside:
            of = writer.get((key, value))
            if of is None or of.state == FAILED:
                wrong.append(f"transaction {t.number} read {value} in list {key}, which nobody has committed (G1a)")
        if outside and (of := writer.get((key, outside[-1]))) and of is not t and appends(of)[key][-1] != outside[-1]:
            wrong.append(f"transaction {t.number} read list {key} in the middle of transaction {of.number} (G1b)")
    for t in transactions:
        for key, values in appends(t).items():
            there = [value for value in values if value in set(final[key])]
            if t.state == OK and there != values:
                wrong.append(f"transaction {t.number} has committed {values} to list {key}, and {there} is there")
            if t.state == FAILED and there:
                wrong.append(f"transaction {t.number} has failed, and {there} is in list {key}")
            if t.state == UNKNOWN and there not in ([], values):
                wrong.append(f"transaction {t.number} is in list {key} in part: {there} of {values}")
    return wrong + cycles(seen, all_reads, final, writer)


def cycles(transactions, all_reads, final, writer):
    """The cycles that snapshot isolation does not allow."""
    edges = collections.defaultdict(set)

    def add(before, after, kind):
        if before and after and before is not after:
            edges[before.number].add((after.number, kind))

    for key, order in final.items():
        for first, second in zip(order, order[1:]):
            add(writer.get((key, first)), writer.get((key, second)), "ww")
    for t, key, values, own in all_reads:
        outside = values[: len(values) - len(own)]
        if outside != final[key][: len(outside)]:
            continue
        if outside:
            add(writer.get((key, outside[-1])), t, "wr")
        later = (writer.get((key, value)) for value in final[key][len(outside):])
        add(t, next((other for other in later if other is not t), None), "rw")
    # A node is a transaction and whether an rw edge led to it: from there, no second one may follow.
    graph = collections.defaultdict(list)
    for node, targets in edges.items():
        for target, kind in targets:
            for state in (0, 1):
                if not (state and kind == "rw"):
                    graph[node, state].append((target, int(kind == "rw")))
    kinds = {(node, target): kind for node, targets in edges.items() for target, kind in targets}
    return [
        "a cycle: " + " → ".join(f"{a} {kinds.get((a, b), '')}" for (a, _), (b, _) in zip(ring, ring[1:] + ring[:1]))
        for ring in rings(graph)
    ]


def rings(graph):
    """A cycle of each strongly connected component that has one (Tarjan's algorithm, without recursion)."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in list(graph):
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        found.append(ring_in(graph, set(component), node))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(graph.get(target, []))))
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return found


def ring_in(graph, component, start):
    """A shortest cycle through a node of a component."""
    came_from, waiting = {}, collections.deque([start])
    while waiting:
        node = waiting.popleft()
        for target in graph[node]:
            if target == start:
                ring = [node]
                while ring[-1] != start:
                    ring.append(came_from[ring[-1]])
                return ring[::-1]
            if target in component and target not in came_from:
                came_from[target] = node
                waiting.append(target)
    return [start]


class Killed:
    """A server that is killed, or stopped, and started again on the same database and port."""

    def __init__(self, binary, folder, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [binary, "serve", folder / "db", "--pg", f"127.0.0.1:{self.port}", "--no-auth", *options]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)
        for _ in range(2000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        sys.exit("the server does not start")

    def kill(self):
        self.end(signal.SIGKILL)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()

    def connect(self, **options):
        psycopg = clients.needs("psycopg")
        options = {"user": "freestone", "dbname": "freestone", "autocommit": True} | options
        return psycopg.connect(host="127.0.0.1", port=self.port, **options)


def run_one(connection, history, chance, numbers, blind):
    """One random transaction."""
    psycopg = clients.needs("psycopg")
    transaction, committing = history.begin(), False
    try:
        connection.execute(f"BEGIN ISOLATION LEVEL {'READ COMMITTED' if blind else 'REPEATABLE READ'}")
        for _ in range(chance.randint(1, 4)):
            key = chance.randrange(LISTS)
            if chance.random() < 0.5:
                transaction.steps.append(("read", key, read(connection, key)))
                continue
            value = next(numbers)
            if blind:
                text = ",".join(map(str, [*read(connection, key), value]))
                connection.execute("UPDATE lists SET v = %s WHERE k = %s", (text, key))
            else:
                sql = "UPDATE lists SET v = CASE WHEN v = '' THEN '' ELSE v || ',' END || %s WHERE k = %s"
                connection.execute(sql, (str(value), key))
            transaction.steps.append(("append", key, value))
        committing = True
        connection.execute("COMMIT")
        transaction.state = OK
    except psycopg.OperationalError as error:
        if error.sqlstate is None or connection.closed:
            # Whether a commit that was not answered has happened shows at the end.
            transaction.state = UNKNOWN if committing else FAILED
            raise
        transaction.state = FAILED
        connection.execute("ROLLBACK")


def read(connection, key):
    text = connection.execute("SELECT v FROM lists WHERE k = %s", (key,)).fetchone()[0]
    return [int(number) for number in text.split(",")] if text else []


def client(killed, history, number, seed, stop, blind):
    psycopg = clients.needs("psycopg")
    chance, numbers = random.Random(seed * 1000 + number), iter(range(number, 1 << 40, 100))
    while not stop.is_set():
        try:
            with killed.connect() as connection:
                while not stop.is_set():
                    run_one(connection, history, chance, numbers, blind)
        except psycopg.Error:
            time.sleep(0.05)


def history_of(binary, seed, seconds, kills, blind):
    """Runs clients for a time, and returns their transactions and the lists at the end."""
    chance, history, stop = random.Random(seed), History(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        killed = Killed(binary, pathlib.Path(folder))
        with killed.connect() as connection:
            connection.execute("CREATE TABLE lists (k INT PRIMARY KEY, v VARCHAR)")
            for key in range(LISTS):
                connection.execute("INSERT INTO lists VALUES (%s, '')", (key,))
        work = [(killed, history, number, seed, stop, blind) for number in range(1, 9)]
        threads = [threading.Thread(target=client, args=of, daemon=True) for of in work]
        for thread in threads:
            thread.start()
        for _ in range(kills):
            time.sleep(seconds / (kills + 1) * chance.uniform(0.5, 1.0))
            killed.kill()
            killed.start()
        time.sleep(seconds / (kills + 1))
        stop.set()
        for thread in threads:
            thread.join(30)
        with killed.connect() as connection:
            final = {key: read(connection, key) for key in range(LISTS)}
        killed.kill()
    return history.transactions, final


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--blind", action="store_true", help="write without regard to others: anomalies must be found")
    parser.add_argument("--binary", type=pathlib.Path, default=server.BINARY, help="the program freestone")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    transactions, final = history_of(options.binary, options.seed, options.seconds, options.kills, options.blind)
    states = collections.Counter(t.state for t in transactions)
    numbers = sum(map(len, final.values()))
    print(f"{len(transactions)} transactions {dict(states)}, {numbers} numbers in {len(final)} lists")
    wrong = check(transactions, final)
    print("\n".join(wrong[:20]) or "no anomaly")
    sys.exit(bool(wrong) != options.blind)


if __name__ == "__main__":
    main()
