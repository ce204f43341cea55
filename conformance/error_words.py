"""Checks that errors speak of SQL: no words of the libraries below, and no internal errors.

    python3 conformance/error_words.py FREESTONE [--seed 1] [--hostile 200] [--only KIND]

Runs statements that are mostly wrong on a server: each function and aggregate with arguments of types that it may not take,
each operator between all types, casts, lists, VALUES, CASE, set operations, conditions and writes of all types, names that
nothing has, and the statements of `hostile.py`. Prints each error that has such words, and the number of statements by
SQLSTATE. The exit status is 1 if there is one. Needs only Python's standard library.
"""

import argparse
import itertools
import random
import re
import sys
import tempfile

import hostile

# Values by their types.
VALUES = {
    "boolean": "true",
    "integer": "1",
    "smallint": "1::SMALLINT",
    "ubigint": "1::UBIGINT",
    "decimal": "1.5",
    "real": "1.5::REAL",
    "double": "1.5::DOUBLE",
    "text": "'foo'",
    "bytes": "'foo'::BLOB",
    "uuid": "'00000000-0000-0000-0000-000000000001'::UUID",
    "date": "DATE '2024-01-01'",
    "time": "TIME '10:00:00'",
    "timestamp": "TIMESTAMP '2024-01-01 10:00:00'",
    "timestamptz": "TIMESTAMPTZ '2024-01-01 10:00:00+00'",
    "interval": "INTERVAL '1 day'",
    "list": "[1, 2]",
    "texts": "['a', 'b']",
    "lists": "[[1], [2]]",
    "struct": "{'a': 1, 'b': 'x'}",
    "map": "MAP {'a': 1}",
    "null": "NULL",
    "date64": "arrow_cast('2024-01-01', 'Date64')",
}
COLUMNS = {
    "b": "BOOLEAN", "i": "INTEGER", "n": "DECIMAL(9, 2)", "x": "DOUBLE", "s": "VARCHAR", "d": "DATE", "t": "TIMESTAMP", "l": "INTEGER[]",
    "r": "STRUCT(a INTEGER)", "u": "UUID", "y": "BLOB", "v": "INTERVAL", "c": "TIME",
}
TYPES = [
    "BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(5, 2)", "REAL", "DOUBLE", "VARCHAR", "BLOB", "UUID", "DATE", "TIME",
    "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL", "INTEGER[]", "VARCHAR[]", "STRUCT(a INTEGER)", "MAP(VARCHAR, INTEGER)", "JSON",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "^", "||", "=", "<", "<>", "IS DISTINCT FROM", "AND", "OR", "LIKE", "ILIKE", "SIMILAR TO", "~", "&", "|", "<<", "->", "->>", "@>", "&&", "^@"]

# Statements whose names or forms mean nothing.
NONSENSE = """
SELECT unnest(unnest([[1, 2], [3]])) + 'a'
SELECT unnest(5)
SELECT unnest([1]) WHERE unnest([true])
SELECT sum(unnest([1]))
SELECT x.y.z FROM w
SELECT w.x.y.z.u.v FROM w
SELECT nothing FROM w
SELECT w.nothing FROM w
SELECT nothing(i) FROM w
SELECT i FROM nothing
SELECT i FROM w, w AS w2
SELECT i FROM w JOIN w AS w2 USING (nothing)
SELECT * FROM w JOIN w ON true
SELECT sum(i), s FROM w
SELECT sum(sum(i)) FROM w
SELECT sum(i) OVER (PARTITION BY sum(x)) , s FROM w
SELECT i FROM w WHERE sum(i) > 1
SELECT i FROM w WHERE rank() OVER () > 1
SELECT i FROM w GROUP BY 7
SELECT i FROM w ORDER BY 7
SELECT i FROM w LIMIT 'a'
SELECT i FROM w LIMIT -1
SELECT i FROM w OFFSET i
SELECT i FROM w HAVING i > 1
SELECT * FROM w UNION SELECT 1
SELECT i, i FROM w UNION SELECT 1
SELECT (SELECT i, s FROM w)
SELECT i IN (SELECT i, s FROM w) FROM w
SELECT i = ANY (5) FROM w
SELECT i = ALL ('a') FROM w
SELECT EXISTS (SELECT nothing FROM w)
SELECT (SELECT 1 UNION ALL SELECT 2)
SELECT rank() FROM w
SELECT upper(s) OVER () FROM w
SELECT sum(i) FILTER (WHERE i) FROM w
SELECT sum(DISTINCT i, x) FROM w
SELECT count(DISTINCT i, s) FROM w
SELECT sum(i) OVER (ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) FROM w
SELECT sum(i) OVER (ORDER BY s RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w
SELECT sum(i) OVER (ORDER BY d RANGE BETWEEN 'a' PRECEDING AND CURRENT ROW) FROM w
SELECT sum(i) OVER nothing FROM w
SELECT lag(i, 'a') OVER (ORDER BY i) FROM w
SELECT ntile(0) OVER (ORDER BY i) FROM w
SELECT nth_value(i, -1) OVER (ORDER BY i) FROM w
SELECT percentile_cont(2) WITHIN GROUP (ORDER BY i) FROM w
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY s) FROM w
SELECT string_agg(i) FROM w
SELECT CASE i WHEN 'a' THEN 1 END FROM w
SELECT CASE WHEN i THEN 1 END FROM w
SELECT CAST(i AS nothing) FROM w
SELECT CAST(s AS INT) FROM w
SELECT CAST(s AS STRUCT(a INT)) FROM w
SELECT s::DATE FROM w
SELECT r.nothing FROM w
SELECT i.a FROM w
SELECT l['a'] FROM w
SELECT r[1] FROM w
SELECT {'a': 1}.b
SELECT list_transform(l, 5) FROM w
SELECT list_transform(i, x -> x) FROM w
SELECT list_transform(l, x -> nothing) FROM w
SELECT list_filter(l, x -> x) FROM w
SELECT list_reduce(l, x -> x) FROM w
SELECT * FROM range('a')
SELECT * FROM range(1, 2, 3, 4)
SELECT * FROM generate_series(1, 2, 0)
SELECT * FROM unnest(5)
SELECT * FROM nothing(5)
SELECT * FROM w TABLESAMPLE (200 PERCENT)
SELECT extract(nothing FROM d) FROM w
SELECT extract(year FROM i) FROM w
SELECT date_trunc('nothing', d) FROM w
SELECT INTERVAL 'nothing'
SELECT DATE 'nothing'
SELECT TIMESTAMP '2024-13-01'
SELECT 'a' ~ '('
SELECT regexp_replace(s, '(', 'x') FROM w
SELECT s LIKE 'a' ESCAPE 'ab' FROM w
SELECT 9223372036854775807 + 1
SELECT 1e400
SELECT 99999999999999999999999999999999999999999
SELECT CAST(99999999999 AS INT)
SELECT CAST(-1 AS UBIGINT)
SELECT 1 // 0
SELECT nextval('nothing')
SELECT currval('nothing')
SELECT current_setting('nothing')
SELECT ROW(1, 2) = ROW(1, 2, 3)
SELECT (1, 2) IN ((1, 2, 3))
SELECT (1, 2) IN (SELECT 1)
SELECT [1, 'a']
SELECT [1, [2]]
SELECT MAP {'a': 1, 'a': 2}
SELECT MAP {'a': 1, 2: 2}
SELECT MAP(['a'], [1, 2])
SELECT array_agg(i ORDER BY nothing) FROM w
WITH q AS (SELECT 1) SELECT nothing FROM q
WITH q(a, b) AS (SELECT 1) SELECT * FROM q
WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT 'a' FROM q) SELECT * FROM q LIMIT 3
WITH RECURSIVE q AS (SELECT 1 AS n UNION ALL SELECT n, n FROM q) SELECT * FROM q LIMIT 3
VALUES (1), (1, 2)
VALUES (1), (DATE '2024-01-01')
SELECT * FROM (VALUES (1, 2)) q(a, b, c)
SELECT DISTINCT ON (nothing) i FROM w
SELECT * EXCLUDE (nothing) FROM w
SELECT * REPLACE (1 AS nothing) FROM w
SELECT COLUMNS('nothing') FROM w
SELECT i FROM w QUALIFY i > 1
PIVOT w ON nothing USING sum(i)
UNPIVOT w ON i, s
SELECT * FROM w ASOF JOIN w AS w2 ON w.i = w2.i
SELECT grouping(i) FROM w
SELECT i FROM w GROUP BY GROUPING SETS ((nothing))
SELECT * FROM w, LATERAL (SELECT nothing) q
SELECT a FROM (SELECT 1 AS a, 2 AS a) q
SELECT i FROM w WINDOW o AS (ORDER BY nothing)
PREPARE p AS SELECT $1 + nothing FROM w
EXECUTE nothing(1)
EXPLAIN SELECT nothing FROM w
SELECT $1
SELECT ?
"""


def calls(functions, r):
    """Each function with no argument, and with up to three of several types."""
    values = list(VALUES.values())
    for name in functions:
        yield f"SELECT {name}()"
        yield from (f"SELECT {name}({value})" for value in values)
        for count, calls in [(2, 12), (3, 8), (4, 2)]:
            yield from (f"SELECT {name}({', '.join(r.choices(values, k=count))})" for _ in range(calls))
        yield f"SELECT {name}({r.choice(list(COLUMNS))}, {r.choice(list(COLUMNS))}) FROM w"
        yield f"SELECT {name}({r.choice(list(COLUMNS))}) OVER (ORDER BY i) FROM w"


def statements(functions, r):
    """The statements of each kind."""
    pairs = list(itertools.product(VALUES.values(), repeat=2))
    columns = list(itertools.product(COLUMNS, repeat=2))
    return {
        "calls": calls(functions, r),
        "operators": (f"SELECT {a} {o} {b}" for o in OPERATORS for a, b in pairs),
        "operators of columns": (f"SELECT {a} {o} w.{b} FROM w" for o in OPERATORS for a, b in columns),
        "unary": (f"SELECT {o} {a}" for o in ["-", "+", "NOT", "~", "@"] for a in VALUES.values()),
        "casts": (f"SELECT CAST({a} AS {b})" for a in VALUES.values() for b in TYPES),
        "casts of columns": (f"SELECT CAST({a} AS {b}) FROM w" for a in COLUMNS for b in TYPES),
        "unions": (f"SELECT {a} {o} SELECT {b}" for o in ["UNION", "EXCEPT", "UNION ALL"] for a, b in pairs),
        "values": (f"SELECT * FROM (VALUES ({a}), ({b})) q" for a, b in pairs),
        "lists": (f"SELECT [{a}, {b}]" for a, b in pairs),
        "cases": (f"SELECT CASE WHEN true THEN {a} ELSE {b} END" for a, b in pairs),
        "whens": (f"SELECT CASE {a} WHEN {b} THEN 1 END" for a, b in pairs),
        "in": (f"SELECT {a} IN ({b}, {b})" for a, b in pairs),
        "in subqueries": (f"SELECT {a} IN (SELECT {b})" for a, b in pairs),
        "between": (f"SELECT {a} BETWEEN {b} AND {b}" for a, b in pairs),
        "coalesce": (f"SELECT {f}({a}, {b})" for f in ["coalesce", "greatest", "nullif"] for a, b in pairs),
        "conditions": (f"SELECT 1 FROM w WHERE {a}" for a in [*VALUES.values(), *COLUMNS]),
        "joins": (f"SELECT 1 FROM w JOIN w AS o ON w.{a} = o.{b}" for a, b in columns),
        "using": (f"SELECT 1 FROM w JOIN (SELECT {b} AS {a} FROM w) o USING ({a})" for a, b in columns),
        "windows": (f"SELECT {f}({a}) OVER (ORDER BY {b} RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w" for f in ["sum", "max"] for a, b in columns),
        "inserts": (f"INSERT INTO w ({a}) VALUES ({b})" for a in COLUMNS for b in VALUES.values()),
        "inserted": (f"INSERT INTO w ({a}) SELECT {b} FROM w" for a, b in columns),
        "updates": (f"UPDATE w SET {a} = {b}" for a in COLUMNS for b in [*VALUES.values(), *COLUMNS]),
        "defaults": (f"CREATE TABLE z (a {a} DEFAULT {b}, CHECK (a = {b}))" for a in TYPES for b in VALUES.values()),
        "indices": (f"SELECT ({a})[{b}]" for a, b in pairs),
        "fields": (f"SELECT ({a}).a" for a in VALUES.values()),
        "unnest": (f"SELECT unnest({a})" for a in VALUES.values()),
        "tables": (f"SELECT * FROM {f}({a})" for f in ["unnest", "range", "generate_series"] for a in VALUES.values()),
        "limits": (f"SELECT i FROM w {c} {a}" for c in ["LIMIT", "OFFSET", "ORDER BY"] for a in VALUES.values()),
        "nonsense": NONSENSE.strip().split("\n"),
    }


# Names of Arrow's types that no SQL has, and what the libraries say of themselves.
WORDS = re.compile(
    r"\b(U?Int(8|16|32|64)|Float(16|32|64)|Utf8|Utf8View|LargeUtf8|Date(32|64)|Time(32|64)|Decimal(32|64|128|256)"
    r"|Timestamp\(|Duration\(|Interval\(|FixedSize\w+|LargeList|BinaryView|(List|Struct|Map|Dictionary)\(|MonthDayNano)"
    r"|DataFusion|datafusion|Arrow error|ArrowError|file a bug|bug report|[Ii]nternal error|Error during|Execution error|Optimizer rule"
    r"|type_coercion|Candidate functions|No function matches|[Cc]oerc|Some\(|None\b|ScalarValue|PhysicalExpr|LogicalPlan|Signature|signature"
    r"|Column \{|Field \{|relation:|DataType|user-defined|__\w|freestone\$|[\x01\x02]|panicked"
)


def wrong(answer, sql):
    """Whether an error has words that are not of SQL, more than one line, or the SQLSTATE of an internal error."""
    for own in re.findall("'[^']+'", sql):
        answer = answer.replace(own, "''")
    return answer.startswith("XX000") or "\n" in answer or WORDS.search(answer)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hostile", type=int, default=200, help="the number of statements of hostile.py")
    parser.add_argument("--only", help="one kind of statement")
    options = parser.parse_args()
    r = random.Random(options.seed)
    states, faults = {}, []
    with tempfile.TemporaryDirectory() as folder:
        server = hostile.Server(options.program, folder, "1GB", "5s")
        client = hostile.Client(server.port, hostile.ADMIN)
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        row = "true, 1, 1.5, 1.5, 'foo', '2024-01-01', '2024-01-01 10:00:00', [1, 2], {'a': 1}, '00000000-0000-0000-0000-000000000001', 'foo', '1 day', '10:00:00'"
        for sql in [*hostile.SET_UP, f"CREATE TABLE w ({columns})", f"INSERT INTO w VALUES ({row})"]:
            if isinstance(answer := client.run(sql), str):
                sys.exit(f"{sql}: {answer}")
        client.run("SELECT DISTINCT routine_name FROM information_schema.routines ORDER BY 1", functions := [])
        kinds = statements(filter(str.isidentifier, functions), r)
        attacks = (list(hostile.generators(random.Random(f"{options.seed} {at}")).values()) for at in range(options.hostile))
        kinds["hostile"] = (every[at % len(every)]() for at, every in enumerate(attacks))
        for kind, every in kinds.items():
            for sql in every if options.only in (None, kind) else []:
                # Each write is undone.
                writes = not sql.startswith(("SELECT", "WITH", "VALUES"))
                client.run("BEGIN") if writes else None
                answer = client.run(sql)
                client.run("ROLLBACK") if writes else None
                state = answer[:5] if isinstance(answer, str) else "rows"
                states[state] = states.get(state, 0) + 1
                if isinstance(answer, str) and wrong(answer, sql):
                    faults.append(f"{kind}: {sql[:200]}\n    {answer[:400]}")
            print(f"{kind}: {sum(states.values())} statements, {len(faults)} faults", file=sys.stderr, flush=True)
        server.process.terminate()
        server.process.wait(30)
    print(f"statements: {sum(states.values())}, by SQLSTATE: {dict(sorted(states.items()))}")
    for fault in faults:
        print(f"fault: {fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
