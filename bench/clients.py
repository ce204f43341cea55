"""Many clients at once: reads by key and small inserts from 1 and from 100 clients, over PostgreSQL's protocol.

python bench/clients.py --freestone target/release/freestone --seconds 5 --json clients.json

Needs only Python's standard library. The table is generated from a seed and indexed by its key; this is not timed. Each client
sends its next statement as soon as the previous one is answered: a read of one row by its key, or for a percentage of the
statements, an insert of one row. All clients run in one process with one thread. A time is from sending a statement to the end of
its answer. Rates are statements per second. Percentiles are in milliseconds, separately for reads and inserts, to show whether
reads wait for commits. The result of every read is checked.
"""

import argparse
import json
import random
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from environment import CACHE, hardware

#: Clients, and the percentage of their statements that insert.
CASES = [(1, 0), (1, 5), (100, 0), (100, 5)]
#: A prime above every number of rows. Multiples of row numbers modulo this prime are distinct and in random order.
PRIME = 2_000_000_011
FACTOR = 2_654_435_761


class Server:
    """A server with a database of its own, to which all users of this machine may connect."""

    def __init__(self, freestone: Path, folder: str) -> None:
        command = [freestone, "serve", f"{folder}/db", "--pg", "127.0.0.1:0", "--no-auth"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "postgres://" in line:
                self.port = int(line.rsplit(":", 1)[1])
                return
        sys.exit("error: the server did not start")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


class Client:
    """A connection that sends simple queries and finds the end of each answer."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = b"user\0freestone\0\0"
        self.socket.sendall(struct.pack(">ii", len(body) + 8, 196608) + body)
        self.buffer = b""
        while self.answer() is None:
            pass

    def send(self, sql: str) -> None:
        text = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack(">i", len(text) + 4) + text)
        self.sent = time.perf_counter()

    def answer(self) -> bytes | None:
        """The bytes of a complete answer; None if it is not complete."""
        more = self.socket.recv(1 << 16)
        if not more:
            sys.exit("error: the server hung up")
        self.buffer += more
        # ReadyForQuery ends an answer, and nothing follows it.
        if self.buffer[-6:-1] != b"Z\0\0\0\5":
            return None
        whole, self.buffer = self.buffer, b""
        return whole

    def run(self, sql: str) -> bytes:
        self.send(sql)
        while (answer := self.answer()) is None:
            pass
        if answer[:1] == b"E":
            sys.exit(f"error: {sql[:80]}: {answer!r}")
        return answer


def percentile(times: list[float], share: float) -> float | None:
    """The quantile of the times, in milliseconds."""
    times = sorted(times)
    return round(times[min(len(times) - 1, int(len(times) * share))] * 1000, 2) if times else None


def measured(port: int, clients: int, inserts: int, seconds: float, rows: int, chance: random.Random) -> dict[str, Any]:
    """Rates and percentiles for a number of clients, after a second of warm-up."""
    selector = selectors.DefaultSelector()
    times: dict[str, list[float]] = {"read": [], "insert": []}
    began = time.perf_counter()
    warm, end = began + 1, began + 1 + seconds

    def send(client: Client) -> None:
        if chance.randrange(100) < inserts:
            client.kind = "insert"
            client.send(f"INSERT INTO t VALUES ({-chance.randrange(1 << 40)}, 1, 'a new row')")
        else:
            row = chance.randint(1, rows)
            client.kind, client.row = "read", row
            client.send(f"SELECT n, s FROM t WHERE id = {row * FACTOR % PRIME}")

    everybody = [Client(port) for _ in range(clients)]
    for client in everybody:
        selector.register(client.socket, selectors.EVENT_READ, client)
        send(client)
    waiting = clients
    while waiting:
        for key, _ in selector.select():
            client = key.data
            answer = client.answer()
            if answer is None:
                continue
            now = time.perf_counter()
            if warm <= client.sent and now < end:
                times[client.kind].append(now - client.sent)
            if answer[:1] == b"E" or (client.kind == "read" and str(client.row).encode() not in answer):
                sys.exit(f"error: a wrong answer to a {client.kind}: {answer!r}")
            if now < end:
                send(client)
            else:
                waiting -= 1
    for client in everybody:
        client.socket.close()
    result: dict[str, Any] = {"clients": clients, "inserts %": inserts}
    result["per second"] = round(sum(map(len, times.values())) / seconds)
    for kind, of_kind in times.items():
        for name, share in {"50": 0.5, "95": 0.95, "99": 0.99, "max": 1.0}.items():
            result[f"{kind} {name}"] = percentile(of_kind, share)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--freestone", type=Path, default=CACHE / "target" / "release" / "freestone")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="a file for the results")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(options.freestone, folder)
        try:
            Client(server.port).run(
                f"CREATE TABLE t WITH (index = '(id)') AS SELECT (v * {FACTOR} % {PRIME})::bigint AS id, v AS n,"
                f" 'text of ' || v AS s FROM generate_series(1, {options.rows}) AS s(v)"
            )
            for clients, inserts in CASES:
                chance = random.Random(f"{options.seed} {clients} {inserts}")
                result = measured(server.port, clients, inserts, options.seconds, options.rows, chance)
                results.append(result)
                if len(results) == 1:
                    print(" | ".join(result))
                print(" | ".join("-" if value is None else str(value) for value in result.values()), flush=True)
        finally:
            server.stop()
    print(hardware())
    if options.json:
        options.json.write_text(json.dumps({"hardware": hardware(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
