"""Differential test of aggregates, window functions, grouping sets and set operations: compares with DuckDB.

    python3 conformance/random_aggregates.py SCRIPT [QUERIES] [SEED] [KIND]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed.
KIND is groups, windows or sets; without it, all are tested. The tables contain NULL, NaN, infinities, -0.0, the extremes of their
types and equal rows, and one table is empty. The queries have every aggregate with DISTINCT, FILTER and an ORDER BY of its own,
grouping sets, window functions over ROWS, RANGE and GROUPS frames, and UNION, INTERSECT and EXCEPT with and without ALL. Prints
the seed, and each query whose answers differ. The exit status is 1 if there is one.

Results for which docs/sql.md documents a difference are not compared: variances of infinities, and slopes and correlations of a
constant.
"""

import random
import sys
import tempfile
from decimal import Decimal, InvalidOperation

import duckdb
from differential import arguments, create, ours

BATCH = 200
SIZES = [0, 1, 6, 40, 300]
NUMBERS = ["i", "l", "d", "e", "k"]
KEYS = ["k", "g", "b", "d", "e", "dt"]
ORDERED = ["id", "k", "i", "d", "e", "dt"]


def tables(r):
    """The statements that create the tables in both systems."""
    made = []
    for at, size in enumerate(SIZES):
        made.append(
            f"CREATE TABLE t{at} (id INT, k INT, g VARCHAR, b BOOLEAN, i INT, l BIGINT, d DOUBLE, e DECIMAL(10, 2), dt DATE)"
        )
        rows = []
        for n in range(size):
            maybe = lambda text: "NULL" if r.random() < 0.15 else text
            special = r.choice(["NaN", "Infinity", "-Infinity", "-0.0", "0.0"])
            real = f"CAST('{special}' AS DOUBLE)" if r.random() < 0.2 else f"CAST({r.randrange(-20, 20)} * 0.25 AS DOUBLE)"
            large = str(r.choice([2**63 - 1, -(2**63) + 1])) if r.random() < 0.1 else str(r.randrange(-9, 9))
            whole = str(r.choice([2**31 - 1, -(2**31) + 1])) if r.random() < 0.05 else str(r.randrange(-9, 9))
            cells = [
                str(n),
                maybe(str(r.randrange(4))),
                maybe(f"'{r.choice('abc')}'"),
                maybe(r.choice(["true", "false"])),
                maybe(whole),
                maybe(large),
                maybe(real),
                maybe(f"{r.randrange(-500, 500)}.{r.randrange(100):02}"),
                maybe(f"DATE '2024-01-{r.randrange(1, 29):02}'"),
            ]
            rows.append(f"({', '.join(cells)})")
        if rows:
            made.append(f"INSERT INTO t{at} VALUES {', '.join(rows)}")
    return made


def condition(r):
    kind = r.randrange(6)
    if kind == 0:
        return f"{r.choice(KEYS)} IS NOT NULL"
    if kind == 1:
        return "b"
    if kind == 2:
        return f"g IN ('a', '{r.choice('bc')}')"
    if kind == 3:
        return f"k {r.choice(['<', '>=', '<>'])} {r.randrange(4)}"
    if kind == 4:
        return "false"
    return f"id % {r.randrange(2, 5)} = {r.randrange(2)}"


def order(r, unique=True):
    """An ORDER BY; if it is unique, it determines the order of all rows."""
    keys = [f"{key} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for key in r.sample(KEYS, r.randrange(0, 3))]
    return ", ".join(keys + [f"id {r.choice(['ASC', 'DESC'])}"] * unique) or "id"


def plain(r):
    """An aggregate of one argument that does not depend on the order of rows, and its argument."""
    kind = r.randrange(10)
    if kind < 6:
        return r.choice(["sum", "avg", "min", "max", "count", "sum", "max"]), r.choice(NUMBERS)
    if kind == 6:
        return r.choice(["min", "max", "count"]), r.choice(["g", "dt", "b", "d"])
    if kind == 7:
        return r.choice(["bool_and", "bool_or"]), "b"
    if kind == 8:
        return r.choice(["bit_and", "bit_or", "bit_xor"]), r.choice(["i", "k"])
    return r.choice(["var_pop", "var_samp", "stddev_pop", "stddev_samp"]), r.choice(["i", "e", "k"])


def pair(r):
    """A statistical aggregate of two arguments."""
    return r.choice(["covar_pop", "covar_samp", "regr_count", "regr_avgx", "regr_sxy", "regr_sxx"])


def aggregate(r):
    """An aggregate as SQL for Freestone and for DuckDB."""
    kind = r.randrange(12)
    distinct = "DISTINCT " if r.random() < 0.2 else ""
    filtered = f" FILTER (WHERE {condition(r)})" if r.random() < 0.2 else ""
    if kind < 6:
        name, argument = plain(r)
        inner = f" ORDER BY {order(r)}" if r.random() < 0.15 and not distinct else ""
        text = f"{name}({distinct}{argument}{inner}){filtered}"
        return text, text
    if kind == 6:
        text = f"{pair(r)}(e, k){filtered}"
        return text, text
    if kind == 7:
        return f"count(*){filtered}", f"count(*){filtered}"
    if kind == 8 and distinct:
        text = f"string_agg(DISTINCT g, ',' ORDER BY g {r.choice(['ASC', 'DESC'])}){filtered}"
        return text, text
    if kind <= 9:
        argument = r.choice(["g", "CAST(k AS VARCHAR)", "CAST(id AS VARCHAR)"])
        text = f"string_agg({argument}, ',' ORDER BY {order(r)}){filtered}"
        return text, text
    if kind == 10:
        text = f"array_to_string(array_agg({r.choice(['id', 'k'])} ORDER BY {order(r)}){filtered}, ',')"
        return text, text
    name, keys = r.choice(["first", "last"]), order(r)
    argument = r.choice(["id", "d", "g", "k"])
    return f"{name}_value({argument} ORDER BY {keys}){filtered}", f"{name}({argument} ORDER BY {keys}){filtered}"


def source(r):
    table = f"t{r.randrange(len(SIZES))}"
    kind = r.randrange(8)
    if kind == 0:
        return f"(SELECT id, 7 AS k, g, b, i, l, d, e, dt FROM {table}) AS q"
    if kind == 1:
        return f"(SELECT * FROM {table} UNION ALL SELECT id + 1000, k, g, b, i, l, d, e, dt FROM t{r.randrange(1, 4)}) AS q"
    if kind == 2:
        return f"(SELECT * FROM {table} ORDER BY k NULLS LAST, id LIMIT 20) AS q"
    return table


def groups(r):
    """A query of aggregates with groups, grouping sets or neither."""
    calls = [aggregate(r) for _ in range(r.randrange(1, 5))]
    keys = r.sample(KEYS, r.randrange(0, 4))
    kind = r.randrange(6) if keys else 0
    if kind == 0:
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
    elif kind <= 2:
        group = f" GROUP BY {'ROLLUP' if kind == 1 else 'CUBE'} ({', '.join(keys)})"
    elif kind == 3:
        sets = [f"({', '.join(r.sample(keys, r.randrange(0, len(keys) + 1)))})" for _ in range(r.randrange(1, 4))]
        group = f" GROUP BY GROUPING SETS (({', '.join(keys)}), {', '.join(sets)})"
    else:
        group = f" GROUP BY {', '.join(keys)}"
    selected = [f"{key} AS g{at}" for at, key in enumerate(keys)]
    if "(" in group and r.random() < 0.5:
        selected.append(f"grouping({r.choice(keys)}) AS gg")
    from_where = f" FROM {source(r)}" + (f" WHERE {condition(r)}" if r.random() < 0.3 else "")
    having = f" HAVING count(*) {r.choice(['> 1', '>= 0', '< 5'])}" if r.random() < 0.2 else ""
    texts = []
    for side in (0, 1):
        columns = selected + [f"{call[side]} AS c{at}" for at, call in enumerate(calls)]
        texts.append(f"SELECT {', '.join(columns)}{from_where}{group}{having}")
    if keys and r.random() < 0.3:
        ends = ", ".join(f"g{at} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for at in range(len(keys)))
        ordered = [f"SELECT g0, count(*) OVER () AS n FROM ({text}) AS w ORDER BY {ends}" for text in texts]
        return ordered[0], ordered[1], False
    return texts[0], texts[1], False


def bound(r, units, key, start):
    if units == "RANGE":
        by = "INTERVAL '3' DAY" if key == "dt" else str(r.randrange(0, 4)) if key != "e" else f"{r.randrange(0, 90)}.5"
    else:
        by = str(r.randrange(0, 4))
    if r.random() < 0.2:
        # Each row has an offset of its own.
        by = "(id % 4) * INTERVAL 1 DAY" if units == "RANGE" and key == "dt" else "id % 4"
    choices = ["UNBOUNDED PRECEDING" if start else "UNBOUNDED FOLLOWING", f"{by} PRECEDING", "CURRENT ROW", f"{by} FOLLOWING"]
    return r.choice(choices)


def frame(r, key):
    """A frame that both systems accept, for a window that is ordered by one key, and possibly by more."""
    units = r.choice(["ROWS", "ROWS", "RANGE", "GROUPS"])
    start, end = bound(r, units, key, True), bound(r, units, key, False)
    rank = lambda text: 0 if "PRECEDING" in text else 1 if text == "CURRENT ROW" else 2
    if rank(start) > rank(end):
        start, end = "CURRENT ROW", "UNBOUNDED FOLLOWING"
    exclude = r.choice(["", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS"])
    return units, f"{units} BETWEEN {start} AND {end}{exclude}"


def call_over(r):
    """A window function as SQL for Freestone and for DuckDB, whether it uses the frame, and whether it needs a unique order."""
    kind = r.randrange(12)
    filtered = f" FILTER (WHERE {condition(r)})" if r.random() < 0.2 else ""
    nulls = r.random() < 0.4
    if kind < 5:
        name, argument = plain(r)
        distinct = "DISTINCT " if r.random() < 0.1 else ""
        text = f"{name}({distinct}{argument}){filtered}"
        return text, text, True, False
    if kind == 5:
        text = f"{pair(r)}(e, k){filtered}"
        return text, text, True, False
    if kind == 6:
        return f"count(*){filtered}", f"count(*){filtered}", True, False
    if kind == 7:
        text = f"string_agg(g, ','){filtered}"
        return text, text, True, True
    argument = r.choice(["id", "d", "g", "k"])
    if kind == 8:
        name = r.choice(["row_number", "rank", "dense_rank", "percent_rank", "cume_dist"])
        return f"{name}()", f"{name}()", False, True
    if kind == 9:
        name = r.choice(["lead", "lag"])
        rest = r.choice(["", f", {r.randrange(-2, 4)}", f", {r.randrange(0, 4)}, {argument}", ", k", ", CAST(NULL AS INT)"])
        if "k" in rest[:4] and nulls:
            nulls = False
        here = f"{name}({argument}{rest}){' IGNORE NULLS' if nulls else ''}"
        return here, f"{name}({argument}{rest}{' IGNORE NULLS' if nulls else ''})", False, True
    name = r.choice(["first_value", "last_value", "nth_value"])
    rest = f", {r.randrange(1, 4)}" if name == "nth_value" else ""
    here = f"{name}({argument}{rest}){' IGNORE NULLS' if nulls else ''}"
    return here, f"{name}({argument}{rest}{' IGNORE NULLS' if nulls else ''})", True, True


def windows(r):
    here, there = ["id"], ["id"]
    for at in range(r.randrange(1, 4)):
        mine, theirs_text, has_frame, is_unique = call_over(r)
        key = r.choice(ORDERED)
        direction = f"{r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}"
        partition = f"PARTITION BY {', '.join(r.sample(KEYS, r.randrange(1, 3)))} " if r.random() < 0.6 else ""
        units, framed = frame(r, key)
        offsets = units == "RANGE" and any(char.isdigit() for char in framed)
        unique = is_unique or (units == "ROWS" and has_frame)
        keys = f"{key} {direction}"
        if unique and not offsets and key != "id":
            keys += ", id"
        elif unique and offsets:
            key, keys = "id", f"id {direction}"
            framed = frame(r, "id")[1] if "INTERVAL" in framed or "." in framed else framed
        if has_frame and r.random() < 0.15:
            over = f"({partition.strip()})" if not is_unique else f"({partition}ORDER BY id)"
        else:
            over = f"({partition}ORDER BY {keys}{' ' + framed if has_frame and r.random() < 0.8 else ''})"
        if "DISTINCT" in mine and "GROUPS" in over:
            over = over.replace("GROUPS", "ROWS") if key == "id" else "()"
        here.append(f"{mine} OVER {over} AS c{at}")
        there.append(f"{theirs_text} OVER {over} AS c{at}")
    rest = f" FROM {r.choice(['t0', 't1', 't2', 't3', 't3', 't4'])}" + (f" WHERE {condition(r)}" if r.random() < 0.2 else "")
    if r.random() < 0.2:
        rest += f" ORDER BY id LIMIT {r.randrange(1, 9)}"
    return f"SELECT {', '.join(here)}{rest}", f"SELECT {', '.join(there)}{rest}", False


def sets(r):
    columns = r.sample(["k", "g", "b", "d", "e", "dt"], r.randrange(1, 4))

    def part(depth):
        if depth == 0 or r.random() < 0.3:
            where = f" WHERE {condition(r)}" if r.random() < 0.4 else ""
            return f"SELECT {r.choice(['', '', 'DISTINCT '])}{', '.join(columns)} FROM t{r.randrange(len(SIZES))}{where}"
        op = r.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL", "EXCEPT ALL"])
        return f"(SELECT * FROM ({part(depth - 1)}) AS x) {op} (SELECT * FROM ({part(depth - 1)}) AS y)"

    text = f"SELECT * FROM ({part(2)}) AS z"
    return text, text, False


def cell(value):
    """A value in one form: reals with seven digits, -0.0 as 0."""
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    if text.lower() in ("nan", "inf", "-inf", "infinity", "-infinity"):
        return text.lower().replace("infinity", "inf")
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    is_real = isinstance(value, float) or "." in text or "e" in text.lower()
    if number == number.to_integral_value() and (not is_real or abs(number) < 10**15):
        return str(int(number))
    return f"{float(number):.7g}"


def rows_of(answer):
    return sorted(tuple(cell(value) for value in row) or ("",) for row in answer)


def same(found, expected):
    """Whether rows are equal. Reals are compared with six digits, because the seventh may be rounded either way."""
    def equal(a, b):
        try:
            return a == b or ("." in a + b and abs(float(a) - float(b)) <= 1e-6 * abs(float(b)))
        except ValueError:
            return False

    rows = zip(found, expected)
    return len(found) == len(expected) and all(len(a) == len(b) and all(map(equal, a, b)) for a, b in rows)


def theirs(database, sql):
    try:
        return rows_of(database.execute(sql).fetchall())
    except duckdb.Error as error:
        return "error: " + str(error)[:200]


def main():
    script, count, seed = arguments(1000)
    kinds = [{"groups": groups, "windows": windows, "sets": sets}[sys.argv[4]]] if len(sys.argv) > 4 else [groups, windows, windows, sets]
    print(f"seed {seed}, {count} queries", flush=True)
    r = random.Random(seed)
    wrong = refused = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        database = duckdb.connect()
        create(script, folder, database, tables(r), seed)
        for first in range(0, count, BATCH):
            queries = [r.choice(kinds)(r) for _ in range(min(BATCH, count - first))]
            for (here, there, _), mine in zip(queries, ours(script, folder, [query[0] for query in queries])):
                expected = theirs(database, there)
                if isinstance(expected, str):
                    skipped += 1
                    if not isinstance(mine, str) and "Out of Range" not in expected and "Conversion" not in expected:
                        print(f"THERE REFUSED {there}\n  {expected}", flush=True)
                    continue
                if isinstance(mine, str):
                    refused += 1
                    print(f"REFUSED {here}\n  {mine}", flush=True)
                    continue
                found = rows_of(mine)
                if not same(found, expected):
                    wrong += 1
                    differing = [(a, b) for a, b in zip(found, expected) if a != b][:3] or [(len(found), len(expected))]
                    print(f"WRONG {here}\n  here, there: {differing}", flush=True)
    print(f"seed {seed}: {count} queries, {wrong} wrong, {refused} refused, {skipped} that DuckDB refuses")
    return 1 if wrong or refused else 0


if __name__ == "__main__":
    sys.exit(main())
