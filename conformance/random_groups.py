"""Differential test with random groups of one table, and joins by texts: compares with DuckDB.

    python3 conformance/random_groups.py SCRIPT [QUERIES] [SEED]

SCRIPT is the program freestone or the example `script`; the Python module `duckdb` must be installed. Keys are those with few
values (texts of a dictionary, small integers, dates, booleans), alone and beside others with many, with NULL, NaN, both zeros
and the extremes of their types, in hot rows and in files. Joins look up texts of a dictionary where the other side has each
once, several times, or not at all. LIKE has patterns of several pieces, and texts are compared with the empty one. Prints the
seed, and each query whose rows differ. The exit status is 1 if there is one.
"""

import sys

import random_ranges
from differential import compare

BATCH = 60
#: Keys with few values in the large tables, and others.
FEW = ["x", "s", "o", "d", "g"]
MANY = ["i", "b", "f", "m", "t", "id"]
COMPUTED = [
    "s % 3", "x || '!'", "length(x)", "g + 1", "coalesce(x, 'none')", "month(d)", "dayname(d)", "coalesce(day(d), 0)", "strftime(d, '%m/%d')",
    "CAST(d AS VARCHAR)", "CAST(s AS VARCHAR)", "CASE WHEN s < 0 THEN 'less' WHEN s > 3 THEN 'more' END", "CASE WHEN g = 2 THEN 'two' ELSE 'not two' END",
    "round(m, -3)", "d - DATE '2020-01-01'", "s // 4", "date_diff('day', DATE '2020-01-20', d) % 7", "abs(s)", "100 // (s - 99)",
]  # fmt: skip
PATTERNS = ["%text%1%", "t%e%t", "%e%t%", "a%than%bytes%", "%a%,%too", "%%", "text %", "%more%more%", "_ext%1%", "%te%xt %3"]


def tables(r):
    made = random_ranges.tables(r)
    nulls = lambda column, every: f"CASE WHEN n % {every} = 3 THEN NULL ELSE {column} END"
    made += [f"ALTER TABLE {table} ADD COLUMN g INT" for table in ("u", "v", "w", "e", "z")]
    made += [f"UPDATE {table} SET g = id % 5" for table in ("u", "v", "w", "z")]
    columns = {
        "id": "n",
        "i": nulls("n % 977", 7),
        "b": "n * 7919 % 100003",
        "s": nulls("CAST(n % 30 - 15 AS SMALLINT)", 11),
        "f": "CASE n % 6 WHEN 0 THEN -0.0 WHEN 1 THEN 0.0 WHEN 2 THEN CAST('NaN' AS DOUBLE) WHEN 3 THEN NULL ELSE n % 50 / 4.0 END",
        "m": "CAST(n % 4001 AS DECIMAL(9,2))",
        "d": nulls("DATE '2020-01-01' + CAST(n % 99 AS INT)", 13),
        "t": "TIMESTAMP '2020-01-01' + to_hours(n % 5000)",
        "x": nulls("CASE WHEN n % 4 = 0 THEN '' ELSE 'text ' || (n % 37) || CASE WHEN n % 2 = 0 THEN ' of more than twelve bytes' ELSE '' END END", 17),
        "o": nulls("n % 3 = 0", 5),
        "g": nulls("CAST(n % 6 AS INT)", 19),
    }
    values = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    made.append(f"CREATE TABLE y AS SELECT {values} FROM generate_series(1, 20000) g(n)")
    return made


def call(r):
    column = r.choice(["i", "s", "b", "g", "m"])
    return r.choice(
        [
            "count(*)", f"count({column})", f"sum({column})", f"min({column})", f"max({column})", "min(x)", "max(d)", "count(f)",
            "sum(CAST(g AS DOUBLE))", "round(avg(g), 6)", "sum(CAST(s AS DOUBLE))", f"count(DISTINCT {r.choice(['g', 'x', 's', 'o'])})",
            f"sum({column}) FILTER (WHERE o)", "median(s)", "bool_or(o)", "bool_and(o)", "bit_and(s)", "bit_or(g)", "bit_xor(id)", "min(o)", "max(length(x))", "sum(length(x))",
            f"arg_max({column}, id)", "arg_min(x, b * 100000 + id)", "arg_max(d, CAST(id AS DOUBLE)) FILTER (WHERE g > 2)",
            f"CAST(map_values(histogram({r.choice(['g', 's', 'o'])})) AS VARCHAR)", "CAST(map_keys(histogram(x)) AS VARCHAR)", "round(entropy(g) + 1, 6)",
            f"sum({r.choice(['floor', 'ceil', 'round', 'trunc', 'abs'])}(m / 8 - {r.randrange(300)}))", f"sum(round(m - 2000.5, {r.randrange(-2, 3)}))",
            f"sum({r.choice(['abs', 'floor', 'ceil', 'round', 'trunc'])}(m - {r.choice(['1999.5', '12', '0.05'])}))", "sum(CAST(m * 1.25 AS BIGINT))",
            f"sum(b % {r.randrange(1, 9)})", f"sum((i - 500) // {r.randrange(1, 9)})", "sum(date_diff('day', d, DATE '2020-02-10'))", "sum(d - DATE '2020-01-05')",
            "sum(month(d))", "max(dayname(d))", "round(sum(m / (g + 1)), 4)", "sum(CASE WHEN s < 0 THEN -1 WHEN s > 3 THEN s ELSE NULL END)",
        ]
    )  # fmt: skip


def condition(r):
    texts = [f"x LIKE '{r.choice(PATTERNS)}'", f"x NOT LIKE '{r.choice(PATTERNS)}'", "x <> ''", "x = ''", "x IN ('')", "x NOT IN ('')", "length(x) > 7"]
    return r.choice(["", "", f" WHERE {r.choice(texts)}", " WHERE s > 0", f" WHERE {r.choice(texts)} AND g < 4", " WHERE o"])


def sets(r, places):
    """Grouping sets over keys by their places: of some keys, the same ones twice, and none."""
    kind = r.choice(["ROLLUP", "CUBE", "GROUPING SETS"])
    if kind != "GROUPING SETS":
        return f"{kind} ({', '.join(places)})"
    some = [r.sample(places, r.randrange(len(places) + 1)) for _ in range(r.randrange(1, 4))]
    # Each key is in a set.
    some.append(places)
    return f"GROUPING SETS ({', '.join('(' + ', '.join(of) + ')' for of in some)})"


def groups(r):
    keys = r.sample(FEW, r.randrange(1, 4))
    if r.random() < 0.2:
        keys.append(r.choice(MANY))
    if r.random() < 0.3:
        keys[0] = r.choice(COMPUTED)
    calls = [call(r) for _ in range(r.randrange(1, 5))]
    named = ", ".join([*(f"{key} AS k{at}" for at, key in enumerate(keys)), *(f"{text} AS a{at}" for at, text in enumerate(calls))])
    places = [str(at + 1) for at in range(len(keys))]
    has_sets = r.random() < 0.25
    by = sets(r, places) if has_sets else ", ".join(places)
    if has_sets:
        named += f", grouping({keys[0]}) AS n"
    query = f"SELECT {named} FROM {r.choice('yyyzue')}{condition(r)} GROUP BY {by}"
    # Floats and timestamps are other texts in both systems.
    shape = 0 if keys[-1] in ("f", "t") else r.randrange(6)
    if has_sets and shape == 2:
        # Keys do not tell groups of several sets apart.
        return query
    if shape == 0:
        return f"SELECT count(*), count(k0), count(a0) FROM ({query}) q"
    if shape == 1:
        return f"{query} HAVING count(*) > 100"
    if shape == 2:
        order = ", ".join(f"{at + 1} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for at in range(len(keys)))
        return f"{query} ORDER BY {order} LIMIT 5"
    return query


def join(r):
    many, kind = r.choice("yyz"), r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "EXISTS", "NOT EXISTS"])
    other = r.choice(["(SELECT x, min(id) AS k FROM y GROUP BY x)", "(SELECT x, id AS k FROM u)", "(SELECT 'text ' || id AS x, id AS k FROM v)", "(SELECT x, id AS k FROM e)"])
    on = r.choice(["p.x = q.x", "p.x = q.x", "p.x IS NOT DISTINCT FROM q.x", "p.x = q.x AND p.id > q.k"])
    if kind.endswith("EXISTS"):
        return f"SELECT count(*), sum(p.id) FROM {many} p WHERE {kind} (SELECT 1 FROM {other} q WHERE {on})"
    if r.random() < 0.5:
        return f"SELECT p.g, count(*), sum(p.id), sum(q.k) FROM {many} p {kind} {other} q ON {on} GROUP BY 1"
    return f"SELECT count(*), sum(p.id), sum(q.k), count(p.x), count(q.x) FROM {many} p {kind} {other} q ON {on}"


def query(r):
    return groups(r) if r.random() < 0.75 else join(r)


if __name__ == "__main__":
    sys.exit(compare(tables, query, BATCH))
