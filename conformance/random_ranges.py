"""Differential test with random range joins and first rows of groups: compares with DuckDB.

    python3 conformance/random_ranges.py SCRIPT [QUERIES] [SEED]

SCRIPT is the program freestone or the example `script`; the Python module `duckdb` must be installed. Range joins are of all
types, with one to three inequalities over integers of several widths, floats, decimals, dates and timestamps, and with further
conditions. First rows are those that a filter by row_number() leaves. Values include NULL, NaN, both zeros, infinities and the
extremes of their types. Prints the seed, and each query whose rows differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare

BATCH = 60
#: Name, type, and values.
COLUMNS = [
    ("i", "INT", ["0", "1", "2", "3", "7", "-5", "2147483647", "-2147483648"]),
    ("b", "BIGINT", ["0", "1", "2", "5", "-9223372036854775808", "9223372036854775807"]),
    ("s", "SMALLINT", ["0", "1", "3", "-4", "9"]),
    ("f", "DOUBLE", ["0.0", "-0.0", "1.5", "'NaN'", "'Infinity'", "'-Infinity'", "3", "1e300"]),
    ("m", "DECIMAL(9,2)", ["0", "1.25", "-1.25", "3.5", "9999999.99"]),
    ("d", "DATE", ["'2024-01-01'", "'2024-02-29'", "'1969-12-31'", "'2024-01-02'"]),
    ("t", "TIMESTAMP", ["'2024-01-01 00:00:00'", "'2024-01-01 12:00:00.000001'", "'1900-05-06 07:08:09'"]),
    ("x", "VARCHAR", ["'a'", "'b'", "''", "'a text of more than twelve bytes'", "'a text of more than twelve bytes, too'"]),
    ("o", "BOOLEAN", ["true", "false"]),
]
NUMBERS = ["i", "b", "s", "f", "m"]
#: Columns whose values are the same texts in both systems.
SHOWN = ["i", "b", "s", "m", "d", "x"]


def tables(r):
    made = []
    for table, rows in (("u", 60), ("v", 45), ("w", 9), ("e", 0), ("z", 20_000)):
        made.append(f"CREATE TABLE {table} (id INT, {', '.join(f'{name} {kind}' for name, kind, _ in COLUMNS)})")
        if table == "z":
            made.append(
                "INSERT INTO z SELECT n, n % 977, n * 7919 % 100003, n % 300, n * 31 % 1009 / 4.0, n % 4001, DATE '2020-01-01' + CAST(n % 999 AS INT), "
                f"TIMESTAMP '2020-01-01' + to_hours(n % 5000), 'text ' || (n % 37), n % 3 = 0 FROM generate_series(1, {rows}) g(n)"
            )
            continue
        values = lambda: ", ".join("NULL" if r.random() < 0.12 else r.choice(choices) for _, _, choices in COLUMNS)
        if rows:
            made.append(f"INSERT INTO {table} VALUES {', '.join(f'({n}, {values()})' for n in range(rows))}")
    return made


def inequality(r, a, b):
    if r.random() < 0.3:
        left = right = r.choice(["d", "t", "i", "f", "x"])
    else:
        left, right = r.choice(NUMBERS), r.choice(NUMBERS)
    return f"{a}.{left} {r.choice(['<', '<=', '>', '>='])} {b}.{right}"


def condition(r, a, b):
    shape = r.randrange(5)
    if shape == 0:
        column = r.choice(NUMBERS)
        text = f"{a}.{column} BETWEEN {b}.{r.choice(NUMBERS)} AND {b}.{r.choice(NUMBERS)}"
    elif shape == 1:
        column = r.choice(["i", "d", "t", "f"])
        text = f"{a}.{column} >= {b}.{column} AND {a}.{column} <= {b}.{column}"
    else:
        text = " AND ".join(inequality(r, a, b) for _ in range(r.randrange(1, 4)))
    if r.random() < 0.2:
        text += f" AND ({a}.o OR {b}.x <> {a}.x)"
    return text


def range_join(r):
    a, b = r.choice("uvwe"), r.choice("uvw")
    on = condition(r, "p", "q")
    wanted = r.sample(["p.id", "q.id", "p.b", "q.x", "p.d", "q.m"], r.randrange(1, 4))
    named = ", ".join(f"{column} AS c{at}" for at, column in enumerate(wanted))
    kind = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "EXISTS", "NOT EXISTS"])
    if kind.endswith("EXISTS"):
        return f"SELECT p.id, p.x FROM {a} p WHERE {kind} (SELECT 1 FROM {b} q WHERE {on})"
    query = f"SELECT {named} FROM {a} p {kind} {b} q ON {on}"
    return f"SELECT count(*), count(c0) FROM ({query}) y" if r.random() < 0.2 else query


def first_rows(r):
    table = r.choice(["u", "v", "z", "z", "e"])
    names = [name for name, _, _ in COLUMNS]
    partition = r.sample(names, r.randrange(1, 3))
    if r.random() < 0.2:
        partition[0] = "i % 3"
    order = [f"{key} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for key in r.sample(NUMBERS + ["d", "t", "o", "x"], r.randrange(0, 3))]
    order.append(f"id {r.choice(['ASC', 'DESC'])}")
    number = f"row_number() OVER (PARTITION BY {', '.join(partition)} ORDER BY {', '.join(order)})"
    most = r.choice(["r = 1", "r <= 2", "r < 4", "3 >= r", "r = 2", "r <= 70", "r < 1", "r BETWEEN 2 AND 3", "r = 1 AND i > 0", "1 = r"])
    filtered = r.choice(["", "", " WHERE i > 0", " WHERE x = 'a'"])
    columns = ", ".join(["id", "r", *r.sample(SHOWN, 2)])
    query = f"SELECT {columns} FROM (SELECT *, {number} AS r FROM {table}{filtered}) y WHERE {most}"
    shape = r.randrange(7)
    if shape == 6:
        # The order in which rows are numbered, of which a first part is wanted.
        by = ", ".join([*(f"{key} ASC NULLS LAST" for key in partition), *order])
        query = f"SELECT * FROM (SELECT *, {number} AS r FROM {table}{filtered}) y WHERE {most} ORDER BY {by} LIMIT {r.randrange(1, 9)}"
        return f"SELECT id, r FROM ({query}) k" if r.random() < 0.7 else f"SELECT sum(id), sum(r) FROM ({query}) k"
    if shape == 0:
        return f"SELECT count(*), sum(id), sum(r) FROM ({query}) k"
    if shape == 1:
        return f"SELECT id, x FROM {table}{filtered} QUALIFY {number} = 1"
    if shape == 2:
        return f"{query} ORDER BY id DESC LIMIT 7"
    if shape == 3:
        return f"SELECT k.id, k.r, q.id FROM ({query}) k JOIN w q ON k.r = q.i"
    return query


def query(r):
    return range_join(r) if r.random() < 0.5 else first_rows(r)


if __name__ == "__main__":
    sys.exit(compare(tables, query, BATCH))
