"""EXPORT DATABASE and IMPORT DATABASE: folders go from here to DuckDB, and back."""

import subprocess

import duckdb
from conftest import TARGET

BINARY = TARGET / "release" / "freestone"

SCRIPT = """
    CREATE SCHEMA s;
    CREATE TYPE mood AS ENUM ('glad', 'sad');
    CREATE SEQUENCE numbers START 5;
    CREATE TABLE s.t (
        a INTEGER PRIMARY KEY, b VARCHAR DEFAULT 'x', c INTEGER GENERATED ALWAYS AS (a + 1), l INTEGER[],
        st STRUCT(x INTEGER, y VARCHAR), d DECIMAL(10, 2), z TIMESTAMPTZ, u UUID, m mood, w BLOB, day DATE, f DOUBLE
    );
    CREATE TABLE "a table" (k INTEGER, n INTEGER DEFAULT nextval('numbers'));
    CREATE MACRO plus(x, y := 2) AS x + y;
    CREATE VIEW v AS SELECT plus(a) AS p, c FROM s.t;
    CREATE INDEX by_b ON s.t (b);
    INSERT INTO s.t (a, b, l, st, d, z, u, m, w, day, f) VALUES
        (1, 'it''s', [1, NULL], {'x': 1, 'y': 'z'}, -1.50, '2024-02-29 12:00:00+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
         'sad', unhex('00FF'), '1969-12-31', 'nan'::DOUBLE);
    INSERT INTO s.t (a) VALUES (2);
    INSERT INTO "a table" (k) VALUES (1), (2);
"""

QUERIES = [
    "SELECT a, b, c, l, st, d, epoch_us(z) AS z, u, m, w, day, f FROM s.t ORDER BY a",
    'SELECT k, n FROM "a table" ORDER BY k',
    "SELECT p, c FROM v ORDER BY p",
]


def run(folder, *statements):
    arguments = [argument for statement in statements for argument in ("-c", statement)]
    subprocess.run([BINARY, "db", *arguments], cwd=folder, check=True)


def check_same(folder, other):
    for query in QUERIES:
        run(folder, f"COPY ({query}) TO 'rows.parquet'")
        own = duckdb.sql(f"SELECT * FROM '{folder}/rows.parquet'").fetchall()
        assert str(own) == str(other.execute(query).fetchall()), query


def test_duckdb_imports_an_export(tmp_path):
    run(tmp_path, SCRIPT, "EXPORT DATABASE 'exported'")
    with duckdb.connect() as other:
        other.execute(f"IMPORT DATABASE '{tmp_path}/exported'")
        check_same(tmp_path, other)


def test_an_export_of_duckdb_is_imported(tmp_path):
    with duckdb.connect() as other:
        other.execute(SCRIPT)
        other.execute(f"EXPORT DATABASE '{tmp_path}/exported' (FORMAT parquet)")
        run(tmp_path, "IMPORT DATABASE 'exported'")
        check_same(tmp_path, other)
