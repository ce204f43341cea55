"""Differential test with queries within queries over few rows: compares with DuckDB.

    python3 conformance/random_dependencies.py SCRIPT [QUERIES] [SEED]

SCRIPT is the program freestone or the example `script`; the Python module `duckdb` must be installed. What a plan knows of rows is
what is tested: which columns decide others (groups, DISTINCT, keys, numbered rows), which are constant, equal or in order, and what
becomes of it in lists as rows, inner and outer joins, unions, windows and subqueries. Rows are compared in their order. Prints the
seed, and each query whose rows differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare

BATCH = 25
#: Relations with the columns k and c.
BASES = [
    "SELECT k, CAST(count(*) AS INT) AS c FROM t GROUP BY k",
    "SELECT DISTINCT k, m AS c FROM t",
    "SELECT DISTINCT k, 1 AS c FROM t",
    "SELECT k, v AS c FROM p",
    "SELECT k, j AS c FROM q",
    "SELECT k, max(w) AS c FROM q GROUP BY k",
    "SELECT k, n AS c FROM t",
    "SELECT k, c FROM (SELECT k, m, CAST(count(*) AS INT) AS c FROM t GROUP BY k, m)",
    "SELECT k, CAST(row_number() OVER (ORDER BY k) AS INT) AS c FROM p",
    "SELECT DISTINCT ON (k) k, n AS c FROM t ORDER BY k, n",
    "SELECT max(k) AS k, CAST(count(*) AS INT) AS c FROM t",
    "SELECT 2 AS k, 1 AS c",
]
#: What is made of the relations `a` and `b` by the join `j`, with a choice `s` of an operator of sets, and `e` of EXISTS.
FORMS = [
    "SELECT k, unnest([c, 1, 2]) AS c FROM ({a}) u",
    "SELECT a.k, b.c FROM ({a}) a {j} ({b}) b ON a.k = b.k",
    "SELECT b.k, a.c FROM ({a}) a {j} ({b}) b ON a.k = b.k",
    "SELECT a.k, b.c FROM ({a}) a {j} ({b}) b ON a.k = b.c",
    "SELECT a.k, b.c FROM ({a}) a {j} ({b}) b ON a.k = b.k AND a.c < b.c",
    "SELECT * FROM ({a}) UNION ALL SELECT * FROM ({b})",
    "SELECT * FROM ({a}) {s} SELECT * FROM ({b})",
    "SELECT k, c FROM ({a}) a, range(2) r(i)",
    "SELECT DISTINCT k, c FROM ({a}) a",
    "SELECT k, CAST(sum(c) AS INT) AS c FROM ({a}) a GROUP BY k",
    "SELECT k, CAST(count(*) FILTER (WHERE c > 1) AS INT) AS c FROM ({a}) a GROUP BY k HAVING count(*) > 1",
    "SELECT k, CAST(count(DISTINCT c) AS INT) AS c FROM ({a}) a GROUP BY k",
    "SELECT k, c FROM ({a}) a WHERE k IN (SELECT c FROM ({b}) b)",
    "SELECT k, c FROM ({a}) a WHERE c NOT IN (SELECT c FROM ({b}) b WHERE c IS NOT NULL)",
    "SELECT k, c FROM ({a}) a WHERE {e} (SELECT 1 FROM ({b}) b WHERE b.k = a.k AND b.c <> a.c)",
    "SELECT a.k, x AS c FROM ({a}) a, unnest([1, 2, a.c]) u(x)",
    "SELECT k, 1 AS c FROM ({a}) a",
    "SELECT k, CAST(k + c AS INT) AS c FROM ({a}) a",
    "SELECT * FROM ({a}) a WHERE c = 1",
    "SELECT k, c FROM ({a}) a WHERE c = k",
    "SELECT k, CAST(row_number() OVER (PARTITION BY k ORDER BY c NULLS FIRST) AS INT) AS c FROM ({a}) a",
    "SELECT k, CAST(rank() OVER (ORDER BY k NULLS FIRST, c NULLS FIRST) AS INT) AS c FROM ({a}) a",
    "SELECT k, CAST(sum(c) OVER (PARTITION BY k) AS INT) AS c FROM ({a}) a",
    "SELECT k, c FROM ({a}) a QUALIFY row_number() OVER (PARTITION BY k ORDER BY c DESC NULLS LAST) = 1",
    "SELECT * FROM ({a}) a ORDER BY k NULLS LAST, c NULLS LAST LIMIT 4 OFFSET 1",
    "SELECT a.k, b.c FROM ({a}) a LEFT JOIN LATERAL (SELECT CAST(max(c) AS INT) AS c FROM ({b}) z WHERE z.k >= a.k) b ON true",
    "SELECT k, (SELECT max(b.c) FROM ({b}) b WHERE b.k = a.k) AS c FROM ({a}) a",
]
#: The queries of a relation, whose rows have one order.
QUERIES = [
    "SELECT k, c FROM ({r}) z ORDER BY k NULLS LAST, c DESC NULLS FIRST",
    "SELECT DISTINCT k FROM ({r}) z ORDER BY k NULLS LAST",
    "SELECT DISTINCT c FROM ({r}) z ORDER BY c NULLS FIRST",
    "SELECT k, count(*), sum(c) FROM ({r}) z GROUP BY k ORDER BY k NULLS LAST",
    "SELECT k, c, count(*) FROM ({r}) z GROUP BY k, c ORDER BY k NULLS LAST, c DESC NULLS LAST",
    "SELECT DISTINCT k, c FROM ({r}) z ORDER BY k NULLS LAST, c NULLS LAST",
    "SELECT count(*), count(DISTINCT k), count(DISTINCT c) FROM ({r}) z",
    "SELECT t.n FROM t LEFT JOIN ({r}) z ON t.n = z.k ORDER BY t.n",
    "SELECT t.n, z.c FROM t JOIN ({r}) z ON t.n = z.k ORDER BY t.n, z.c DESC NULLS LAST LIMIT 9",
    "SELECT k, c, sum(c) OVER (PARTITION BY c ORDER BY k NULLS FIRST) FROM ({r}) z ORDER BY k NULLS LAST, c NULLS LAST",
]


def tables(_):
    return [
        "CREATE TABLE t AS SELECT CAST(i % 4 AS INT) AS k, CAST(i AS INT) AS n, CAST(i * 7 % 5 AS INT) AS m FROM range(12) r(i)",
        "CREATE TABLE p (k INT PRIMARY KEY, l INT[], v INT)",
        "INSERT INTO p VALUES (1, [3, 1, 2], 5), (2, [9, 8], 5), (0, [], 6), (7, NULL, NULL)",
        "CREATE TABLE q (k INT, j INT, w INT, PRIMARY KEY (k, j))",
        "INSERT INTO q VALUES (1, 1, 4), (1, 2, 4), (2, 1, NULL), (3, 3, 1)",
    ]


def relation(r, depth):
    if depth == 0:
        return r.choice(BASES)
    a, b = relation(r, depth - 1), relation(r, r.randrange(depth))
    j = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    s = r.choice(["UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
    return r.choice(FORMS).format(a=a, b=b, j=j, s=s, e=r.choice(["EXISTS", "NOT EXISTS"]))


def query(r):
    return r.choice(QUERIES).format(r=relation(r, r.choice([1, 2, 2, 3])))


if __name__ == "__main__":
    sys.exit(compare(tables, query, BATCH, in_order=True))
