"""Servers that send a result from memory: Arrow Flight (C++), CSV text, and the bytes of an Arrow stream.

`python export_peers.py JOB` prints the ports in one line of JSON, and serves until it is killed. A client of the CSV or
socket server sends one line of JSON with the form and the codec.
"""

import json
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import export_data as data
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as flight

#: Bytes that are compressed at once.
PIECE = 1 << 20


class FlightServer(flight.FlightServerBase):
    """`DoGet` with a ticket of the form, rows per batch, codec, and whether some strings use dictionaries."""

    def __init__(self, host: str, tables: dict[str, pa.Table]) -> None:
        super().__init__(f"grpc://{host}:0")
        self.tables = tables
        self.made: dict[tuple[str, int, bool], pa.Table] = {}

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        asked = json.loads(ticket.ticket)
        rows, codec, dictionaries = asked.get("rows", 0), asked.get("codec"), asked.get("dictionaries", False)
        computes = asked["form"] == "computed" and asked.get("computes", False)
        table = self.table("stored" if computes else asked["form"], rows, dictionaries)
        if asked.get("limit"):
            table = table.slice(0, asked["limit"])
        options = pa.ipc.IpcWriteOptions(compression=codec)
        if computes:
            table = pa.RecordBatchReader.from_batches(data.compute(table.slice(0, 0)).schema, computed(table))
        return flight.RecordBatchStream(table, options)

    def table(self, form: str, rows: int, dictionaries: bool) -> pa.Table:
        """The table in batches of `rows`, with dictionaries or without. The first request, a warm-up, prepares it."""
        key = (form, rows, dictionaries)
        if key not in self.made:
            table = encoded(self.tables[form]) if dictionaries else self.tables[form]
            cut = pa.Table.from_batches(table.to_batches(max_chunksize=rows), table.schema) if rows else table
            self.made[key] = cut
        return self.made[key]


def computed(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A result computed from the stored rows while it is sent: in order, with one batch per processor at once."""
    ahead = os.cpu_count() or 1
    with ThreadPoolExecutor(ahead) as pool:
        waiting: deque[Future[pa.Table]] = deque()
        for batch in table.to_batches():
            waiting.append(pool.submit(data.compute, pa.Table.from_batches([batch])))
            if len(waiting) > ahead:
                yield from waiting.popleft().result().to_batches()
        for made in waiting:
            yield from made.result().to_batches()


def encoded(table: pa.Table) -> pa.Table:
    """The table with one dictionary per string column that has few distinct values."""
    columns = []
    for column in table.columns:
        few = data.is_text(column.type) and pc.count_distinct(column.slice(0, 100_000)).as_py() <= 1000
        columns.append(column.dictionary_encode().unify_dictionaries() if few else column)
    return pa.table(columns, names=table.column_names)


def compressors() -> dict[str, Callable[[Iterator[memoryview]], Iterator[bytes | memoryview]]]:
    """The compressors of the CSV server by name. They compress while it sends, like a pipe through that tool."""

    def zlib_stream(pieces: Iterator[memoryview]) -> Iterator[bytes]:
        import zlib

        # The default level and the format of gzip.
        encoder = zlib.compressobj(6, zlib.DEFLATED, 31)
        for piece in pieces:
            yield encoder.compress(piece)
        yield encoder.flush()

    def lz4_stream(pieces: Iterator[memoryview]) -> Iterator[bytes]:
        import lz4.frame

        encoder = lz4.frame.LZ4FrameCompressor()
        yield encoder.begin()
        for piece in pieces:
            yield encoder.compress(piece)
        yield encoder.flush()

    def zstd_stream(pieces: Iterator[memoryview]) -> Iterator[bytes]:
        import zstandard

        encoder = zstandard.ZstdCompressor(level=1).compressobj()
        for piece in pieces:
            yield encoder.compress(piece)
        yield encoder.flush()

    return {"": lambda pieces: pieces, "gzip": zlib_stream, "lz4": lz4_stream, "zstd": zstd_stream}


def serve_bytes(host: str, contents: Callable[[dict[str, Any]], memoryview]) -> int:
    """Serves the bytes that `contents` returns for a request, and returns the port. Closes after compressed bytes."""
    listener = socket.create_server((host, 0))
    codecs = compressors()

    def answer(client: socket.socket) -> None:
        with client, client.makefile("r") as lines:
            for line in lines:
                asked = json.loads(line)
                whole = contents(asked)
                pieces = (whole[at : at + PIECE] for at in range(0, len(whole), PIECE))
                client.sendall(len(whole).to_bytes(8, "little"))
                if not asked.get("codec"):
                    client.sendall(whole)
                    continue
                for piece in codecs[asked["codec"]](pieces):
                    client.sendall(piece)
                return

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def main() -> None:
    job = json.loads(sys.argv[1])
    forms = [form for form in data.FORMS if form in job]
    streams = {form: pa.OSFile(job[form]["arrow"]).read_buffer() for form in forms}
    tables = {form: pa.ipc.open_stream(buffer).read_all() for form, buffer in streams.items()}
    texts = {form: memoryview(Path(job[form]["csv"]).read_bytes()) for form in forms}

    def csv_text(asked: dict[str, Any]) -> memoryview:
        limit = asked.get("limit")
        return (
            texts[asked["form"]]
            if not limit
            else memoryview(bytes(texts[asked["form"]][:100_000]).rpartition(b"\n")[0])
        )

    def arrow_bytes(asked: dict[str, Any]) -> memoryview:
        if asked.get("limit"):
            return memoryview(tables[asked["form"]].slice(0, asked["limit"]).to_batches()[0].serialize())
        return memoryview(streams[asked["form"]])

    server = FlightServer(job["host"], tables)
    ports = {
        "flight": server.port,
        "csv": serve_bytes(job["host"], csv_text),
        "socket": serve_bytes(job["host"], arrow_bytes),
    }
    print(json.dumps(ports), flush=True)
    server.serve()


if __name__ == "__main__":
    main()
