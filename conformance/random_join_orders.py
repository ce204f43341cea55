"""Differential test with random FROM lists: stars, chains, circles and trees of 3 to 8 relations in any order.

    python3 conformance/random_join_orders.py SCRIPT [QUERIES] [SEED]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed. The
relations are joined by keys of one or two columns of several types, some of them through expressions, with NULLs; the queries
have filters, conditions over several relations, relations without a key in common, derived tables and aggregations. Prints the
seed, and each query whose answers differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare

BATCH = 200
#: The rows of the tables. `d` and `e` refer to `a`, `b` and `c`; `f` refers to all.
SIZES = {"a": 5, "b": 25, "c": 150, "d": 900, "e": 1500, "f": 3000}


def tables(r):
    """The statements that create the tables in both systems."""
    made = []
    for name, size in SIZES.items():
        null = f"CASE WHEN v * 7919 % 17 = {r.randrange(17)} THEN NULL ELSE "
        made.append(
            f"CREATE TABLE {name} AS SELECT v AS id, {null} v * {r.choice([3, 7, 11])} % 5 END AS ra, v * {r.choice([3, 13])} % 25 AS rb, "
            f"{null} (v * 7 % 150)::BIGINT END AS rc, (v % 9)::DECIMAL(6, 2) AS m, 'text ' || (v * 5 % 25) AS s, v % 100 AS v "
            f"FROM range({size}) AS t(v)"
        )
    return made


#: Pairs of columns that are equal for some rows.
KEYS = [("id", "ra"), ("id", "rb"), ("id", "rc"), ("rb", "rb"), ("s", "s"), ("m", "ra"), ("ra", "ra"), ("rc", "id")]


def relation(r):
    name = r.choice(list(SIZES))
    kind = r.randrange(10)
    if kind == 0:
        return f"(SELECT id, ra, rb, rc, m, s, v FROM {name} WHERE v < {r.randrange(10, 90)})"
    if kind == 1:
        return f"(SELECT rb AS id, min(ra) AS ra, rb, max(rc) AS rc, max(m) AS m, min(s) AS s, sum(v) AS v FROM {name} GROUP BY rb)"
    return name


def equal(r, a, b):
    left, right = r.choice(KEYS)
    if r.random() < 0.5:
        left, right = right, left
    if r.random() < 0.1 and "s" not in (left, right):
        return f"{a}.{left} + 1 = {b}.{right}"
    return f"{a}.{left} = {b}.{right}"


def query(r):
    count = r.choice([3, 3, 4, 4, 5, 6, 7, 8])
    aliases = [f"x{at}" for at in range(count)]
    shape = r.choice(["star", "chain", "circle", "tree"])
    wanted = []
    for at in range(1, count):
        other = {"star": 0, "chain": at - 1, "circle": at - 1, "tree": r.randrange(at)}[shape]
        if r.random() < 0.05:
            continue
        wanted.append(equal(r, aliases[other], aliases[at]))
        if r.random() < 0.25:
            wanted.append(equal(r, aliases[other], aliases[at]))
    if shape == "circle":
        wanted.append(equal(r, aliases[-1], aliases[0]))
    for alias in aliases:
        # So that results stay small.
        wanted.append(f"{alias}.v < {r.choice([2, 5, 20])}" if r.random() < 0.8 else f"{alias}.id IN ({r.randrange(5)}, {r.randrange(150)})")
    if r.random() < 0.4:
        a, b, c = (r.choice(aliases) for _ in range(3))
        wanted.append(r.choice([f"{a}.v + {b}.v <> {c}.v", f"{a}.m < {b}.m", f"({a}.ra = 1 OR {b}.rb > 7)", f"{a}.s <> {b}.s"]))
    r.shuffle(wanted)
    listed = [f"{relation(r)} AS {alias}" for alias in aliases]
    r.shuffle(listed)
    a, b = r.choice(aliases), r.choice(aliases)
    calls = f"count(*), sum({a}.v), min({b}.s), max({a}.rc), count({b}.ra)"
    source = f"FROM {', '.join(listed)} WHERE {' AND '.join(wanted)}"
    kind = r.randrange(4)
    if kind == 0:
        return f"SELECT {a}.rb, {calls} {source} GROUP BY {a}.rb"
    if kind == 1:
        return f"SELECT {a}.id, {b}.s, {b}.rc {source} ORDER BY ALL LIMIT 20"
    return f"SELECT {calls} {source}"


if __name__ == "__main__":
    sys.exit(compare(tables, query, BATCH))
