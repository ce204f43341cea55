"""The engines of bench/files.py: each reads the same files by name, in a worker process (see engines.py).

A query finds the file as the table `data`. Its time includes everything that the engine does with the file: the schema
and the types of the columns are found anew in every run.
"""

import os
import re
from pathlib import Path
from typing import Any

import engines
from engines import Rows, arrow_rows, serve, timed

FORMATS = ("parquet", "csv", "json")


def evict(path: Path) -> None:
    """Removes a file from the page cache of the operating system."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


class Files:
    """The files of all formats. The name of a query is `format.query`, or `format.query cold`."""

    def path(self, name: str) -> Path:
        format, _, query = name.partition(".")
        path = Path(self.job.data) / f"data.{format}"  # type: ignore[attr-defined]
        if query.endswith(" cold"):
            evict(path)
        return path

    def size(self) -> int:
        return sum(path.stat().st_size for path in Path(self.job.data).glob("data.*"))  # type: ignore[attr-defined]


def is_load(name: str) -> bool:
    return name.partition(".")[2].startswith("load")


class DuckDB(Files, engines.DuckDB):
    tables = ()
    note = "files by name; load is CREATE TABLE AS in a database file"

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        source = f"'{self.path(name)}'"
        if is_load(name):
            self.connection.execute("DROP TABLE IF EXISTS loaded")
            milliseconds, _ = timed(
                lambda: self.connection.execute(f"CREATE TABLE loaded AS SELECT * FROM {source}")
            )
            return milliseconds, arrow_rows(self.connection.sql("SELECT count(*) AS n FROM loaded").to_arrow_table())
        return timed(lambda: self.connection.sql(sql.replace("data", source)).to_arrow_table(), arrow_rows)


class DataFusion(Files, engines.DataFusion):
    tables = ()
    note = "files registered in each run, pushdown_filters on for Parquet; load is into memory"

    def open(self, fresh: bool) -> None:
        self.times = {}

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        path, format = str(self.path(name)), name.partition(".")[0]

        def execute() -> Any:
            context = self.context(True)
            match format:
                case "parquet":
                    context.register_parquet("data", path)
                case "csv":
                    context.register_csv("data", path)
                case _:
                    context.register_json("data", path, file_extension=".json")
            return context.sql("SELECT * FROM data" if is_load(name) else sql).to_arrow_table()

        return timed(execute, lambda table: [[table.num_rows]] if is_load(name) else arrow_rows(table))


class Polars(Files, engines.Polars):
    tables = ()
    note = "lazy scans through its SQL, streaming engine; load is into memory"

    def open(self, fresh: bool) -> None:
        pass

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        import polars

        path, format = self.path(name), name.partition(".")[0]

        def execute() -> Any:
            match format:
                case "parquet":
                    frame = polars.scan_parquet(path)
                case "csv":
                    frame = polars.scan_csv(path, try_parse_dates=True)
                case _:
                    frame = polars.scan_ndjson(path)
            if not is_load(name):
                frame = polars.SQLContext({"data": frame}).execute(sql, eager=False)
            return frame.collect(engine="streaming")

        return timed(execute, lambda frame: [[frame.height]] if is_load(name) else [list(row) for row in frame.rows()])


class Freestone(Files, engines.Freestone):
    tables = ()

    def open(self, fresh: bool) -> None:
        super().open(fresh)
        self.note = "files by name, one command-line process; load is CREATE TABLE AS, committed"

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        if "." not in name:
            return super().run(name, sql)
        source = f"'{self.path(name)}'"
        if is_load(name):
            milliseconds, _ = super().run(name, f"CREATE TABLE loaded AS SELECT * FROM {source}")
            _, rows = super().run(name, "SELECT count(*) AS n FROM loaded")
            super().run(name, "DROP TABLE loaded")
            return milliseconds, rows
        milliseconds, rows = super().run(name, sql.replace("data", source))
        times = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)")
        return milliseconds, [[times.sub(r"\1 \2", cell) for cell in row] for row in rows]


ENGINES: dict[str, type[engines.Engine]] = dict(
    freestone=Freestone, duckdb=DuckDB, datafusion=DataFusion, polars=Polars
)

if __name__ == "__main__":
    serve(ENGINES)
