"""Differential test of dates, timestamps and intervals: compares with DuckDB.

    python3 conformance/random_times.py SCRIPT [EXPRESSIONS] [SEED]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed.
The expressions have every operator and function, over columns with NULLs and extremes (years 1, 1677, 2262 and 9999, leap days,
hours that daylight saving skips and repeats); comparisons of dates, timestamps, intervals and texts; groups, joins, orders and
aggregates of intervals; and sessions in several time zones. Results are compared as texts in a form that both systems produce
(see `SAME`). Prints the seed, and each query whose answers differ. The exit status is 1 if there is one.
"""

import random
import sys
import tempfile

import duckdb
from differential import arguments, create, differ, ours

BATCH = 200
DATES = ["2024-01-31", "2024-02-29", "2023-02-28", "1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "1677-09-21",
         "2262-04-12", "2000-02-29", "1900-02-28", "2024-03-10", "2024-11-03", "2020-12-31", "2021-01-03", "2001-01-01"]
CLOCKS = ["00:00:00", "23:59:59.999999", "12:34:56.789", "02:30:00", "01:30:00", "00:00:00.000001", "06:00:00"]
INTERVALS = ["1 day", "24 hours", "1 month", "30 days", "31 days", "1 year", "12 months", "-1 day", "-1 month", "90 minutes",
             "1 month -1 day", "1 year 2 months 3 days 04:05:06.789", "0 days", "-00:00:01.5", "36 hours", "400 years", "1 week"]
PARTS = ["year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "quarter", "week", "dow", "isodow",
         "doy", "decade", "epoch", "isoyear"]
CUTS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second", "milliseconds", "microseconds", "decade"]
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia"]
COMPARISONS = ["<", "<=", ">", ">=", "=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]

# Results as texts that both systems write in the same way. DuckDB has no sum of intervals, so lengths are summed there.
SAME = {"timestamp": "CAST({} AS VARCHAR)", "date": "CAST({} AS VARCHAR)", "interval": "CAST({} AS VARCHAR)",
        "number": "CAST({} AS DOUBLE)", "boolean": "CAST({} AS INT)", "zoned": "CAST(epoch_us({}) AS BIGINT)"}
OURS = {**SAME, "zoned": "CAST(extract(epoch FROM {}) * 1000000 AS BIGINT)"}


def tables(r):
    """The statements that create the table in both systems."""
    rows = []
    for n in range(60):
        cell = lambda text, rate=0.1: "NULL" if r.random() < rate else text
        date, other = r.choice(DATES), r.choice(DATES)
        ts = f"TIMESTAMP '{r.choice(DATES)} {r.choice(CLOCKS)}'"
        us = f"TIMESTAMP '{r.choice(DATES[:5])} {r.choice(CLOCKS)}'"
        rows.append(f"({n}, {cell(f'DATE {date!r}')}, {cell(f'DATE {other!r}')}, {cell(ts)}, {cell(us)}, {r.randrange(-3, 40)})")
    return ["CREATE TABLE t (id INT, d DATE, e DATE, ts TIMESTAMP, us TIMESTAMP, n INT)", f"INSERT INTO t VALUES {', '.join(rows)}"]


class Expressions:
    def __init__(self, r):
        self.r = r

    def interval(self, depth=2):
        r = self.r
        kind = r.randrange(9) if depth else 0
        literal = f"INTERVAL '{r.choice(INTERVALS)}'"
        if kind < 4:
            return literal
        if kind == 4:
            return f"({self.timestamp(depth - 1)} - {self.timestamp(depth - 1)})"
        if kind == 5:
            return f"({literal} * {r.choice(['2', '3', 'n', '0', '-1'])})"
        if kind == 6:
            return f"(-{literal})"
        if kind == 7:
            return f"({literal} {r.choice('+-')} INTERVAL '{r.choice(INTERVALS)}')"
        return f"CASE WHEN n > 5 THEN {literal} ELSE INTERVAL '{r.choice(INTERVALS)}' END"

    def date(self, depth=2):
        r = self.r
        kind = r.randrange(7) if depth else r.randrange(3)
        if kind < 2:
            return r.choice(["d", "e"])
        if kind == 2:
            return f"DATE '{r.choice(DATES)}'"
        if kind == 3:
            return f"({self.date(depth - 1)} {r.choice('+-')} {r.choice(['1', 'n', '30', '365'])})"
        if kind == 4:
            return f"CAST({self.timestamp(depth - 1)} AS DATE)"
        if kind == 5:
            return f"coalesce({self.date(depth - 1)}, {self.date(depth - 1)})"
        return f"CAST('{r.choice(DATES)}' AS DATE)"

    def timestamp(self, depth=2):
        r = self.r
        kind = r.randrange(11) if depth else r.randrange(3)
        if kind < 2:
            return r.choice(["ts", "us"])
        if kind == 2:
            return f"TIMESTAMP '{r.choice(DATES)} {r.choice(CLOCKS)}'"
        if kind == 3:
            return f"({self.timestamp(depth - 1)} {r.choice('+-')} {self.interval(depth - 1)})"
        if kind == 4:
            return f"({self.date(depth - 1)} {r.choice('+-')} {self.interval(depth - 1)})"
        if kind == 5:
            return f"date_trunc('{r.choice(CUTS)}', {self.timestamp(depth - 1)})"
        if kind == 6:
            return f"CAST({self.date(depth - 1)} AS TIMESTAMP)"
        if kind == 7:
            return f"coalesce({self.timestamp(depth - 1)}, {self.timestamp(depth - 1)})"
        if kind == 8:
            return f"CASE WHEN n > 5 THEN {self.timestamp(depth - 1)} ELSE {self.date(depth - 1)} END"
        if kind == 9:
            zone = r.choice(ZONES)
            return f"(({self.timestamp(0)} AT TIME ZONE '{zone}') AT TIME ZONE '{r.choice(ZONES)}')"
        return f"CAST('{r.choice(DATES)} {r.choice(CLOCKS)}' AS TIMESTAMP)"

    def zoned(self, depth=1):
        r = self.r
        kind = r.randrange(6) if depth else r.randrange(3)
        if kind == 0:
            return f"CAST({self.timestamp(0)} AS TIMESTAMPTZ)"
        if kind == 1:
            return f"({self.timestamp(0)} AT TIME ZONE '{r.choice(ZONES)}')"
        if kind == 2:
            return f"TIMESTAMPTZ '{r.choice(DATES[:5])} {r.choice(CLOCKS)}{r.choice(['', '+00', '-05:30', ' Europe/Berlin'])}'"
        if kind == 3:
            return f"({self.zoned(0)} {r.choice('+-')} {self.interval(0)})"
        if kind == 4:
            return f"date_trunc('{r.choice(CUTS[:-1])}', {self.zoned(0)})"
        return f"CAST({self.date(0)} AS TIMESTAMPTZ)"

    def number(self, depth=2):
        r = self.r
        kind = r.randrange(6)
        if kind == 0:
            return f"({self.date(depth - 1)} - {self.date(depth - 1)})"
        if kind == 5:
            return f"extract({r.choice(PARTS + ['timezone'])} FROM {self.zoned(depth - 1)})"
        if kind == 1:
            return f"extract({r.choice(PARTS)} FROM {self.date(depth - 1)})"
        if kind == 2:
            return f"extract({r.choice(['year', 'month', 'day', 'epoch', 'hour', 'minute', 'second'])} FROM {self.interval(depth - 1)})"
        return f"date_part('{r.choice(PARTS)}', {self.timestamp(depth - 1)})"

    def boolean(self, depth=2):
        r = self.r
        kind = r.randrange(10)
        op = r.choice(COMPARISONS)
        if kind == 8:
            return f"({self.zoned(1)} {op} {self.zoned(1)})"
        if kind == 9:
            return f"({self.zoned(1)} {op} {r.choice([self.timestamp, self.date])(0)})"
        if kind == 0:
            return f"({self.interval(1)} {op} {self.interval(1)})"
        if kind == 1:
            return f"({self.date(1)} {op} {self.timestamp(1)})"
        if kind == 2:
            return f"({self.timestamp(1)} {op} {self.date(1)})"
        if kind == 3:
            return f"({self.date(0)} {op} '{r.choice(DATES)}')"
        if kind == 4:
            return f"({self.timestamp(0)} {op} '{r.choice(DATES)} {r.choice(CLOCKS)}')"
        if kind == 5:
            some = self.r.choice([self.timestamp, self.date, self.interval])
            return f"({some(1)} BETWEEN {some(1)} AND {some(1)})"
        if kind == 6:
            return f"({self.date(0)} IN ({self.timestamp(1)}, {self.date(1)}))"
        return f"({self.timestamp(1)} {op} {self.timestamp(1)})"

    def query(self):
        """The query for Freestone and for DuckDB."""
        r = self.r
        kind = r.choice(["timestamp", "timestamp", "local", "zoned", "date", "interval", "number", "number", "boolean", "boolean", "rows"])
        if kind != "rows":
            if kind == "local":
                expression, kind = f"CAST({self.zoned()} AS {r.choice(['TIMESTAMP', 'VARCHAR'])})", "timestamp"
            else:
                expression = getattr(self, kind)()
            if kind == "interval":
                # The two systems split a fraction of a month differently, so lengths are compared.
                return [f"SELECT id, CAST(extract({part} FROM {expression}) AS DOUBLE) FROM t" for part in ["epoch"]] * 2
            return [f"SELECT id, {form[kind].format(expression)} FROM t" for form in (OURS, SAME)]
        form = r.randrange(6)
        if form == 0:
            query = f"SELECT count(*) FROM t WHERE {self.boolean()}"
        elif form == 1:
            query = f"SELECT count(*), max(id) FROM t GROUP BY {self.interval(1)}"
        elif form == 2:
            query = "SELECT count(*) FROM t AS a JOIN t AS b ON a.ts - a.us = b.ts - b.us"
        elif form == 3:
            query = f"SELECT CAST(min({self.date(1)}) AS VARCHAR), CAST(max({self.timestamp(1)}) AS VARCHAR) FROM t"
        elif form == 4:
            query = f"SELECT extract(epoch FROM min({self.interval(1)})), extract(epoch FROM max({self.interval(1)})) FROM t"
        else:
            query = f"SELECT count(*) FROM t WHERE {self.boolean()} AND {self.boolean()}"
        return [query, query]


def cell(text):
    """A value with numbers in a form that is the same for both systems."""
    if text in ("", None):
        return ""
    try:
        return f"{float(text):.6g}" if "e" in str(text) or "." in str(text) else str(float(text))
    except ValueError:
        return str(text).strip('"')


def rows_of(rows):
    return sorted(tuple(map(cell, row)) for row in rows)


def theirs(database, sql):
    try:
        rows = database.execute(sql).fetchall()
    except duckdb.Error as error:
        return "error: " + str(error).splitlines()[0][:200]
    return rows_of(["" if value is None else str(value) for value in row] for row in rows)


def main():
    script, count, seed = arguments(2000)
    print(f"seed {seed}, {count} expressions", flush=True)
    r = random.Random(seed)
    wrong = refused = 0
    for start in range(0, count, BATCH):
        zone = r.choice(ZONES)
        made, generator = tables(r), Expressions(r)
        pairs = [generator.query() for _ in range(min(BATCH, count - start))]
        database = duckdb.connect(config={"threads": 1})
        database.execute(f"SET TimeZone = '{zone}'")
        with tempfile.TemporaryDirectory() as folder:
            create(script, folder, database, made, seed)
            answers = ours(script, folder, [pair[0] for pair in pairs], f"SET TimeZone = '{zone}';\n")
        for (mine, other), answer in zip(pairs, answers):
            answer = answer if isinstance(answer, str) else rows_of(answer)
            expected = theirs(database, other)
            more_wrong, more_refused = differ(mine, answer, expected, f" ({zone})")
            wrong, refused = wrong + more_wrong, refused + more_refused
    print(f"{wrong} differ, {refused} are refused by one of both")
    return 1 if wrong or refused else 0


if __name__ == "__main__":
    sys.exit(main())
