"""Differential test of the forms of DuckDB's SELECT: compares with DuckDB.

    python3 conformance/random_forms.py SCRIPT [QUERIES] [SEED]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed. The
queries have stars with EXCLUDE, REPLACE and RENAME, COLUMNS, names used again, GROUP BY ALL, QUALIFY, ASOF, SEMI and ANTI joins,
PIVOT, UNPIVOT and set operations by name, over tables with equal column names and NULLs. Prints the seed, and each query whose
answers differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare
from random_joins import BATCH, COLUMNS, SIZES, condition, tables


def table(r):
    return f"t{r.randrange(len(SIZES))}"


def where(r, aliases):
    return f" WHERE {condition(r, aliases)}" if r.random() < 0.5 else ""


def star(r):
    """A star with options, and sometimes COLUMNS."""
    left, right = r.sample(COLUMNS, 2)
    options = r.choice(
        [
            f"* EXCLUDE ({left})",
            f"* EXCLUDE ({left}, {right})",
            f"* REPLACE ({left} + 1 AS {left})",
            f"* REPLACE (coalesce({right}, 7) AS {left})",
            f"* RENAME ({left} AS w)",
            f"* EXCLUDE ({left}) RENAME ({right} AS w)",
            f"COLUMNS('{left[0]}|{right[0]}')",
            f"COLUMNS(* EXCLUDE ({left})) + {r.randrange(5)}",
            f"COLUMNS(lambda name: name <> '{left}') * 2",
        ]
    )
    return f"SELECT {options} FROM {table(r)} AS a{where(r, ['a'])}"


def joined_star(r):
    on = r.choice(["USING (id)", "ON a.id = b.k", "ON a.k = b.k"])
    kind = r.choice(["JOIN", "LEFT JOIN"])
    hidden = r.choice(["a.v", "b.v", "v", "b.k"])
    return f"SELECT * EXCLUDE ({hidden}) FROM {table(r)} AS a {kind} {table(r)} AS b {on}{where(r, ['a'])}"


def again(r):
    one, other = r.sample(COLUMNS, 2)
    name = r.choice(["w", "w", "x", one])
    condition = r.choice(["", f" WHERE {name} > {r.randrange(9)}", f" WHERE {name} IS NULL OR {other} = 1"])
    return f"SELECT {one} + {r.randrange(4)} AS {name}, {name} * 2 AS y, y - {name}, {other} FROM {table(r)}{condition}"


def grouped(r):
    one, other = r.sample(COLUMNS, 2)
    value = r.choice([f"sum({other})", "count(*)", f"min(COLUMNS('{other[0]}'))", f"max({other}) AS m, m + 1"])
    keys = r.choice([f"{one} % 3 AS g, {value} FROM {table(r)} GROUP BY g", f"{one}, {value} FROM {table(r)} GROUP BY ALL"])
    return f"SELECT {keys}"


def qualified(r):
    one, other = r.sample(COLUMNS, 2)
    window = f"OVER (PARTITION BY {one} ORDER BY {other} NULLS LAST, id)"
    if r.random() < 0.5:
        return f"SELECT id, row_number() {window} AS n FROM {table(r)} QUALIFY n <= {r.randrange(1, 4)}"
    return f"SELECT * FROM {table(r)} QUALIFY rank() {window} = 1"


def as_of(r):
    op = r.choice([">=", ">", "<=", "<"])
    kind = r.choice(["ASOF JOIN", "ASOF LEFT JOIN"])
    keys = r.choice(["", "a.k = b.k AND ", "a.k = b.v AND "])
    # The ids of a table are distinct, so each row has one partner.
    return f"SELECT a.id, a.k, b.id, b.v FROM {table(r)} AS a {kind} {table(r)} AS b ON {keys}a.v {op} b.id{where(r, ['a'])}"


def semi(r):
    on = r.choice(["USING (k)", "USING (id, k)", "ON a.k = b.v", "ON a.id = b.k AND a.v > b.v"])
    return f"SELECT * FROM {table(r)} AS a {r.choice(['SEMI', 'ANTI'])} JOIN {table(r)} AS b {on}"


def pivot(r):
    one, other = r.sample(COLUMNS, 2)
    values = ", ".join(str(n) for n in r.sample(range(6), r.randrange(1, 4)))
    aggregates = r.choice([f"sum({other})", f"count({other}) AS n", f"min({other}) AS a, max({other}) AS b"])
    third = next(name for name in COLUMNS if name not in (one, other))
    source = f"(SELECT {one}, {other}, {third} % 4 AS {third} FROM {table(r)})"
    groups = r.choice(["", f" GROUP BY {third}"])
    return f"PIVOT {source} ON {one} IN ({values}) USING {aggregates}{groups}"


def unpivot(r):
    one, other = r.sample(COLUMNS, 2)
    names = r.choice([f"{one}, {other}", "*", f"COLUMNS(* EXCLUDE ({one}))", f"{one} AS first, {other}"])
    return f"UNPIVOT {table(r)} ON {names} INTO NAME n VALUE value"


def by_name(r):
    one, other = r.sample(COLUMNS, 2)
    all_rows = r.choice(["UNION ALL BY NAME", "UNION BY NAME"])
    return f"SELECT {one}, {other} FROM {table(r)} {all_rows} SELECT {other}, id + 1 AS w FROM {table(r)}"


FORMS = [star, star, joined_star, again, again, grouped, qualified, as_of, as_of, semi, pivot, unpivot, by_name]


if __name__ == "__main__":
    sys.exit(compare(tables, lambda r: r.choice(FORMS)(r), BATCH))
