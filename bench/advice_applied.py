"""Tests what `freestone advise --apply` does to every statement: its time before and after, and whether it was said to win.

python bench/advice_applied.py --workloads 10 --rows 1000000

Each workload is a synthetic table of 6 to 40 columns, made from a seed, with selective and wide statements (those of
`advice.py`, and whole rows by a key). The statements run in the table's first design, each as often as its weight says; the
advice is computed from the log of these runs, and applied; then all statements are timed again. Both times are medians of the
whole statement, hot, from one process per state. A statement that was said to win, or was not named as a loser, and takes more
than 10 % longer afterwards is printed. After an advice was applied, advising once more must say "keep". The exit status is 1 if either fails.
"""

import argparse
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from advice import Workload, workload
from environment import CACHE, default_freestone, hardware

#: A statement has lost if it takes this many times as long and so many milliseconds more, which is above the noise.
LOSS, LOSS_MS = 1.10, 0.3
PRESETS = ("auto", "column", "row", "pax")


def drawn(chance: random.Random, rows: int) -> Workload:
    """The statements of `advice.py` for a table of 6 to 40 columns, and whole rows by a key."""
    columns = chance.choice((6, 8, 12, 20, 40))
    made = workload(chance, columns, chance.choice((4, 6, 10)), rows)
    made.columns["key_of"] = f"(v * 7919 % {rows})::int"
    by_key = [(chance.choice((1, 10)), f"SELECT * FROM {{table}} WHERE key_of = {chance.randrange(rows)}") for _ in range(2)]
    return Workload(made.columns, [*made.queries, *by_key])


def run(options: argparse.Namespace, database: Path, *statements: str) -> list[float]:
    """The milliseconds of each statement, in one process."""
    command = [options.freestone, database, "--threads", str(options.threads), "--timing", "--format", "none", "-f", "-"]
    done = subprocess.run(command, input=";\n".join(statements) + ";\n", capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [float(text) for text in re.findall(r"time: ([0-9.]+) ms", done.stderr)]


def medians(options: argparse.Namespace, database: Path, texts: list[str]) -> list[float]:
    """The median time of each statement, of runs in turn behind one that warms up."""
    times = run(options, database, *(texts * (options.rounds + 1)))
    return [statistics.median(times[at + len(texts) :: len(texts)]) for at in range(len(texts))]


def advised(options: argparse.Namespace, database: Path, *more: str) -> list[dict]:
    done = subprocess.run([options.freestone, "advise", database, "--json", "--threads", str(options.threads), *more], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def is_kept(advice: dict) -> bool:
    return advice["keep"] and not advice.get("copies")


def one(number: int, options: argparse.Namespace) -> int:
    """Runs one workload, and returns how many statements lost that should not have, and how often advice changed its mind."""
    chance = random.Random(options.seed * 1000 + number)
    made, preset = drawn(chance, options.rows), chance.choice(PRESETS)
    folder = options.work / f"applied-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    database, texts = folder / "db", [text.format(table="base") for _, text in made.queries]
    values = ", ".join(f"{sql} AS {name}" for name, sql in made.columns.items())
    run(options, database, f"CREATE TABLE base WITH (preset = '{preset}') AS SELECT {values} FROM generate_series(1, {options.rows}) AS g(v)")
    run(options, database, *[text for (weight, _), text in zip(made.queries, texts, strict=True) for _ in range(weight)])
    before = medians(options, database, texts)
    (advice,) = advised(options, database, "--apply")
    after = medians(options, database, texts)
    (again,) = advised(options, database)
    weights = [weight for weight, _ in made.queries]
    gain = sum(map(float.__mul__, before, map(float, weights))) / sum(map(float.__mul__, after, map(float, weights)))
    verdict = "keep" if is_kept(advice) else "; ".join(advice_changes(advice))
    print(f"{number}: {preset}, {len(made.columns)} columns, {len(texts)} statements: {gain:.2f} × in all; {verdict}", flush=True)
    said = said_to_lose(advice)
    lost = 0
    for text, was, then in zip(texts, before, after, strict=True):
        if then > was * LOSS and then > was + LOSS_MS and not is_kept(advice):
            named = any(same_text(name, text) for name in said)
            lost += not named
            print(f"   {was:.2f} -> {then:.2f} ms{' (named)' if named else ''}: {text[:110]}", flush=True)
    has_changed_mind = not is_kept(advice) and not is_kept(again)
    if has_changed_mind:
        print(f"   advising again: {'; '.join(advice_changes(again))}", flush=True)
    if not options.keep:
        shutil.rmtree(folder)
    return lost + has_changed_mind


def advice_changes(advice: dict) -> list[str]:
    copies = advice["copies"]["copies"] if advice.get("copies") else []
    made = [copy["apply"] for copy in copies if copy.get("apply")]
    return made or [advice["designs"][0]["apply"]]


def said_to_lose(advice: dict) -> list[str]:
    """The names of the queries that the applied design was said to slow down."""
    if advice.get("copies") or advice["keep"] or not advice["designs"]:
        return []
    return [query["name"] for query in advice["designs"][0]["queries"] if query["ratio"] < 1 / LOSS]


def same_text(name: str, text: str) -> bool:
    """Whether a logged name, whose literals are `?` and whose middle may be left out, is that of a statement."""
    plain = re.sub(r"'[^']*'|\b\d+(\.\d+)?\b", "?", " ".join(text.split()))
    first, _, last = re.sub(r"'[^']*'|\b\d+(\.\d+)?\b", "?", name).partition(" … ")
    return plain.startswith(first) and plain.endswith(last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first workload's number")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7, help="measured runs of each statement, behind one that warms up")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leaves the databases")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument("--work", type=Path, default=CACHE / "advice", help="folder of the databases")
    options = parser.parse_args()
    print(f"{options.rows:,} rows, {options.threads} threads, medians of {options.rounds}; {hardware()}", flush=True)
    failed = sum(one(number, options) for number in range(options.first, options.first + options.workloads))
    print(f"statements that lost without being named, and advice that changed its mind: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
