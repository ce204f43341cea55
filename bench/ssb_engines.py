"""The engines with the tables of the Star Schema Benchmark, and the worker process that runs one of them.

They extend those of `engines.py`, which describes the requests to a worker and the timing of queries.
"""

import re

from engines import ClickHouse, DataFusion, DuckDB, Engine, Freestone, serve, statements
from environment import SSB_TABLES


class StarSchema(Engine):
    benchmark = "ssb"
    tables = SSB_TABLES
    fact = "lineorder"


class StarDuckDB(StarSchema, DuckDB):
    """DuckDB. The engine `duckdb:sorted` stores lineorder sorted by lo_orderdate."""

    def open(self, fresh: bool) -> None:
        self.order = " ORDER BY lo_orderdate" if self.job.engine.endswith(":sorted") else ""
        order = "lineorder sorted by lo_orderdate" if self.order else "lineorder as generated, by order key"
        self.note = f"native file, tables by CREATE TABLE AS from Parquet, no keys, checkpointed; {order}"
        super().open(fresh)

    def create(self, table: str) -> str:
        return super().create(table) + (self.order if table == self.fact else "")


class StarDataFusion(StarSchema, DataFusion):
    pass


class StarClickHouse(StarSchema, ClickHouse):
    note = (
        "through chdb, MergeTree merged to one part, lineorder ordered by (lo_orderdate, lo_orderkey), dates and keys "
        "delta-coded, narrow integers, LowCardinality texts; joins reordered by its planner, run-time filters that "
        "also test the primary index, join_algorithm = 'hash': the fastest of the settings tried"
    )
    SETTINGS = dict(
        enable_join_runtime_filters_index_analysis=1,
        join_runtime_filter_exact_values_limit=1_000_000,
        join_algorithm="'hash'",
    )
    KEYS = dict(
        date="d_datekey",
        part="p_partkey",
        supplier="s_suppkey",
        customer="c_custkey",
        lineorder="lo_orderdate, lo_orderkey",
    )
    TYPES = {
        "lo_orderkey": "Int64 CODEC(Delta, LZ4)",
        "lo_orderdate": "Int32 CODEC(Delta, LZ4)",
        "lo_commitdate": "Int32 CODEC(Delta, LZ4)",
        **{f"lo_{column}": "Int8" for column in ("linenumber", "quantity", "discount", "tax")},
    }
    # Strings that are almost unique.
    TEXTS = {f"{table}_{column}" for table in "cs" for column in ("name", "address", "phone")} | {"p_name", "d_date"}

    def create(self, name: str, table: str) -> str:
        file = f"file('{self.job.parquet(table)}', Parquet)"
        described = self.session.query(f"DESCRIBE TABLE {file}", "TabSeparated").bytes().decode()
        columns = [line.split("\t")[:2] for line in described.splitlines()]
        typed = ", ".join(f"{column} {self.type(column, found)}" for column, found in columns)
        return f"CREATE TABLE {name} ({typed}) ENGINE = MergeTree ORDER BY ({self.KEYS[table]}) AS SELECT * FROM {file}"

    def type(self, column: str, found: str) -> str:
        if found == "String" and column not in self.TEXTS:
            return "LowCardinality(String)"
        return self.TYPES.get(column, found)


class StarFreestone(StarSchema, Freestone):
    """Creates the tables with keys, loads them by COPY, and runs the script of the job, which may change designs.

    If the job has a database, that database is used without changes.
    """

    reusable = True

    def open(self, fresh: bool) -> None:
        self.process = None
        self.statements = 0
        name = self.job.engine.partition(":")[2]
        if self.job.database:
            self.note = f"the database {self.job.database} as it is, one command-line process"
            return
        self.note = "native tables with keys by COPY from Parquet, one command-line process; " + (
            f"designs of {name}: {'; '.join(statements(self.job.script))}" if self.job.script else "designs 'auto'"
        )
        if fresh:
            self.load_with_keys("ssb", self.job.script)

    def version(self) -> str:
        return super().version().split()[1]

    def profile(self, sql: str) -> dict[str, float]:
        lines = [line for line in sql.splitlines() if not line.startswith("--")]
        _, rows = self.run("explain", "EXPLAIN (ANALYZE, FORMAT traditional) " + "\n".join(lines))
        plan = "\n".join(str(row[-1]) for row in rows)
        return table_scan(plan, self.fact)


UNITS = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def table_scan(plan: str, table: str) -> dict[str, float]:
    """The counters of a native table's scan in the text of EXPLAIN ANALYZE."""
    line = next((line for line in plan.splitlines() if f"table={table}," in line), "")
    found = re.findall(r"\b(\w+)=([\d.]+)(?: ([KMBT]))?(?=[,\]])", line)
    return {name: float(number) * UNITS[unit] for name, number, unit in found}


ENGINES: dict[str, type[Engine]] = dict(
    freestone=StarFreestone, duckdb=StarDuckDB, clickhouse=StarClickHouse, datafusion=StarDataFusion
)

if __name__ == "__main__":
    serve(ENGINES)
