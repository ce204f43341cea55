"""One client: connects, fetches one result into a complete Arrow table, and reports time, CPU time and memory.

`python export_client.py JOB` connects and fetches a few rows, so that all libraries are loaded. It times a second
connection, which it closes, as connecting is no part of the time of a fetch. It prints `{"ready": …}`, waits for a
line, fetches the result, and prints the measurements. After another line, it prints the checksums of the columns, and
waits for the end of its input. Until then its connection stays open, so that the CPU time of the server's process can
be read.
"""

import io
import json
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import export_data as data
import pyarrow as pa
import pyarrow.csv as csv

WARM_ROWS = 100
#: A function that is called when the first rows have arrived.
First = Callable[[], None]


class Client:
    """One way to fetch a table. `fetch` returns a complete table, or None if it discards what it receives."""

    #: Whether `connect` makes the connection. Otherwise a fetch does, or the library when it is first needed.
    connects = True
    connection: Any

    def __init__(self, job: dict[str, Any], schema: pa.Schema) -> None:
        self.job, self.schema, self.endpoint, self.options = job, schema, job["endpoint"], job["options"]
        #: The clock and the number of rows so far, at each arrival.
        self.arrivals: list[tuple[float, int]] = []
        self.connect()

    def connect(self) -> None:
        raise NotImplementedError

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table | None:
        raise NotImplementedError

    def close(self) -> None:
        """Ends the connection."""
        self.connection.close()

    def connecting(self) -> float | None:
        """Seconds for a further connection, when libraries are loaded and warm. None where connecting cannot be told apart."""
        if not self.connects:
            return None
        start = time.perf_counter()
        further = type(self)(self.job, self.schema)
        seconds = time.perf_counter() - start
        further.close()
        return seconds

    def arrived(self, rows: int) -> None:
        """Notes that rows have arrived, and changes the rate of the link where the job says so."""
        before = self.arrivals[-1][1] if self.arrivals else 0
        self.arrivals.append((time.perf_counter(), before + rows))
        change = self.job.get("change")
        if change and before < change["rows"] <= before + rows:
            change_rate(change["bits_per_second"])


def change_rate(bits_per_second: int) -> None:
    """Changes the rate of the link on which this process is the client, by `freestone-lab link`."""
    with socket.socket(socket.AF_UNIX) as control:
        control.connect("\0" + os.environ["FREESTONE_LINK_CONTROL"])
        control.sendall(f"{bits_per_second}\n".encode())
        answer = control.makefile().readline().strip()
    if answer != "ok":
        sys.exit(f"the rate of the link does not change: {answer or 'no answer'}")


class Freestone(Client):
    """The Python package `freestone`."""

    def connect(self) -> None:
        import freestone

        end = self.endpoint
        options = dict(self.options)
        if end.get("ca"):
            options |= {"tls": "require", "tls_ca": end["ca"]}
        words = "&".join(f"{name}={value}" for name, value in options.items() if value is not None)
        login = f"{end['user']}:{end['password'].replace(' ', '%20')}"
        self.database = freestone.connect(f"freestone://{login}@{end['host']}:{end['wire']}?{words}")

    def close(self) -> None:
        self.database.close()

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        return collected(self.database.sql(query).batches(), first, self.arrived if limit is None else ignore)


def ignore(_: int) -> None:
    pass


def collected(reader: pa.RecordBatchReader, first: First, arrived: Callable[[int], None] = ignore) -> pa.Table:
    """All batches of a reader, as a table. Calls `first` at the first batch, and `arrived` with the rows of each."""
    batches = []
    for batch in reader:
        if not batches:
            first()
        batches.append(batch)
        arrived(batch.num_rows)
    return pa.Table.from_batches(batches, reader.schema)


class FlightSql(Client):
    """The ADBC driver of Apache Arrow for Flight SQL."""

    def connect(self) -> None:
        import adbc_driver_flightsql.dbapi as driver

        end = self.endpoint
        options = {"username": end["user"], "password": end["password"]}
        if end.get("ca"):
            options["adbc.flight.sql.client_option.tls_root_certs"] = Path(end["ca"]).read_text()
        scheme = "grpc+tls" if end.get("ca") else "grpc"
        self.connection = driver.connect(
            f"{scheme}://{end['host']}:{end['flight']}", db_kwargs=options, autocommit=True
        )

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return collected(cursor.fetch_record_batch(), first)


class Flight(Client):
    """pyarrow.flight: `DoGet` of one ticket. gRPC connects when it is first needed."""

    connects = False

    def connect(self) -> None:
        import pyarrow.flight as flight

        self.flight = flight.connect(f"grpc://{self.endpoint['host']}:{self.endpoint['flight']}", **self.channel())

    def channel(self) -> dict[str, Any]:
        window = self.options.get("window")
        return {"generic_options": [("grpc.http2.lookahead_bytes", window)]} if window else {}

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        import pyarrow.flight as flight

        ticket = {name: value for name, value in self.options.items() if name != "window"}
        ticket |= {"form": self.job["form"], "limit": limit}
        reader = self.flight.do_get(flight.Ticket(json.dumps(ticket).encode()))
        batches = []
        while True:
            try:
                batch = reader.read_chunk().data
            except StopIteration:
                break
            if not batches:
                first()
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)


class AdbcPostgres(Client):
    """The ADBC driver of Apache Arrow for PostgreSQL, which uses binary COPY."""

    def connect(self) -> None:
        import adbc_driver_postgresql.dbapi as driver

        self.connection = driver.connect(libpq(self.endpoint), autocommit=True)

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return data.conform(collected(cursor.fetch_record_batch(), first), self.schema)


class Psycopg(Client):
    """psycopg 3. `how` is rows (fetched as text and converted to columns), copy-text (parsed by Arrow's CSV reader) or
    copy-binary (received and discarded)."""

    def connect(self) -> None:
        import psycopg

        self.connection = psycopg.connect(libpq(self.endpoint), autocommit=True)

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table | None:
        if self.options["how"] == "rows":
            return self.rows(query)
        return {"copy-text": self.copy_text, "copy-binary": self.copy_binary}[self.options["how"]](query, first)

    def rows(self, query: str) -> pa.Table:
        with self.connection.cursor() as cursor:
            # Returns when the whole result is here, so that nobody sees when the first rows arrive.
            cursor.execute(query)
            return rows_to_table(lambda: cursor.fetchmany(65_536), self.schema, lambda: None)

    def copy_text(self, query: str, first: First) -> pa.Table:
        with self.connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT") as copy:
            return parse_csv(Pieces(iter(copy), first), self.schema, "\t", "\\N")

    def copy_binary(self, query: str, first: First) -> None:
        with self.connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as copy:
            for at, _ in enumerate(copy):
                if at == 0:
                    first()


def rows_to_table(more: Callable[[], list[tuple[Any, ...]]], schema: pa.Schema, first: First) -> pa.Table:
    """Converts rows (tuples) to batches, so that only the tuples of one batch are in memory."""
    batches = []
    while rows := more():
        if not batches:
            first()
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
        batches.append(pa.record_batch(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


class Pieces(io.RawIOBase):
    """An iterator of byte strings as a file."""

    def __init__(self, pieces: Iterator[Any], first: First) -> None:
        self.pieces, self.first, self.rest, self.begun = pieces, first, b"", False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, found = [self.rest], len(self.rest)
        while size < 0 or found < size:
            piece = next(self.pieces, None)
            if piece is None:
                break
            if not self.begun:
                self.begun = True
                self.first()
            parts.append(bytes(piece) if not isinstance(piece, bytes) else piece)
            found += len(parts[-1])
        whole = b"".join(parts)
        self.rest = whole[size:] if size >= 0 else b""
        return whole[:size] if size >= 0 else whole


def parse_csv(source: Any, schema: pa.Schema, delimiter: str, null: str) -> pa.Table:
    convert = csv.ConvertOptions(
        column_types=schema, null_values=[null], strings_can_be_null=True, include_columns=schema.names
    )
    read = csv.ReadOptions(column_names=schema.names, block_size=1 << 22)
    parse = csv.ParseOptions(delimiter=delimiter, quote_char=False)
    return csv.read_csv(source, read, parse, convert)


class ConnectorX(Client):
    """ConnectorX, written in Rust. It connects within its only call, so the time includes connecting."""

    connects = False

    def connect(self) -> None:
        import connectorx

        self.library, end = connectorx, self.endpoint
        scheme, port = ("mysql", end["mysql"]) if "mysql" in end else ("postgresql", end["pg"])
        words = "&".join(f"{name}={value}" for name, value in self.options.items() if name != "protocol")
        self.address = f"{scheme}://{end['user']}:{end['password'] or 'x'}@{end['host']}:{port}/{end['dbname']}?{words}"

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        protocol = self.options.get("protocol", "binary")
        return self.library.read_sql(self.address, query, return_type="arrow", protocol=protocol)


class PyMySQL(Client):
    """PyMySQL, in pure Python, with an unbuffered cursor."""

    def connect(self) -> None:
        import pymysql
        import pymysql.cursors

        end = self.endpoint
        where = {"host": end["host"], "port": end["mysql"], "user": end["user"], "database": end["dbname"]}
        self.connection = pymysql.connect(**where, cursorclass=pymysql.cursors.SSCursor)

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return rows_to_table(lambda: list(cursor.fetchmany(65_536)), self.schema, first)


class ClickHouse(Client):
    """clickhouse-driver: the native protocol; the columns of its blocks are numpy arrays or lists."""

    def connect(self) -> None:
        import clickhouse_driver.client as library

        self.library, end = library, self.endpoint
        compression = self.options.get("compression", False)
        settings = {"max_block_size": 65_536, "use_numpy": self.options.get("numpy", False)}
        self.client = library.Client(end["host"], end["clickhouse"], compression=compression, settings=settings)
        self.client.connection.force_connect()

    def close(self) -> None:
        self.client.disconnect()

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        batches = []
        for columns in self.blocks(query):
            if not batches:
                first()
            arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
            batches.append(pa.record_batch(arrays, schema=self.schema))
        return pa.Table.from_batches(batches, self.schema)

    def blocks(self, query: str) -> Iterator[list[Any]]:
        self.client.connection.force_connect()
        self.client.last_query = self.library.QueryInfo()
        self.client.connection.send_query(query)
        self.client.connection.send_external_tables([])
        while packet := self.client.receive_packet():
            block = getattr(packet, "block", None)
            if block is not None and block.num_rows:
                yield block.get_columns()


class Quack(Client):
    """DuckDB as the client of another DuckDB. A call connects."""

    connects = False

    def connect(self) -> None:
        from export_duckdb import connected

        self.connection = connected()

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table:
        call = "SELECT * FROM quack_query(?, ?, token = ?, disable_ssl = true)"
        result = self.connection.execute(call, [self.endpoint["quack"], query, self.endpoint["token"]])
        return data.conform(collected(result.to_arrow_reader(65_536), first), self.schema)


class Csv(Client):
    """CSV over a socket, as with `nc`. It is parsed by Arrow, or discarded with the option `drain`."""

    port = "csv"

    def connect(self) -> None:
        self.socket = self.dial()

    def connecting(self) -> float | None:
        start = time.perf_counter()
        further = self.dial()
        seconds = time.perf_counter() - start
        further.close()
        return seconds

    def dial(self) -> socket.socket:
        connection = socket.create_connection((self.endpoint["host"], self.endpoint[self.port]))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, limit: int | None) -> int:
        """Sends the request, and returns the size of the response before compression, in bytes."""
        codec = None if limit else self.options.get("codec")
        self.codec = codec
        request = {"form": self.job["form"], "codec": codec, "limit": limit}
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return int.from_bytes(self.socket.recv(8, socket.MSG_WAITALL), "little")

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table | None:
        size = self.ask(limit)
        source = Pieces(self.pieces(size), first)
        if self.options.get("drain"):
            while source.read(1 << 20):
                pass
            return None
        return parse_csv(source, self.schema, "|", "")

    def pieces(self, size: int) -> Iterator[bytes]:
        if self.codec:
            yield from decompressed(self.codec, iter(lambda: self.socket.recv(1 << 20), b""))
            return
        while size:
            piece = self.socket.recv(min(size, 1 << 20))
            size -= len(piece)
            yield piece


def decompressed(codec: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    import zlib

    import lz4.frame
    import zstandard

    decoder: Any = {
        "gzip": lambda: zlib.decompressobj(31),
        "lz4": lz4.frame.LZ4FrameDecompressor,
        "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
    }[codec]()
    for piece in pieces:
        if out := decoder.decompress(piece):
            yield out


class Socket(Csv):
    """An Arrow stream over a socket, received into memory. The option `into` is `drain` for a buffer of 1 MiB, `warm`
    for a buffer whose pages were touched before the time starts, and otherwise newly allocated memory. The last two
    return tables over these bytes."""

    port = "socket"

    def connect(self) -> None:
        super().connect()
        self.buffer = bytearray(self.job["bytes"] + (64 << 20)) if self.options["into"] == "warm" else bytearray()
        for at in range(0, len(self.buffer), 4096):
            self.buffer[at] = 1

    def fetch(self, query: str, first: First, limit: int | None) -> pa.Table | None:
        size = self.ask(limit)
        if self.options["into"] == "drain" or limit:
            window = memoryview(bytearray(1 << 20))
            while size:
                size -= self.socket.recv_into(window[: min(size, len(window))])
                first()
            return None
        buffer = pa.py_buffer(self.buffer) if self.buffer else pa.allocate_buffer(size)
        window, at = memoryview(buffer).cast("B"), 0
        if window.readonly:
            window = memoryview(self.buffer)
        while at < size:
            at += self.socket.recv_into(window[at : min(size, at + (1 << 20))])
            first()
        return pa.ipc.open_stream(buffer.slice(0, size)).read_all()


def libpq(end: dict[str, Any]) -> str:
    tls = "verify-full" if end.get("ca") else "disable"
    root = f" sslrootcert={end['ca']}" if end.get("ca") else ""
    password = f" password='{end['password']}'" if end["password"] else ""
    return (
        f"host={end['host']} port={end['pg']} user={end['user']} dbname={end['dbname']} sslmode={tls}{root}{password}"
    )


CLIENTS: dict[str, type[Client]] = {
    "freestone": Freestone,
    "flight-sql": FlightSql,
    "flight": Flight,
    "adbc-postgres": AdbcPostgres,
    "psycopg": Psycopg,
    "connectorx": ConnectorX,
    "pymysql": PyMySQL,
    "clickhouse": ClickHouse,
    "quack": Quack,
    "csv": Csv,
    "socket": Socket,
}


def memory(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(client: Client, query: str) -> tuple[dict[str, Any], pa.Table | None]:
    """Fetches once, and measures time, CPU time and peak memory."""
    first: list[float] = []
    # Resets the peak of the resident memory, so that memory for connecting is not counted.
    Path("/proc/self/clear_refs").write_text("5")
    memory_before, cpu, start = memory("VmRSS"), cpu_seconds(), time.perf_counter()
    table = client.fetch(query, lambda: first.append(time.perf_counter()) if not first else None, None)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    measured: dict[str, Any] = {"seconds": seconds, "cpu": cpu, "peak": memory("VmHWM") - memory_before}
    measured["arrivals"] = [(at - start, rows) for at, rows in client.arrivals]
    if first:
        measured["first"] = first[0] - start
    return measured, table


def main() -> None:
    job = json.loads(sys.argv[1])
    if job.get("package"):
        # At the end of the path, because the folder may contain other packages, too.
        sys.path.append(job["package"])
    schema = pa.ipc.read_schema(pa.BufferReader(bytes.fromhex(job["schema"])))
    client = CLIENTS[job["client"]](job, schema)
    client.fetch(job["warm_query"], lambda: None, WARM_ROWS)
    connect = client.connecting()
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    measured, table = measure(client, job["query"])
    measured["connect"] = connect
    print(json.dumps(measured), flush=True)
    # The parent reads the CPU time of the server now.
    sys.stdin.readline()
    sums = None if table is None or not job["check"] else data.sums(data.recover(table, schema))
    print(json.dumps({"sums": sums, "bytes": table.nbytes if table is not None else 0}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
