"""Differential test with random window functions: compares with DuckDB.

    python3 conformance/random_windows.py SCRIPT [QUERIES] [SEED]

SCRIPT is the program freestone or the example `script`; the Python module `duckdb` must be installed. Rankings, LAG and LEAD, first
and last values, and aggregates over frames of rows, of equal rows and of groups, in partitions by columns of all types, alone and
below filters, aggregations, joins and other windows. Values include NULL, NaN, both zeros, infinities and the extremes of their
types. Prints the seed, and each query whose rows differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare
from random_ranges import COLUMNS, SHOWN, tables

BATCH = 60
NAMES = [name for name, _, _ in COLUMNS]


def keys(r, most):
    names = r.sample(NAMES, r.randrange(1, most + 1))
    return [f"{name} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for name in names]


def partition(r):
    if r.random() < 0.15:
        return ""
    names = r.sample(NAMES, r.randrange(1, 3))
    if r.random() < 0.2:
        names[0] = "i % 3"
    return f"PARTITION BY {', '.join(names)} "


def frame(r):
    start = r.choice(["UNBOUNDED PRECEDING", "CURRENT ROW", "2 PRECEDING", "1 FOLLOWING", "100000 PRECEDING"])
    end = r.choice(["UNBOUNDED FOLLOWING", "CURRENT ROW", "3 FOLLOWING", "1 PRECEDING", "0 FOLLOWING"])
    if r.random() < 0.3:
        start, end = "UNBOUNDED PRECEDING", r.choice(["CURRENT ROW", "UNBOUNDED FOLLOWING"])
        return f" {r.choice(['RANGE', 'GROUPS', 'ROWS'])} BETWEEN {start} AND {end}"
    if start.endswith("FOLLOWING") and end in ("CURRENT ROW", "1 PRECEDING"):
        end = "3 FOLLOWING"
    if start == "CURRENT ROW" and end == "1 PRECEDING":
        end = "CURRENT ROW"
    return f" ROWS BETWEEN {start} AND {end}"


def function(r):
    """A call, and the frame of its window."""
    shape = r.randrange(9)
    column = r.choice(SHOWN)
    if shape == 0:
        return r.choice(["row_number()", "rank()", "dense_rank()"]), ""
    if shape == 1:
        return r.choice(["percent_rank()", "cume_dist()"]), ""
    if shape == 2:
        call = r.choice(["lag", "lead"])
        default = {"x": "'none'", "d": "DATE '2000-01-01'"}.get(column, "7")
        more = r.choice(["", ", 2", ", 0", ", -1", f", 1, {default}", f", 3, {column}", ", 100000"])
        return f"{call}({column}{more})", ""
    if shape == 3:
        nulls = r.choice(["", "", "", " IGNORE NULLS"])
        return f"{r.choice(['first_value', 'last_value'])}({column}{nulls})", frame(r)
    if shape == 4:
        return r.choice(["count(*)", f"count({column})", "count(f)", "count(o)"]), frame(r)
    if shape == 5:
        return f"{r.choice(['min', 'max'])}({r.choice(['i', 'b', 's', 'm', 'd', 'x'])})", frame(r)
    if shape == 6:
        return r.choice(["avg(s)", "avg(i)", "sum(CASE WHEN f = 1.5 THEN f END)", "sum(i) FILTER (WHERE o)"]), frame(r)
    return f"sum({r.choice(['i', 's', 'm', 'b', 'i % 5', 'id'])})", frame(r)


def windows(r):
    table = r.choice(["u", "v", "z", "e", "w"])
    by, order = partition(r), ", ".join([*keys(r, 2), f"id {r.choice(['ASC', 'DESC'])}"])
    calls = []
    for at in range(r.randrange(1, 4)):
        call, rows = function(r)
        if r.random() < 0.2:
            by, order = partition(r), ", ".join([*keys(r, 1), "id"])
        own = order
        # Equal rows have one rank and one frame of RANGE.
        if (call.startswith(("rank", "dense", "percent", "cume", "sum", "count", "avg", "min", "max"))) and "ROWS" not in rows and r.random() < 0.6:
            own = ", ".join(keys(r, 2))
        text = f"{call} OVER ({by}ORDER BY {own}{rows})"
        # The last digits of quotients depend on how they are computed.
        calls.append(f"CAST({text} AS DECIMAL(20, 6)) AS c{at}" if call.startswith(("avg", "percent", "cume")) else f"{text} AS c{at}")
        if r.random() < 0.1:
            calls.append(f"sum(i) OVER ({by.strip()}) AS whole{at}")
    filtered = r.choice(["", "", " WHERE i > 0", " WHERE x = 'a'"])
    return f"{', '.join(calls)} FROM {table}{filtered}", by, order


def query(r):
    rest, by, order = windows(r)
    text = f"SELECT id, {', '.join(r.sample(SHOWN, 2))}, {rest}"
    shape = r.randrange(8)
    if shape == 0:
        return f"SELECT count(*), count(c0), min(id) FROM ({text}) y"
    if shape == 1:
        return f"SELECT id, c0 FROM ({text}) y WHERE id % 3 = 1 AND c0 IS NOT NULL"
    if shape == 2:
        return f"SELECT y.id, y.c0, q.id FROM ({text}) y JOIN w q ON y.id = q.i"
    if shape == 3:
        # The order in which the rows come anyway, of which a first part is wanted.
        first = "".join(f"{key} NULLS LAST, " for key in by.removeprefix("PARTITION BY ").strip().split(", ") if key)
        return f"SELECT id, c0 FROM (SELECT *, {rest}) y ORDER BY {first}{order} LIMIT {r.randrange(1, 40)}"
    if shape == 4:
        return f"SELECT id, c0, lag(c0) OVER (ORDER BY id) FROM ({text}) y"
    return text


if __name__ == "__main__":
    sys.exit(compare(tables, query, BATCH))
