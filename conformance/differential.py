"""Common parts of the random differential tests: arguments, tables in both systems, and Freestone's answers."""

import csv
import io
import random
import re
import subprocess
import sys
import tempfile

import duckdb


def arguments(count):
    """The program, the number of queries and the seed from the command line; `count` is the default number."""
    given = sys.argv[1:]
    return given[0], int(given[1]) if len(given) > 1 else count, int(given[2]) if len(given) > 2 else 1


# Designs of Freestone's tables. The seed chooses one.
DESIGNS = ["preset = 'auto'", "preset = 'row'", "preset = 'column'", "preset = 'slotted'", "preset = 'pax'", "preset = 'column', page_size = '4KiB'"]


def run(script, folder, sql):
    """Runs statements by the program on a database folder."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(sql)
        file.flush()
        return subprocess.run([script, folder, "-f", file.name, "--format", "csv"], capture_output=True, text=True)


def create(script, folder, database, statements, seed=1):
    """Runs the statements that create the tables in both systems. The seed chooses the design of the tables here."""
    design = random.Random(seed).choice(DESIGNS)
    mine = []
    for sql in statements:
        database.execute(sql)
        mine.append(f"{sql} WITH ({design})" if re.fullmatch(r"CREATE TABLE \w+ \(.*\)", sql, re.DOTALL) else sql)
    done = run(script, folder, ";\n".join(mine) + ";\n")
    if done.returncode:
        raise SystemExit(f"the tables cannot be created: {done.stderr}")


def ours(script, folder, queries, setup="", in_order=False):
    """The rows of each query as texts, sorted unless `in_order`, or the error as text. `setup` runs before the queries, with every restart."""
    answers, start = [None] * len(queries), 0
    while start < len(queries):
        done = run(script, folder, setup + "".join(f"SELECT '@@{n}' AS mark;\n{queries[n]};\n" for n in range(start, len(queries))))
        at = None
        lines = list(csv.reader(io.StringIO(done.stdout)))
        for n, line in enumerate(lines):
            if len(line) == 1 and line[0].startswith("@@"):
                at, answers[int(line[0][2:])] = int(line[0][2:]), []
            elif at is not None and not (line == ["mark"] and n + 1 < len(lines) and lines[n + 1] and lines[n + 1][0].startswith("@@")):
                answers[at].append(line)
        for n in range(start, len(queries)):
            if isinstance(answers[n], list):
                rows = [tuple(row) or ("",) for row in answers[n][1:]]
                answers[n] = rows if in_order else sorted(rows)
        if done.returncode == 0:
            break
        at = start if at is None else at
        answers[at] = "error: " + done.stderr.strip()[-300:]
        start = at + 1
    return answers


def theirs(database, sql, in_order=False):
    """DuckDB's rows of a query as texts, sorted unless `in_order`, or the error as text."""
    shown = lambda cell: "" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell)
    try:
        rows = database.execute(sql).fetchall()
    except duckdb.Error as error:
        return "error: " + str(error)[:200]
    rows = [tuple(shown(cell) for cell in row) for row in rows]
    return rows if in_order else sorted(rows)


def differ(sql, mine, expected, where=""):
    """Prints how two answers differ, which are rows or an error's text. Returns the numbers of wrong and of refused answers."""
    if isinstance(expected, str) and isinstance(mine, str):
        return 0, 0
    if isinstance(expected, str) or isinstance(mine, str):
        print(f"-- refused{where}: {sql}\n   ours {str(mine)[:200]}\n   DuckDB {str(expected)[:200]}", flush=True)
        return 0, 1
    if mine != expected:
        rows = [(a, b) for a, b in zip(mine, expected) if a != b][:2]
        print(f"-- differs{where}: {sql}\n   {rows or (len(mine), len(expected))}", flush=True)
        return 1, 0
    return 0, 0


def compare(tables, query, batch, in_order=False):
    """Compares random queries over the tables, as many as the command line says, `in_order`: also the order of their rows. The exit status: 1 if one differs."""
    script, count, seed = arguments(1000)
    print(f"seed {seed}, {count} queries", flush=True)
    r = random.Random(seed)
    wrong = refused = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        database = duckdb.connect()
        create(script, folder, database, tables(r), seed)
        for first in range(0, count, batch):
            queries = [query(r) for _ in range(min(batch, count - first))]
            for sql, mine in zip(queries, ours(script, folder, queries, in_order=in_order)):
                expected = theirs(database, sql, in_order)
                if isinstance(expected, str):
                    continue
                compared += 1
                if isinstance(mine, str):
                    refused += 1
                    print(f"REFUSED {sql}\n  {mine}", flush=True)
                elif mine != expected:
                    wrong += 1
                    print(f"WRONG {sql}\n  here {mine[:4]}\n  there {expected[:4]}", flush=True)
    print(f"seed {seed}: {compared} of {count} queries compared, {wrong} wrong, {refused} refused")
    return 1 if wrong or refused else 0
