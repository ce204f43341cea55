"""The exported tables, their names and types in each engine, and checksums of results.

A data set is written to files from which the servers load: Parquet, Arrow IPC and CSV. The form `stored` is the table
itself. The form `computed` has the same shape, with every value computed by an expression: numbers negated, one day
added to dates and times, an exclamation mark appended to strings. Servers that cannot compute load this result as a
table.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as parquet
from environment import laboratory

#: Rows per record batch of the Arrow files, and so of the servers that read the result from memory.
BATCH_ROWS = 65_536
DAY_US = 86_400_000_000
FORMS = ("stored", "computed")
DATASETS = ("lineitem", "acs", "ontime")
#: The format of dbgen. No string of the data sets contains a vertical bar, a quote or a line break, and none is empty.
CSV = csv.WriteOptions(include_header=False, delimiter="|", quoting_style="none")


@dataclass(frozen=True)
class Dataset:
    """One table, with its files in the folder that `prepare` made."""

    name: str
    folder: Path
    schema: pa.Schema
    rows: int
    #: Bytes of the result as an Arrow table, by form. Rates and CPU time per gigabyte refer to them.
    bytes: dict[str, int]
    #: Checksums of the columns, by form.
    sums: dict[str, dict[str, list[int]]]

    def path(self, form: str, kind: str) -> Path:
        return self.folder / f"{form}.{kind}"


def prepare(name: str, size: float, parquet_file: Path, work: Path) -> Dataset:
    """Writes the files of a data set from its Parquet file, unless they exist."""
    folder = work / f"{name}-{size:g}"
    about = folder / "about.json"
    if not about.exists():
        folder.mkdir(parents=True, exist_ok=True)
        table = plain(parquet.read_table(parquet_file))
        described: dict[str, Any] = {"rows": table.num_rows, "bytes": {}, "sums": {}}
        for form in FORMS:
            result = table if form == "stored" else compute(table)
            print(f"preparing {name}, {form}: {result.num_rows} rows, {result.nbytes / 1e6:.0f} MB", file=sys.stderr)
            described["bytes"][form] = result.nbytes
            described["sums"][form] = sums(result)
            write_arrow(result, folder / f"{form}.arrow")
            csv.write_csv(result, folder / f"{form}.csv", CSV)
        parquet.write_table(table, folder / "stored.parquet", row_group_size=122_880)
        about.write_text(json.dumps(described))
    described = json.loads(about.read_text())
    schema = parquet.read_schema(folder / "stored.parquet")
    return Dataset(name, folder, schema, described["rows"], described["bytes"], described["sums"])


def generate(name: str, size: float, freestone: Path, cache: Path) -> Path:
    """The Parquet file of a data set, which `freestone-lab generate` makes if it does not exist."""
    generator = "tpch" if name == "lineitem" else name
    folder = cache / f"{generator}-sf{size:g}"
    file = folder / f"{name}.parquet"
    if not file.exists():
        command = [laboratory(freestone), "generate", generator, "--scale", f"{size:g}", "--output", folder]
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"error: no {file} and {freestone} cannot make it: {error}\nhint: name the binary by --freestone")
    return file


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)


def read_arrow(path: Path) -> pa.Table:
    """The table of an Arrow file, read into the memory of this process."""
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_stream(source.read_buffer()).read_all()


def plain(table: pa.Table) -> pa.Table:
    """The table with strings of 32-bit offsets. Columns are nullable as the file declares."""
    fields = []
    for field in table.schema:
        kind = pa.string() if is_text(field.type) else field.type
        fields.append(pa.field(field.name, kind, field.nullable))
    return table.cast(pa.schema(fields))


def compute(table: pa.Table) -> pa.Table:
    """The result of the `computed` query, computed by Arrow."""
    columns = [computed(column) for column in table.columns]
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def computed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The computed values of a column. In dictionary arrays, only the dictionary is computed."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        made = [
            pa.DictionaryArray.from_arrays(c.indices, pc.binary_join_element_wise(c.dictionary, "!", ""))
            for c in column.chunks
        ]
        return pa.chunked_array(made, type=kind)
    if is_text(kind):
        return pc.binary_join_element_wise(column, "!", "")
    if pa.types.is_date32(kind):
        return pc.add(column.cast(pa.int32()), pa.scalar(1, pa.int32())).cast(kind)
    if pa.types.is_timestamp(kind):
        return pc.add(column.cast(pa.int64()), DAY_US).cast(kind)
    return pc.negate(column).cast(kind)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def query(dataset: Dataset, form: str, dialect: str, rows: int | None = None, first: int = 0) -> str:
    """The query of a form in the SQL of an engine: at most `rows` rows; the columns rotated to start with `first`."""
    table = dataset.name
    limit = "" if rows is None else f" LIMIT {rows}"
    if form == "stored" and first == 0:
        return f"SELECT * FROM {table}{limit}"
    at = first % len(dataset.schema)
    fields = [*dataset.schema][at:] + [*dataset.schema][:at]
    words = [field.name if form == "stored" else f"{expression(field, dialect)} AS {field.name}" for field in fields]
    return f"SELECT {', '.join(words)} FROM {table}{limit}"


def expression(field: pa.Field, dialect: str) -> str:
    name, kind = field.name, field.type
    if is_text(kind):
        # NULL must stay NULL, which is not so with the concat of every dialect.
        return f"{name} || '!'" if dialect in ("freestone", "postgres") else f"concat({name}, '!')"
    if pa.types.is_date32(kind):
        day = {"mariadb": "INTERVAL 1 DAY"}.get(dialect, "1")
        return f"{name} + {day}"
    if pa.types.is_timestamp(kind):
        return f"{name} + INTERVAL '1 day'" if dialect != "mariadb" else f"{name} + INTERVAL 1 DAY"
    if dialect == "clickhouse" and pa.types.is_int32(kind):
        return f"toInt32(-{name})"
    return f"-{name}"


def create_table(dataset: Dataset, dialect: str) -> str:
    """CREATE TABLE up to the end of the column list."""
    columns = []
    for field in dataset.schema:
        kind = sql_type(field.type, dialect)
        if dialect == "clickhouse":
            columns.append(f"{field.name} Nullable({kind})" if field.nullable else f"{field.name} {kind}")
        else:
            columns.append(f"{field.name} {kind}{'' if field.nullable else ' NOT NULL'}")
    return f"CREATE TABLE {dataset.name} ({', '.join(columns)})"


def sql_type(kind: pa.DataType, dialect: str) -> str:
    clickhouse = dialect == "clickhouse"
    if pa.types.is_decimal(kind):
        return f"Decimal({kind.precision}, {kind.scale})"
    if is_text(kind):
        return {"clickhouse": "String", "mariadb": "VARCHAR(64)"}.get(dialect, "VARCHAR")
    names = {
        "int16": ("Int16", "SMALLINT"),
        "int32": ("Int32", "INT"),
        "int64": ("Int64", "BIGINT"),
        "double": ("Float64", "DOUBLE PRECISION"),
        "date32[day]": ("Date", "DATE"),
        "timestamp[us]": ("DateTime", "TIMESTAMP"),
    }
    return names[str(kind)][0 if clickhouse else 1]


def sums(table: pa.Table) -> dict[str, list[int]]:
    """Per column: rows, NULLs, and the sum of all values' hashes modulo 2^64, which does not depend on the order."""
    return {name: column_sum(table.column(name)) for name in table.column_names}


def column_sum(column: pa.ChunkedArray) -> list[int]:
    import numpy as np

    total, nulls = 0, 0
    for chunk in column.chunks:
        nulls += chunk.null_count
        if chunk.null_count:
            # Arrow has no filter for string views.
            plain_texts = chunk.cast(pa.large_string()) if pa.types.is_string_view(chunk.type) else chunk
            values = plain_texts.drop_null()
        else:
            values = chunk
        with np.errstate(over="ignore"):
            total += int(hashes(values).sum(dtype=np.uint64)) if len(values) else 0
    return [len(column), nulls, total % 2**64]


def hashes(values: pa.Array) -> Any:
    """The 64-bit hash of each value of an array without NULLs, which is independent of the Arrow type of the value."""
    import numpy as np

    kind = values.type
    if pa.types.is_dictionary(kind):
        return hashes(values.cast(kind.value_type))
    if is_text(kind):
        import polars

        return polars.from_arrow(values).hash(seed=1).to_numpy()
    if pa.types.is_decimal(kind):
        # The low 64 of the 128 bits, because every value of the data sets fits in 64 bits.
        values = values.cast(pa.decimal128(38, kind.scale))
        words = np.frombuffer(values.buffers()[1], dtype=np.int64)
        return mix(words[2 * values.offset : 2 * (values.offset + len(values)) : 2])
    if pa.types.is_floating(kind):
        return mix(values.cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.int64))
    if pa.types.is_date32(kind):
        return mix(values.cast(pa.int32()).cast(pa.int64()).to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind):
        return mix(values.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(zero_copy_only=False))
    return mix(values.cast(pa.int64()).to_numpy(zero_copy_only=False))


def mix(values: Any) -> Any:
    """The finalizer of SplitMix64, which spreads every bit of a value over all bits of the hash."""
    import numpy as np

    bits = values.astype(np.int64, copy=False).view(np.uint64)
    with np.errstate(over="ignore"):
        bits = bits + np.uint64(0x9E37_79B9_7F4A_7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
        return bits ^ (bits >> np.uint64(31))


def differences(expected: dict[str, list[int]], found: dict[str, list[int]]) -> list[str]:
    """The differences of a result from the expected one, per column; empty if there are none."""
    if list(expected) != list(found):
        return [f"columns {', '.join(found)} instead of {', '.join(expected)}"]
    words = ("rows", "NULLs", "sum of hashes")
    return [
        f"{name}: {what} {theirs} instead of {ours}"
        for name in expected
        for what, ours, theirs in zip(words, expected[name], found[name], strict=True)
        if ours != theirs
    ]


def recover(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the types that its hashes need. Decimals get the scale of `schema`. Doubles in place of decimals
    are converted to integers (value times 10^scale), which have the same hashes as the decimals. If the names of the
    columns are those of the schema, the columns get its order."""
    if {*table.column_names} == {*schema.names}:
        table = table.select(schema.names)
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if pa.types.is_decimal(field.type) and pa.types.is_floating(column.type):
            column = pc.round(pc.multiply(column, 10.0**field.type.scale)).cast(pa.int64())
        elif pa.types.is_decimal(field.type) and pa.types.is_decimal(column.type):
            column = column.cast(pa.decimal128(38, field.type.scale))
        columns.append(column)
    return pa.table(columns, names=schema.names)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Converts decimals that a client received as text to the types of `schema`. This is part of the client's time."""
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.cast(column.type.storage_type)
        columns.append(column.cast(field.type) if pa.types.is_decimal(field.type) and is_text(column.type) else column)
    return pa.table(columns, names=schema.names)
