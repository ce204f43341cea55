"""Runs pgbench against `freestone serve`: its initialization and its built-in scripts, with a kill in between.

    python conformance/pgbench.py --scale 1 --clients 8 --seconds 5

No transaction may fail, and the balances of accounts, tellers, branches and the history must agree, also after the server was
killed while transactions were running.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

import histories
import server

BALANCES = (
    "SELECT sum(abalance) FROM pgbench_accounts",
    "SELECT sum(tbalance) FROM pgbench_tellers",
    "SELECT sum(bbalance) FROM pgbench_branches",
    "SELECT coalesce(sum(delta), 0) FROM pgbench_history",
)


def pgbench(port, *options):
    command = ["pgbench", "-h", "127.0.0.1", "-p", str(port), "-U", "freestone", *map(str, options), "freestone"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def balances(killed):
    with killed.connect() as connection:
        return [int(connection.execute(sql).fetchone()[0]) for sql in BALANCES]


def run(binary, scale, clients, seconds):
    """What went wrong."""
    wrong = []

    def bench(name, *options):
        code, said = pgbench(killed.port, "-n", "-M", "prepared", "-c", clients, "-j", 2, "-T", seconds, *options)
        failed = re.search(r"number of failed transactions: (\d+)", said)
        rate = re.search(r"tps = ([\d.]+)", said)
        print(f"{name}: {rate.group(1) if rate else '?'} transactions per second")
        if code or not failed or int(failed.group(1)):
            wrong.append(f"{name}: {said.strip()}")

    with tempfile.TemporaryDirectory() as folder:
        killed = histories.Killed(binary, pathlib.Path(folder))
        code, said = pgbench(killed.port, "-i", "-s", scale, "-q")
        if code:
            return [f"initialization: {said.strip()}"]
        bench("select only", "-S")
        bench("TPC-B")
        wrong += disagreement("after TPC-B", balances(killed))
        # In the middle of this the server is killed, so transactions fail.
        running = threading.Thread(target=pgbench, args=(killed.port, "-n", "-M", "prepared", "-c", clients, "-T", seconds))
        running.start()
        time.sleep(seconds / 2)
        killed.kill()
        running.join()
        killed.start()
        wrong += disagreement("after a kill", balances(killed))
        bench("TPC-B after a kill")
        wrong += disagreement("at the end", balances(killed))
        killed.kill()
    return wrong


def disagreement(when, found):
    print(f"balances {when}: {found}")
    return [] if len(set(found)) == 1 else [f"balances {when} do not agree: {found}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--binary", type=pathlib.Path, default=server.BINARY, help="the program freestone")
    options = parser.parse_args()
    wrong = run(options.binary, options.scale, options.clients, options.seconds)
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
