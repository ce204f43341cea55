"""Common statements and functions of DuckDB and PostgreSQL: runs each in DuckDB and in Freestone, and compares the results.

    python3 conformance/everyday.py [SECTION]

The Python modules `duckdb` and `freestone` must be installed. `everyday.sql` contains the statements, one per line, in sections
that begin with `--! NAME`. A SELECT of several expressions is compared expression by expression. For functions that DuckDB lacks,
`--=` after a statement gives PostgreSQL's result. `--~` after a statement gives the reason why Freestone's answer is another one.
Prints the statements that Freestone refuses or answers differently without a reason, and the number of equal results. The exit
status is 1 if fewer than `AT_LEAST` percent are equal, if a difference has no reason, or if there is a reason without a difference.
"""

import pathlib
import re
import sys

import duckdb
import freestone

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


QUERIES = ("SELECT", "FROM", "WITH", "VALUES", "TABLE")


def answer(connection, sql):
    """The rows as text, or the error."""
    text = f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})" if sql.startswith(QUERIES) else sql
    try:
        rows = connection.execute(text).fetchall()
    except freestone.InterfaceError:
        rows = []  # a statement without rows
    except (duckdb.Error, freestone.Error) as error:
        if text != sql:
            return plain_answer(connection, sql)
        return str(error).splitlines()[0]
    return [["" if v is None else value(str(v)) for v in row] for row in rows]


def plain_answer(connection, sql):
    """The rows of a query that does not work within another one."""
    try:
        rows = connection.execute(sql).fetchall()
    except (duckdb.Error, freestone.Error) as error:
        return str(error).splitlines()[0]
    return [["" if v is None else value(str(v)) for v in row] for row in rows]


def compare(sql, ours, theirs):
    """The difference of Freestone's answer, or None."""
    if isinstance(theirs, str):
        return None if isinstance(ours, str) else f"DuckDB: {theirs}; ours: {ours}"
    if isinstance(ours, str):
        return ours
    # Of other statements, only DuckDB returns the number of changed rows.
    is_query = sql.startswith((*QUERIES, "PIVOT", "UNPIVOT", "EXECUTE")) or "RETURNING" in sql
    return None if ours == theirs or not is_query else f"DuckDB: {theirs}; ours: {ours}"


def checked(ours, theirs, line):
    """Pairs of SQL and its difference, or None, for a line of the file."""
    statement, _, why = line.partition(" --~ ")
    statement, _, known = statement.partition(" --= ")
    parts = expressions(statement)
    for sql in [statement] if parts is None else [f"SELECT {part}" for part in parts]:
        # Objects that both have created remain for later statements.
        wrong = compare(sql, answer(ours, sql), [[value(known)]] if known else answer(theirs, sql))
        yield sql, wrong, why


def main(only=(), show=print):
    """Whether enough answers are equal, and all differences have reasons."""
    equal, explained, total, faults = 0, 0, 0, 0
    ours, theirs = freestone.connect(), duckdb.connect()
    for name, lines in sections():
        if only and name not in ["tables", *only]:
            continue
        for line in lines:
            for sql, wrong, why in checked(ours, theirs, line):
                total += 1
                equal += wrong is None
                explained += wrong is not None and bool(why)
                if (wrong is None) == bool(why):
                    faults += 1
                    show(f"{name}: {sql}\n    {wrong or 'equal, but the file has a reason for a difference: ' + why}")
    show(f"{equal} of {total} agree, {explained} differ for a reason")
    return equal * 100 >= total * AT_LEAST and not faults


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
