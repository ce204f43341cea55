"""Differential test of CSV files: reads and writes random files with random options, and compares with DuckDB.

    python3 conformance/random_files.py SCRIPT [FILES] [SEED]

SCRIPT is the command line `freestone`. The Python module `duckdb` must be installed. A file of the first kind is written here and
read by both systems: with delimiters, quotes, escapes, NULLs, comments, lines before the header, forms of dates and numbers,
encodings, compression, and, on request, damaged records. A file of the second kind is written by each system with COPY TO, and read
by both. Prints the seed, and each file that differs. The exit status is 1 if there is one.
"""

import gzip
import itertools
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import duckdb
from differential import arguments

KINDS = ["BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(9,2)"]
DATE_FORMS = ["%d.%m.%Y", "%Y/%m/%d", "%m-%d-%Y", "%d %b %Y", "%Y%m%d"]
TIMESTAMP_FORMS = ["%d.%m.%Y %H:%M:%S", "%Y%m%dT%H%M%S", "%d/%m/%Y %I:%M:%S %p", "%Y-%m-%d %H.%M.%S.%f"]
PIECES = ["a", "B", "é", "ß", " ", "x y", "0", "1.5", "NA", "null", "#", "'", '"', "\\", ",", ";", "|", "\n", "true", "2024-01-02"]


def literal(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


def option(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(literal, value)) + "]" if isinstance(value, list) else literal(value)


def values(r, kind, count):
    """Values in SQL's form, some of them NULL."""

    def one():
        if kind == "BIGINT":
            return r.choice([0, -1, 7, r.randrange(-(10**6), 10**6), 2**63 - 1, -(2**63)])
        if kind == "DOUBLE":
            return r.choice([0.5, -1.25, 0.1, 123456.789, r.randrange(-(10**6), 10**6) / 8])
        if kind == "DECIMAL(9,2)":
            return f"{r.randrange(-(10**6), 10**6) / 100:.2f}"
        if kind == "BOOLEAN":
            return r.choice(["true", "false"])
        day = f"{r.choice([1900, 1970, 2024, r.randrange(1800, 2200)])}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
        if kind == "DATE":
            return day
        if kind == "TIMESTAMP":
            return f"{day} {r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}"
        return "".join(r.choices(PIECES, k=r.randrange(4)))

    return [None if r.random() < 0.15 else one() for _ in range(count)]


class File:
    """A file of the first kind: its bytes, and the options with which it is read."""

    def __init__(self, r):
        self.r = r
        self.kinds = r.choices(KINDS, k=r.randrange(1, 6))
        self.names = [f"c{at}" for at in range(len(self.kinds))]
        self.delimiter = r.choice([",", ",", ";", "|", "\t", "||", "§", "~|~"])
        self.quote = r.choice(['"', '"', "'"])
        self.escape = r.choice([self.quote, self.quote, "\\"])
        self.nulls = r.choice([[""], [""], ["NA"], ["?"], ["", "null"]])
        self.comment = r.choice(["", "", "#"])
        self.line_end = r.choice(["\n", "\n", "\r\n"])
        self.header = r.random() < 0.7
        self.damaged = r.random() < 0.25
        # Thousands of one column are not told from a list of values, so these have another delimiter.
        self.decimal = "," if self.delimiter == ";" and r.random() < 0.5 else "."
        self.date_form = r.choice([None, *DATE_FORMS])
        self.timestamp_form = r.choice([None, *TIMESTAMP_FORMS])
        self.encoding = r.choice(["utf-8", "utf-8", "latin-1", "utf-16"])
        self.skipped = r.choice([0, 0, 0, 1, 3])

    def options(self):
        given = {
            "auto_detect": False,
            "columns": dict(zip(self.names, self.kinds)),
            "delim": self.delimiter,
            "quote": self.quote,
            "escape": self.escape,
            "nullstr": self.nulls if len(self.nulls) > 1 else self.nulls[0],
            "allow_quoted_nulls": False,
            "header": self.header,
        }
        if self.line_end == "\r\n":
            given["new_line"] = "\\r\\n"
        if self.comment:
            given["comment"] = self.comment
        if self.skipped:
            given["skip"] = self.skipped
        if self.decimal == ",":
            given["decimal_separator"] = ","
        if self.date_form:
            given["dateformat"] = self.date_form
        if self.timestamp_form:
            given["timestampformat"] = self.timestamp_form
        if self.encoding != "utf-8":
            given["encoding"] = self.encoding
        if self.damaged:
            given[self.r.choice(["ignore_errors", "store_rejects"])] = True
            if self.r.random() < 0.3:
                given["null_padding"] = True
        return given

    def text(self, kind, value, database):
        """The field of a value."""
        r = self.r
        if value is None:
            return r.choice(self.nulls)
        if kind == "DATE" and self.date_form:
            value = database.execute("SELECT strftime(?::DATE, ?)", [value, self.date_form]).fetchone()[0]
        if kind == "TIMESTAMP" and self.timestamp_form:
            value = database.execute("SELECT strftime(?::TIMESTAMP, ?)", [value, self.timestamp_form]).fetchone()[0]
        text = str(value)
        if kind in ("DOUBLE", "DECIMAL(9,2)"):
            text = text.replace(".", self.decimal)
        # A field that is empty, or has blanks at an end, needs quotes as well: what such a field means depends on other options.
        special = [*self.delimiter, self.quote, self.escape, "\n", "\r", *filter(None, [self.comment])]
        if kind == "VARCHAR" and (text != text.strip() or not text or text in self.nulls or r.random() < 0.1):
            return self.quoted(text)
        return self.quoted(text) if any(mark in text for mark in special) else text

    def quoted(self, text):
        escaped = text
        if self.escape != self.quote:
            escaped = escaped.replace(self.escape, self.escape * 2)
        return self.quote + escaped.replace(self.quote, self.escape + self.quote) + self.quote

    def write(self, path, database):
        r = self.r
        lines = ["some title" for _ in range(self.skipped)]
        if self.header:
            lines.append(self.delimiter.join(self.names))
        columns = [values(r, kind, r.choice([1, 3, 30])) for kind in self.kinds]
        for row in itertools.islice(zip(*map(itertools.cycle, columns)), max(map(len, columns))):
            fields = [self.text(kind, value, database) for kind, value in zip(self.kinds, row)]
            if len(fields) == 1 and not fields[0].strip():
                # An empty line is no record of one column, so there are none here.
                continue
            if self.damaged and r.random() < 0.2:
                fields = r.choice([fields[:-1] or ["x"], [*fields, "more"], ["bad", *fields[1:]]])
            lines.append(self.delimiter.join(fields))
            if self.comment and r.random() < 0.2:
                lines.append(f"{self.comment} {self.delimiter} a comment")
        data = (self.line_end.join(lines) + self.line_end).encode(self.encoding)
        path.write_bytes(data)
        if self.encoding == "utf-8" and r.random() < 0.2:
            path.write_bytes(gzip.compress(data))
            return {"compression": "gzip"}
        return {}


def copied(r):
    """A file of the second kind: the query, the options of COPY TO, and those of reading."""
    kinds = r.choices(KINDS, k=r.randrange(2, 5))
    rows = list(zip(*(values(r, kind, r.choice([1, 4, 12])) for kind in kinds)))
    casts = ", ".join(f"CAST(column{at + 1} AS {kind}) AS c{at}" for at, kind in enumerate(kinds))
    names = ", ".join(f"column{at + 1}" for at in range(len(kinds)))
    source = f"SELECT {casts} FROM (VALUES {', '.join('(' + ', '.join(map(literal, row)) + ')' for row in rows)}) v({names})"
    delimiter = r.choice([",", ";", "|", "\t", "||"])
    quote = r.choice(['"', '"', "'"])
    both = {"header": r.random() < 0.7, "delim": delimiter, "quote": quote, "escape": r.choice([quote, "\\"]), "nullstr": r.choice(["", "NA", "?"])}
    if r.random() < 0.5:
        both["dateformat"] = r.choice(DATE_FORMS)
    if r.random() < 0.5:
        both["timestampformat"] = r.choice(TIMESTAMP_FORMS)
    if r.random() < 0.3:
        both["compression"] = r.choice(["gzip", "zstd"])
    written = dict(both)
    if r.random() < 0.4:
        written["force_quote"] = [f"c{at}" for at in range(len(kinds)) if r.random() < 0.5] or ["c0"]
    if r.random() < 0.3:
        written["new_line"] = "\\r\\n"
    read = {**both, "auto_detect": False, "columns": {f"c{at}": kind for at, kind in enumerate(kinds)}, "allow_quoted_nulls": False}
    return source, written, read


def query(path, options):
    given = "".join(f", {name}={option(value)}" for name, value in options.items())
    # DuckDB reads a text where a query casts a column to one, whatever its form. The limit is between them.
    return f"SELECT COLUMNS(*)::VARCHAR FROM (SELECT * FROM read_csv('{path}'{given}) LIMIT 1000000)"


def copy(source, path, options):
    def value(name, given):
        return f"({', '.join(given)})" if name == "force_quote" else option(given)

    return f"COPY ({source}) TO '{path}' (FORMAT csv, {', '.join(f'{name} {value(name, given)}' for name, given in options.items())})"


def plain(rows):
    """Sorted rows of texts, with one form of timestamps."""
    form = lambda text: None if text is None else re.sub(r"^(-?\d{4,}-\d\d-\d\d)T", r"\1 ", str(text))  # noqa: E731
    return sorted((tuple(map(form, row)) for row in rows), key=repr)


def ours(script, statement):
    """The rows of a statement, or the error as text."""
    done = subprocess.run([script, "-c", statement, "--format", "ndjson"], capture_output=True, text=True)
    if done.returncode:
        return "error: " + done.stderr.strip()[:300]
    return plain(json.loads(line).values() for line in done.stdout.splitlines() if line.startswith("{"))


def theirs(database, statement):
    try:
        return plain(database.execute(statement).fetchall())
    except duckdb.Error as error:
        return "error: " + str(error)[:300]


def is_wrong(what, here, there, expected=None):
    """Prints and tells whether an answer is wrong. What DuckDB cannot read is not compared."""
    expected = there if expected is None else expected
    wrong = [("here", here)] if here != expected and not isinstance(expected, str) else []
    if not isinstance(there, str) and there != expected:
        wrong.append(("there", there))
    if wrong:
        print(f"WRONG {what}", flush=True)
    for name, answer in wrong:
        rows = [] if isinstance(answer, str) else answer
        shown = answer if isinstance(answer, str) else [row for row in rows if row not in expected][:3]
        missing = [row for row in expected if row not in rows][:3]
        print(f"  {name}: {shown}, {len(rows)} rows instead of {len(expected)}, missing {missing}", flush=True)
    return bool(wrong)


def read_file(r, script, database, folder):
    file, path = File(r), folder / "read.csv"
    options = {**file.options(), **file.write(path, database)}
    statement = query(path, options)
    return is_wrong(f"{statement}\n  {path.read_bytes()[:600]!r}", ours(script, statement), theirs(database, statement))


def copy_file(r, script, database, folder):
    source, written, read = copied(r)
    expected = theirs(database, f"SELECT COLUMNS(*)::VARCHAR FROM ({source})")
    wrong = False
    for writer in ("here", "there"):
        path = folder / f"{writer}.csv"
        statement = copy(source, path, written)
        done = ours(script, statement) if writer == "here" else theirs(database, statement)
        reading = query(path, read)
        if isinstance(done, str):
            print(f"WRONG {statement}\n  {writer} {done}", flush=True)
            wrong = True
        else:
            here, there = ours(script, reading), theirs(database, reading)
            wrong |= is_wrong(f"{statement}\n  {reading}\n  {path.read_bytes()[:600]!r}", here, there, expected)
    return wrong


def main():
    script, count, seed = arguments(200)
    print(f"seed {seed}, {count} files", flush=True)
    wrong, database = 0, duckdb.connect()
    with tempfile.TemporaryDirectory() as folder:
        for at in range(count):
            # A generator of its own, so that a file can be made again without those before it.
            r = random.Random(f"{seed} {at}")
            wrong += (read_file if at % 2 == 0 else copy_file)(r, script, database, pathlib.Path(folder))
    print(f"seed {seed}: {count} files, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
