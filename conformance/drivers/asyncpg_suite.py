"""asyncpg: binary values of all types, its look-ups of types in the catalog, COPY, cursors, pipelined batches, errors."""

import asyncio
import datetime
import decimal
import io
import ipaddress
import json
import uuid

import asyncpg
from checks import CHECKS, ERRORS_TABLE, VALUES_OF_ALL, check, each, equal, errors, login, reported, texts

TWO_EAST = datetime.timezone(datetime.timedelta(hours=2))
VALUES = [
    *VALUES_OF_ALL,
    ("integer", "integer", 70_000),
    ("infinity", "double precision", float("inf")),
    ("numeric of many digits", "numeric", decimal.Decimal("12345678901234567890.123")),
    ("text", "text", "ä 日本語 '\"\\"),
    ("varchar", "varchar(10)", "abc"),
    ("char", "char(3)", "abc"),
    ("time with zone", "timetz", datetime.time(10, 20, 30, tzinfo=TWO_EAST)),
    ("interval", "interval", datetime.timedelta(days=3, seconds=4, microseconds=5)),
    ("bytea", "bytea", b"\x00\xff\\"),
    ("json", "json", '{"a": [1, null]}'),
    ("jsonb", "jsonb", '{"a": [1, null]}'),
    ("inet", "inet", ipaddress.IPv4Interface("192.168.0.1/24")),
    ("cidr", "cidr", ipaddress.IPv4Network("192.168.0.0/24")),
    ("uuids", "uuid[]", [uuid.UUID(int=1), None]),
    ("timestamps", "timestamp[]", [datetime.datetime(2024, 2, 29)]),
    ("numerics", "numeric(10, 2)[]", [decimal.Decimal("1.50"), None]),
]


@each("types", VALUES)
async def in_a_query(connection, of, value):
    for sent in (value, None):
        found = await connection.fetchval(f"SELECT $1::{of}", sent)
        equal(found, sent)


@each("columns", VALUES)
async def in_a_column(connection, of, value):
    await connection.execute(f"CREATE TEMP TABLE kept (n INTEGER, c {of})")
    await connection.executemany("INSERT INTO kept VALUES ($1, $2)", [(1, value), (2, None)])
    equal([row["c"] for row in await connection.fetch("SELECT c FROM kept ORDER BY n")], [value, None])
    equal(await connection.fetchval("SELECT n FROM kept WHERE c IS NULL"), 2)


@each("texts", texts())
async def text_of(connection, of, given, wanted):
    equal(await connection.fetchval(f"SELECT $1::text::{of}::text", given), wanted)


@check("parameters.types")
async def parameter_types(connection):
    await connection.execute("CREATE TEMP TABLE described (a INTEGER, b TEXT, c TIMESTAMP)")
    statement = await connection.prepare("INSERT INTO described VALUES ($1, $2, $3) RETURNING a, b, c")
    equal([of.name for of in statement.get_parameters()], ["int4", "text", "timestamp"])
    equal([of.type.name for of in statement.get_attributes()], ["int4", "text", "timestamp"])
    equal([of.name for of in statement.get_attributes()], ["a", "b", "c"])


@check("parameters.arrays")
async def arrays_as_sets(connection):
    found = await connection.fetch("SELECT n FROM generate_series(1, 5) AS s(n) WHERE n = ANY($1::integer[]) ORDER BY n", [2, 4, 9])
    equal([row["n"] for row in found], [2, 4])


@check("parameters.unnest")
async def unnested(connection):
    found = await connection.fetch("SELECT * FROM unnest($1::integer[], $2::text[]) AS t(a, b)", [1, 2], ["x", None])
    equal([tuple(row) for row in found], [(1, "x"), (2, None)])


@check("parameters.count")
async def wrong_count(connection):
    try:
        await connection.fetch("SELECT $1::integer", 1, 2)
    except asyncpg.InterfaceError:
        return
    raise AssertionError("two values for one parameter")


@check("enums")
async def labels(connection):
    await connection.execute("DROP TYPE IF EXISTS mood_of_asyncpg")
    await connection.execute("CREATE TYPE mood_of_asyncpg AS ENUM ('sad', 'ok')")
    equal(await connection.fetchval("SELECT $1::mood_of_asyncpg", "ok"), "ok")
    equal(await connection.fetchval("SELECT $1::mood_of_asyncpg[]", ["ok", "sad"]), ["ok", "sad"])
    await connection.execute("DROP TYPE mood_of_asyncpg")


@check("codecs.json")
async def codec(connection):
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    equal(await connection.fetchval("SELECT $1::jsonb", {"a": [1]}), {"a": [1]})


@check("copy.records")
async def copy_records(connection):
    await connection.execute("CREATE TEMP TABLE copied (a INTEGER, b TEXT, c TIMESTAMP)")
    rows = [(n, f"x{n}", datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=n)) for n in range(1000)]
    equal(await connection.copy_records_to_table("copied", records=rows), "COPY 1000")
    equal([tuple(row) for row in await connection.fetch("SELECT * FROM copied ORDER BY a")], rows)


@check("copy.csv")
async def copy_csv(connection):
    await connection.execute("CREATE TEMP TABLE copied (a INTEGER, b TEXT)")
    given = io.BytesIO(b'a,b\n1,"x,""y"\n2,\n')
    equal(await connection.copy_to_table("copied", source=given, format="csv", header=True), "COPY 2")
    out = io.BytesIO()
    equal(await connection.copy_from_query("SELECT * FROM copied ORDER BY a", output=out, format="csv", header=True), "COPY 2")
    equal(out.getvalue(), b'a,b\n1,"x,""y"\n2,\n')


@check("copy.wrong")
async def copy_wrong(connection):
    await connection.execute("CREATE TEMP TABLE copied (a INTEGER)")
    try:
        await connection.copy_to_table("copied", source=io.BytesIO(b"1\nx\n"), format="text")
    except asyncpg.InvalidTextRepresentationError:
        pass
    equal(await connection.fetchval("SELECT count(*) FROM copied"), 0)


@check("cursors.iteration")
async def iterated(connection):
    async with connection.transaction():
        found = [row[0] async for row in connection.cursor("SELECT n FROM generate_series(1, $1) AS s(n) ORDER BY n", 150, prefetch=20)]
    equal(found, list(range(1, 151)))


@check("cursors.forward")
async def forward(connection):
    async with connection.transaction():
        cursor = await connection.cursor("SELECT n FROM generate_series(1, 100) AS s(n) ORDER BY n")
        equal([row[0] for row in await cursor.fetch(3)], [1, 2, 3])
        equal(await cursor.forward(5), 5)
        equal((await cursor.fetchrow())[0], 9)


@check("transactions.nested")
async def nested(connection):
    await connection.execute("CREATE TEMP TABLE nested (a INTEGER)")
    async with connection.transaction():
        await connection.execute("INSERT INTO nested VALUES (1)")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO nested VALUES (2)")
                await connection.execute("SELECT 1 / 0")
        except asyncpg.DivisionByZeroError:
            pass
    equal(await connection.fetchval("SELECT count(*) FROM nested"), 1)


@check("transactions.levels")
async def levels(connection):
    for level in ("read_committed", "repeatable_read", "serializable"):
        async with connection.transaction(isolation=level, readonly=True):
            equal(await connection.fetchval("SHOW transaction_isolation"), level.replace("_", " "))


@check("batches.undone")
async def batch(connection):
    await connection.execute("CREATE TEMP TABLE batch (a INTEGER PRIMARY KEY)")
    try:
        await connection.executemany("INSERT INTO batch VALUES ($1)", [(1,), (2,), (1,)])
    except asyncpg.UniqueViolationError as error:
        equal(error.constraint_name, "batch_pkey")
    equal(await connection.fetchval("SELECT count(*) FROM batch"), 0)


@check("notifications")
async def notified(connection):
    heard = asyncio.get_running_loop().create_future()
    await connection.add_listener("channel_of_asyncpg", lambda *said: heard.set_result(said[2:]))
    await connection.execute("NOTIFY channel_of_asyncpg, 'word'")
    equal(await asyncio.wait_for(heard, 10), ("channel_of_asyncpg", "word"))
    await connection.remove_listener("channel_of_asyncpg", lambda *said: None)


@check("pools.reset")
async def pooled(connection):
    host, port, user, password, database = login()
    where = {"host": host, "port": port, "user": user, "password": password, "database": database}
    async with asyncpg.create_pool(**where, min_size=1, max_size=2) as pool:
        async with pool.acquire() as one:
            await one.execute("SET statement_timeout = '5s'")
        async with pool.acquire() as one:
            equal(await one.fetchval("SHOW statement_timeout"), "0")


@check("cancellation")
async def cancelled(connection):
    try:
        await connection.fetchval("SELECT pg_sleep(30)", timeout=0.3)
    except asyncio.TimeoutError:
        pass
    equal(await connection.fetchval("SELECT 1"), 1)


@each("errors", errors())
async def failed(connection, sql, state):
    for statement in ERRORS_TABLE:
        await connection.execute(statement)
    for run in (connection.execute, connection.fetch):
        try:
            await run(sql)
        except asyncpg.PostgresError as error:
            equal(error.sqlstate, state)
        else:
            raise AssertionError("there was no error")


@check("metadata.settings")
async def settings(connection):
    equal(connection.get_settings().client_encoding, "UTF8")
    equal(connection.get_server_version().major >= 15, True)
    equal(connection.is_in_transaction(), False)


async def main():
    host, port, user, password, database = login()
    for name, function, values in CHECKS:
        try:
            connection = await asyncpg.connect(host=host, port=port, user=user, password=password, database=database, timeout=20)
            try:
                await asyncio.wait_for(function(connection, *values), 60)
            finally:
                await connection.close(timeout=20)
        except Exception as error:  # What the driver raises for a wrong answer is its own affair.
            reported(name, error)
        else:
            reported(name)
    print("end")


if __name__ == "__main__":
    asyncio.run(main())
