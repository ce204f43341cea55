"""The engines with the tables of the pulse, and the worker process that runs one of them: Freestone, DuckDB and Hyper.

They extend those of `engines.py`, which describes the requests to a worker and the timing of queries. The name of an engine
ends with the set of tables: `freestone:hits`, `duckdb:files`.
"""

from collections.abc import Sequence

from engines import DuckDB, Engine, Freestone, Rows, serve, timed
from environment import SSB_TABLES, TABLES

#: The tables of each set, the one that is loaded first.
SETS: dict[str, Sequence[str]] = {
    "tpch": ("lineitem", *(table for table in TABLES if table != "lineitem")),
    "ssb": ("lineorder", *(table for table in SSB_TABLES if table != "lineorder")),
    "hits": ("hits",),
    "tasks": ("groups", "left_rows", "small", "medium", "big"),
    "files": TABLES,
}


class Set(Engine):
    """The tables of one set: native ones, and views of Parquet files for the set `files`."""

    def open(self, fresh: bool) -> None:
        self.choose()
        super().open(fresh)

    def choose(self) -> None:
        """Takes the tables of the set that the job names."""
        kind = self.job.engine.partition(":")[2]
        self.benchmark, self.tables, self.fact = kind, tuple(SETS[kind]), SETS[kind][0]
        self.are_files = kind == "files"

    def in_place(self, name: str, table: str) -> str:
        return f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM '{self.job.parquet(table)}'"


class PulseDuckDB(Set, DuckDB):
    def create(self, table: str) -> str:
        return self.in_place(table, table) if self.are_files else super().create(table)


class PulseFreestone(Set, Freestone):
    def open(self, fresh: bool) -> None:
        # The set is no name of a design.
        self.process, self.statements, self.design = None, 0, "auto"
        self.choose()
        for table in self.tables:
            self.run("create", self.create(table, table))

    def create(self, name: str, table: str) -> str:
        return self.in_place(name, table) if self.are_files else super().create(name, table)


class PulseHyper(Set):
    """Hyper through its API for Python, with its newest format of databases. The machine's cores are its threads."""

    def open(self, fresh: bool) -> None:
        from tableauhyperapi import Connection, CreateMode, HyperProcess, Telemetry

        self.choose()
        parameters = {"log_config": "", "default_database_version": "4"}
        self.process = HyperProcess(Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU, parameters=parameters)
        mode = CreateMode.CREATE_AND_REPLACE if fresh else CreateMode.NONE
        self.connection = Connection(self.process.endpoint, self.store / "pulse.hyper", mode)
        for table in self.tables if fresh or self.are_files else ():
            self.connection.execute_command(self.create(table))

    def create(self, table: str) -> str:
        path = self.job.parquet(table)
        if self.are_files:
            return f"CREATE TEMPORARY EXTERNAL TABLE {table} FOR '{path}' (WITH (FORMAT => 'parquet'))"
        return f"CREATE TABLE {table} AS (SELECT * FROM external('{path}', FORMAT => 'parquet'))"

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        return timed(lambda: self.connection.execute_list_query(sql), lambda rows: [list(row) for row in rows])

    def version(self) -> str:
        import tableauhyperapi

        return tableauhyperapi.__version__


ENGINES: dict[str, type[Engine]] = dict(freestone=PulseFreestone, duckdb=PulseDuckDB, hyper=PulseHyper)

if __name__ == "__main__":
    serve(ENGINES)
