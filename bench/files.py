"""Scans and loads of Parquet, CSV and JSON files in Freestone and other engines, with compared answers.

python bench/files.py --gb 1 --threads 2 --runs 5 --json result.json
"""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engines import Job
from environment import CACHE, default_freestone, environment_python, hardware
from files_engines import ENGINES, FORMATS
from peers import QUERY_SECONDS, REFERENCE, Described, Results, Worker, cell, losses, measure

#: Rows that are generated at a time, and bytes of a row as CSV.
CHUNK_ROWS = 122_880
ROW_BYTES = 120
WORDS = ("red", "green", "blue", "amber", "black", "white", "rose", "teal", "gray", "plum", "lime", "navy")


def queries(rows: int) -> dict[str, str]:
    """The queries on one file."""
    return {
        "count": "SELECT count(*) AS n FROM data",
        "one": "SELECT sum(k) AS s FROM data",
        "filter": f"SELECT count(*) AS n, sum(price) AS s FROM data WHERE k BETWEEN {rows // 2} AND {rows // 2 + rows // 100}",
        "point": f"SELECT id, k, word, note FROM data WHERE id = {rows // 3}",
        "text": "SELECT count(*) AS n FROM data WHERE note LIKE '%teal navy%'",
        "group": "SELECT word, count(*) AS n, sum(k) AS s, max(price) AS p FROM data GROUP BY word",
        "top": "SELECT id, price FROM data ORDER BY price DESC, id LIMIT 100",
        "wide": "SELECT sum(id) AS a, sum(k) AS b, max(price) AS c, max(amount) AS d, min(day) AS e, max(seen) AS f, "
        "sum(CASE WHEN flag THEN 1 ELSE 0 END) AS g, max(word) AS h, max(note) AS i FROM data",
        "load": "",
    }


def chunk(seed: int, first: int, rows: int) -> Any:
    """Some rows of the table: numbers in order and in random order, reals, decimals, times, and texts with quotes."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng([seed, first])
    words = np.array([f"{a}-{b}" for a in WORDS for b in WORDS])
    phrase = lambda count: [" ".join(random.choice(WORDS, count)) for _ in range(512)]  # noqa: E731
    notes = np.array([text for count in (2, 4, 6) for text in phrase(count)] + ['the "best", they say', "a,b"])
    at = 1_577_836_800_000_000 + random.integers(0, 10**9, rows) * 100_000
    columns = {
        "id": pa.array(np.arange(first, first + rows)),
        "k": pa.array(random.integers(0, max(first + rows, CHUNK_ROWS), rows)),
        "price": pa.array(np.round(random.exponential(1000, rows), 4)),
        "amount": pa.array(np.round(random.uniform(0, 10**6, rows), 2)).cast(pa.decimal128(15, 2)),
        "day": pa.array(random.integers(15_000, 20_000, rows).astype("int32")).cast(pa.date32()),
        "seen": pa.array(at).cast(pa.timestamp("us")),
        "flag": pa.array(random.random(rows) < 0.3, mask=random.random(rows) < 0.01),
        "word": pa.array(words[random.integers(0, len(words), rows)]),
        "note": pa.array(notes[random.integers(0, len(notes), rows)], mask=random.random(rows) < 0.05),
    }
    return pa.table(columns)


def generate(folder: Path, rows: int, seed: int) -> None:
    """Writes the table as Parquet (Snappy, row groups of 122,880 rows), CSV and newline-delimited JSON."""
    import duckdb
    import pyarrow.parquet as parquet

    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"writing {rows} rows to {folder}", file=sys.stderr)
    writer = None
    for first in range(0, rows, CHUNK_ROWS):
        table = chunk(seed, first, min(CHUNK_ROWS, rows - first))
        writer = writer or parquet.ParquetWriter(folder / "data.parquet", table.schema, compression="snappy")
        writer.write_table(table, row_group_size=CHUNK_ROWS)
    if writer is not None:
        writer.close()
    for format in ("csv", "json"):
        duckdb.sql(f"COPY (FROM '{folder}/data.parquet') TO '{folder}/data.{format}'")
    (folder / "done").touch()


def report(options: argparse.Namespace, described: Described, results: Results, sizes: dict[str, int]) -> str:
    """The results as Markdown."""
    engines = list(described)
    heading = [f"{engine} {described[engine]['version'].split()[-1]}" for engine in engines]
    body = [
        [name, *(cell(outcomes[engine], outcomes.get(REFERENCE)) for engine in engines)]
        for name, outcomes in results.items()
    ]
    shown = ", ".join(f"{format} {size / 1e6:.0f} MB" for format, size in sizes.items())
    lines = [
        f"Files ({shown}), {options.threads} threads, median of {options.runs} runs in ms",
        f"(in brackets: times as fast as {REFERENCE}; below 1 is a loss). Machine: {hardware()}.",
        "",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in [["", *heading], ["---"] + ["---:"] * len(engines), *body]]
    lines += ["", *(f"- {engine}: {described[engine]['note']}." for engine in engines)]
    lines += [losses(engine, results) for engine in engines if engine == "freestone" and REFERENCE in engines]
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=0.2, help="gigabytes of the CSV file, about")
    parser.add_argument("--seed", type=int, default=1, help="seed of the generated rows")
    parser.add_argument("--threads", type=int, default=2, help="threads of every engine")
    parser.add_argument("--runs", type=int, default=5, help="measured repetitions of each query")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=list(FORMATS))
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of queries: count, one, load, …")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--temperature", choices=("hot", "cold", "both"), default="both")
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument("--work", type=Path, default=CACHE / "bench", help="folder for files and databases")
    parser.add_argument("--python", type=Path, help="an interpreter that has all packages, in place of bench/.venv")
    parser.add_argument("--json", type=Path, help="writes every time and hash here")
    parser.add_argument("--generate", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def names(options: argparse.Namespace, rows: int) -> dict[str, str]:
    """The queries to run on each format, hot and cold."""
    wanted = {query: sql for query, sql in queries(rows).items() if not options.only or query in options.only}
    endings = {"hot": [""], "cold": [" cold"], "both": ["", " cold"]}[options.temperature]
    return {
        f"{format}.{query}{ending}": sql
        for format in options.formats
        for query, sql in wanted.items()
        for ending in endings
    }


def main() -> None:
    options = parse()
    rows = max(int(options.gb * 1e9 / ROW_BYTES), 1000)
    if options.generate:
        return generate(options.generate, rows, options.seed)
    python = options.python or environment_python()
    folder = options.work.resolve() / f"files-{options.gb:g}gb-{options.seed}"
    made = [str(python), __file__, "--generate", str(folder), "--gb", str(options.gb), "--seed", str(options.seed)]
    subprocess.run(made, check=True)
    store = options.work.resolve() / "stores-files"
    jobs = {
        name: Job(name, str(folder), str(store / name), options.threads, str(options.freestone))
        for name in options.engines
    }
    workers = {name: Worker(python, job, "files_engines.py") for name, job in jobs.items()}
    described = {name: worker.ask(QUERY_SECONDS, do="about") for name, worker in workers.items()}
    for name in [name for name, about in described.items() if "error" in about]:
        print(f"{name}: {described.pop(name)['error']}", file=sys.stderr)
        workers.pop(name).stop()
    results = {}
    for name, sql in names(options, rows).items():
        results[name] = measure(workers, name, sql, options.runs)
        medians = {engine: outcome.median for engine, outcome in results[name].items()}
        print(name, {engine: median and round(median, 1) for engine, median in medians.items()}, file=sys.stderr)
    for worker in workers.values():
        worker.stop()
    sizes = {format: (folder / f"data.{format}").stat().st_size for format in options.formats}
    print(report(options, described, results, sizes))
    if options.json:
        document = {
            "machine": hardware(),
            "gb": options.gb,
            "seed": options.seed,
            "threads": options.threads,
            "engines": described,
            "results": {
                name: {engine: asdict(replace(outcome, rows=None)) for engine, outcome in by_engine.items()}
                for name, by_engine in results.items()
            },
        }
        options.json.write_text(json.dumps(document, indent=1))
    if any(outcome.differs for by_engine in results.values() for outcome in by_engine.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
