"""The server for the cases."""

import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import threading

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path.home() / ".cache/freestone/target"))
BINARY = TARGET / "release" / "freestone"


class Server:
    def __init__(self, said):
        self.user, self.password = said["user"], said["password"]
        self.listen, self.postgres, self.flight = said["freestone"], said["postgres"], said["flight"]

    def address(self):
        """The address for the Freestone protocol, with a chunk size that allows rows of more than 1 MB."""
        return f"freestone://{self.user}:{self.password}@{self.listen}?chunk_size=16777216"


@contextlib.contextmanager
def running(binary=BINARY, *options):
    """A server on an empty database, with all three protocols and one user."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "serve", pathlib.Path(folder) / "db", *options]
        for protocol in ("listen", "pg", "flight"):
            command += [f"--{protocol}", "127.0.0.1:0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = {}
        for line in process.stderr:
            name, _, value = line.strip().partition(": ")
            scheme, _, address = value.partition("://")
            said[scheme if address else name] = address or value
            if scheme == "flight":
                break
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield Server(said)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
