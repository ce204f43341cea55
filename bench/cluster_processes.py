"""The processes of bench/cluster.py: workers and servers, each with its share of the processor, and connections to them."""

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgroups import Group, Groups
from engines import Freestone, Job
from peers import Rows

START_SECONDS = 60


@dataclass
class Place:
    """Where a database is, and the environment in which processes find it."""

    url: str
    environment: dict[str, str] | None = None


class Connection(Freestone):
    """A client of a server: the shell, to which statements are written and whose times are read."""

    def __init__(self, freestone: Path, address: str) -> None:
        # What a worker of peers.py opens is a database of its own; here it is that of the server.
        self.job = Job("freestone", "", "", 1, str(freestone), database=address)
        self.process, self.statements = None, 0

    def timed(self, sql: str) -> tuple[float, Rows]:
        """Milliseconds from sending a statement to its last row, and its rows."""
        return self.run("", sql)

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()


class Process:
    """A process of the program. What it writes to standard error is kept."""

    def __init__(self, command: Sequence[str | Path], group: Group | None, environment: dict[str, str] | None) -> None:
        texts = group.command([str(part) for part in command]) if group else [str(part) for part in command]
        self.said: list[str] = []
        null = subprocess.DEVNULL
        self.process = subprocess.Popen(texts, stdin=null, stdout=null, stderr=subprocess.PIPE, text=True, env=environment)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.rstrip())

    def wait_for(self, beginning: str) -> str:
        """The rest of a line that it has written, or will write soon."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            for line in self.said:
                if line.startswith(beginning):
                    return line.removeprefix(beginning)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        sys.exit(f"error: no `{beginning.strip()}` from the program: " + " / ".join(self.said[-5:]))

    def processor_seconds(self) -> float:
        """The processor time that it has used."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return 0.0
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ends it, and waits until it has ended."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Worker:
    """A worker with a fixed address, which can be killed and started again."""

    def __init__(self, freestone: Path, place: Place, token: Path, memory: str, group: Group | None) -> None:
        self.address, self.group, self.environment = f"127.0.0.1:{free_port()}", group, place.environment
        self.command = [freestone, "worker", "--store", place.url, "--token-file", token, "--listen", self.address, "--threads", "1"]
        self.command += ["--memory-limit", memory]
        self.process: Process | None = None

    def start(self) -> None:
        self.process = Process(self.command, self.group, self.environment)
        self.process.wait_for("listening: worker://")


class Server:
    """A server, with the workers of a list or without any, and one connection to it."""

    def __init__(self, freestone: Path, place: Place, token: Path, workers: Sequence[Worker], threads: int, group: Group | None) -> None:
        command = [freestone, "serve", place.url, "--listen", "127.0.0.1:0", "--no-auth", "--threads", str(threads)]
        if workers:
            command += ["--cluster", ",".join(worker.address for worker in workers), "--token-file", token]
        self.process, self.freestone = Process(command, group, place.environment), freestone
        self.address = "freestone://" + self.process.wait_for("listening: freestone://")
        self.connections: list[Connection] = []
        self.connection = self.connect()

    def connect(self) -> Connection:
        """A new connection, which ends with the server."""
        self.connections.append(Connection(self.freestone, self.address))
        return self.connections[-1]

    def stop(self) -> None:
        for connection in self.connections:
            connection.close()
        self.process.stop()

    def wait_for_workers(self, count: int) -> None:
        """Waits until this number of workers are ready."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            _, rows = self.connection.timed("SELECT count(*) FROM freestone_workers() WHERE state = 'ready'")
            if int(rows[0][0] or 0) >= count:
                return
            time.sleep(0.1)
        _, rows = self.connection.timed("SELECT address, state, reason FROM freestone_workers()")
        sys.exit(f"error: {count} workers should be ready: {rows}")


class Cluster:
    """Workers on one store, servers for some numbers of them, a server without workers, and one process with all cores.

    The server of n workers uses the first n. All processes run at the same time, so that repetitions can alternate among them.
    """

    def __init__(self, place: Place, folder: Path, options: argparse.Namespace, groups: Groups | None) -> None:
        self.place, self.options, self.made = place, options, groups
        self.prefix, self.token = folder.name, folder / "token"
        self.groups: dict[str, Group | None] = {}
        self.workers: list[Worker] = []
        self.servers: dict[str, Server] = {}
        if not self.token.exists():
            self.token.touch(mode=0o600)
            self.token.write_text(os.urandom(32).hex())

    def start(self) -> None:
        """Starts all workers and servers."""
        counts: list[int] = self.options.workers
        for _ in range(max(counts)):
            self.add_worker().start()
        for count in counts:
            self.add_server(str(count), self.workers[:count], self.options.server_share)
        self.add_server("alone", [], self.options.server_share)
        self.add_server("process", [], max(counts) * self.options.share + self.options.server_share)
        for count in counts:
            self.servers[str(count)].wait_for_workers(count)

    def group(self, name: str, cores: float) -> Group | None:
        group = self.made.group(f"{self.prefix}-{name}", cores) if self.made else None
        self.groups[name] = group
        return group

    def add_worker(self) -> Worker:
        """A worker with its share, which is not started yet."""
        name = f"worker-{len(self.workers)}"
        group = self.group(name, self.options.share)
        self.workers.append(Worker(self.options.freestone, self.place, self.token, self.options.memory, group))
        return self.workers[-1]

    def add_server(self, name: str, workers: Sequence[Worker], cores: float) -> Server:
        """Starts a server with these workers, or without any."""
        group = self.group(f"server-{name}", cores)
        self.servers[name] = Server(self.options.freestone, self.place, self.token, workers, self.options.threads, group)
        return self.servers[name]

    @property
    def largest(self) -> Server:
        return self.servers[str(max(self.options.workers))]

    def slow(self, worker: int, cores: float) -> None:
        """Changes the processor time of a worker."""
        group = self.groups[f"worker-{worker}"]
        assert group is not None
        group.limit(cores)

    def processor_seconds(self) -> float:
        processes = [worker.process for worker in self.workers if worker.process] + [server.process for server in self.servers.values()]
        return sum(process.processor_seconds() for process in processes)

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()
        for worker in self.workers:
            if worker.process:
                worker.process.stop()
        for group in self.groups.values():
            if group:
                group.remove()
