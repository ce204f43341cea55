"""Differential test of ORDER BY, of its OFFSET and LIMIT, and of UNNEST: compares with DuckDB.

    python3 conformance/random_sorts.py SCRIPT [QUERIES] [SEED]

SCRIPT is the command line `freestone`. The Python module `duckdb` must be installed. A table of many rows has integers, extremes,
floats with NaN, infinities and -0.0, decimals of 38 digits, dates, booleans, texts that begin alike, and NULL in all of them. Queries
order it by up to three of these and by its unique number, and cut a stretch out of the order, whose number of rows and sums are
compared; others make rows of lists. Prints the seed, and each query whose answers differ. The exit status is 1 if there is one.
"""

import sys

from differential import compare

BATCH = 100
ROWS = 20_000
COLUMNS = ["a", "b", "f", "d", "w", "t", "u", "z"]
LISTS = ["[a, b]", "[a, NULL, b, a]", "[f]", "[w, w + 1]", "[z, NOT z]", "[t, u]", "l", "[d]"]


def tables(r):
    draw = lambda salt: f"(hash(i * 64 + {salt + r.randrange(8) * 100}) >> 1)::BIGINT"
    null = lambda value, salt: f"CASE WHEN {draw(salt)} % 9 = 0 THEN NULL ELSE {value} END"
    return [
        "CREATE TABLE s (i BIGINT, a BIGINT, b INT, f DOUBLE, d DATE, w DECIMAL(38, 2), t VARCHAR, u VARCHAR, z BOOLEAN, l BIGINT[])",
        "INSERT INTO s SELECT i, "
        + ", ".join(
            [
                null(f"CASE {draw(1)} % 50 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN -9223372036854775807 ELSE {draw(2)} % 900 - 450 END", 3),
                null(f"({draw(4)} % 5)::INT", 5),
                null(
                    f"CASE {draw(6)} % 9 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN 'inf'::DOUBLE WHEN 2 THEN '-inf'::DOUBLE WHEN 3 THEN -0.0::DOUBLE "
                    f"WHEN 4 THEN 0.0::DOUBLE ELSE ({draw(7)} % 2000 - 1000) / 8.0 END",
                    8,
                ),
                null(f"DATE '2026-01-01' + ({draw(9)} % 3000)::INT", 10),
                null(f"({draw(11)} % 100 - 50)::DECIMAL(38, 2) * 100000000000000000000000000000 + {draw(12)} % 7", 13),
                null(f"'https://www.example.org/' || ({draw(14)} % 40) || '/a long path that many share/' || ({draw(15)} % 30)", 16),
                null(f"repeat('ab', ({draw(17)} % 9)::INT) || repeat(chr(97 + ({draw(18)} % 3)::INT), ({draw(18)} % 3)::INT)", 19),
                null(f"{draw(20)} % 2 = 0", 21),
                null(f"range(({draw(22)} % 4)::BIGINT)", 23),
            ]
        )
        + f" FROM range({ROWS}) r(i)",
    ]


def order(r):
    keys = [f"{name} {r.choice(['ASC', 'DESC'])} NULLS {r.choice(['FIRST', 'LAST'])}" for name in r.sample(COLUMNS, r.randrange(1, 4))]
    return ", ".join([*keys, "i"])


def sorted_rows(r):
    where = r.choice(["", "", f" WHERE b < {r.randrange(5)}", " WHERE t IS NOT NULL", " WHERE i < 3000"])
    offset = r.randrange(1, r.choice([10, 3000, ROWS]))
    limit = r.choice(["", f" LIMIT {r.randrange(1, 9)}", f" LIMIT {r.randrange(4000, 12000)}"])
    value = r.choice(["a % 1000", "length(t)", "w % 1000", "date_part('day', d)", "b"])
    rows = f"SELECT i, {value} AS x FROM s{where} ORDER BY {order(r)}{limit} OFFSET {offset}"
    return f"SELECT count(*), sum(i), sum(x), min(i), max(i) FROM ({rows}) q"


def first_rows(r):
    """A stretch within a stretch."""
    inner = f"SELECT * FROM s ORDER BY {order(r)} LIMIT {r.randrange(4200, ROWS)} OFFSET {r.randrange(0, 900)}"
    return f"SELECT i, t, u, isnan(f) FROM ({inner}) q ORDER BY i LIMIT {r.randrange(1, 9)} OFFSET {r.randrange(0, 5000)}"


def elements(r):
    made, other = r.choice(LISTS), r.choice(["i", "i, b", "i, t"])
    rows = f"SELECT {other}, unnest({made}) AS x FROM s{r.choice(['', ' WHERE i % 3 = 1', ' WHERE l IS NULL'])}"
    # NaN is shown in different letters.
    value = r.choice(["count(x), min(x), max(x)"] * (made != "[f]") + ["count(DISTINCT x)", "count(*)"])
    return f"SELECT {value}, sum(i), count(*) FROM ({rows}) q"


def grouped_elements(r):
    return f"SELECT x, count(*), sum(i) FROM (SELECT i, unnest({r.choice(['[a, b]', 'l', '[b, b]', '[u, t]'])}) AS x FROM s) q GROUP BY x"


QUERIES = [sorted_rows, sorted_rows, sorted_rows, first_rows, elements, grouped_elements]


if __name__ == "__main__":
    sys.exit(compare(tables, lambda r: r.choice(QUERIES)(r), BATCH))
