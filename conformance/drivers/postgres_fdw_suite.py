"""postgres_fdw: a PostgreSQL that reads and changes tables of the server, whose address is POSTGRESQL (host:port:user).

The tables of the server are imported (IMPORT FOREIGN SCHEMA), so its catalog is read, and queries come as cursors with pushed-down
filters, joins, aggregates and sorts.
"""

import datetime
import decimal
import os
import uuid

import psycopg2
import psycopg2.extras
from checks import check, each, equal, login, run

TABLES = """
DROP TABLE IF EXISTS fdw_many; DROP TABLE IF EXISTS fdw_types; DROP TABLE IF EXISTS fdw_changed;
CREATE TABLE fdw_many (n INTEGER PRIMARY KEY, g INTEGER NOT NULL, s VARCHAR(20), x DOUBLE PRECISION DEFAULT 1.5);
INSERT INTO fdw_many SELECT n, n % 7, 's' || n, n / 2.0 FROM generate_series(1, 1000) AS r(n);
CREATE TABLE fdw_types (n INTEGER, c_smallint SMALLINT, c_bigint BIGINT, c_real REAL, c_numeric NUMERIC(10, 2), c_text TEXT, c_boolean BOOLEAN,
    c_date DATE, c_time TIME, c_timestamp TIMESTAMP, c_timestamptz TIMESTAMPTZ, c_interval INTERVAL, c_uuid UUID, c_bytea BYTEA,
    c_integers INTEGER[], c_texts TEXT[]);
CREATE TABLE fdw_changed (k INTEGER PRIMARY KEY, v TEXT)
"""
VALUES = [
    ("smallint", -7),
    ("bigint", 2**62),
    ("real", 1.5),
    ("numeric", decimal.Decimal("12.30")),
    ("text", "ä 日本語 '\"\\"),
    ("boolean", True),
    ("date", datetime.date(2024, 2, 29)),
    ("time", datetime.time(10, 20, 30, 500_000)),
    ("timestamp", datetime.datetime(2024, 2, 29, 10, 20, 30, 123_456)),
    ("timestamptz", datetime.datetime(2024, 2, 29, 10, 20, 30, tzinfo=datetime.timezone.utc)),
    ("interval", datetime.timedelta(days=3, seconds=4, microseconds=5)),
    ("uuid", uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
    ("integers", [1, None, 3]),
    ("texts", ["a,b", '"', None, ""]),
]


def connected():
    """A connection to PostgreSQL, which has the tables of the server in the schema `far`."""
    host, port, user, password, database = login()
    with psycopg2.connect(host=host, port=port, user=user, password=password, dbname=database) as server:
        for statement in TABLES.split(";"):
            server.cursor().execute(statement)
    server.close()
    near_host, near_port, near_user = os.environ["POSTGRESQL"].split(":")
    near = psycopg2.connect(host=near_host, port=near_port, user=near_user, dbname="postgres")
    psycopg2.extras.register_uuid(conn_or_curs=near)
    near.autocommit = True
    cursor = near.cursor()
    cursor.execute("CREATE EXTENSION IF NOT EXISTS postgres_fdw; DROP SERVER IF EXISTS far CASCADE; DROP SCHEMA IF EXISTS far CASCADE")
    cursor.execute("CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host %s, port %s, dbname %s, fetch_size '50')",
                   (host, str(port), database))
    cursor.execute("CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user %s, password %s, password_required 'false')", (user, password))
    cursor.execute("CREATE SCHEMA far; IMPORT FOREIGN SCHEMA public LIMIT TO (fdw_many, fdw_types, fdw_changed) FROM SERVER far INTO far "
                   "OPTIONS (import_default 'true')")
    near.autocommit = False
    return near


def rows(connection, sql, *parameters):
    cursor = connection.cursor()
    cursor.execute(sql, parameters or None)
    return cursor.fetchall() if cursor.description else cursor.rowcount


@check("imported columns")
def imported(connection):
    found = rows(connection, "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid) "
                 "FROM pg_attribute a LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum) "
                 "WHERE a.attrelid = 'far.fdw_many'::regclass AND a.attnum > 0 ORDER BY a.attnum")
    equal(found, [("n", "integer", True, None), ("g", "integer", True, None), ("s", "character varying(20)", False, None),
                  ("x", "double precision", False, "1.5")])


@check("imported types")
def imported_types(connection):
    found = rows(connection, "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'far.fdw_types'::regclass "
                 "AND attnum > 0 ORDER BY attnum")
    equal([name for name, in found], [
        "integer", "smallint", "bigint", "real", "numeric(10,2)", "text", "boolean", "date", "time without time zone",
        "timestamp without time zone", "timestamp with time zone", "interval", "uuid", "bytea", "integer[]", "text[]",
    ])


@each("types", VALUES)
def through(connection, value):
    column = f"c_{through_name(value)}"
    rows(connection, f"INSERT INTO far.fdw_types (n, {column}) VALUES (1, %s), (2, NULL)", value)
    equal(rows(connection, f"SELECT {column} FROM far.fdw_types ORDER BY n"), [(value,), (None,)])
    equal(rows(connection, f"SELECT n FROM far.fdw_types WHERE {column} IS NOT NULL"), [(1,)])
    if not isinstance(value, list):
        equal(rows(connection, f"SELECT n FROM far.fdw_types WHERE {column} = %s", value), [(1,)])


def through_name(value):
    return next(name for name, known in VALUES if known is value)


@check("types.bytea")
def binary(connection):
    rows(connection, "INSERT INTO far.fdw_types (n, c_bytea) VALUES (1, %s)", psycopg2.Binary(b"\x00\xff\\"))
    (found,), = rows(connection, "SELECT c_bytea FROM far.fdw_types")
    equal(bytes(found), b"\x00\xff\\")


@check("queries.rows")
def many(connection):
    equal(rows(connection, "SELECT n FROM far.fdw_many ORDER BY n"), [(n,) for n in range(1, 1001)])


@check("queries.filters")
def filters(connection):
    found = rows(connection, "SELECT n FROM far.fdw_many WHERE g = 3 AND s LIKE 's1%' AND n BETWEEN 10 AND 120 AND x IS NOT NULL ORDER BY n")
    equal([n for n, in found], [10, 17, 101, 108, 115])


@check("queries.sets")
def sets(connection):
    found = rows(connection, "SELECT n FROM far.fdw_many WHERE n IN (3, 5, 2000) OR n = ANY(%s) ORDER BY n", [7, 9])
    equal([n for n, in found], [3, 5, 7, 9])


@check("queries.aggregates")
def aggregates(connection):
    found = rows(connection, "SELECT g, count(*), sum(n), min(s), avg(x) FROM far.fdw_many GROUP BY g HAVING count(*) > 142 ORDER BY g LIMIT 2")
    equal(found, [(1, 143, 71214, "s1", 249.0), (2, 143, 71357, "s100", 249.5)])


@check("queries.joins")
def joins(connection):
    found = rows(connection, "SELECT a.n, b.n FROM far.fdw_many a JOIN far.fdw_many b ON b.n = a.n + 1 WHERE a.n < 4 ORDER BY a.n")
    equal(found, [(1, 2), (2, 3), (3, 4)])


@check("queries.parameters")
def parameters(connection):
    rows(connection, "SET plan_cache_mode = force_generic_plan")
    rows(connection, "PREPARE p (integer, text) AS SELECT n FROM far.fdw_many WHERE n > $1 AND s < $2 ORDER BY n LIMIT 2")
    equal(rows(connection, "EXECUTE p (100, 's2')"), [(101,), (102,)])


@check("queries.estimates")
def estimates(connection):
    rows(connection, "ALTER SERVER far OPTIONS (use_remote_estimate 'true')")
    equal(rows(connection, "SELECT count(*) FROM far.fdw_many WHERE g = 1"), [(143,)])


@check("queries.statistics")
def statistics(connection):
    rows(connection, "ANALYZE far.fdw_many")
    (found,), = rows(connection, "SELECT reltuples FROM pg_class WHERE oid = 'far.fdw_many'::regclass")
    equal(found, 1000.0)


@check("changes")
def changes(connection):
    equal(rows(connection, "INSERT INTO far.fdw_changed SELECT n, 'v' || n FROM generate_series(1, 20) AS s(n)"), 20)
    equal(rows(connection, "UPDATE far.fdw_changed SET v = upper(v) WHERE k > 18"), 2)
    equal(rows(connection, "DELETE FROM far.fdw_changed WHERE k < 18"), 17)
    equal(rows(connection, "INSERT INTO far.fdw_changed VALUES (21, 'x') RETURNING k, v"), [(21, "x")])
    connection.commit()
    equal(rows(connection, "SELECT * FROM far.fdw_changed ORDER BY k"), [(18, "v18"), (19, "V19"), (20, "V20"), (21, "x")])


@check("changes.row by row")
def by_row(connection):
    rows(connection, "INSERT INTO far.fdw_changed VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    # A function of the near server cannot be pushed down, so each row is changed by its ctid.
    rows(connection, "CREATE FUNCTION pg_temp.near(n integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN n = 2; END'")
    equal(rows(connection, "UPDATE far.fdw_changed SET v = 'changed' WHERE pg_temp.near(k)"), 1)
    equal(rows(connection, "SELECT * FROM far.fdw_changed ORDER BY k"), [(1, "a"), (2, "changed"), (3, "c")])


@check("changes.batches")
def batches(connection):
    rows(connection, "ALTER FOREIGN TABLE far.fdw_changed OPTIONS (batch_size '100')")
    equal(rows(connection, "INSERT INTO far.fdw_changed SELECT n, 'v' FROM generate_series(1, 1000) AS s(n)"), 1000)
    equal(rows(connection, "SELECT count(*), count(v) FROM far.fdw_changed"), [(1000, 1000)])


@check("changes.truncated")
def truncated(connection):
    rows(connection, "INSERT INTO far.fdw_changed VALUES (1, 'a')")
    connection.commit()
    rows(connection, "TRUNCATE far.fdw_changed")
    connection.commit()
    equal(rows(connection, "SELECT count(*) FROM far.fdw_changed"), [(0,)])


@check("transactions")
def transactions(connection):
    rows(connection, "INSERT INTO far.fdw_changed VALUES (1, 'kept')")
    rows(connection, "SAVEPOINT s")
    rows(connection, "INSERT INTO far.fdw_changed VALUES (2, 'lost')")
    rows(connection, "ROLLBACK TO s")
    connection.commit()
    rows(connection, "INSERT INTO far.fdw_changed VALUES (3, 'lost')")
    connection.rollback()
    equal(rows(connection, "SELECT k FROM far.fdw_changed"), [(1,)])


@check("errors.keys")
def keys(connection):
    rows(connection, "INSERT INTO far.fdw_changed VALUES (1, 'a')")
    try:
        rows(connection, "INSERT INTO far.fdw_changed VALUES (1, 'b')")
    except psycopg2.errors.UniqueViolation as error:
        equal(error.diag.message_detail, "Key (k)=(1) already exists.")
        return
    raise AssertionError("there was no error")


if __name__ == "__main__":
    run(connected)
