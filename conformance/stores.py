"""A database at az://, in the test server of others: Azurite, a package of npm.

    python conformance/stores.py
    python conformance/stores.py --rounds 1000

The server keeps its objects in a temporary folder, on a free port of this machine. Tried are `freestone store check`, a database
that two processes write at the same time, a cache on disk, VACUUM and CHECK. The exit status is 1 if
something fails, or if the server cannot be installed.

fake-gcs-server (1.56) is not among them: it has no plain PUT of Google's XML interface, by which the client creates objects.
"""

import argparse
import base64
import contextlib
import email.utils
import hashlib
import hmac
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import server

CACHE = pathlib.Path.home() / ".cache/freestone/stores"
AZURITE = "azurite@3.35.0"
#: The account of Azurite, whose key is in its documentation.
ACCOUNT, KEY = "devstoreaccount1", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
BUCKET = "freestone-tests"
PATIENCE_SECONDS = 60
ROWS, WRITERS = 2000, 2


class Unavailable(Exception):
    """A server cannot be installed."""


class Failed(Exception):
    """What was tried does not work."""


def installed(tool, command, binary):
    """Path of a server, which is installed unless it is there. Raises Unavailable with the reason."""
    if not binary.exists():
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is not installed")
        CACHE.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"{command[0]} cannot install it: {done.stderr.strip()[-300:]}")
    return binary


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(command, port):
    """A server that listens at a port. It ends with the context."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if running.poll() is not None or time.monotonic() > end:
                raise Failed(f"{command[0]} does not listen")
            time.sleep(0.05)
        yield
    finally:
        running.kill()
        running.wait()


@contextlib.contextmanager
def azure():
    """URL and environment of a container in Azurite."""
    install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(CACHE / "azurite"), AZURITE]
    (CACHE / "azurite").mkdir(parents=True, exist_ok=True)
    manifest = CACHE / "azurite/package.json"
    if not manifest.exists():
        manifest.write_text('{"name": "stores", "version": "1.0.0", "private": true}\n')
    binary = installed("npm", install, CACHE / "azurite/node_modules/.bin/azurite-blob")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--location", folder, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        with process([binary, *options], port):
            create_container(port)
            environment = {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}"}
            yield f"az://{BUCKET}/db", environment


def create_container(port):
    """Makes the container by a signed request (Azure's Shared Key)."""
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    # Of the eleven headers that every signature has, one is not empty.
    kind = "application/octet-stream"
    signed = "PUT\n\n\n\n\n" + kind + "\n" * 7 + canonical + f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    headers["Content-Type"] = kind
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    request(f"http://127.0.0.1:{port}/{ACCOUNT}/{BUCKET}?restype=container", "", headers, "PUT")


def request(url, body, headers, method="POST"):
    try:
        urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers, method=method)).read()
    except urllib.error.HTTPError as error:
        raise Failed(f"{method} {url}: {error.code} {error.read()[:200]!r}") from error


def freestone(environment, *arguments):
    """What the command line prints. Raises Failed with its error."""
    command = [server.BINARY, *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"freestone {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout


def rows(environment, url, sql, *options):
    return freestone(environment, url, "--format", "csv", *options, "-c", sql).splitlines()[1:]


def check(url, environment, rounds):
    """Tries a store. Raises Failed with the first difference."""
    freestone(environment, "store", "check", url.replace("/db", "/check"), "--rounds", str(rounds))
    rows(environment, url, "CREATE TABLE t (writer INT, i INT, v BIGINT)")
    inserts = [
        "".join(
            f"INSERT INTO t SELECT {writer}, i, i * 7919 % 1000003 FROM generate_series({at + 1}, {at + ROWS // 4}) AS s(i);"
            for at in range(0, ROWS, ROWS // 4)
        )
        for writer in range(WRITERS)
    ]
    # As processes of their own, at the same time.
    writers = [
        subprocess.Popen([server.BINARY, url, "-c", script], env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for script in inserts
    ]
    for writer in writers:
        _, said = writer.communicate()
        if writer.returncode:
            raise Failed(f"a writer: {said.strip()}")
    expected = [f"{writer},{ROWS},{sum(i * 7919 % 1000003 for i in range(1, ROWS + 1))}" for writer in range(WRITERS)]
    count = "SELECT writer, count(*), sum(v) FROM t GROUP BY 1 ORDER BY 1"
    same(rows(environment, url, count), expected)
    rows(environment, url, "UPDATE t SET v = 0 WHERE i = 7; DELETE FROM t WHERE i > 1000; VACUUM; CHECK")
    same(rows(environment, url, "SELECT count(*), count(*) FILTER (v = 0) FROM t"), [f"{WRITERS * 1000},{WRITERS}"])
    rows(environment, url, "CREATE TABLE large AS SELECT i, i * 2654435761 % 1000000007 AS v FROM range(300000) AS r(i)")
    with tempfile.TemporaryDirectory() as cache:
        given = [rows(environment, url, "SELECT count(*), sum(v) FROM large", *options) for options in ((), ("--cache", cache), ("--cache", cache))]
    for found in given:
        same(found, [f"300000,{sum(i * 2654435761 % 1000000007 for i in range(300000))}"])


def same(found, expected):
    if found != expected:
        raise Failed(f"{found} instead of {expected}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200, help="objects that many threads create at the same time")
    arguments = parser.parse_args()
    try:
        with azure() as (url, environment):
            check(url, environment, arguments.rounds)
            print(f"{AZURITE}: {url} works")
    except (Failed, Unavailable) as reason:
        sys.exit(f"error: {AZURITE}: {reason}")


if __name__ == "__main__":
    main()
