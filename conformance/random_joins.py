"""Differential test with random joins of tables whose columns have equal names: compares with DuckDB.

    python3 conformance/random_joins.py SCRIPT [QUERIES] [SEED]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python
module `duckdb` must be installed. The queries have joins of all types over 2 to 6 tables, with NULLs and an empty table,
filters in WHERE and ON, semijoins and antijoins, GROUP BY, derived tables and Top-N. Prints the seed, and each query
whose answers differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare

BATCH = 250
COLUMNS = ["id", "k", "v"]
SIZES = [3, 7, 12, 40, 200, 0]


def tables(r):
    """The statements that create the tables in both systems."""
    made = []
    for at, size in enumerate(SIZES):
        made.append(f"CREATE TABLE t{at} (id INT, k INT, v INT)")
        span = max(4, size // 3)
        cell = lambda span=span: "NULL" if r.random() < 0.15 else str(r.randrange(span))
        rows = [f"({n}, {cell()}, {cell()})" for n in range(size)]
        if rows:
            made.append(f"INSERT INTO t{at} VALUES {', '.join(rows)}")
    return made


def condition(r, aliases):
    """A random condition on columns of the aliases."""
    column = lambda: f"{r.choice(aliases)}.{r.choice(COLUMNS)}"
    kind = r.randrange(8)
    if kind == 0:
        return f"{column()} IS NULL"
    if kind == 1:
        return f"{column()} IS NOT NULL"
    if kind == 2:
        return f"({column()} = {r.randrange(6)} OR {column()} > {r.randrange(6)})"
    if kind == 3:
        return f"{column()} IN ({r.randrange(6)}, {r.randrange(12)})"
    if kind == 4:
        return f"{column()} {r.choice(['<', '>=', '<>', '='])} {column()}"
    if kind == 5:
        return f"({column()} IS NOT DISTINCT FROM {r.randrange(6)})"
    return f"{column()} {r.choice(['<', '<=', '>', '>=', '=', '<>'])} {r.randrange(10)}"


def source(r):
    """A table, or a derived table with the same column names, possibly in another assignment."""
    table = f"t{r.randrange(len(SIZES))}"
    kind = r.randrange(8)
    if kind == 0:
        return f"(SELECT k AS id, id AS k, v FROM {table})"
    if kind == 1:
        return f"(SELECT k AS id, max(id) AS k, count(*) AS v FROM {table} GROUP BY k)"
    if kind == 2:
        return f"(SELECT id, k, v FROM {table} UNION ALL SELECT v, id, k FROM t{r.randrange(len(SIZES))})"
    if kind == 3:
        return f"(SELECT id, k, v FROM {table} ORDER BY v NULLS LAST, id NULLS LAST LIMIT {r.randrange(1, 9)})"
    return table


def query(r):
    aliases, text = ["a"], f"{source(r)} AS a"
    for alias in "bcdef"[: r.randrange(1, 6)]:
        kind = r.choice(["JOIN"] * 4 + ["LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
        if kind == "CROSS JOIN" and len(aliases) > 1:
            kind = "JOIN"
        text += f" {kind} {source(r)} AS {alias}"
        if kind != "CROSS JOIN":
            on = [f"{r.choice(aliases)}.{r.choice(COLUMNS)} = {alias}.{r.choice(COLUMNS)}"]
            if r.random() < 0.6:
                on.append(f"{r.choice(aliases)}.id = {alias}.{r.choice(COLUMNS)}")
            if r.random() < 0.3 and kind != "FULL JOIN":
                on.append(condition(r, aliases + [alias]))
            text += " ON " + " AND ".join(on)
        aliases.append(alias)
    where = [condition(r, aliases) for _ in range(r.choice([0, 0, 1, 1, 2]))]
    if r.random() < 0.3:
        inner = f"SELECT {r.choice(COLUMNS)} FROM t{r.randrange(len(SIZES))} AS q"
        if r.random() < 0.5:
            inner += f" WHERE {condition(r, ['q'])}"
        where.append(f"{r.choice(aliases)}.{r.choice(COLUMNS)} IN ({inner})")
    elif r.random() < 0.2:
        no, key = r.choice(["", "NOT "]), f"{r.choice(aliases)}.{r.choice(COLUMNS)}"
        where.append(f"{no}EXISTS (SELECT 1 FROM t{r.randrange(len(SIZES))} AS q WHERE q.{r.choice(COLUMNS)} = {key})")
    filtered = f" WHERE {' AND '.join(where)}" if where else ""
    wanted = [f"{r.choice(aliases)}.{r.choice(COLUMNS)}" for _ in range(r.randrange(1, 5))]
    named = [f"{column} AS c{at}" for at, column in enumerate(wanted)]
    kind = r.randrange(5)
    if kind == 0:
        return f"SELECT count(*), {', '.join(f'sum({c})' for c in wanted)} FROM {text}{filtered}"
    if kind == 1:
        return f"SELECT {', '.join(named)}, count(*) AS n FROM {text}{filtered} GROUP BY {', '.join(sorted(set(wanted)))}"
    if kind == 2:
        order = ", ".join(f"c{at} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for at in range(len(wanted)))
        return f"SELECT {', '.join(named)} FROM {text}{filtered} ORDER BY {order} LIMIT {r.randrange(1, 12)}"
    rows = f"SELECT {', '.join(named)} FROM {text}{filtered}"
    return f"SELECT count(*), {', '.join(f'sum(c{at}), count(c{at}), sum((c{at} + 1) * (c0 + 7))' for at in range(len(wanted)))} FROM ({rows}) AS w"


if __name__ == "__main__":
    sys.exit(compare(tables, query, BATCH))
