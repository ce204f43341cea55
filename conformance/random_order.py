"""Random SELECTs without ORDER BY: their rows come in the order in which they were inserted.

    python conformance/random_order.py FREESTONE [QUERIES] [SEED]

Tables in random designs that keep the order of arrival have rows in several files and hot rows, of which some were changed or
deleted. Queries filter, compute, limit, nest and unite them (joins may read either side first), with 1, 2 and 8 threads. Each row has its place in the order as
its first column; the rows of an answer must ascend in it, and be as many as the query's own count says. Prints the queries that
differ. The exit status is 1 if there is one.
"""

import random
import subprocess
import sys
import tempfile

DESIGNS = ("preset = 'auto'", "preset = 'column'", "preset = 'row'", "preset = 'pax'", "preset = 'slotted'", "column_groups = '(a, x), (id, b)'")
THREADS = (1, 2, 8)
#: Queries of one process.
BATCH = 500
ROWS = 40_000
#: Between the first rows of two tables.
APART = 1_000_000


def tables(r):
    """Statements that make the tables, of which the parts of each are inserted one after the other."""
    values = "a % 97 AS a, a * 7919 % 10007 AS b, 'text ' || (a % 41) AS x, a / 8.0 AS f"
    for at, design in enumerate(DESIGNS):
        yield f"CREATE TABLE t{at} (id BIGINT, a BIGINT, b BIGINT, x VARCHAR, f DOUBLE) WITH ({design})"
        start = 0
        for share in sorted(r.sample(range(1, 100), 3)) + [99, 100]:
            end = ROWS * share // 100
            rows = f"SELECT {APART * at} + a AS id, {values} FROM generate_series({start + 1}, {end}) g(a)"
            yield f"INSERT INTO t{at} {rows}"
            start = end
        for _ in range(5):
            row = APART * at + r.randrange(ROWS)
            yield f"INSERT INTO t{at} SELECT max(id) + 1, 5, 6, 'late', 7.5 FROM t{at}"
            yield f"DELETE FROM t{at} WHERE id BETWEEN {row} AND {row + r.choice([0, 3, 700])}"


def condition(r):
    one = lambda: r.choice(
        [
            f"a {r.choice(['<', '>=', '=', '<>'])} {r.randrange(97)}",
            f"b BETWEEN {(low := r.randrange(10007))} AND {low + r.choice([5, 100, 3000])}",
            f"x = 'text {r.randrange(45)}'",
            f"x LIKE '%{r.randrange(10)}%{r.choice('t1e')}%'",
            f"id % {r.choice([2, 7, 100])} = {r.randrange(2)}",
            f"a IN ({', '.join(str(r.randrange(97)) for _ in range(3))})",
            f"f > {r.randrange(5000)}",
        ]
    )
    return r.choice(["", f" WHERE {one()}", f" WHERE {one()}", f" WHERE {one()} AND {one()}", f" WHERE {one()} OR {one()}"])


def limit(r):
    return r.choice(["", f" LIMIT {r.choice([1, 10, 300])}", f" LIMIT {r.randrange(1, 500)} OFFSET {r.choice([0, 5, 900, 20_000])}"])


def query(r):
    table = f"t{r.randrange(len(DESIGNS))}"
    columns = ", ".join(["id", *r.sample(["a", "b", "x", "f", "a + b", "upper(x)", "x || '!'", "CASE WHEN a > 40 THEN b END", "round(f)"], r.randrange(0, 4))])
    plain = f"SELECT {columns} FROM {table}{condition(r)}"
    shape = r.randrange(8)
    if shape == 0:
        return f"SELECT * FROM ({plain}{limit(r)}) q WHERE id % 3 < 2 LIMIT 300"
    if shape == 1:
        return f"WITH q AS ({plain}) SELECT * FROM q{limit(r) or ' LIMIT 2000'}"
    if shape == 2:
        at = r.randrange(len(DESIGNS) - 1)
        return f"SELECT id FROM t{at}{condition(r)} UNION ALL SELECT id FROM t{at + 1}{condition(r)} LIMIT {r.choice([7, 3000])}"
    return plain + (limit(r) if condition(r) else " LIMIT 1500")


def answers(binary, database, queries, threads):
    """The first columns of each answer."""
    script = "".join(f"{text};\nSELECT 'end' AS mark;\n" for text in queries)
    command = [binary, database, "--threads", str(threads), "--format", "csv", "-f", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr}\nafter {done.stdout.count('end')} of {len(queries)} queries")
    found, rows = [], []
    for line in done.stdout.splitlines():
        first = line.partition(",")[0].strip('"')
        if first == "end":
            found.append(rows)
            rows = []
        elif first.isdigit():
            rows.append(int(first))
    return found


def main(binary, count=2000, seed=1):
    r = random.Random(seed)
    wrong = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        database = f"{folder}/db"
        made = subprocess.run([binary, database, "-f", "-"], input=";\n".join(tables(r)) + ";\n", capture_output=True, text=True, check=False)
        if made.returncode:
            sys.exit(made.stderr)
        while compared < count:
            queries = [query(r) for _ in range(min(BATCH, count - compared))]
            threads = THREADS[compared // BATCH % len(THREADS)]
            counts = answers(binary, database, [f"SELECT count(*) FROM ({text}) counted" for text in queries], threads)
            for text, rows, total in zip(queries, answers(binary, database, queries, threads), counts, strict=True):
                if rows != sorted(rows) or [len(rows)] != total:
                    wrong += 1
                    print(f"{len(rows)} rows, counted {total}, {threads} threads: {text}")
            compared += len(queries)
    print(f"seed {seed}: {compared} queries, {wrong} out of order")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
