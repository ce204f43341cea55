"""pgbench: its tables, its built-in scripts in each mode of the protocol, and scripts of its own language. No transaction may fail."""

import pathlib
import re
import subprocess
import tempfile

from checks import check, each, equal, login, run

SCRIPTS = {
    "variables": "\\set n random(1, 1000)\nSELECT :n AS m \\gset\nSELECT CASE WHEN :m = :n THEN 1 ELSE 1 / 0 END;\n",
    "pipelines": "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n",
    "conditions": "\\set n random(1, 2)\n\\if :n = 1\nSELECT 1;\n\\else\nSELECT 2;\n\\endif\n",
    "transactions": "BEGIN;\nSELECT abalance FROM pgbench_accounts WHERE aid = 1 FOR UPDATE;\n"
                    "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1;\nEND;\n",
}


class Nothing:
    """pgbench connects itself."""

    def close(self):
        pass


def pgbench(*options):
    """What pgbench says."""
    host, port, user, _, database = login()
    command = ["pgbench", "-h", host, "-p", str(port), "-U", user, *options, database]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"{' '.join(options)}: {done.stderr.strip()[-400:]}")
    return done.stdout + done.stderr


def succeeded(said, transactions):
    counted = re.search(r"transactions actually processed: (\d+)", said)
    failed = re.search(r"number of failed transactions: (\d+)", said)
    equal((int(counted.group(1)), int(failed.group(1))), (transactions, 0))


def count(sql):
    host, port, user, _, database = login()
    done = subprocess.run(["psql", "-X", "-A", "-t", "-h", host, "-p", str(port), "-U", user, "-d", database, "-c", sql],
                          capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(done.stderr.strip())
    return done.stdout.strip()


@each("initialization", [("client", "dtgvp"), ("server", "dtGvp"), ("foreign keys", "dtgvpf")])
def initialized(_, steps):
    pgbench("-i", "-q", "-s", "1", "-I", steps)
    equal(count("SELECT count(*) FROM pgbench_accounts"), "100000")


@each("scripts", [(f"{script} {mode}", script, mode) for script in ("tpcb-like", "simple-update", "select-only")
                  for mode in ("simple", "extended", "prepared")])
def built_in(_, script, mode):
    succeeded(pgbench("-n", "-b", script, "-M", mode, "-c", "4", "-t", "25"), 100)
    equal(count("SELECT (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(tbalance) FROM pgbench_tellers)"), "t")


@each("scripts", list(SCRIPTS.items()))
def own(_, text):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "script.sql"
        file.write_text(text)
        succeeded(pgbench("-n", "-f", str(file), "-M", "extended", "-c", "2", "-t", "20"), 40)


@check("connections")
def connections(_):
    succeeded(pgbench("-n", "-S", "-C", "-c", "2", "-t", "10"), 20)


@check("vacuumed")
def vacuumed(_):
    succeeded(pgbench("-v", "-c", "1", "-t", "5"), 5)


if __name__ == "__main__":
    run(Nothing)
