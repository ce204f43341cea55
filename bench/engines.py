"""The engines that the benchmark compares, and the worker process that runs one of them.

Each engine is configured as its own documentation recommends; `note` describes this, and is printed below the result.
The worker (`python engines.py JOB`) writes one line of JSON to standard output for each line of JSON on standard input.
The time of a query is from its text to its complete result in memory; conversions for checking are not included.
"""

import csv
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from environment import DESIGNS, QUERIES, TABLES

Rows = list[list[Any]]


@dataclass(frozen=True)
class Job:
    """The job of a worker. `database` is an existing Freestone database or the address of a server, used without loading;
    `script` is SQL that runs after the tables are loaded."""

    engine: str
    data: str
    store: str
    threads: int
    freestone: str
    database: str = ""
    script: str = ""

    def parquet(self, table: str) -> str:
        return f"{self.data}/{table}.parquet"


class Engine:
    """One engine with the tables of a benchmark. `run` and `load` return milliseconds."""

    benchmark = "tpch"
    tables: tuple[str, ...] = TABLES
    fact = "lineitem"
    note = ""
    reusable = True

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Path(job.store)
        done = self.store / "loaded"
        fresh = not (self.reusable and done.exists())
        if fresh:
            shutil.rmtree(self.store, ignore_errors=True)
            self.store.mkdir(parents=True)
        self.open(fresh)
        done.touch()

    def open(self, fresh: bool) -> None:
        """Connects, and loads the tables if the store is new."""
        raise NotImplementedError

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        raise NotImplementedError

    def load(self) -> float:
        """Loads the fact table from Parquet into a new table of the engine's own format."""
        raise NotImplementedError("no format of its own")

    def profile(self, sql: str) -> dict[str, float]:
        """What the scan of the fact table read, if the engine reports it."""
        return {}

    def mark(self, name: str) -> str:
        """The mark after the time of this query in the result table."""
        return ""

    def size(self) -> int:
        """The bytes of the tables on disk."""
        return folder_size(self.store)

    def version(self) -> str:
        raise NotImplementedError


class DuckDB(Engine):
    note = (
        "native file, tables by CREATE TABLE AS from Parquet, no keys, checkpointed; "
        "load is one committed CREATE TABLE AS into a new file"
    )

    def open(self, fresh: bool) -> None:
        self.file = self.store / f"{self.benchmark}.duckdb"
        self.connection = self.connect(self.file)
        for table in self.tables if fresh else ():
            self.connection.execute(self.create(table))
        self.connection.execute("CHECKPOINT")

    def connect(self, file: Path | str) -> Any:
        import duckdb

        return duckdb.connect(str(file), config={"threads": self.job.threads, "memory_limit": "8GB"})

    def create(self, table: str) -> str:
        return f"CREATE TABLE {table} AS SELECT * FROM '{self.job.parquet(table)}'"

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        return timed(lambda: self.connection.sql(sql).to_arrow_table(), arrow_rows)

    def load(self) -> float:
        file = self.store / "load.duckdb"
        file.unlink(missing_ok=True)
        connection = self.connect(file)
        milliseconds, _ = timed(lambda: connection.execute(self.create(self.fact)))
        connection.close()
        file.unlink()
        return milliseconds

    def size(self) -> int:
        return self.file.stat().st_size

    def version(self) -> str:
        import duckdb

        return duckdb.__version__


class DataFusion(Engine):
    note = "on Parquet, each query with pushdown_filters off and on, the faster kept (marked + when on)"

    def open(self, fresh: bool) -> None:
        self.contexts = {pushdown: self.context(pushdown) for pushdown in (False, True)}
        self.times: dict[tuple[str, bool], float] = {}

    def context(self, pushdown: bool) -> Any:
        from datafusion import SessionConfig, SessionContext

        config = SessionConfig().with_target_partitions(self.job.threads)
        config = config.set("datafusion.execution.parquet.pushdown_filters", str(pushdown).lower())
        config = config.set("datafusion.execution.parquet.reorder_filters", str(pushdown).lower())
        context = SessionContext(config)
        for table in self.tables:
            context.register_parquet(table, self.job.parquet(table))
        return context

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        # The first two runs are not reported. They decide which of the two variants the other runs use.
        # The first execution of a variant also reads the file for the first time, so each variant is executed twice.
        untried = [pushdown for pushdown in self.contexts if (name, pushdown) not in self.times]
        pushdown = untried[0] if untried else self.faster(name)
        execute = lambda: self.contexts[pushdown].sql(sql).to_arrow_table()  # noqa: E731
        if untried:
            execute()
        milliseconds, rows = timed(execute, arrow_rows)
        self.times.setdefault((name, pushdown), milliseconds)
        return milliseconds, rows

    def faster(self, name: str) -> bool:
        return self.times[name, True] < self.times[name, False]

    def mark(self, name: str) -> str:
        return "+" if (name, True) in self.times and self.faster(name) else ""

    def size(self) -> int:
        return sum(Path(self.job.parquet(table)).stat().st_size for table in self.tables)

    def version(self) -> str:
        import datafusion

        return datafusion.__version__


class ClickHouse(Engine):
    note = (
        "through chdb, MergeTree ordered by primary key, merged to one part; "
        "Q8 and Q14 divide as doubles, since its decimals keep 4 digits"
    )
    KEYS = dict(
        region="r_regionkey",
        nation="n_nationkey",
        part="p_partkey",
        supplier="s_suppkey",
        partsupp="ps_partkey, ps_suppkey",
        customer="c_custkey",
        orders="o_orderkey",
        lineitem="l_orderkey, l_linenumber",
    )
    SETTINGS: dict[str, Any] = {}
    DIVISORS = dict(q08="sum(volume) AS mkt_share", q14="sum(l_extendedprice * (1 - l_discount)) AS promo_revenue")

    def open(self, fresh: bool) -> None:
        from chdb import session

        self.session = session.Session(str(self.store / "clickhouse"))
        settings: dict[str, Any] = dict(
            max_threads=self.job.threads,
            max_insert_threads=self.job.threads,
            join_use_nulls=1,
            schema_inference_make_columns_nullable=0,
            output_format_arrow_string_as_string=1,
        )
        settings |= self.SETTINGS
        for setting, value in settings.items():
            self.session.query(f"SET {setting} = {value}")
        self.session.query(f"CREATE DATABASE IF NOT EXISTS {self.benchmark}")
        self.session.query(f"USE {self.benchmark}")
        for table in self.tables if fresh else ():
            self.session.query(self.create(table, table))
            self.session.query(f"OPTIMIZE TABLE {table} FINAL")

    def create(self, name: str, table: str) -> str:
        return (
            f"CREATE TABLE {name} ENGINE = MergeTree ORDER BY ({self.KEYS[table]}) "
            f"AS SELECT * FROM file('{self.job.parquet(table)}', Parquet)"
        )

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        import pyarrow as pa

        divisor, _, alias = self.DIVISORS.get(name, "").partition(" AS ")
        if divisor:
            sql = sql.replace(f"{divisor} AS {alias}", f"toFloat64({divisor}) AS {alias}")
        return timed(lambda: pa.ipc.open_file(self.session.query(sql, "Arrow").bytes()).read_all(), arrow_rows)

    def load(self) -> float:
        self.session.query("DROP TABLE IF EXISTS fact_load SYNC")
        milliseconds, _ = timed(lambda: self.session.query(self.create("fact_load", self.fact)))
        self.session.query("DROP TABLE fact_load SYNC")
        return milliseconds

    def size(self) -> int:
        names = ", ".join(f"'{table}'" for table in self.tables)
        sql = (
            "SELECT sum(bytes_on_disk) FROM system.parts "
            f"WHERE active AND database = '{self.benchmark}' AND table IN ({names})"
        )
        return int(self.session.query(sql, "TabSeparated").bytes())

    def version(self) -> str:
        return self.session.query("SELECT version()", "TabSeparated").bytes().decode().strip()


class Vortex(DuckDB):
    note = (
        "Vortex files scanned by DuckDB through the Python package's pyarrow dataset, with projection and filters "
        "pushed down; scan1pct by the package's own scan"
    )

    def open(self, fresh: bool) -> None:
        import vortex

        vortex.set_worker_threads(self.job.threads)
        self.connection = self.connect(":memory:")
        for table in self.tables:
            if fresh:
                self.write(table, self.path(table))
            self.connection.register(table, vortex.open(self.path(table)).to_dataset())

    def path(self, table: str) -> str:
        return str(self.store / f"{table}.vortex")

    def write(self, table: str, path: str) -> None:
        import pyarrow.dataset as dataset
        import vortex

        vortex.io.write(dataset.dataset(self.job.parquet(table)).scanner().to_reader(), path)

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        if name != "scan1pct":
            return super().run(name, sql)
        import pyarrow.compute as compute
        import vortex
        from vortex import expr

        low, high = (int(word) for word in sql.split("BETWEEN ")[1].rstrip(";\n").split(" AND "))
        part = expr.column("l_partkey")
        chosen = (part >= low) & (part <= high)

        def scan() -> Any:
            scanned = vortex.open(self.path("lineitem")).scan(["l_extendedprice"], expr=chosen)
            return compute.sum(scanned.to_arrow().read_all()["l_extendedprice"])

        return timed(scan, lambda total: [[total.as_py()]])

    def load(self) -> float:
        milliseconds, _ = timed(lambda: self.write("lineitem", self.path("load")))
        Path(self.path("load")).unlink()
        return milliseconds

    def size(self) -> int:
        return sum(Path(self.path(table)).stat().st_size for table in self.tables)

    def version(self) -> str:
        from importlib.metadata import version

        return version("vortex-data")


class Polars(Engine):
    note = "lazy scan of Parquet through its SQL, streaming engine"

    def open(self, fresh: bool) -> None:
        import polars

        self.context = polars.SQLContext({table: polars.scan_parquet(self.job.parquet(table)) for table in self.tables})

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        plan = lambda: self.context.execute(sql, eager=False).collect(engine="streaming")  # noqa: E731
        return timed(plan, lambda frame: [list(row) for row in frame.rows()])

    def size(self) -> int:
        return sum(Path(self.job.parquet(table)).stat().st_size for table in self.tables)

    def version(self) -> str:
        import polars

        return polars.__version__


def statements(script: str) -> list[str]:
    """The statements of a script, each of which ends with `;` at the end of a line."""
    plain = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    return [statement.strip() for statement in re.split(r";\s*(?:\n|$)", plain) if statement.strip()]


class Freestone(Engine):
    """One process for all queries: statements on standard input, CSV on standard output, times on standard error.

    After each statement, a query selects a marker, which shows where the result of the statement ends.
    """

    reusable = False

    def open(self, fresh: bool) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.statements = 0
        name = self.job.engine.partition(":")[2]
        script = DESIGNS / f"tpch-{name}.sql"
        self.design = "auto" if script.exists() else name or "auto"
        if script.exists():
            self.load_with_keys("tpch", script.read_text())
            self.note = f"native tables with keys by COPY from Parquet, then {script.name} (load: a table without keys)"
            return
        self.note = f"native tables by CREATE TABLE AS from Parquet, preset = '{self.design}', one command-line process"
        for table in self.tables:
            self.run("create", self.create(table, table))

    def load_with_keys(self, benchmark: str, script: str) -> None:
        """Creates the tables of a benchmark with keys, loads them, and runs a script that sets their designs."""
        for statement in statements((QUERIES / benchmark / "schema.sql").read_text()):
            self.run("create", statement)
        for table in self.tables:
            self.run("load", f"COPY {table} FROM '{self.job.parquet(table)}' (FORMAT parquet)")
        for statement in statements(script):
            self.run("design", statement)

    def create(self, name: str, table: str) -> str:
        return f"CREATE TABLE {name} WITH (preset = '{self.design}') AS SELECT * FROM '{self.job.parquet(table)}'"

    def start(self) -> subprocess.Popen[str]:
        command = [self.job.freestone, self.job.database or str(self.store / "db"), "--format", "csv", "--timing"]
        if not self.job.database.startswith("freestone://"):
            command += ["--threads", str(self.job.threads)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        assert process.stderr is not None
        self.messages: queue.Queue[str] = queue.Queue()
        threading.Thread(target=forward, args=(process.stderr, self.messages), daemon=True).start()
        return process

    def run(self, name: str, sql: str) -> tuple[float, Rows]:
        self.process = self.process or self.start()
        assert self.process.stdin is not None and self.process.stdout is not None
        self.statements += 1
        marker = f"end-of-statement-{self.statements}"
        lines = [line for line in sql.strip().rstrip(";").splitlines() if not line.startswith("--")]
        self.process.stdin.write("\n".join(lines) + f";\nSELECT '{marker}' AS marker;\n")
        self.process.stdin.flush()
        printed: list[str] = []
        for line in self.process.stdout:
            if line.strip().strip('"') == marker:
                break
            printed.append(line)
        milliseconds = self.statement_time()
        # The first line is the header of the result, if there is one; the last line is the header of the marker.
        return milliseconds, [list(row) for row in csv.reader(printed[1:-1])]

    def statement_time(self) -> float:
        """Reads the times of the statement and of its marker query from the messages, and returns the first."""
        times: list[float] = []
        while len(times) < 2:
            message = self.messages.get(timeout=60)
            if message.startswith("time: "):
                times.append(float(message.split()[1]))
            elif message.startswith("error") or not message:
                assert self.process is not None
                self.process.kill()
                self.process = None
                raise RuntimeError(message.strip() or "the process ended")
        return times[0]

    def load(self) -> float:
        milliseconds, _ = self.run("load", self.create("fact_load", self.fact))
        self.run("drop", "DROP TABLE fact_load")
        return milliseconds

    def size(self) -> int:
        # Not the size of the folder, which contains the segments of the earlier design while a reader pins them.
        _, rows = self.run("size", "SELECT sum(bytes) AS bytes FROM freestone_tables()")
        return int(rows[0][0])

    def version(self) -> str:
        first, *_ = subprocess.run([self.job.freestone, "--version"], capture_output=True, text=True).stdout.split(" (")
        return first


ENGINES: dict[str, type[Engine]] = dict(
    freestone=Freestone, duckdb=DuckDB, datafusion=DataFusion, clickhouse=ClickHouse, vortex=Vortex, polars=Polars
)


def timed(action: Callable[[], Any], rows: Callable[[Any], Rows] = lambda _: []) -> tuple[float, Rows]:
    """Milliseconds of `action`, and its result as rows. The conversion to rows is not timed."""
    start = time.perf_counter()
    result = action()
    return (time.perf_counter() - start) * 1000, rows(result)


def arrow_rows(table: Any) -> Rows:
    return [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def forward(stream: TextIO, messages: "queue.Queue[str]") -> None:
    for line in stream:
        messages.put(line)
    messages.put("")


def answer(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "about":
            return {"version": engine.version(), "note": engine.note}
        case "describe":
            _, rows = engine.run("count", f"SELECT count(*) AS n FROM {engine.fact}")
            return {"version": engine.version(), "note": engine.note, "bytes": engine.size(), "rows": int(rows[0][0])}
        case "load":
            return {"ms": engine.load()}
        case "profile":
            return {"profile": engine.profile(request["sql"])}
        case _:
            milliseconds, rows = engine.run(request["name"], request["sql"])
            kept = [[None if value is None else str(value) for value in row] for row in rows]
            mark = engine.mark(request["name"])
            return {"ms": milliseconds, "rows": kept if request["check"] else None, "mark": mark}


def serve(engines: dict[str, type[Engine]]) -> None:
    """Answers requests with the engine that the job names, until the end of standard input."""
    # Engines may print, so their standard output is redirected to standard error. Answers use the original one.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    job = Job(**json.loads(sys.argv[1]))
    engine: Engine | None = None
    for line in sys.stdin:
        try:
            engine = engine or engines[job.engine.partition(":")[0]](job)
            reply = answer(engine, json.loads(line))
        except Exception as error:  # An exception of an engine is its result for this query.
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    serve(ENGINES)
