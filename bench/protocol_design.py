"""The design space of result formats: Tables 3 to 9 of Raasveldt and Mühleisen (2017), repeated.

The message format is that of the paper, not of Freestone. A chunk has columns or rows, and numbers have their format
in memory. A string is followed by a zero byte, preceded by its length, or of fixed width. Integers may be bit-packed:
Binpack uses the width of the largest value, PFOR the width of the differences from the minimum of each block of 128.
One codec compresses the chunk. A server process makes each chunk when it sends it, over one socket, and a client
decompresses it. Packing is implemented with numpy, so its sizes are exact and its times an upper bound.

python bench/protocol_design.py --folder FOLDER --tables 4,8 --json result.json
"""

import argparse
import json
import lzma
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import export_data as data
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CHUNK = 1 << 20
BLOCK = 128
#: Table 3: the sizes of chunks, and the bytes of a result, so that the largest chunks are several.
CHUNKS = (2 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20, 100 << 20)
RESULT = 500_000_000
#: Results of small chunks end after this many of them: one costs as much as the other, and Python makes them one by one.
MESSAGES = 1000
#: Rows from which the bytes of a row are estimated.
SAMPLE = 256
#: Measured repetitions of a transfer, of which the median is reported.
RUNS = 3

Codec = tuple[Callable[[bytes], bytes], Callable[[bytes, int], Any]]


def arrow_codec(name: str) -> Codec:
    return (
        lambda raw: pa.compress(raw, name, asbytes=True),
        lambda packed, size: pa.decompress(packed, size, name),
    )


CODECS: dict[str, Codec] = {
    "None": (lambda raw: raw, lambda packed, size: packed),
    "Snappy": arrow_codec("snappy"),
    "LZ4": arrow_codec("lz4_raw"),
    "Zstandard": arrow_codec("zstd"),
    "GZIP": (lambda raw: zlib.compress(raw, 6), lambda packed, size: zlib.decompress(packed, bufsize=size)),
    "XZ": (lambda raw: lzma.compress(raw, preset=6), lambda packed, size: lzma.decompress(packed)),
}


def fixed(column: pa.Array) -> np.ndarray | None:
    """The numbers of a column as the paper sends them; None for strings. NULL is -2^31, or 0 in decimals."""
    kind = column.type
    if data.is_text(kind):
        return None
    if pa.types.is_decimal(kind):
        column = column.cast(pa.decimal128(38, kind.scale)).fill_null(0)
        words = np.frombuffer(column.buffers()[1], dtype=np.int64)
        return np.ascontiguousarray(words[2 * column.offset : 2 * (column.offset + len(column)) : 2])
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    if column.null_count:
        column = column.fill_null(-(2**31))
    return column.to_numpy(zero_copy_only=False)


def texts(column: pa.Array, form: str) -> bytes:
    """The bytes of strings; NULL is the empty string. Form `nul`: a zero byte follows each string; `prefix`: the length
    precedes each string, in one byte; `fixed:N`: each string has N bytes and is padded with zero bytes."""
    column = column.fill_null("") if column.null_count else column
    if form == "nul":
        return content(pc.binary_join_element_wise(column, "\0", ""))
    if form == "prefix":
        lengths = pc.binary_length(column).to_numpy(zero_copy_only=False)
        if len(lengths) and lengths.max() > 127:
            raise ValueError("a length of two bytes: no text of the tables is that long")
        ends = pa.array(np.arange(len(lengths) + 1, dtype=np.int32)).buffers()[1]
        prefix = pa.Array.from_buffers(pa.string(), len(lengths), [None, ends, pa.py_buffer(lengths.astype(np.uint8))])
        return content(pc.binary_join_element_wise(prefix, column, ""))
    width = int(form.partition(":")[2])
    return column.to_numpy(zero_copy_only=False).astype(f"S{width}").tobytes()


def content(column: pa.Array) -> bytes:
    """The concatenated strings of an array."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    whole = column.buffers()[2]
    return whole.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes() if whole is not None else b""


def by_columns(batch: pa.RecordBatch, form: str, pack: str) -> bytes:
    """A chunk in the layout of the paper: the number of rows, then the columns. The size of strings precedes them."""
    parts = [batch.num_rows.to_bytes(8, "little")]
    for column in batch.columns:
        numbers = fixed(column)
        if numbers is None:
            encoded = texts(column, form)
            parts += [len(encoded).to_bytes(8, "little"), encoded]
        else:
            parts.append(numbers.tobytes() if pack == "none" else packed(numbers, pack))
    return b"".join(parts)


def by_rows(batch: pa.RecordBatch) -> bytes:
    """The same values, row by row."""
    columns = []
    for column in batch.columns:
        numbers = fixed(column)
        if numbers is None:
            columns.append(pc.binary_join_element_wise(column.fill_null(""), "\0", "").cast(pa.binary()))
        else:
            width = numbers.dtype.itemsize
            ends = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(numbers))]
            columns.append(pa.Array.from_buffers(pa.binary(), len(numbers), buffers))
    return content(pc.binary_join_element_wise(*columns, b""))


def packed(numbers: np.ndarray, pack: str) -> bytes:
    """Bit-packed integers. `binpack`: all values in the width of the largest value; `pfor`: the differences from the
    minimum of each block of 128, in the width of the largest difference of the block."""
    if pack == "binpack":
        if len(numbers) and numbers.min() < 0:
            return bytes([numbers.dtype.itemsize * 8]) + numbers.tobytes()
        width = bits_of(numbers.max()) if len(numbers) else 0
        return bytes([width]) + pack_bits(numbers, width)
    whole = len(numbers) // BLOCK * BLOCK
    blocks = numbers[:whole].astype(np.int64).reshape(-1, BLOCK)
    least = blocks.min(axis=1) if len(blocks) else np.zeros(0, np.int64)
    rest = blocks - least[:, None]
    widths = np.array([bits_of(value) for value in (rest.max(axis=1) if len(blocks) else [])], dtype=np.uint8)
    parts = [least.astype(numbers.dtype).tobytes(), widths.tobytes()]
    parts += [pack_bits(rest[widths == width], int(width)) for width in np.unique(widths)]
    return b"".join([*parts, numbers[whole:].tobytes()])


def bits_of(value: Any) -> int:
    return int(value).bit_length()


def pack_bits(numbers: np.ndarray, width: int) -> bytes:
    """The lowest `width` bits of each number, concatenated."""
    if width == 0 or not numbers.size:
        return b""
    octets = np.ascontiguousarray(numbers.reshape(-1)).astype("<u8").view(np.uint8).reshape(-1, 8)[:, : -(-width // 8)]
    bits = np.unpackbits(np.ascontiguousarray(octets), axis=1, bitorder="little")[:, :width]
    return np.packbits(bits, bitorder="little").tobytes()


def protobuf_message(schema: pa.Schema) -> Any:
    """A protobuf message class with one repeated field per column."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="chunk.proto", syntax="proto3", package="paper")
    message = file.message_type.add(name="Chunk")
    of = descriptor_pb2.FieldDescriptorProto
    for number, field in enumerate(schema, 1):
        kind = of.TYPE_STRING if data.is_text(field.type) else of.TYPE_INT64
        message.field.add(name=field.name, number=number, label=of.LABEL_REPEATED, type=kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("paper.Chunk"))


def by_protobuf(batch: pa.RecordBatch, message: Any) -> bytes:
    chunk = message()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        numbers = fixed(column)
        values = column.fill_null("").to_pylist() if numbers is None else numbers.tolist()
        getattr(chunk, field.name).extend(values)
    return chunk.SerializeToString()


def chunks(table: pa.Table, asked: dict[str, Any]) -> Iterator[bytes]:
    """The chunks of a transfer before compression, in the format of `form` and `pack`."""
    form, pack = asked.get("form", "nul"), asked.get("pack", "none")
    message = protobuf_message(table.schema) if form == "protobuf" else None
    rows = max(1, int(asked.get("chunk", CHUNK) / row_bytes(table, "nul" if message is not None else form)))
    for batch in table.combine_chunks().to_batches(max_chunksize=rows):
        yield by_protobuf(batch, message) if message is not None else by_columns(batch, form, pack)


def row_bytes(table: pa.Table, form: str) -> float:
    """The bytes of a row in a chunk of the paper's layout, from the first rows, without what a chunk has once."""
    if not table.num_rows:
        return 1.0
    batch = table.slice(0, SAMPLE).combine_chunks().to_batches()[0]
    return (len(by_columns(batch, form, "none")) - len(by_columns(batch.slice(0, 0), form, "none"))) / batch.num_rows


def sized(table: pa.Table, size: float) -> pa.Table:
    """The rows of a table, repeated or cut to about `size` bytes in the paper's layout."""
    rows = max(1, round(size / row_bytes(table, "nul")))
    whole, rest = divmod(rows, table.num_rows)
    return pa.concat_tables([table] * whole + [table.slice(0, rest)])


def select(table: pa.Table, columns: Any) -> pa.Table:
    """The columns `integers`, or the named ones, or all. The decimals of lineitem count as integers, so that it has
    eight integer columns, as in the paper."""
    if columns == "integers":
        whole = lambda field: field.name.startswith("l_") and pa.types.is_decimal(field.type)  # noqa: E731
        columns = [field.name for field in table.schema if pa.types.is_integer(field.type) or whole(field)]
    return table.select(columns) if columns else table


def serve(folder: Path, host: str) -> None:
    """Serves transfers until it is killed. A request is a line of JSON. The response has one frame per chunk: its size
    before and after compression (u64 each), and the bytes. A frame of size 0 ends it."""
    listener = socket.create_server((host, 0))
    print(listener.getsockname()[1], flush=True)
    held: tuple[str, pa.Table] | None = None
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, client.makefile("r") as lines:
            for line in lines:
                asked = json.loads(line)
                key = json.dumps([asked["dataset"], asked.get("columns"), asked.get("bytes")])
                if held is None or held[0] != key:
                    held = key, asked_table(folder, asked).combine_chunks()
                table = held[1].slice(0, asked["rows"]) if "rows" in asked else held[1]
                compress = CODECS[asked["codec"]][0]
                for raw in chunks(table, asked):
                    sent = compress(raw)
                    client.sendall(len(raw).to_bytes(8, "little") + len(sent).to_bytes(8, "little"))
                    client.sendall(sent)
                client.sendall(bytes(16))


def asked_table(folder: Path, asked: dict[str, Any]) -> pa.Table:
    """The columns and rows that a request names: of the data set's file, or as many as have `bytes` bytes."""
    table = select(data.read_arrow(folder / f"{asked['dataset']}.arrow"), asked.get("columns"))
    return sized(table, asked["bytes"]) if "bytes" in asked else table


class Wire:
    """A server process, and transfers from it: after one that warms up, `runs` of each."""

    def __init__(self, folder: Path, prefix: list[str], host: str, runs: int = RUNS) -> None:
        self.runs = runs
        command = [*prefix, sys.executable, str(Path(__file__).resolve()), "--folder", str(folder), "--serve", host]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("error: the server of transfers does not start; see above")
        self.socket = socket.create_connection((host, int(line)))
        self.message = protobuf_message(data.read_arrow(folder / "lineitem.arrow").schema)

    def transfer(self, **asked: Any) -> dict[str, float]:
        """The median seconds of a transfer, and the bytes sent. If it is measured once, one row warms up, so that the server
        has read the table."""
        self.once(asked | {"rows": 1} if self.runs == 1 else asked)
        runs = [self.once(asked) for _ in range(self.runs)]
        return {"seconds": sorted(run[0] for run in runs)[self.runs // 2], "bytes": runs[0][1]}

    def once(self, asked: dict[str, Any]) -> tuple[float, int]:
        undo = CODECS[asked["codec"]][1]
        start, total = time.perf_counter(), 0
        self.socket.sendall(json.dumps(asked).encode() + b"\n")
        while True:
            header = self.receive(16)
            raw, sent = int.from_bytes(header[:8], "little"), int.from_bytes(header[8:], "little")
            if not raw:
                return time.perf_counter() - start, total
            chunk = undo(bytes(self.receive(sent)), raw)
            if asked.get("form") == "protobuf":
                self.message.FromString(bytes(chunk))
            total += sent

    def receive(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, at = memoryview(buffer), 0
        while at < size:
            got = self.socket.recv_into(view[at:])
            if not got:
                sys.exit("error: the server of transfers has ended; see above")
            at += got
        return buffer

    def close(self) -> None:
        self.socket.close()
        self.process.kill()
        self.process.wait()


def table3(folder: Path, wire: Wire) -> dict[str, Any]:
    """Seconds and bytes per row by the size of chunks, without compression and with Snappy, of results of 500 MB. The rows are
    repeated to have as many, which Snappy does not see: it looks back 64 KiB."""
    found: dict[str, Any] = {}
    for dataset in data.DATASETS:
        table = data.read_arrow(folder / f"{dataset}.arrow")
        width = row_bytes(table, "nul")
        for chunk in CHUNKS:
            size = min(RESULT, MESSAGES * max(chunk, width))
            rows = max(1, round(size / width))
            asked = {"dataset": dataset, "chunk": chunk, "bytes": size}
            plain, packed = (wire.transfer(**asked, codec=codec) for codec in ("None", "Snappy"))
            found.setdefault(dataset, {})[str(chunk)] = {
                "rows": min(rows, max(1, int(chunk / width))),
                "sent": rows,
                "seconds": plain["seconds"] / rows,
                "bytes": plain["bytes"] / rows,
                "packed_seconds": packed["seconds"] / rows,
                "ratio": plain["bytes"] / packed["bytes"],
            }
    return found


def table4(folder: Path) -> dict[str, Any]:
    """The size of one message with all rows of lineitem, by columns and by rows, per codec."""
    batch = data.read_arrow(folder / "lineitem.arrow").combine_chunks().to_batches()[0]
    found: dict[str, Any] = {}
    for layout, raw in (("column", by_columns(batch, "nul", "none")), ("row", by_rows(batch))):
        for name, (compress, undo) in CODECS.items():
            made = compress(raw)
            if bytes(undo(made, len(raw))) != raw:
                sys.exit(f"error: {name} does not give back what it was given")
            found.setdefault(name, {})[layout] = {"bytes": len(made), "ratio": len(raw) / len(made)}
    return found


def table5(wire: Wire) -> dict[str, Any]:
    return {codec: wire.transfer(dataset="lineitem", codec=codec) for codec in CODECS}


def table6(wire: Wire) -> dict[str, Any]:
    ways = {
        "None": ("none", "None"),
        "Binpack": ("binpack", "None"),
        "PFOR": ("pfor", "None"),
        "Snappy": ("none", "Snappy"),
        "Binpack+Sy": ("binpack", "Snappy"),
        "PFOR+Sy": ("pfor", "Snappy"),
    }
    return {
        dataset: {
            name: wire.transfer(dataset=dataset, columns="integers", pack=pack, codec=codec)
            for name, (pack, codec) in ways.items()
        }
        for dataset in data.DATASETS
    }


def table7(wire: Wire) -> dict[str, Any]:
    ways = {"Custom": ("nul", "None"), "Custom+C": ("nul", "Snappy")}
    ways |= {"Protobuf": ("protobuf", "None"), "Protobuf+C": ("protobuf", "Snappy")}
    return {name: wire.transfer(dataset="lineitem", form=form, codec=codec) for name, (form, codec) in ways.items()}


def strings(wire: Wire, column: str, forms: dict[str, str]) -> dict[str, Any]:
    return {
        name: {
            codec: wire.transfer(dataset="lineitem", columns=[column], form=form, codec=codec)
            for codec in ("None", "Snappy")
        }
        for name, form in forms.items()
    }


def table8(wire: Wire) -> dict[str, Any]:
    return strings(wire, "l_returnflag", {"Varint prefix": "prefix", "Null-terminated": "nul", "VARCHAR(1)": "fixed:1"})


def table9(wire: Wire) -> dict[str, Any]:
    forms = {f"VARCHAR({width})": f"fixed:{width}" for width in (44, 100, 1000, 10000)}
    return strings(wire, "l_comment", {"Null-terminated": "nul", "Varint prefix": "prefix", **forms})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="Arrow stream files lineitem, acs and ontime")
    parser.add_argument("--tables", type=lambda text: text.split(","), default=["3", "4", "5", "6", "7", "8", "9"])
    parser.add_argument("--runs", type=int, default=RUNS, help="measured repetitions of a transfer")
    parser.add_argument("--json", type=Path, help="writes the figures here")
    parser.add_argument("--serve", metavar="HOST", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.folder, options.serve)
    from export import link_measured, server_place

    place = server_place()
    wire = Wire(options.folder, place.prefix, place.host, options.runs)
    made: dict[str, Callable[[], Any]] = {
        "3": lambda: table3(options.folder, wire),
        "4": lambda: table4(options.folder),
        "5": lambda: table5(wire),
        "6": lambda: table6(wire),
        "7": lambda: table7(wire),
        "8": lambda: table8(wire),
        "9": lambda: table9(wire),
    }
    if unknown := set(options.tables) - set(made):
        parser.error(f"there is no table {', '.join(sorted(unknown))}; there are {', '.join(made)}")
    try:
        found = {"link": link_measured()} | {name: made[name]() for name in options.tables}
    finally:
        wire.close()
    text = json.dumps(found, indent=1)
    if options.json:
        options.json.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
