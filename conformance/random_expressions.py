"""Differential test of expressions over numbers, texts and dates: compares with DuckDB.

    python3 conformance/random_expressions.py SCRIPT [EXPRESSIONS] [SEED]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed.
Each expression is computed for one row of a table that contains extremes, NULL, NaN, infinities and -0.0: over the columns, with
literals in their place, and as a condition. Prints the seed, and each expression whose value differs (WRONG), that only Freestone
refuses (REFUSED), or that only DuckDB refuses (ACCEPTED). The exit status is 1 if there is one. Where docs/sql.md documents a
difference, the two systems get expressions with the same meaning.
"""

import math
import random
import sys
import tempfile
from decimal import Decimal

import duckdb
from differential import arguments, create, ours

BATCH = 200
INTEGERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}
TYPES = {
    "t": "TINYINT", "s": "SMALLINT", "i": "INT", "b": "BIGINT", "r": "REAL", "d": "DOUBLE", "m": "DECIMAL(9, 2)",
    "w": "DECIMAL(18, 6)", "o": "BOOLEAN", "v": "VARCHAR", "y": "DATE",
}


def value(r, name):
    """A literal of a type, as text that both systems read in the same way."""
    kind = TYPES[name]
    if r.random() < 0.12:
        return f"CAST(NULL AS {kind})"
    if kind in INTEGERS:
        bits = INTEGERS[kind]
        n = r.choice([0, 1, -1, 2, 3, -7, 2**bits - 1, -(2**bits), 2 ** (bits // 2), r.randrange(-100, 100)])
        return f"CAST('{n}' AS {kind})"
    if kind in ("REAL", "DOUBLE"):
        x = r.choice(["0.0", "-0.0", "1.5", "-2.5", "0.5", "3.5", "NaN", "Infinity", "-Infinity", "1e10", "-1e-5", "127.5", "1e30", str(r.randrange(-50, 50))])
        return f"CAST('{x}' AS {kind})"
    if kind.startswith("DECIMAL"):
        x = r.choice(["0", "1.5", "-2.5", "0.05", "-0.01", "9999999.99", "-9999999.99", "2.35", "-127.50", str(r.randrange(-300, 300))])
        return f"CAST('{x}' AS {kind})"
    if kind == "BOOLEAN":
        return r.choice(["CAST('true' AS BOOLEAN)", "CAST('false' AS BOOLEAN)"])
    if kind == "VARCHAR":
        return "'" + r.choice(["", "a", "abc", "5", "-7", "2.5", "x y", "ABC", "äö", "300", "1e2"]) + "'"
    return f"CAST('{r.choice(['1970-01-01', '1969-12-31', '2024-02-29', '0001-01-01', '1582-10-15', '9999-12-31'])}' AS DATE)"


def expression(r, kind, depth, names):
    """An expression of a kind: `n` a number, `i` an integer, `f` a float, `o` a boolean, `v` a text, `y` a date."""
    e = lambda k: expression(r, k, depth - 1, names)
    if depth <= 0 or r.random() < 0.15:
        wanted = {"n": "tsibrdmw", "i": "tsib", "f": "rd", "m": "mw", "o": "o", "v": "v", "y": "y"}[kind]
        return "{" + r.choice(wanted) + "}"
    if kind == "n":
        return r.choice([lambda: e("i"), lambda: e("f"), lambda: e("m")])()
    if kind == "i":
        width = r.choice(list(INTEGERS))
        return r.choice([
            lambda: f"({e('i')} {r.choice('+-*')} {e('i')})",
            lambda: f"({e('i')} {r.choice(['#idiv#', '%'])} {e('i')})",
            lambda: f"(- {e('i')})",
            lambda: f"abs({e('i')})",
            lambda: f"CAST({e('n')} AS {width})",
            lambda: f"TRY_CAST({e('n')} AS {width})",
            lambda: f"CASE WHEN {e('o')} THEN {e('i')} ELSE {e('i')} END",
            lambda: f"coalesce({e('i')}, {e('i')})",
            lambda: f"nullif({e('i')}, {e('i')})",
            lambda: f"{r.choice(['greatest', 'least'])}({e('i')}, {e('i')})",
            lambda: f"(CAST({e('i')} AS BIGINT) {r.choice('&|')} CAST({e('i')} AS BIGINT))",
            lambda: f"length({e('v')})",
            lambda: f"mod({e('i')}, {e('i')})",
        ])()
    if kind == "f":
        return r.choice([
            lambda: f"(CAST({e('f')} AS DOUBLE) {r.choice('+-*')} CAST({e('n')} AS DOUBLE))",
            lambda: f"(- {e('f')})",
            lambda: f"{r.choice(['abs', 'ceil', 'floor', 'round', 'trunc'])}({e('f')})",
            lambda: f"CAST({e('n')} AS DOUBLE)",
            lambda: f"({e('m')} / {e('m')})",
            lambda: f"{r.choice(['greatest', 'least'])}({e('f')}, {e('f')})",
            lambda: f"CASE WHEN {e('o')} THEN {e('f')} ELSE {e('f')} END",
        ])()
    if kind == "m":
        scale = r.randrange(0, 4)
        return r.choice([
            lambda: f"({e('m')} {r.choice('+-')} {e('m')})",
            lambda: "(CAST({m} AS DECIMAL(28, 2)) * {w})",
            lambda: f"CAST({e('n')} AS DECIMAL({r.randrange(scale + 1, 19)}, {scale}))",
            lambda: f"{r.choice(['abs', 'ceil', 'floor', 'round'])}({e('m')})",
            lambda: f"round({{w}}, {r.randrange(0, 4)})",
            lambda: f"coalesce({e('m')}, {e('m')})",
        ])()
    if kind == "o":
        k = r.choice("ifmnvy")
        comparison = r.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return r.choice([
            lambda: f"({e(k)} {comparison} {e(k)})",
            lambda: f"({e(k)} {comparison} {e(k)})",
            lambda: f"({e('o')} {r.choice(['AND', 'OR'])} {e('o')})",
            lambda: f"(NOT {e('o')})",
            lambda: f"({e(k)} IS {r.choice(['', 'NOT '])}NULL)",
            lambda: f"({e(k)} {r.choice(['', 'NOT '])}IN ({e(k)}, {e(k)}))",
            lambda: f"({e(k)} BETWEEN {e(k)} AND {e(k)})",
            lambda: f"({e('v')} LIKE {r.choice(['''%''', '''a%''', '''_b_'''])!r})",
        ])()
    if kind == "v":
        return r.choice([
            lambda: f"({e('v')} || {e('v')})",
            lambda: f"{r.choice(['upper', 'lower', 'trim', 'reverse'])}({e('v')})",
            lambda: f"CAST({e('i')} AS VARCHAR)",
            lambda: f"substr({e('v')}, {r.randrange(1, 4)}, {r.randrange(0, 4)})",
            lambda: f"replace({e('v')}, 'a', 'zz')",
            lambda: f"coalesce({e('v')}, {e('v')})",
        ])()
    return r.choice([lambda: f"{r.choice(['greatest', 'least'])}({e('y')}, {e('y')})", lambda: f"coalesce({e('y')}, {e('y')})"])()


def same(mine, theirs):
    """Whether a value of Freestone equals one of DuckDB."""
    if theirs is None:
        return mine == ""
    if isinstance(theirs, bool):
        return mine == str(theirs).lower()
    if isinstance(theirs, float):
        try:
            x = float(mine)
        except ValueError:
            return False
        return math.isnan(x) if math.isnan(theirs) else x == theirs or abs(x - theirs) <= 1e-6 * abs(theirs)
    if isinstance(theirs, (int, Decimal)):
        try:
            return Decimal(mine) == theirs
        except ArithmeticError:
            return False
    return mine == str(theirs)


def main():
    script, count, seed = arguments(1000)
    print(f"seed {seed}, {count} expressions", flush=True)
    r = random.Random(seed)
    rows = [[value(r, name) for name in TYPES] for _ in range(60)]
    made = [f"CREATE TABLE x (id INT, {', '.join(f'{name} {kind}' for name, kind in TYPES.items())})"]
    made += [f"INSERT INTO x VALUES ({n}, {', '.join(row)})" for n, row in enumerate(rows)]
    database = duckdb.connect()
    counts = {"WRONG": 0, "REFUSED": 0, "ACCEPTED": 0}
    with tempfile.TemporaryDirectory() as folder:
        create(script, folder, database, made, seed)
        for first in range(0, count, BATCH):
            cases = []
            for _ in range(min(BATCH, count - first)):
                at = r.randrange(len(rows))
                kind = r.choice("nifmoovy")
                text = expression(r, kind, r.randrange(1, 4), TYPES)
                literals = dict(zip(TYPES, rows[at]))
                kind = r.randrange(3)
                if kind == 0:
                    sql = f"SELECT {text} FROM x WHERE id = {at}".format(**{name: name for name in TYPES})
                elif kind == 1:
                    sql = f"SELECT {text}".format(**literals)
                else:
                    condition = expression(r, "o", r.randrange(1, 4), TYPES)
                    sql = f"SELECT count(*) FROM x WHERE id = {at} AND {condition}".format(**{name: name for name in TYPES})
                cases.append(sql)
            mine = ours(script, folder, [sql.replace("#idiv#", "/") for sql in cases])
            for sql, answer in zip(cases, mine):
                try:
                    expected = database.execute(sql.replace("#idiv#", "//")).fetchall()
                except duckdb.Error as error:
                    expected = str(error)
                if isinstance(answer, str) and "division by zero" in answer:
                    verdict = None  # A quotient of decimals is an error here, and infinite there.
                elif isinstance(answer, str) and ("- -" in answer or expected == [(None,)]):
                    verdict = None  # There, constants are computed in wider types, and nothing is computed next to NULL.
                elif isinstance(expected, str) and answer in ([("",)], [("0",)], [("false",)]):
                    verdict = None  # Here, what a NULL or a condition that is not met decides is not computed.
                elif isinstance(answer, str):
                    verdict = None if isinstance(expected, str) else "REFUSED"
                elif isinstance(expected, str):
                    verdict = "ACCEPTED"
                else:
                    verdict = None if len(answer) == 1 and same(answer[0][0], expected[0][0]) else "WRONG"
                if verdict:
                    counts[verdict] += 1
                    print(f"{verdict} {sql}\n  here {str(answer)[-160:]}\n  there {str(expected)[:160]}", flush=True)
    print(f"seed {seed}: {count} expressions, {counts}")
    return 1 if any(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
