"""psycopg2: values as literals and as text, its typecasters, COPY, named cursors, batches, errors with their fields."""

import datetime
import decimal
import io
import threading
import time

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from checks import ERRORS_TABLE, UTC, VALUES_OF_ALL, check, each, equal, errors, login, run, texts

VALUES = [
    *VALUES_OF_ALL,
    ("infinity", "double precision", float("inf")),
    ("text", "text", "ä 日本語 '\"\\ %"),
    ("char", "char(3)", "abc"),
    ("time with zone", "timetz", datetime.time(10, 20, 30, tzinfo=UTC)),
    ("interval", "interval", datetime.timedelta(days=3, seconds=4, microseconds=5)),
    ("dates", "date[]", [datetime.date(2024, 2, 29), None]),
    ("numerics", "numeric(10, 2)[]", [decimal.Decimal("1.50"), None]),
]


def connected():
    host, port, user, password, database = login()
    connection = psycopg2.connect(host=host, port=port, user=user, password=password, dbname=database)
    psycopg2.extras.register_uuid(conn_or_curs=connection)
    return connection


def one(cursor, sql, *parameters):
    cursor.execute(sql, parameters or None)
    return cursor.fetchone()[0]


@each("types", VALUES)
def in_a_query(connection, of, value):
    cursor = connection.cursor()
    equal(one(cursor, f"SELECT %s::{of}", value), value)
    equal(one(cursor, f"SELECT %s::{of}", None), None)


@each("columns", VALUES)
def in_a_column(connection, of, value):
    cursor = connection.cursor()
    cursor.execute(f"CREATE TEMP TABLE kept (n INTEGER, c {of})")
    cursor.executemany("INSERT INTO kept VALUES (%s, %s)", [(1, value), (2, None)])
    cursor.execute("SELECT c FROM kept ORDER BY n")
    equal(cursor.fetchall(), [(value,), (None,)])


@each("texts", texts())
def text_of(connection, of, given, wanted):
    equal(one(connection.cursor(), f"SELECT %s::text::{of}::text", given), wanted)


@check("types.bytea")
def binary(connection):
    cursor = connection.cursor()
    equal(bytes(one(cursor, "SELECT %s", psycopg2.Binary(b"\x00\xff'\\"))), b"\x00\xff'\\")


@check("types.json")
def json_values(connection):
    cursor = connection.cursor()
    for of in ("json", "jsonb"):
        equal(one(cursor, f"SELECT %s::{of}", psycopg2.extras.Json({"a": [1, None]})), {"a": [1, None]})


@check("types.described")
def described(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT 1 AS a, 'x'::varchar(5) AS b, 1.5::numeric(6, 2) AS c, now() AS d")
    equal([column.name for column in cursor.description], ["a", "b", "c", "d"])
    equal([column.type_code for column in cursor.description], [23, 1043, 1700, 1184])
    equal((cursor.description[2].precision, cursor.description[2].scale), (6, 2))


@check("parameters.names")
def named(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT %(a)s + %(b)s, %(a)s", {"a": 1, "b": 2})
    equal(cursor.fetchone(), (3, 1))


@check("parameters.sets")
def sets(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT n FROM generate_series(1, 5) AS s(n) WHERE n IN %s AND n = ANY(%s) ORDER BY n", ((2, 3, 4), [3, 4, 5]))
    equal(cursor.fetchall(), [(3,), (4,)])


@check("parameters.values")
def many(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TEMP TABLE several (a INTEGER, b TEXT)")
    rows = [(n, f"x{n}") for n in range(250)]
    psycopg2.extras.execute_values(cursor, "INSERT INTO several VALUES %s", rows)
    psycopg2.extras.execute_batch(cursor, "INSERT INTO several VALUES (%s, %s)", rows)
    equal(one(cursor, "SELECT count(*) FROM several"), 500)


@check("copy.text")
def copy_text(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TEMP TABLE copied (a INTEGER, b TEXT)")
    cursor.copy_from(io.StringIO("1\tx\\ty\n2\t\\N\n"), "copied")
    equal(cursor.rowcount, 2)
    out = io.StringIO()
    cursor.copy_to(out, "copied")
    equal(out.getvalue(), "1\tx\\ty\n2\t\\N\n")


@check("copy.csv")
def copy_csv(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TEMP TABLE copied (a INTEGER, b TEXT)")
    cursor.copy_expert("COPY copied (b, a) FROM STDIN WITH CSV HEADER", io.StringIO('b,a\n"x,""y",1\n,2\n'))
    out = io.StringIO()
    cursor.copy_expert("COPY (SELECT * FROM copied ORDER BY a) TO STDOUT WITH (FORMAT csv, HEADER, NULL '-')", out)
    equal(out.getvalue(), 'a,b\n1,"x,""y"\n2,-\n')


@check("copy.wrong")
def copy_wrong(connection):
    cursor = connection.cursor()
    cursor.execute("CREATE TEMP TABLE copied (a INTEGER)")
    connection.commit()
    try:
        cursor.copy_from(io.StringIO("1\nx\n"), "copied")
    except psycopg2.errors.InvalidTextRepresentation:
        connection.rollback()
    equal(one(cursor, "SELECT count(*) FROM copied"), 0)


@check("cursors.named")
def named_cursor(connection):
    with connection.cursor("rows of it") as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT n FROM generate_series(1, 50) AS s(n) ORDER BY n")
        equal([row[0] for row in cursor], list(range(1, 51)))


@check("cursors.scrolled")
def scrolled(connection):
    with connection.cursor("scrolled", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM generate_series(1, 50) AS s(n) ORDER BY n")
        cursor.scroll(10, mode="absolute")
        equal(cursor.fetchone(), (11,))
        cursor.scroll(-5)
        equal(cursor.fetchmany(2), [(7,), (8,)])


@check("cursors.held")
def held(connection):
    cursor = connection.cursor("held", withhold=True)
    cursor.execute("SELECT n FROM generate_series(1, 5) AS s(n) ORDER BY n")
    connection.commit()
    equal(cursor.fetchall(), [(n,) for n in range(1, 6)])
    cursor.close()


@check("transactions.states")
def states(connection):
    status = psycopg2.extensions
    equal(connection.get_transaction_status(), status.TRANSACTION_STATUS_IDLE)
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    equal(connection.get_transaction_status(), status.TRANSACTION_STATUS_INTRANS)
    try:
        cursor.execute("SELECT 1 / 0")
    except psycopg2.errors.DivisionByZero:
        equal(connection.get_transaction_status(), status.TRANSACTION_STATUS_INERROR)
    connection.rollback()
    equal(one(cursor, "SELECT 1"), 1)


@check("transactions.settings")
def settings(connection):
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
    cursor = connection.cursor()
    equal(one(cursor, "SHOW transaction_isolation"), "repeatable read")
    try:
        cursor.execute("CREATE TABLE not_made (a INTEGER)")
    except psycopg2.errors.ReadOnlySqlTransaction:
        return
    raise AssertionError("a table was made in a transaction that only reads")


@check("errors.fields")
def fields(connection):
    cursor = connection.cursor()
    for statement in ERRORS_TABLE:
        cursor.execute(statement)
    try:
        cursor.execute("INSERT INTO errors_of_it VALUES (1, 'b', 2)")
    except psycopg2.errors.UniqueViolation as error:
        said = error.diag
        equal((said.severity, said.sqlstate), ("ERROR", "23505"))
        equal((said.schema_name, said.table_name, said.constraint_name), ("public", "errors_of_it", "errors_of_it_pkey"))
        equal(said.message_detail, "Key (id)=(1) already exists.")
        return
    raise AssertionError("there was no error")


@check("errors.positions")
def positions(connection):
    cursor = connection.cursor()
    for sql, position in (("SELECT 1, nothing_there", "11"), ("SELECT * FROM nothing_there", "15"), ("SELECT 1 FRM x y", "14")):
        try:
            cursor.execute(sql)
        except psycopg2.Error as error:
            connection.rollback()
            equal((sql, error.diag.statement_position), (sql, position))


@check("cancellation")
def cancelled(connection):
    def cancel():
        time.sleep(0.3)
        connection.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    cursor = connection.cursor()
    try:
        cursor.execute("SELECT pg_sleep(30)")
    except psycopg2.errors.QueryCanceled:
        connection.rollback()
    canceller.join()
    equal(one(cursor, "SELECT 1"), 1)


@check("notifications")
def notified(connection):
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("LISTEN channel_of_psycopg2")
    cursor.execute("NOTIFY channel_of_psycopg2, 'word'")
    connection.poll()
    equal([(said.channel, said.payload) for said in connection.notifies], [("channel_of_psycopg2", "word")])


@each("errors", errors())
def failed(connection, sql, state):
    cursor = connection.cursor()
    for statement in ERRORS_TABLE:
        cursor.execute(statement)
    try:
        cursor.execute(sql)
    except psycopg2.Error as error:
        equal(error.pgcode, state)
    else:
        raise AssertionError("there was no error")


if __name__ == "__main__":
    run(connected)
