"""TPC-H Q1 and Q6 on a Parquet file in an object store that is far away, in Freestone and DuckDB, with requests and bytes.

python bench/remote.py --scale 1 --latency 30 --runs 5 --json result.json

The store is `freestone-mock-store`, which answers each request so many milliseconds later. Every run is a process of its own, so
that nothing is cached; its time is that of the query, without the start of the process.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from environment import default_freestone, environment_python, hardware, tpch_data, tpch_queries

QUERIES = ("q01", "q06")
FILE = "s3://bench/lineitem.parquet"
#: What the store expects, which is no secret of anybody.
KEY_ID, SECRET = "AKIDMOCK", "s3cr3t-of-the-mock-store"

#: A query in DuckDB. The arguments are the endpoint, the number of threads, and the query.
DUCKDB = """
import json, sys, time
from pathlib import Path
import duckdb, duckdb_extension_httpfs
endpoint, threads, sql = sys.argv[1:]
connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": threads})
folder = Path(duckdb_extension_httpfs.__file__).parent
connection.execute(f"LOAD '{next(folder.rglob('httpfs.duckdb_extension'))}'")
connection.execute(
    f"CREATE SECRET (TYPE s3, KEY_ID 'AKIDMOCK', SECRET 's3cr3t-of-the-mock-store', REGION 'us-east-1', "
    f"ENDPOINT '{endpoint}', USE_SSL false, URL_STYLE 'path')"
)
began = time.perf_counter()
rows = connection.sql(sql).fetchall()
print(json.dumps({"ms": (time.perf_counter() - began) * 1000, "rows": [[str(cell) for cell in row] for row in rows]}))
"""


class Store:
    """The process of the store, with the files of a folder."""

    def __init__(self, program: Path, folder: Path, latency: int, bucket: str = "bench", rate: int | None = None) -> None:
        """`latency`: milliseconds until each answer. `rate`: the most bytes per second of all answers together."""
        command = [str(program), str(folder), bucket, str(latency)]
        command += ["127.0.0.1:0", str(rate)] if rate else []
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().strip()
        if not self.endpoint:
            sys.exit("error: the store does not start")

    def traffic(self) -> tuple[int, int]:
        """Requests and bytes since the last call."""
        requests, sent, _ = self.traffic_by_method()
        return requests, sent

    def traffic_by_method(self) -> tuple[int, int, dict[str, int]]:
        """Requests and bytes since the last call, and the requests of each method."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        requests, sent, *methods = self.process.stdout.readline().split()
        pairs = (text.split("=") for text in methods)
        return int(requests), int(sent), {method: int(count) for method, count in pairs}

    def environment(self) -> dict[str, str]:
        """The environment in which clients of S3 find the store."""
        return dict(
            os.environ,
            AWS_ENDPOINT=self.endpoint,
            AWS_ALLOW_HTTP="true",
            AWS_ACCESS_KEY_ID=KEY_ID,
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_REGION="us-east-1",
        )

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def freestone(program: Path, store: Store, threads: int, sql: str) -> tuple[float, list[list[str]]]:
    """The milliseconds and the rows of a query in Freestone."""
    command = [str(program), ":memory:", "--threads", str(threads), "--format", "csv", "--timing", "-c", sql]
    done = subprocess.run(command, env=store.environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: freestone: {done.stderr}")
    found = re.search(r"([\d.]+) (µs|ms|s)\b", done.stderr)
    if found is None:
        sys.exit(f"error: freestone prints no time: {done.stderr}")
    milliseconds = float(found[1]) * {"µs": 0.001, "ms": 1.0, "s": 1000.0}[found[2]]
    return milliseconds, [line.split(",") for line in done.stdout.splitlines()[1:]]


def duckdb(python: Path, store: Store, threads: int, sql: str) -> tuple[float, list[list[str]]]:
    """The milliseconds and the rows of a query in DuckDB."""
    endpoint = store.endpoint.removeprefix("http://")
    done = subprocess.run([str(python), "-c", DUCKDB, endpoint, str(threads), sql], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: duckdb: {done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["ms"], answer["rows"]


def same(a: list[list[str]], b: list[list[str]]) -> bool:
    """Whether two answers are equal, numbers to five digits."""

    def cell(text: str) -> str:
        try:
            return f"{float(text):.5g}"
        except ValueError:
            return text

    return [[cell(text) for text in row] for row in a] == [[cell(text) for text in row] for row in b]


def measured(engines: dict[str, Any], store: Store, runs: int) -> dict[str, dict[str, Any]]:
    """The median time, the requests and the bytes of each query in each engine, which take turns."""
    found: dict[str, dict[str, Any]] = {}
    for name in QUERIES:
        sql = re.sub(r"(?i)(\bfrom\s+)lineitem\b", rf"\1'{FILE}' AS lineitem", tpch_queries()[name]).strip().rstrip(";")
        times: dict[str, list[float]] = {engine: [] for engine in engines}
        answers, traffic = {}, {}
        for _ in range(runs):
            for engine, run in engines.items():
                store.traffic()
                milliseconds, answers[engine] = run(sql)
                traffic[engine] = store.traffic()
                times[engine].append(milliseconds)
        first = next(iter(answers.values()))
        if not all(same(first, answer) for answer in answers.values()):
            sys.exit(f"error: the answers of {name} differ: {answers}")
        found[name] = {
            engine: {
                "ms": statistics.median(times[engine]),
                "requests": traffic[engine][0],
                "megabytes": traffic[engine][1] / 1e6,
            }
            for engine in engines
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1, help="scale factor of TPC-H")
    parser.add_argument("--latency", type=int, default=30, help="milliseconds until the store answers")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", type=Path, help="a folder with lineitem.parquet")
    parser.add_argument("--freestone", type=Path, default=default_freestone())
    parser.add_argument("--store", type=Path, help="the example `serve` of freestone-mock-store")
    parser.add_argument("--python", type=Path, help="an interpreter with requirements-remote.txt")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    data = arguments.data or tpch_data(None, arguments.scale, arguments.freestone)
    program = arguments.store or arguments.freestone.parent / "examples" / "serve"
    if not program.exists():
        sys.exit("error: there is no store\nhint: cargo build --release -p freestone-mock-store --example serve")
    python = arguments.python or environment_python("remote")
    folder = data / "remote"
    folder.mkdir(exist_ok=True)
    link = folder / "lineitem.parquet"
    if not link.exists():
        link.symlink_to(data / "lineitem.parquet")
    store = Store(program, folder, arguments.latency)
    try:
        engines = {
            "freestone": lambda sql: freestone(arguments.freestone, store, arguments.threads, sql),
            "duckdb": lambda sql: duckdb(python, store, arguments.threads, sql),
        }
        found = measured(engines, store, arguments.runs)
    finally:
        store.stop()
    print(f"{hardware()}; {arguments.latency} ms per request, {link.stat().st_size / 1e6:.0f} MB")
    print("| query | engine | ms | requests | MB | of DuckDB's time |\n|---|---|---|---|---|---|")
    for name, of_engines in found.items():
        for engine, one in of_engines.items():
            ratio = one["ms"] / of_engines["duckdb"]["ms"]
            print(f"| {name} | {engine} | {one['ms']:.0f} | {one['requests']} | {one['megabytes']:.1f} | {ratio:.2f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"hardware": hardware(), "latency": arguments.latency, "queries": found}, indent=1))


if __name__ == "__main__":
    main()
