"""Differential test of WITH RECURSIVE: compares with DuckDB.

    python3 conformance/random_recursions.py SCRIPT [QUERIES] [SEED]

SCRIPT is the command line `freestone`. The Python module `duckdb` must be installed. Queries walk over the edges of a graph whose nodes
are integers, texts, floats with NaN and -0.0, or decimals, each also NULL: by joins of all kinds on either side, with conditions, with
rows once or as often as they come, with several terms, lists and aggregates in a step, or with the rows of the step before twice.
Prints the seed, and each query whose answers differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare

BATCH = 60
#: The types of nodes, and a column of each end of an edge.
NODES = {"i": "BIGINT", "n": "INT", "t": "VARCHAR", "f": "DOUBLE", "w": "DECIMAL(30, 2)"}


def tables(r):
    nodes, edges = r.choice([(5, 0), (5, 20), (40, 150), (300, 1500), (2000, 6000)])
    end = lambda salt: f"(hash(v * 16 + {salt + r.randrange(8) * 100}) >> 1)::BIGINT % {nodes}"
    null = lambda value, salt: f"CASE WHEN {end(salt)} % 11 = 3 THEN NULL ELSE {value} END"
    floats = lambda x: f"CASE {x} % 60 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0::DOUBLE WHEN 2 THEN 0.0::DOUBLE ELSE ({x}) / 4.0 END"
    values = {
        "i": lambda x: x,
        "n": lambda x: f"({x})::INT",
        "t": lambda x: f"repeat('node ', (({x}) % 4)::INT) || ({x})",
        "f": floats,
        "w": lambda x: f"(({x})::DECIMAL(30, 2) * 10000000000000000 + 0.25)::DECIMAL(30, 2)",
    }
    columns = []
    for value in values.values():
        a, b = (value(end(salt)) for salt in (1, 2))
        columns += [null(a, 3), null(b, 4)]
    types = ", ".join(f"from_{name} {of}, to_{name} {of}" for name, of in NODES.items())
    return [
        f"CREATE TABLE e (id BIGINT, {types}, cost INT)",
        f"INSERT INTO e SELECT v, {', '.join(columns)}, ({end(5)} % 5)::INT FROM range({edges}) r(v)",
    ]


def first(r, kind):
    where = r.choice([f"id < {r.randrange(12)}", "id % 40 = 1", f"to_{kind} IS NULL", "false", "cost = 2 AND id < 60"])
    return f"SELECT from_{kind}, 0, cost::BIGINT FROM e WHERE {where}"


def step(r, kind):
    """A term that makes rows of those of the step before: node, depth and cost."""
    depth = r.randrange(1, 5)
    further = r.choice(["", "", " AND e.cost > 1", " AND e.cost + r.c < 9", f" AND e.id > r.d * {r.randrange(1, 30)}"])
    cost = r.choice(["r.c", "r.c + e.cost", "coalesce(e.cost, 7)::BIGINT", "r.c * 2 % 17"])
    sides = r.choice(["r JOIN e", "e JOIN r", "r LEFT JOIN e", "e RIGHT JOIN r"])
    joined = f"SELECT e.to_{kind}, r.d + 1, {cost} FROM {sides} ON e.from_{kind} = r.x{further} WHERE r.d < {depth}"
    negated, pair = r.choice(["", "NOT "]), f"SELECT 1 FROM e WHERE e.from_{kind} = r.x{further}"
    tested = f"SELECT r.x, r.d + 1, r.c + 1 FROM r WHERE r.d < {depth} AND {negated}EXISTS ({pair})"
    computed = f"SELECT x, d + 1, c * 3 - d FROM r WHERE d < {depth + 9} AND c % 3 {r.choice(['<', '>='])} {r.randrange(3)}"
    grouped = f"SELECT x, d + 1, sum(c)::BIGINT FROM r WHERE d < {depth} GROUP BY x, d"
    listed = f"SELECT x, d + 1, unnest([c, c + 1]) FROM r WHERE d < {depth}"
    twice = f"SELECT p.x, p.d + 1, q.c + 1 FROM r p, r q WHERE p.d < {min(depth, 2)} AND p.x = q.x AND p.c <= q.c AND p.d = q.d"
    return r.choice([joined, joined, joined, tested, computed, grouped, listed, twice])


def recursion(r):
    kind = r.choice(list(NODES))
    terms = step(r, kind)
    if r.random() < 0.15:
        terms = f"({terms} UNION ALL {step(r, kind)})"
    union = r.choice(["UNION", "UNION ALL"])
    # NaN is shown in different letters.
    value = "isnan(x), x > 1" if kind == "f" else "x"
    rows = f"WITH RECURSIVE r(x, d, c) AS ({first(r, kind)} {union} {terms})"
    return r.choice(
        [
            f"{rows} SELECT {value}, count(*), sum(c), min(d), max(d) FROM r GROUP BY ALL",
            f"{rows} SELECT d, count(*), count(x), sum(c) FROM r GROUP BY d",
            f"{rows} SELECT count(*), count(DISTINCT x), max(c) FROM r JOIN e ON e.to_{kind} = r.x",
        ]
    )


if __name__ == "__main__":
    sys.exit(compare(tables, recursion, BATCH))
