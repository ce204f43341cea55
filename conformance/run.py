"""Runs the file of cases with every client, and prints the differences.

    python conformance/run.py                       # all installed clients
    python conformance/run.py --client psql         # one client
    python conformance/run.py --show --client psql  # prints its results, to write new cases
"""

import argparse
import sys
import time

import cases
import clients
import server


def failures(client, all_cases, show=False):
    """The differences of a client from the cases, and the cases that were skipped."""
    wrong, left_out = [], []
    for case in all_cases:
        reason = client.cannot.get(case.name) or ("no parameters" if case.parameters and not client.parameters else None)
        if reason:
            left_out.append(f"{case.name}: {reason}")
            continue
        expected = case.expected if case.kind != "error" else [f"error {case.state}"]
        try:
            given = client.execute(case.sql, case.parameters)
        except clients.Failed as failed:
            same = getattr(client, "same", lambda state, wanted: state == wanted)
            given = [f"error {case.state if same(failed.state, case.state) else failed}"]
        if show:
            print(f"{case.kind} {case.name} {case.state}\n" + "\n".join(given) + "\n")
        if given != expected and not (case.kind == "statement" and not given):
            wrong.append(f"{case.name or case.sql}: expected {shown(expected)}, and {client.name} gives {shown(given)}")
    return wrong, left_out


def shown(rows):
    text = " / ".join(rows) or "nothing"
    return text if len(text) < 400 else text[:400] + " …"


def cancels(client):
    """Checks that a cancelled statement fails with SQLSTATE 57014, and that the connection is usable afterwards."""
    try:
        client.cancel()
        return ["cancel: the statement ended before it was cancelled"]
    except clients.Failed as failed:
        same = getattr(client, "same", lambda state, wanted: state == wanted)
        if not same(failed.state, "57014"):
            return [f"cancel: expected 57014, and {client.name} gives {failed}"]
    given = client.execute("SELECT 1 AS a")
    return [] if given == ["1"] else [f"cancel: afterwards {client.name} gives {given}"]


# Errors of methods that the driver of Arrow or of PostgreSQL does not implement.
UNSUPPORTED = ("SQLFeatureNotSupportedException", "todo: implement this method")
# Two tables with keys, and the methods that must find something in them.
SCHEMA = (
    "CREATE TABLE parent (k INT NOT NULL, s VARCHAR, PRIMARY KEY (k))",
    "CREATE TABLE child (a INT NOT NULL, k INT, PRIMARY KEY (a), FOREIGN KEY (k) REFERENCES parent (k))",
)
FOUND = ("getPrimaryKeys", "getImportedKeys", "getExportedKeys", "getCrossReference", "getTables", "getColumns", "getSchemas")


def metadata(client):
    """Checks that all methods of DatabaseMetaData work, and that those of FOUND return rows."""
    for statement in SCHEMA:
        client.execute(statement)
    wrong = []
    for line in client.metadata():
        name, answer = (part.strip('"') for part in line.split(" | ", 1))
        if answer.endswith(" rows"):
            if name in FOUND and answer == "0 rows":
                wrong.append(f"{name}: nothing is found")
        elif not any(reason in answer for reason in UNSUPPORTED):
            wrong.append(f"{name}: {answer}")
    return wrong


# Commands of psql, each of which queries the catalog.
COMMANDS = r"""
\d
\d+
\d parent
\d child
\d+ child
\d pairs
\d+ pairs
\dt+
\dv+
\di+
\ds
\dS
\l+
\dn+
\df+
\du+
\dp
\dT+
\dx
\dC
\do
\db+
\dE
\dm
\dF
\dFd
\dFp
\dFt
\dy
\dL
\dD
\ddp
\drds
\dO
\da
\dc
\dP
\dd
\dRp
\dRs
\dew
\des
\det
\deu
\dX
\dA+
\sv pairs
\z
\conninfo
\encoding
""".split("\n")[1:-1]


def commands(client):
    """Checks that the commands of psql succeed, and that a described table has its columns and keys."""
    for statement in (*SCHEMA, "CREATE VIEW pairs AS SELECT a, k FROM child"):
        client.execute(statement)
    wrong = []
    for command in COMMANDS:
        try:
            client.run(client.command(), command + "\n")
        except clients.Failed as failed:
            wrong.append(f"{command}: {failed}")
    described = client.run(["psql", "-X"], "\\d child\n")
    for part in ("child_pkey", "PRIMARY KEY", "FOREIGN KEY (k) REFERENCES parent(k)", "integer"):
        if part not in described:
            wrong.append(f"\\d child does not say {part}: {described}")
    return wrong


def run(name, all_cases, show=False, binary=server.BINARY):
    """The failures of one client, on a server of its own, and the cases that were skipped."""
    with server.running(binary) as running:
        client = clients.ALL[name](running)
        try:
            wrong, left_out = failures(client, all_cases, show)
            wrong += cancels(client)
            if isinstance(client, clients.Jdbc):
                wrong += metadata(client)
            if isinstance(client, clients.Psql):
                wrong += commands(client)
        finally:
            client.close()
    return wrong, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", action="append", choices=list(clients.ALL), help="only this one; may be repeated")
    parser.add_argument("--show", action="store_true", help="print what the clients give")
    parser.add_argument("--freestone", default=server.BINARY, help="the binary")
    arguments = parser.parse_args()
    all_cases, failed = cases.read(), 0
    for name in arguments.client or clients.ALL:
        began = time.monotonic()
        try:
            wrong, left_out = run(name, all_cases, arguments.show, arguments.freestone)
        except clients.Unavailable as reason:
            print(f"SKIPPED {name}: {reason}", flush=True)
            continue
        for line in left_out:
            print(f"  left out  {line}")
        for line in wrong:
            print(f"  WRONG     {line}")
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok'} {name}: {len(all_cases) - len(left_out)} cases, {len(wrong)} wrong, "
              f"{time.monotonic() - began:.1f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
