"""The table in persistent memory next to LMDB, PMDK's trees, redb, RocksDB, SQLite and DuckDB, with the paper's tuples.

    python bench/pmem.py [--rows 1000000] [--changes 20000] [--folder /dev/shm/pmem] [--engines Freestone,LMDB] [--json pmem.json]

Builds and runs `bench/pmem`, a Rust program of its own; needs cargo, a C compiler and the package duckdb. RocksDB takes part if its
headers are installed (`apt install librocksdb-dev`), PMDK's trees if its examples are (`apt install libpmemobj-dev`). All engines work
in one folder, on tmpfs by default, each with its full durability and in turn with the others; answers are compared. DuckDB has only the
ranges, with one thread, from Python. Without persistent memory, Freestone's pool is an ordinary file: its memory is EMULATED, and no
figure is one of persistent memory. `freestone-lab run ptable-peers` judges the paper's claims by the same program.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import duckdb
from environment import CACHE

PACKAGE = Path(__file__).parent / "pmem"
SHARES = [0.001, 0.01, 0.1, 1.0]
REPEATS = 5
#: What the figures are to show, as a share of another engine's: figure, of, engine, peer, and the least factor by which it is better.
TARGETS = [
    ("points", "whole row by its key", "LMDB", 1.0),
    ("points", "whole row by its key", "redb", 1.0),
    ("points", "whole row by its key", "RocksDB", 3.0),
    *[("ranges", f"{share} %, by the double", peer, 10.0) for share in ("0.1", "1") for peer in ("LMDB", "redb", "RocksDB", "SQLite")],
    *[("ranges", f"{share} %, by the double", "DuckDB", 1.0) for share in ("0.1", "1")],
    *[("ranges", f"{share} %, by key", "LMDB", 1.0) for share in ("0.1", "1", "10", "100")],
    *[("changes", kind, peer, 3.0) for kind in ("insert", "update", "delete") for peer in ("LMDB", "redb", "SQLite")],
    *[("changes", kind, "RocksDB", 1.5) for kind in ("insert", "update", "delete")],
]


def built() -> Path:
    """The program, with RocksDB if there are headers of it."""
    target = CACHE / "pmem-target"
    has_rocksdb = Path("/usr/include/rocksdb/c.h").exists()
    has_pmdk = Path("/usr/share/doc/libpmemobj-dev/examples/tree_map/ctree_map.c").exists()
    present = [name for name, is_there in (("rocksdb", has_rocksdb), ("pmdk", has_pmdk)) if is_there]
    features = ["--features", ",".join(["freestone", *present])]
    if not has_rocksdb:
        print("RocksDB does not take part: /usr/include/rocksdb/c.h is missing")
    if not has_pmdk:
        print("PMDK's trees do not take part: the package libpmemobj-dev is missing")
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run(["cargo", "build", "--release", *features], cwd=PACKAGE, env=environment, check=True)
    return target / "release" / "pmem-peers"


def duckdb_ranges(folder: Path, rows: int) -> list[dict[str, Any]]:
    """DuckDB's medians for the same shares."""
    database = duckdb.connect(str(folder / "duckdb"), config={"threads": 1})
    types = "{'k': 'INTEGER', 'n': 'INTEGER', 's': 'VARCHAR', 'd': 'DOUBLE'}"
    database.execute(f"CREATE TABLE t AS FROM read_csv('{folder / 'tuples.csv'}', columns = {types}) ORDER BY k")
    database.execute("CHECKPOINT")
    figures = []
    for share in SHARES:
        for column, name in (("k", "key"), ("d", "the double")):
            times = []
            for repeat in range(REPEATS):
                low = rows * repeat / REPEATS * (1 - share)
                high = low + rows * share - 1
                scale = 1 if column == "k" else 2
                start = time.perf_counter()
                # Whole rows, which are counted and not given to Python.
                sql = f"SELECT count(n), sum(d), max(s), max(k) FROM t WHERE {column} BETWEEN ? AND ?"
                database.execute(sql, [low / scale, high / scale]).fetchall()
                times.append((time.perf_counter() - start) * 1e3)
            of = f"{share * 100:g} %, by {name}"
            figures.append({"figure": "ranges", "of": of, "engine": "DuckDB", "unit": "ms", "value": statistics.median(times)})
    return figures


def better(unit: str, ours: float, theirs: float) -> float:
    """By which factor ours is better: less time, or more changes per second."""
    return ours / theirs if unit == "per second" else theirs / ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm/freestone-pmem"))
    parser.add_argument("--engines", help="some of Freestone, LMDB, redb, PMDK ctree, PMDK btree, RocksDB and SQLite, separated by commas")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    program = built()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    try:
        command = [program, options.folder, str(options.rows), str(options.changes)]
        command += [options.engines] if options.engines else []
        # Of libpmemobj: flush lines of the cache, as on persistent memory, and not pages of the file.
        environment = {**os.environ, "PMEM_IS_PMEM_FORCE": "1"}
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout.splitlines()
        figures = [json.loads(line) for line in lines] + duckdb_ranges(options.folder, options.rows)
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    print(f"EMULATED persistent memory; {options.rows} rows, {options.changes} changes of each kind; medians")
    known = {(f["figure"], f["of"], f["engine"]): f for f in figures}
    engines = list(dict.fromkeys(f["engine"] for f in figures))
    for figure, of in dict.fromkeys((f["figure"], f["of"]) for f in figures):
        found = [(engine, known.get((figure, of, engine))) for engine in engines]
        cells = [f"{engine} {f['value']:,.4g}" for engine, f in found if f]
        unit = next(f["unit"] for _, f in found if f)
        print(f"{figure}, {of} ({unit}): {', '.join(cells)}")
    missed = 0
    for figure, of, peer, factor in TARGETS:
        ours, theirs = known.get((figure, of, "Freestone")), known.get((figure, of, peer))
        if ours and theirs:
            found = better(ours["unit"], ours["value"], theirs["value"])
            missed += found < factor
            print(f"{'met   ' if found >= factor else 'MISSED'} {figure}, {of}: {found:.2f} times {peer}, asked {factor:g}")
    print(f"{missed} of {len(TARGETS)} targets missed")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
