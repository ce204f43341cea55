"""Size, load and scans of a table of JSON logs, nested and with optional members, compared with DuckDB and Parquet.

    python bench/json_logs.py [ROWS] [FOLDER]

The rows are made from a seed. Needs the packages freestone, duckdb and pyarrow. Times are the best of five; a load is
measured once.
"""

import json
import random
import sys
import time
from pathlib import Path

SEED = 38
LEVELS = ["debug", "info", "info", "info", "warn", "error"]
AGENTS = ["Firefox", "Chrome", "Safari", "curl", "bot"]
QUERIES = {
    "one number": "SELECT sum(request.ms) FROM logs",
    "selective field": "SELECT count(*) FROM logs WHERE request.status = 503",
    "range of a field": "SELECT count(*), max(request.ms) FROM logs WHERE seq BETWEEN 1000 AND 2000 AND request.ms > 10",
    "groups by a field": "SELECT client.agent, count(*), avg(request.ms) FROM logs GROUP BY client.agent ORDER BY 1",
    "optional field": "SELECT count(error.code), min(error.message) FROM logs",
    "list": "SELECT sum(len(tags)) FROM logs",
    "whole rows": "SELECT max(seq) FROM (SELECT * FROM logs WHERE request.status = 503 ORDER BY seq LIMIT 1000)",
}


def row(seq: int, rng: random.Random) -> dict:
    """One line of the log."""
    line = {
        "seq": seq,
        "time": f"2024-{1 + seq // 1000 % 12:02}-{1 + seq // 40 % 28:02} {seq % 24:02}:{rng.randrange(60):02}:{rng.randrange(60):02}",
        "level": rng.choice(LEVELS),
        "request": {
            "path": f"/shop/{rng.choice(['cart', 'item', 'search', 'login'])}/{rng.randrange(500)}",
            "status": rng.choices([200, 302, 404, 503], [90, 5, 4, 1])[0],
            "ms": rng.randrange(1, 400),
        },
        "client": {"agent": rng.choice(AGENTS), "address": {"ip": f"10.0.{rng.randrange(256)}.{rng.randrange(256)}"}},
        "tags": [rng.choice("abcdefgh") for _ in range(rng.randrange(4))],
    }
    if rng.random() < 0.3:
        line["client"]["address"]["port"] = rng.randrange(1024, 65536)
    if line["level"] == "error":
        line["error"] = {"code": rng.randrange(20), "message": f"failure of part {rng.randrange(50)}"}
    return line


def write_rows(path: Path, rows: int) -> None:
    """Writes the log, one object per line."""
    rng = random.Random(SEED)
    with path.open("w") as file:
        for seq in range(rows):
            file.write(json.dumps(row(seq, rng)) + "\n")


def seconds(run, times: int = 5) -> float:
    """The best time of several runs."""
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def size(path: Path) -> int:
    """The bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def main() -> None:
    """Loads the log into each system, and prints sizes and times."""
    import duckdb
    import freestone

    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "json_logs")
    folder.mkdir(parents=True, exist_ok=True)
    source, parquet = folder / f"{rows}.json", folder / f"{rows}.parquet"
    if not source.exists():
        write_rows(source, rows)
    ours, theirs = folder / f"{rows}.freestone", folder / f"{rows}.duckdb"
    db, other = freestone.connect(str(ours)), duckdb.connect(str(theirs))
    load = f"CREATE OR REPLACE TABLE logs AS FROM '{source}'"
    times = {"Freestone": seconds(lambda: db.sql(load), 1), "DuckDB": seconds(lambda: other.execute(load), 1)}
    other.execute("CHECKPOINT")
    other.execute(f"COPY logs TO '{parquet}' (COMPRESSION zstd)")
    db.sql("VACUUM logs")
    print(f"{rows} rows, {size(source) / 1e6:.1f} MB of JSON")
    print("load, s: " + ", ".join(f"{name} {taken:.2f}" for name, taken in times.items()))
    print(f"size, MB: Freestone {size(ours) / 1e6:.1f}, DuckDB {size(theirs) / 1e6:.1f}, Parquet {size(parquet) / 1e6:.1f}")
    for name, query in QUERIES.items():
        of_file = query.replace("FROM logs", f"FROM '{parquet}'")
        answers = [db.sql(query).fetchall(), other.execute(query).fetchall(), other.execute(of_file).fetchall()]
        same = all(repr(answer) == repr(answers[0]) for answer in answers)
        taken = [
            seconds(lambda text=query: db.sql(text).fetchall()),
            seconds(lambda text=query: other.execute(text).fetchall()),
            seconds(lambda text=of_file: other.execute(text).fetchall()),
        ]
        shown = ", ".join(f"{system} {1000 * best:.2f}" for system, best in zip(["Freestone", "DuckDB", "Parquet"], taken))
        print(f"{name}, ms: {shown}{'' if same else '   (the answers differ in form)'}")
    db.close()
    other.close()


if __name__ == "__main__":
    main()
