"""Runs the suites of drivers and tools of PostgreSQL in drivers/ against `freestone serve`, and against PostgreSQL itself.

    python conformance/drivers.py                         # all suites
    python conformance/drivers.py --suite asyncpg         # one suite
    python conformance/drivers.py --all                   # also runs what drivers/skipped.txt names

The expectations are PostgreSQL's. If a PostgreSQL is installed (in PATH, or in Debian's /usr/lib/postgresql), a new cluster of it is
started for the time of the run, and each suite runs against it as well. Checks that are wrong with Freestone for a reason are in
drivers/skipped.txt; one that is there and right is an error, so that the list stays true. Suites whose driver is not installed are
skipped: `pip install -r drivers/requirements.txt`, Node.js with npm, and Go.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import server

HERE = pathlib.Path(__file__).parent / "drivers"
TIME_MAX_S = 600


class Unavailable(Exception):
    """What a suite needs is not installed."""


class Suite:
    def __init__(self, name, command, needs_postgresql=False):
        self.name, self.command, self.needs_postgresql = name, command, needs_postgresql


def of_python(name, *modules):
    def command():
        for module in modules:
            if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode:
                raise Unavailable(f"the Python module {module} is missing: pip install -r conformance/drivers/requirements.txt")
        return [sys.executable, "-B", HERE / f"{name}_suite.py"]

    return Suite(name, command, name == "postgres_fdw")


def of_node():
    if not shutil.which("node") or not shutil.which("npm"):
        raise Unavailable("node and npm are not installed")
    folder = server.TARGET / "conformance-node-postgres"
    if not (folder / "node_modules/pg").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(HERE / "node" / file, folder)
        if subprocess.run(["npm", "ci", "--silent"], cwd=folder).returncode:
            raise Unavailable("the packages could not be had from npm")
    return ["env", f"NODE_PATH={folder / 'node_modules'}", "node", HERE / "node/suite.js"]


def of_go(driver):
    def command():
        if not shutil.which("go"):
            raise Unavailable("go is not installed")
        program = server.TARGET / "conformance-drivers"
        built = subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "go", capture_output=True, text=True)
        if built.returncode:
            raise Unavailable(f"the program cannot be built: {built.stderr.strip()[-300:]}")
        return [program, HERE / "expected.json", driver]

    return Suite(driver, command)


def of_pgbench():
    if not shutil.which("pgbench"):
        raise Unavailable("pgbench is not installed")
    return [sys.executable, "-B", HERE / "pgbench_suite.py"]


SUITES = [
    of_python("asyncpg", "asyncpg"),
    of_python("psycopg2", "psycopg2"),
    of_python("pg8000", "pg8000"),
    of_python("sqlalchemy", "sqlalchemy", "psycopg", "pandas"),
    of_python("postgres_fdw", "psycopg2"),
    Suite("node-postgres", of_node),
    of_go("pgx"),
    of_go("pq"),
    Suite("pgbench", of_pgbench),
]


def binaries():
    """The folder of PostgreSQL's programs, or None."""
    found = shutil.which("initdb")
    folders = [pathlib.Path(found).parent] if found else sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders and (folders[-1] / "initdb").exists() else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def postgresql():
    """The environment of a new cluster of PostgreSQL with a database `freestone`, or None if it is not installed."""
    folder = binaries()
    if folder is None:
        yield None
        return
    # The server refuses to run as root.
    by = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        data, port = f"{place}/data", free_port()
        options = f"-p {port} -k {place} -c fsync=off -c timezone=UTC -c listen_addresses=127.0.0.1"
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "cwd": place}
        subprocess.run([*by, folder / "initdb", "-D", data, "-A", "trust", "-U", "freestone", "-E", "UTF8", "--locale=C.UTF-8"], **quiet)
        subprocess.run([*by, folder / "pg_ctl", "-D", data, "-o", options, "-l", f"{place}/log", "-w", "start"], **quiet)
        try:
            said = {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "freestone", "PGPASSWORD": "none", "PGDATABASE": "freestone"}
            subprocess.run(["createdb", "freestone"], env=os.environ | said, **quiet)
            yield said
        finally:
            subprocess.run([*by, folder / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)


def freestone(running):
    host, port = running.postgres.rsplit(":", 1)
    return {"PGHOST": host, "PGPORT": port, "PGUSER": running.user, "PGPASSWORD": running.password, "PGDATABASE": "freestone"}


def skipped():
    """The checks that are known to be wrong, by suite and name (`*` for all suites), with their reasons."""
    found = {}
    for line in (HERE / "skipped.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            check, bar, reason = line.rpartition(" # ")
            suites, colon, name = check.partition(": ")
            if not bar or not colon:
                sys.exit(f"skipped.txt: a line is `suite: check # reason`, not: {line}")
            for suite in suites.split(", "):
                found[suite, name] = reason
    return found


def outcomes(suite, said, near):
    """What became of each check of a suite: None if it was right, else the reason."""
    environment = os.environ | said | {"PGSSLMODE": "disable", "TZ": "UTC"}
    if near:
        environment["POSTGRESQL"] = ":".join((near["PGHOST"], near["PGPORT"], near["PGUSER"]))
    done = subprocess.run(suite.command(), env=environment, capture_output=True, text=True, encoding="utf-8", timeout=TIME_MAX_S)
    lines = done.stdout.splitlines()
    if not lines or lines.pop() != "end":
        return {"the suite": f"it did not come to its end: {done.stderr.strip()[-1000:]}"}
    found = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        # The reason begins with the name of an exception or a code, which has no colon followed by a blank.
        name, _, reason = rest.partition(": ") if word == "WRONG" else (rest, "", None)
        if word in ("ok", "WRONG"):
            found[name] = reason
    return found


def compared(suite, said, near, known, runs_all):
    """Runs a suite, and returns the lines of what is wrong and the numbers of right and skipped checks."""
    found = outcomes(suite, said, near)
    wrong, right, left_out = [], 0, 0
    for name, reason in found.items():
        why = known.get((suite.name, name)) or known.get(("*", name))
        if reason is None and why and not runs_all:
            wrong.append(f"{name}: it is right, and skipped.txt says: {why}")
        elif reason is None:
            right += 1
        elif why and not runs_all:
            left_out += 1
        else:
            wrong.append(f"{name}: {reason}")
    return wrong, right, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=[suite.name for suite in SUITES], help="only this one; may be repeated")
    parser.add_argument("--all", action="store_true", help="report what skipped.txt names, too")
    parser.add_argument("--freestone", default=server.BINARY, help="the binary")
    arguments = parser.parse_args()
    failed, known = 0, skipped()
    with postgresql() as near:
        if near is None:
            print("PostgreSQL is not installed: the suites run against Freestone alone")
        for suite in SUITES:
            if arguments.suite and suite.name not in arguments.suite:
                continue
            if suite.needs_postgresql and near is None:
                print(f"SKIPPED {suite.name}: PostgreSQL is not installed")
                continue
            try:
                suite.command()
            except Unavailable as reason:
                print(f"SKIPPED {suite.name}: {reason}", flush=True)
                continue
            for of in ("PostgreSQL", "Freestone") if near else ("Freestone",):
                began = time.monotonic()
                with server.running(arguments.freestone) if of == "Freestone" else contextlib.nullcontext() as running:
                    said = freestone(running) if running else near
                    wrong, right, left_out = compared(suite, said, near, known if running else {}, arguments.all)
                for line in wrong:
                    print(f"  WRONG     {line}")
                failed += bool(wrong)
                print(f"{'FAILED' if wrong else 'ok'} {suite.name} with {of}: {right} right, {left_out} skipped, {len(wrong)} wrong, "
                      f"{time.monotonic() - began:.1f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
