"""pg8000: its own client of the protocol in Python, with parameters without types, COPY, batches, errors as dictionaries."""

import datetime
import io
import ipaddress

import pg8000.dbapi
import pg8000.native
from checks import ERRORS_TABLE, VALUES_OF_ALL, check, each, equal, errors, login, run, texts

VALUES = [
    *VALUES_OF_ALL,
    ("text", "text", "ä 日本語 '\"\\"),
    ("interval", "interval", datetime.timedelta(days=3, seconds=4)),
    ("bytea", "bytea", b"\x00\xff\\"),
    ("inet", "inet", ipaddress.ip_address("192.168.0.1")),
    ("json", "json", {"a": [1, None]}),
    ("jsonb", "jsonb", {"a": [1, None]}),
]


def connected():
    host, port, user, password, database = login()
    return pg8000.native.Connection(user, host=host, port=port, password=password, database=database, timeout=60)


def by_dbapi():
    host, port, user, password, database = login()
    return pg8000.dbapi.connect(user=user, host=host, port=port, password=password, database=database, timeout=60)


@each("types", VALUES)
def in_a_query(connection, of, value):
    equal(connection.run(f"SELECT CAST(:v AS {of})", v=value), [[value]])
    equal(connection.run(f"SELECT CAST(:v AS {of})", v=None), [[None]])


@each("columns", VALUES)
def in_a_column(connection, of, value):
    connection.run(f"CREATE TEMP TABLE kept (n INTEGER, c {of})")
    for n, sent in ((1, value), (2, None)):
        connection.run("INSERT INTO kept VALUES (:n, :c)", n=n, c=sent)
    equal(connection.run("SELECT c FROM kept ORDER BY n"), [[value], [None]])


@each("texts", texts())
def text_of(connection, of, given, wanted):
    equal(connection.run(f"SELECT CAST(CAST(CAST(:v AS text) AS {of}) AS text)", v=given), [[wanted]])


@check("parameters.prepared")
def prepared(connection):
    statement = connection.prepare("SELECT CAST(:a AS integer) + 1")
    equal([statement.run(a=n) for n in (1, 2)], [[[2]], [[3]]])
    statement.close()


@check("parameters.dbapi")
def dbapi(connection):
    other = by_dbapi()
    cursor = other.cursor()
    cursor.execute("CREATE TEMP TABLE several (a INTEGER, b TEXT)")
    cursor.executemany("INSERT INTO several VALUES (%s, %s)", [(1, "x"), (2, None)])
    cursor.execute("SELECT a, b FROM several WHERE a > %s ORDER BY a", (0,))
    equal([tuple(row) for row in cursor.fetchall()], [(1, "x"), (2, None)])
    equal([column[0] for column in cursor.description], ["a", "b"])
    other.rollback()
    other.close()


@check("copy.text")
def copy_text(connection):
    connection.run("CREATE TEMP TABLE copied (a INTEGER, b TEXT)")
    connection.run("COPY copied FROM STDIN", stream=io.BytesIO(b"1\tx\\ty\n2\t\\N\n"))
    out = io.BytesIO()
    connection.run("COPY copied TO STDOUT", stream=out)
    equal(out.getvalue(), b"1\tx\\ty\n2\t\\N\n")


@check("copy.rows")
def copy_rows(connection):
    connection.run("CREATE TEMP TABLE copied (a INTEGER, b TEXT)")
    connection.run("COPY copied FROM STDIN WITH (FORMAT csv, DELIMITER ';')", stream=["1;x\n", "2;\n"])
    equal(connection.run("SELECT * FROM copied ORDER BY a"), [[1, "x"], [2, None]])


@check("copy.wrong")
def copy_wrong(connection):
    connection.run("CREATE TEMP TABLE copied (a INTEGER)")
    try:
        connection.run("COPY copied FROM STDIN", stream=io.BytesIO(b"1\nx\n"))
    except pg8000.native.DatabaseError as error:
        equal(error.args[0]["C"], "22P02")
    equal(connection.run("SELECT count(*) FROM copied"), [[0]])


@check("cursors")
def cursors(connection):
    connection.run("START TRANSACTION")
    connection.run("DECLARE c SCROLL CURSOR FOR SELECT n FROM generate_series(1, 50) AS s(n) ORDER BY n")
    equal(connection.run("FETCH FORWARD 2 FROM c"), [[1], [2]])
    connection.run("MOVE FORWARD 46 FROM c")
    equal(connection.run("FETCH 5 FROM c"), [[49], [50]])
    equal(connection.run("FETCH PRIOR FROM c"), [[50]])
    connection.run("CLOSE c")
    connection.run("COMMIT")


@check("columns.described")
def described(connection):
    connection.run("SELECT 1 AS a, 'x'::varchar(5) AS b, 1.5::numeric(6, 2) AS c")
    equal([(column["name"], column["type_oid"], column["type_modifier"]) for column in connection.columns],
          [("a", 23, -1), ("b", 1043, 9), ("c", 1700, (6 << 16 | 2) + 4)])
    connection.run("CREATE TEMP TABLE described (a INTEGER, b TEXT, c VARCHAR(7))")
    connection.run("SELECT a, b, c FROM described")
    equal([(column["column_attrnum"], column["table_oid"] > 0) for column in connection.columns], [(1, True), (2, True), (3, True)])
    equal([(column["type_oid"], column["type_modifier"]) for column in connection.columns], [(23, -1), (25, -1), (1043, 11)])
    oid = connection.columns[0]["table_oid"]
    equal(connection.run("SELECT oid::regclass::text FROM pg_class WHERE relname = 'described'"), [["described"]])
    equal(connection.run("SELECT attname FROM pg_attribute WHERE attrelid = :o AND attnum = 2", o=oid), [["b"]])


@check("notifications")
def notified(connection):
    connection.run("LISTEN channel_of_pg8000")
    connection.run("NOTIFY channel_of_pg8000, 'word'")
    connection.run("SELECT 1")
    equal([said[1:] for said in connection.notifications], [("channel_of_pg8000", "word")])


@check("notices")
def notices(connection):
    connection.run("DROP TABLE IF EXISTS nothing_there")
    equal([said[b"C"] for said in connection.notices], [b"00000"])


@check("parameter status")
def status(connection):
    said = connection.parameter_statuses
    equal((said["server_encoding"], said["client_encoding"], said["integer_datetimes"], said["standard_conforming_strings"]),
          ("UTF8", "UTF8", "on", "on"))
    connection.run("SET application_name TO 'other'")
    equal(said["application_name"], "other")


@each("errors", errors())
def failed(connection, sql, state):
    for statement in ERRORS_TABLE:
        connection.run(statement)
    try:
        connection.run(sql)
    except pg8000.native.DatabaseError as error:
        equal(error.args[0]["C"], state)
    else:
        raise AssertionError("there was no error")


if __name__ == "__main__":
    run(connected)
