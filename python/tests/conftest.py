"""Fixtures of all tests: databases in this process and on a server."""

import contextlib
import os
import pathlib
import signal
import subprocess
import threading

import freestone
import pytest

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path.home() / ".cache/freestone/target"))


@contextlib.contextmanager
def serving(*arguments):
    """The address of a server with one user. The server ends with the context, and its exit status must be 0."""
    command = [TARGET / "release" / "freestone", "serve", *arguments, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    found = {}
    for line in process.stderr:
        name, _, value = line.strip().partition(": ")
        found[name] = value
        if name == "listening":
            break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield found["listening"].replace("://", f"://{found['user']}:{found['password']}@")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.fixture(scope="session")
def shared_server():
    """A server for all tests. Each test leaves its database empty."""
    with serving("--threads", "2", "--memory-limit", "512MB") as address:
        yield address


def clear(address):
    with freestone.connect(address) as db:
        tables = "SELECT table_type, table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1 DESC"
        for kind, name in db.sql(tables).fetchall():
            quoted = name.replace('"', '""')
            db.sql(f'DROP {"VIEW" if kind == "VIEW" else "TABLE"} "{quoted}"')


@pytest.fixture
def here():
    """A database in this process."""
    with freestone.connect(threads=2, memory_limit="512MB") as connection:
        yield connection


@pytest.fixture(params=["here", "server"])
def place(request):
    """The arguments of ``connect`` for a database in this process, then for one on the server."""
    if request.param == "here":
        yield ":memory:", {"threads": 2, "memory_limit": "512MB"}
        return
    address = request.getfixturevalue("shared_server")
    yield address, {}
    clear(address)


@pytest.fixture
def db(place):
    """A connection to a database in this process, then to one on the server. Tests must pass on both."""
    path, options = place
    with freestone.connect(path, **options) as connection:
        yield connection


def pytest_terminal_summary(terminalreporter):
    """Prints a summary line in the form of `cargo test`, which the test command counts."""
    count = lambda *names: sum(len(terminalreporter.stats.get(name, [])) for name in names)  # noqa: E731
    passed, failed, skipped = count("passed"), count("failed", "error"), count("skipped")
    word = "FAILED" if failed else "ok"
    terminalreporter.write_line(f"test result: {word}. {passed} passed; {failed} failed; {skipped} ignored")
