"""Common statements and functions of DuckDB and PostgreSQL: runs each in DuckDB and in Freestone, and compares the results.

    python3 conformance/everyday.py FREESTONE [SECTION]

FREESTONE is the command line, which `make build` builds. The Python module `duckdb` must be installed. `everyday.sql` contains the
statements, one per line, in sections that begin with `--! NAME`. A SELECT of several expressions is compared expression by
expression. For functions that DuckDB lacks, `--=` after a statement gives PostgreSQL's result. Prints the statements that
Freestone refuses or answers differently, and the number of equal results. The exit status is 1 if fewer than `AT_LEAST` percent
are equal.
"""

import csv
import io
import pathlib
import re
import subprocess
import sys
import tempfile

import duckdb

AT_LEAST = 95
FILE = pathlib.Path(__file__).with_name("everyday.sql")


def sections():
    """Pairs of a section's name and its statements."""
    found = []
    for line in FILE.read_text().splitlines():
        if line.startswith("--!"):
            found.append((line[3:].strip(), []))
        elif line and not line.startswith("--"):
            found[-1][1].append(line)
    return found


def expressions(sql):
    """The expressions of a SELECT without clauses, or None."""
    body = sql.removeprefix("SELECT ")
    if body == sql or re.search(r"\b(FROM|LIMIT|UNION)\b(?![^(]*\))", body):
        return None
    parts, depth, quoted, start = [], 0, False, 0
    for at, c in enumerate(body):
        if c == "'":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
        elif c == "," and depth == 0 and not quoted:
            parts.append(body[start:at].strip())
            start = at + 1
    return parts + [body[start:].strip()]


def value(text):
    """The text of a value in a form that is the same for both systems."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        return f"{float(text):.12g}"
    except ValueError:
        text = re.sub(r"(\d)T(\d\d:)", r"\1 \2", text)
        text = re.sub(r"(:\d\d)\.(\d*?)0+(?!\d)", lambda m: m[1] + ("." + m[2] if m[2] else ""), text)
        return re.sub(r"\s|'|\"", "", text.replace("=", ":")).lower()


def duck(connection, sql):
    """The rows of DuckDB, or its error."""
    try:
        if sql.startswith(("SELECT", "FROM", "WITH", "VALUES", "TABLE")):
            # Values as DuckDB's text, not as Python's.
            rows = connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})").fetchall()
        else:
            connection.execute(sql)
            rows = []
    except Exception as error:
        return str(error).splitlines()[0]
    return [["" if v is None else value(v) for v in row] for row in rows]


class Freestone:
    """Runs statements by the command line, each in a process of its own, on one database folder."""

    def __init__(self, program, folder):
        self.program = program
        self.database = pathlib.Path(folder) / "db"

    def run(self, sql):
        """The rows, or the error."""
        done = subprocess.run([self.program, self.database, "--format", "csv", "-c", sql], capture_output=True, text=True, timeout=60)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["no message"])[0]
        # A row of one NULL is an empty line.
        return [[value(v) for v in row] or [""] for row in csv.reader(io.StringIO(done.stdout))][1:]


def compare(ours, theirs):
    """The difference of Freestone's answer, or None."""
    if isinstance(theirs, str):
        return None if isinstance(ours, str) else f"DuckDB: {theirs}; ours: {ours}"
    if isinstance(ours, str):
        return ours
    return None if ours == theirs else f"DuckDB: {theirs}; ours: {ours}"


def main():
    program, *only = sys.argv[1:]
    agree, total = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Freestone(program, folder), duckdb.connect()
        for name, statements in sections():
            if only and name not in ["tables", *only]:
                continue
            for statement in statements:
                statement, _, known = statement.partition(" --= ")
                parts = expressions(statement)
                for sql in [statement] if parts is None else [f"SELECT {part}" for part in parts]:
                    wrong = compare(ours.run(sql), [[value(known)]] if known else duck(theirs, sql))
                    # Objects that both have created remain for later statements.
                    total += 1
                    agree += wrong is None
                    if wrong:
                        print(f"{name}: {sql}\n    {wrong}")
    print(f"{agree} of {total} agree")
    sys.exit(agree * 100 < total * AT_LEAST)


if __name__ == "__main__":
    main()
