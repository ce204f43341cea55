"""Tests `freestone advise`: compares tables in the advised design with tables in the presets and in random designs.

python bench/advice.py --workloads 10 --rows 1000000 --columns 8 --random 20 --json advice.json
python bench/advice.py --shape mixed --copies 4 --columns 16 --rows 2000000 --workloads 1
python bench/advice.py --shape crossover --columns 50 --rows 1000000 --random 4 --workloads 5

Each workload is a synthetic table, made from a seed, with queries of random columns, predicates and outputs. The
queries first run on a row table, each as often as its weight says, and the advice is computed from the workload log of
these runs. Then a table is made in the advised design and in each of the other designs. All tables answer all queries,
in turns, and every answer is compared with that of the first table. The advised design, the best preset and the three
best of all other designs are measured a second time. Only these times are reported, because the first times of the
best among many similar designs are partly chance. Times are those of the whole engine, with planning and results. With
`--copies`, a table has the advised copies, among which the planner chooses.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environment import CACHE, default_freestone, hardware

PRESETS = ("row", "column", "pax", "auto")
#: Designs that the advisor always predicts.
PLAIN = {f"preset = '{preset}'" for preset in PRESETS}
OURS = ("advised", "copies")
PAGES = ("32KiB", "128KiB", "512KiB")
#: How many of the best designs other than the advised one are measured a second time.
FINALISTS = 3
#: SQL of a column's values from the row number `v`, and a function for the value below which `share` of the rows are.
KINDS = {
    "serial": ("v::bigint", lambda share, k, rows: str(int(share * rows))),
    "runs": ("(v / {k})::bigint", lambda share, k, rows: str(max(1, int(share * rows / k)))),
    "few": ("(v * 2654435761 % {k})::int", lambda share, k, rows: str(max(1, round(share * k)))),
    "many": ("(v * 2654435761 % 1000003)::int", lambda share, k, rows: str(int(share * 1000003))),
    "real": ("(v * 104729 % 1000003)::double / 7", lambda share, k, rows: str(share * 1000003 / 7)),
    "text": (
        "'k' || lpad((v * 7919 % {k})::varchar, 6, '0')",
        lambda share, k, rows: f"'k{max(1, round(share * k)):06}'",
    ),
}


@dataclass
class Workload:
    """A table's columns, as SQL over `v`, and weighted queries of the table `{table}`."""

    columns: dict[str, str]
    queries: list[tuple[int, str]]

    def run(self, db: Any) -> None:
        for weight, text in self.queries:
            for _ in range(weight):
                db.sql(text.format(table="base")).arrow()


def workload(chance: random.Random, columns: int, queries: int, rows: int) -> Workload:
    """Random queries: half use few columns, a quarter many columns, and a quarter select all columns of few rows."""
    kinds = {f"c{at}": (chance.choice([*KINDS]), chance.choice((7, 40, 300, 5000))) for at in range(columns)}
    made = []
    for _ in range(queries):
        shape = chance.choice(("few", "few", "many", "rows"))
        count = {"few": chance.randint(1, 2), "many": columns * 2 // 3, "rows": columns}[shape]
        wanted = chance.sample([*kinds], max(1, count))
        share = 0.001 if shape == "rows" else chance.choice((0.01, 0.1, 0.5))
        tested = chance.sample([*kinds], 1 if shape == "rows" else chance.randint(0, 2))
        tests = [f"{c} < {KINDS[kinds[c][0]][1](share, kinds[c][1], rows)}" for c in tested]
        chosen = wanted if shape == "rows" else [f"{'max' if kinds[c][0] == 'text' else 'sum'}({c})" for c in wanted]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        made.append((chance.choice((1, 1, 3, 10)), f"SELECT {', '.join(chosen)} FROM {{table}}{where}"))
    return Workload({name: KINDS[kind][0].format(k=k) for name, (kind, k) in kinds.items()}, made)


def mixed(chance: random.Random, columns: int, rows: int) -> Workload:
    """Whole rows by three keys, some columns by ranges of the keys, two aggregates: no single sort order suits all."""
    names = {f"c{at}": f"(v * {7919 + 2 * at} % 1000003)::int" for at in range(columns)}
    keys = [0, columns // 3, 2 * columns // 3]
    rows_by_key = [(20, f"SELECT * FROM {{table}} WHERE c{k} = {chance.randrange(rows) * (7919 + 2 * k) % 1000003}") for k in keys]
    ranges = [(2, f"SELECT c1, c2, c3, c{k} FROM {{table}} WHERE c{k} BETWEEN 1000 AND 6000") for k in keys]
    reports = [(1, "SELECT sum(c5), max(c6) FROM {table}"), (1, "SELECT c7 % 10, count(*), sum(c2) FROM {table} GROUP BY 1")]
    return Workload(names, [*rows_by_key, *ranges, *reports])


def crossover(chance: random.Random, columns: int, queries: int) -> Workload:
    """The queries of Holloway and DeWitt (2008): k random columns of the rows that satisfy one predicate."""
    names = {f"c{at}": f"(v * {7919 + 2 * at} % 1000003)::int" for at in range(columns)}
    made = []
    for _ in range(queries):
        wanted = chance.sample([*names], chance.choice((2, columns // 4, columns // 2, columns)))
        share = chance.choice((0.001, 0.01, 0.1))
        text = f"SELECT {', '.join(wanted)} FROM {{table}} WHERE c0 < {int(share * 1000003)}"
        made.append((chance.choice((1, 3, 10)), text))
    return Workload(names, made)


def drawn(chance: random.Random, options: argparse.Namespace) -> Workload:
    if options.shape == "mixed":
        return mixed(chance, options.columns, options.rows)
    if options.shape == "crossover":
        return crossover(chance, options.columns, options.queries)
    return workload(chance, options.columns, options.queries, options.rows)


def random_design(chance: random.Random, names: list[str]) -> str:
    """The options of a design with random column groups, page size and sort order."""
    left, groups = chance.sample(names, len(names)), []
    while left:
        count = chance.randint(1, len(left))
        group, left = left[:count], left[count:]
        groups.append(f"({', '.join(group)})")
    options = [f"column_groups = '{', '.join(groups)}'", f"page_size = '{chance.choice(PAGES)}'"]
    if chance.random() < 0.6:
        options.append(f"sort = '{chance.choice(names)}'")
    return ", ".join(options)


def advised(binary: Path, database: Path, copies: int) -> dict[str, Any]:
    command = [binary, "advise", database, "--table", "base", "--json", "--threads", "1", "--copies", str(copies)]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    advice = json.loads(done.stdout)[0]
    best = advice["current"] if advice["keep"] else next(d for d in advice["designs"] if d["measured_ms"] is not None)
    return {"options": options_of(best), "advice": advice, "best": best, "seconds": time.perf_counter() - started}


def options_of(proposal: dict[str, Any]) -> str:
    return proposal["apply"].partition("SET DESIGN (")[2].rpartition(")")[0]


def then_ms(proposal: dict[str, Any], advice: dict[str, Any]) -> float:
    """The predicted time of the logged statements in a design, in milliseconds."""
    statements = proposal.get("statements")
    return statements["then_ms"] if statements else advice["designs"][0]["statements"]["now_ms"]


def predicted_over_preset(found: dict[str, Any]) -> float:
    advice = found["advice"]
    plain = [then_ms(p, advice) for p in [advice["current"], *advice["designs"]] if options_of(p) in PLAIN]
    return min(plain) / then_ms(found["best"], advice)


def copied(advice: dict[str, Any]) -> tuple[str, list[str]]:
    """The design of a table with the advised copies, and the statements that add them; empty if none is advised."""
    copies = advice["copies"]["copies"] if advice.get("copies") else []
    if not copies:
        return "", []
    own = copies[0].get("apply") or advice["current"]["apply"]
    added = [copy["apply"].replace('ALTER TABLE "base"', "ALTER TABLE copies_") for copy in copies[1:]]
    return own.partition("SET DESIGN (")[2].rpartition(")")[0], added


def measured(database: Path, tables: list[str], made: Workload, rounds: int) -> dict[str, float]:
    """Milliseconds of the weighted queries per table, from the median of each query. The tables run in turns."""
    import freestone

    taken: dict[tuple[str, int], list[float]] = {}
    with freestone.connect(str(database), threads=1) as db:
        answers: dict[int, list[Any]] = {}
        for turn in range(rounds + 1):
            for table in tables:
                for at, (_, text) in enumerate(made.queries):
                    query = db.sql(text.format(table=f"{table}_"))
                    started = time.perf_counter()
                    result = query.arrow()
                    taken.setdefault((table, at), []).append(1000 * (time.perf_counter() - started))
                    if turn == 0:
                        check(answers, at, result, f"{table}: {text}")
    weights = [weight for weight, _ in made.queries]
    medians = {key: statistics.median(times[1:]) for key, times in taken.items()}
    return {table: sum(weight * medians[table, at] for at, weight in enumerate(weights)) for table in tables}


def finalists(times: dict[str, float]) -> list[str]:
    """The designs of the second round: the advised one, `row`, the best preset, and the best of the others."""
    order = sorted((name for name in times if name not in OURS), key=lambda name: times[name])
    preset = next(name for name in order if name in PRESETS)
    return [name for name in times if name in {*OURS, "row", preset, *order[:FINALISTS]}]


def check(answers: dict[int, list[Any]], at: int, result: Any, words: str) -> None:
    """Compares the rows regardless of order, and doubles in nine digits."""
    rows = sorted(tuple(f"{v:.9g}" if isinstance(v, float) else str(v) for v in row.values()) for row in result.to_pylist())
    if answers.setdefault(at, rows) != rows:
        sys.exit(f"WRONG RESULT: {words}")


def one(number: int, options: argparse.Namespace) -> dict[str, Any]:
    import freestone

    chance = random.Random(options.seed * 1000 + number)
    made = drawn(chance, options)
    folder = options.work / f"advice-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    database = folder / "db"
    with freestone.connect(str(database), threads=1) as db:
        values = ", ".join(f"{sql} AS {name}" for name, sql in made.columns.items())
        db.sql(f"CREATE TABLE base WITH (preset = 'row') AS SELECT {values} FROM generate_series(1, {options.rows}) AS g(v)")
        made.run(db)
    found = advised(options.freestone, database, options.copies)
    designs = {"advised": found["options"]} | {preset: f"preset = '{preset}'" for preset in PRESETS}
    own, added = copied(found["advice"])
    designs |= {"copies": own} if added else {}
    designs |= {f"random{at}": random_design(chance, [*made.columns]) for at in range(options.random)}
    with freestone.connect(str(database)) as db:
        for name, design in designs.items():
            db.sql(f"CREATE TABLE {name}_ WITH ({design}) AS SELECT * FROM base")
        for statement in added:
            db.sql(statement)
    times = measured(database, [*designs], made, options.rounds)
    finals = finalists(times)
    times |= measured(database, finals, made, options.finals)
    shutil.rmtree(folder)
    best = min((name for name in finals if name not in OURS), key=lambda name: times[name])
    preset = min((name for name in finals if name in PRESETS), key=lambda name: times[name])
    current, proposed = found["advice"]["current"], found["best"]
    return {
        "workload": number,
        "seconds": found["seconds"],
        "design": found["options"],
        "best": designs[best],
        "preset": preset,
        "regret": max(times["advised"] / times[best] - 1, 0),
        "copies": added,
        "copies_over_advised": times["advised"] / times["copies"] if added else None,
        "predicted_copies": found["best"]["measured_ms"] / found["advice"]["copies"]["measured_ms"] if added else None,
        "over_preset": times[preset] / times["advised"],
        "predicted_over_preset": predicted_over_preset(found),
        "over_row": times["row"] / times["advised"],
        "scans_over_row": current["total"]["ms"] / proposed["total"]["ms"],
        "predicted_over_row": then_ms(current, found["advice"]) / then_ms(proposed, found["advice"]),
        "sample_over_row": current["measured_ms"] / proposed["measured_ms"] if current.get("measured_ms") else None,
        "ms": times,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--queries", type=int, default=10)
    parser.add_argument("--random", type=int, default=20, help="random designs in addition to the presets")
    parser.add_argument("--shape", choices=("random", "mixed", "crossover"), default="random", help="which queries")
    parser.add_argument("--copies", type=int, default=1, help="copies that may be advised, the table included")
    parser.add_argument("--rounds", type=int, default=5, help="measured runs of each query, behind one that warms up")
    parser.add_argument("--finals", type=int, default=11, help="the same of those that are measured once more")
    parser.add_argument("--first", type=int, default=0, help="the first workload's number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument("--work", type=Path, default=CACHE / "advice", help="folder of the databases; each is removed")
    parser.add_argument("--json", type=Path, help="writes all times here")
    options = parser.parse_args()
    found = []
    print(f"{options.rows:,} rows, {options.columns} columns, {options.queries} queries, one thread; {hardware()}", flush=True)
    print("| workload | advised in, s | regret | × best preset | | predicted | × row | predicted | its scans | on the sample | copies × advised | on the sample | design |")
    print("| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    for number in range(options.first, options.first + options.workloads):
        f = one(number, options)
        found.append(f)
        sample, copies = f["sample_over_row"], f["copies_over_advised"]
        gains = "– | –" if copies is None else f"{copies:.2f} | {f['predicted_copies']:.2f}"
        print(
            f"| {number} | {f['seconds']:.1f} | {100 * f['regret']:.0f} % | {f['over_preset']:.2f} | {f['preset']} | "
            f"{f['predicted_over_preset']:.2f} | {f['over_row']:.2f} | "
            f"{f['predicted_over_row']:.2f} | {f['scans_over_row']:.2f} | {'–' if sample is None else f'{sample:.2f}'} | {gains} | {'; '.join([f['design'], *f['copies']])} |",
            flush=True,
        )
    regrets = [f["regret"] for f in found]
    print(f"\nregret: median {100 * statistics.median(regrets):.0f} %, at most 10 % in {sum(r <= 0.1 for r in regrets)} of {len(regrets)}")
    worse = sum(f["over_preset"] < 0.95 for f in found)
    print(f"slower than the best preset by more than 5 %: {worse} of {len(found)}")
    for what, name in (("rows", "over_row"), ("the best preset", "over_preset")):
        errors = [abs(f[f"predicted_{name}"] / f[name] - 1) for f in found]
        print(f"gain over {what}, predicted against measured: median error {100 * statistics.median(errors):.0f} %")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
