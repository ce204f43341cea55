"""Writes DuckDB's answers to the 13 queries of the Star Schema Benchmark for `crates/freestone/tests/suite/ssb.rs`.

    python bench/ssb_answers.py --data FOLDER [--output crates/freestone-data/queries/ssb/answers-sf0.1]

FOLDER contains the five tables that `freestone-lab generate ssb --scale 0.1` makes. The answers have one row per line,
with tabs between values.
"""

import argparse
from pathlib import Path

from environment import QUERIES, SSB_TABLES, enter_environment, ssb_queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the five Parquet files")
    parser.add_argument("--output", type=Path, default=QUERIES / "ssb" / "answers-sf0.1", help="folder for the answers")
    options = parser.parse_args()
    enter_environment()
    import duckdb

    connection = duckdb.connect()
    for table in SSB_TABLES:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{options.data / table}.parquet'")
    options.output.mkdir(parents=True, exist_ok=True)
    for name, sql in ssb_queries().items():
        rows = connection.execute(sql).fetchall()
        lines = ("\t".join("" if value is None else str(value) for value in row) + "\n" for row in rows)
        (options.output / f"{name}.tsv").write_text("".join(lines))
        print(name, len(rows))


if __name__ == "__main__":
    main()
