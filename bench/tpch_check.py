"""Compares Freestone's answers to the 22 TPC-H queries with those of DuckDB on the same data, value by value.

    python bench/tpch_check.py --freestone target/release/freestone --database DB --data FOLDER

DB contains the eight TPC-H tables, and FOLDER the Parquet files from which they were loaded. The exit status is 1 if an
answer differs.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from environment import TABLES, default_freestone, enter_environment, tpch_queries

# Queries whose ORDER BY may leave ties in any order. The others sort by all grouping columns, or return one row.
TIES = {"q03", "q05", "q10", "q11", "q18"}
FLOAT_TOLERANCE = 1e-9

Row = tuple[Any, ...]


def freestone_rows(binary: Path, database: Path, sql: str) -> list[Row]:
    """The rows of an answer with their types, by way of an Arrow file."""
    import pyarrow as pa

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "answer.arrow"
        command = [binary, database, "--read-only", "-c", sql, "--format", "arrow", "--output", output]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
        # The output may be in the file format or the stream format of Arrow IPC.
        with pa.memory_map(str(output)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source).read_all()
            return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def duckdb_connection(data: Path) -> Any:
    import duckdb

    connection = duckdb.connect()
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{data / table}.parquet'")
    return connection


def equal(left: Any, right: Any) -> bool:
    """Whether two values are equal: exactly, or for doubles, to 1e-9 or to the last digit of a decimal."""
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None:
            return left is right
        last_digit = max(
            (10.0 ** value.as_tuple().exponent for value in (left, right) if isinstance(value, Decimal)), default=0.0
        )
        return math.isclose(left, right, rel_tol=FLOAT_TOLERANCE, abs_tol=last_digit)
    return left == right


def in_free_order(rows: list[Row]) -> list[Row]:
    """The rows sorted by their exact values, then by their doubles, so that equal multisets have the same order."""
    exact = lambda row: [exact_text(value) for value in row if not isinstance(value, float)]  # noqa: E731
    return sorted(rows, key=lambda row: (exact(row), [value for value in row if isinstance(value, float)]))


def exact_text(value: Any) -> str:
    """The text of a value. Decimals of different scale with the same value have the same text."""
    return str(value.normalize() if isinstance(value, Decimal) else value)


def difference(name: str, ours: list[Row], theirs: list[Row]) -> str:
    """The first difference, or an empty text."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, DuckDB has {len(theirs)}"
    if name in TIES:
        ours, theirs = in_free_order(ours), in_free_order(theirs)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
        if len(mine) != len(other) or not all(map(equal, mine, other)):
            return f"row {number}: {mine}, DuckDB has {other}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the binary")
    parser.add_argument("--database", type=Path, required=True, help="database folder with the eight tables")
    parser.add_argument("--data", type=Path, required=True, help="folder of the eight Parquet files")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names, as q01,q06")
    options = parser.parse_args()
    enter_environment()
    connection = duckdb_connection(options.data)
    failed = 0
    for name, sql in tpch_queries().items():
        if options.only and name not in options.only:
            continue
        theirs = connection.execute(sql).fetchall()
        try:
            outcome = difference(name, freestone_rows(options.freestone, options.database, sql), theirs)
        except (RuntimeError, OSError) as error:
            outcome = f"failed: {error}"
        failed += bool(outcome)
        print(f"{name}  {'DIFFERS' if outcome else 'equal':8} {len(theirs):6} rows  {outcome}".rstrip(), flush=True)
    print(f"{failed} of the queries differ" if failed else "all equal")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
