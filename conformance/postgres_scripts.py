"""Runs PostgreSQL's own regression scripts on PostgreSQL and on Freestone, and counts the statements that have the same rows.

    python conformance/postgres_scripts.py SOURCES                         # the scripts of queries, types and functions
    python conformance/postgres_scripts.py SOURCES --files select,join     # some of them
    python conformance/postgres_scripts.py SOURCES --out F.jsonl --kinds 40

SOURCES is the folder src/test/regress of PostgreSQL's sources, best of the version that is installed. They are not part of this
project. A new cluster of PostgreSQL is started for the time of the run (Debian's package `postgresql`). Each script runs in a new
database of both systems, behind `test_setup.sql`, statement by statement as psql splits it, with the time zone and the styles of
dates and intervals that PostgreSQL's own runner sets.

Rows are compared as the texts that the servers send, in order if the query has ORDER BY at its end, and other statements by their
command tags. A statement that both refuse counts as the same. EXPLAIN and psql's commands are left out. A statement that only
Freestone refuses in a transaction block is undone there by a savepoint, so that the rest of the block still runs.

--out writes one line of JSON per difference: `file`, `line`, `kind` (`error`: only Freestone refuses; `accepted`: only PostgreSQL
does; `rows`; `order`; `tag`; `lost`: the connection ended), `statement`, and what both gave. --kinds prints the most frequent kinds.
"""

import argparse
import collections
import contextlib
import decimal
import json
import pathlib
import re
import sys
import time

import clients
import drivers
import server

FILES = (
    "select join aggregates subselect window with union case strings numeric int2 int4 int8 float4 float8 "
    "date time timestamp timestamptz timetz interval boolean arrays json jsonb"
)
SETTINGS = "-c timezone=PST8PDT -c datestyle=Postgres,MDY -c intervalstyle=postgres_verbose -c statement_timeout=30s"
OUTCOMES = ("same", "refused", "different", "error", "accepted")
# Where psql looks for something else than plain text.
TOKEN = re.compile(
    r"""(?P<line>--[^\n]*)|(?P<block>/\*)|(?P<text>(?<![\w$])[eE]'|')|(?P<name>")|(?P<dollar>(?<![\w$])\$(?:[A-Za-z_\x80-\uffff][\w]*)?\$)
    |(?P<command>\\)|(?P<variable>(?<!:):(?P<quote>['"]?)(?P<called>\w+)(?P=quote))|(?P<open>\()|(?P<close>\))|(?P<end>;)
    |(?P<word>[A-Za-z_\x80-\uffff][\w$]*)""",
    re.VERBOSE,
)
COPY_IN = re.compile(r"(?is)^\s*copy\b.*\bfrom\s+stdin\b")
COPY_FILE = re.compile(r"(?is)^(\s*copy\b.*\bfrom\s+)'((?:[^']|'')*)'")
CREATES = re.compile(r'(?is)create\s+(?:\w+\s+)*?(?:table|view|function|type|domain|aggregate|operator|sequence)\s+(?:if\s+not\s+exists\s+)?"?([\w.]+|[^\s\w(]+)')
MISSING = re.compile(r"""no (?:table or view|table|view|function|type)[^\w]+"?([\w.]+)""")
CHANGES = re.compile(r'(?i)\b(?:insert\s+into|update|delete\s+from|merge\s+into|truncate(?:\s+table)?|alter\s+table(?!\s+\S+\s+set\s*\()|^copy)\s+(?:only\s+)?"?(\w+)')
DEPENDS = re.compile(r"(?i)\binherits\s*\(\s*(\w+)|\bpartition\s+of\s+(\w+)|\bcreate\s+rule\b.*?\bto\s+(\w+)|\bcreate\s+trigger\b.*?\bon\s+(\w+)", re.DOTALL)
SENDS = ("g", "gx", "gset", "gexec", "gdesc", "crosstabview")


class Script:
    """The statements of a script as psql sends them, with their lines and the data of COPY."""

    def __init__(self, text, sources):
        self.text, self.at = text, 0
        self.variables, self.environment = {}, {"PG_ABS_SRCDIR": str(sources)}
        self.escapes = False

    def statements(self):
        while True:
            line, statement = self.statement()
            if statement is None:
                return
            data = self.data() if COPY_IN.match(statement) else None
            if setting := re.match(r"(?i)set\s+standard_conforming_strings\s*(?:to|=)\s*'?(\w+)", statement):
                self.escapes = setting[1].lower() in ("off", "false", "0")
            if not statement.lower().startswith("explain"):
                yield line, statement, data

    def statement(self):
        """The line and the text of the next statement; None at the end."""
        parts, line, depth, words, blocks = [], 0, 0, [], 0
        while found := TOKEN.search(self.text, self.at):
            parts.append(self.text[self.at:found.start()])
            self.at = found.end()
            kind, token = found.lastgroup, found[0]
            if kind in ("line", "block"):
                if kind == "block":
                    self.at, token = self.comment(found.end()), " "
                # A comment in front of a statement is not part of it.
                parts.append(token if "".join(parts).strip() else "")
                continue
            if kind == "command" and self.text[self.at:self.at + 1] not in (";", ":"):
                rest, newline, _ = self.text[self.at:].partition("\n")
                self.at += len(rest) + len(newline)
                if self.command(rest) and (statement := "".join(parts).strip()):
                    return line, statement
                parts.append(newline)
                continue
            if kind == "end" and not depth and not blocks:
                if statement := "".join(parts).strip():
                    return line, statement
                parts = []
                continue
            if not "".join(parts).strip():
                line = self.text.count("\n", 0, found.start() - len(parts[-1].lstrip())) + 1
            if kind == "word":
                words = words + [token.lower()] if len(words) < 5 else words
                blocks += self.opened(words, token.lower(), blocks)
            elif kind in ("text", "name", "dollar"):
                self.at = self.quoted(kind, token, found.end())
                token = self.text[found.start():self.at]
            elif kind == "variable":
                token = self.value(found)
            depth = max(0, depth + (kind == "open") - (kind == "close"))
            parts.append(token)
        rest = "".join(parts) + self.text[self.at:]
        self.at = len(self.text)
        return line, rest.strip() or None

    @staticmethod
    def opened(words, word, blocks):
        """How many more blocks are open behind a word: BEGIN ATOMIC of a function has statements of its own."""
        if words[0] != "create" or not {"function", "procedure"} & set(words):
            return 0
        return (word == "begin" or word == "case" and blocks > 0) - (word == "end" and blocks > 0)

    def comment(self, at):
        depth = 1
        for found in re.compile(r"/\*|\*/").finditer(self.text, at):
            depth += 1 if found[0] == "/*" else -1
            if not depth:
                return found.end()
        return len(self.text)

    def quoted(self, kind, token, at):
        """The end of a text, name or dollar-quoted text."""
        if kind == "dollar":
            end = self.text.find(token, at)
            return len(self.text) if end < 0 else end + len(token)
        if kind == "name":
            body = r'[^"]*"'
        else:
            body = r"(?:[^'\\]|\\.|'')*'" if self.escapes or token != "'" else r"[^']*'"
        found = re.compile(body, re.DOTALL).match(self.text, at)
        return found.end() if found else len(self.text)

    def command(self, rest):
        """Does a command of psql. Whether it sends the statement in front of it."""
        name, _, arguments = rest.strip().partition(" ")
        words = arguments.split()
        if name == "getenv" and len(words) == 2:
            self.variables[words[0]] = self.environment.get(words[1], "")
        elif name == "set" and words:
            self.variables[words[0]] = "".join(
                self.variables.get(word[1:], word) if word.startswith(":") else word.strip("'") for word in words[1:]
            )
        return name in SENDS

    def value(self, found):
        value = self.variables.get(found["called"])
        if value is None:
            return found[0]
        quote = found["quote"]
        return quote + value.replace(quote, quote * 2) + quote if quote else value

    def data(self):
        """The lines behind COPY, up to its mark of the end."""
        start = self.text.find("\n", self.at) + 1
        end = re.compile(r"^\\\.\n?", re.MULTILINE).search(self.text, start)
        stop, self.at = (end.start(), end.end()) if end else (len(self.text), len(self.text))
        return self.text[start:stop]


def of_client(statement, sources):
    """COPY of a file of the sources as COPY of data that the client sends, since servers need not be able to read them."""
    if found := COPY_FILE.match(statement):
        path = pathlib.Path(found[2].replace("''", "'"))
        if path.is_relative_to(sources) and path.is_file():
            return found[1] + "STDIN" + statement[found.end():], path.read_text(encoding="utf-8")
    return statement, None


def words_of(statement):
    return {word.lower() for word in re.findall(r"\w+", statement)}


class Answer:
    """What a server gave for a statement: an error, or rows of texts with the types of their columns, and the tag."""

    def __init__(self, error=None, state=None, rows=None, types=(), tag=""):
        self.error, self.state, self.rows, self.types, self.tag = error, state, rows, types, tag


class Connection:
    """A connection that executes simple queries, by the functions of libpq."""

    def __init__(self, where):
        self.pq = clients.needs("psycopg").pq
        words = {"host": where["PGHOST"], "port": where["PGPORT"], "user": where["PGUSER"], "password": where["PGPASSWORD"],
                 "dbname": where["PGDATABASE"], "options": SETTINGS, "sslmode": "disable", "client_encoding": "UTF8"}
        said = " ".join(f"{word}='{value}'" for word, value in words.items())
        self.link = self.pq.PGconn.connect(said.encode())
        if not self.alive():
            raise ConnectionError(self.link.error_message.decode(errors="replace"))

    def alive(self):
        return self.link.status == self.pq.ConnStatus.OK

    def in_block(self):
        return self.link.transaction_status == self.pq.TransactionStatus.INTRANS

    def close(self):
        self.link.finish()

    def execute(self, statement, data=None):
        status = self.pq.ExecStatus
        result = self.link.exec_(statement.encode())
        if result.status == status.COPY_IN:
            text = (data or "").encode()
            for at in range(0, len(text), 1 << 16):
                self.link.put_copy_data(text[at:at + (1 << 16)])
            self.link.put_copy_end()
            result = self.link.get_result()
            while self.link.get_result():
                pass
        elif result.status == status.COPY_OUT:
            return self.copied()
        if result.status in (status.COMMAND_OK, status.EMPTY_QUERY):
            return Answer(tag=(result.command_status or b"").decode())
        if result.status != status.TUPLES_OK:
            field = self.pq.DiagnosticField
            said = result.error_field(field.MESSAGE_PRIMARY) or result.error_message
            return Answer((said or b"").decode(errors="replace").strip(), (result.error_field(field.SQLSTATE) or b"").decode())
        shown = lambda value: None if value is None else value.decode(errors="backslashreplace")
        rows = [tuple(shown(result.get_value(row, column)) for column in range(result.nfields)) for row in range(result.ntuples)]
        return Answer(rows=rows, types=[result.ftype(column) for column in range(result.nfields)], tag=(result.command_status or b"").decode())

    def copied(self):
        rows = []
        while True:
            size, line = self.link.get_copy_data(0)
            if size < 0:
                break
            rows.append((bytes(line).decode(errors="backslashreplace"),))
        result = self.link.get_result()
        if result and result.status == self.pq.ExecStatus.FATAL_ERROR:
            return Answer(result.error_message.decode(errors="replace"), "")
        return Answer(rows=rows, types=[25])


def is_ordered(statement):
    """Whether a statement has ORDER BY outside of all parentheses, texts and comments."""
    depth, words = 0, []
    bare = re.sub(r"(?s)--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"[^\"]*\"|\$(\w*)\$.*?\$\1\$", " ", statement)
    for token in re.findall(r"[()\[\]]|\w+", bare):
        depth += (token in "([") - (token in ")]")
        if not depth:
            words.append(token.lower())
    return ("order", "by") in zip(words, words[1:])


def compared(statement, right, given):
    """The outcome of a statement, and how the answers differ."""
    if right.error is not None and given.error is not None:
        return "refused", None
    if given.error is not None:
        return "error", {"kind": "error", "state": given.state, "error": given.error, "right": (right.rows or [right.tag])[:1]}
    if right.error is not None:
        return "accepted", {"kind": "accepted", "state": right.state, "error": right.error, "given": (given.rows or [given.tag])[:1]}
    if right.rows is None or given.rows is None:
        # The tag of a statement without rows says how many it changed.
        if right.tag == given.tag or not re.search(r"\d$", right.tag):
            return "same", None
        return "different", {"kind": "tag", "right": right.tag, "given": given.tag}
    key = lambda row: tuple((value is None, value or "") for value in row)
    first, second = sorted(right.rows, key=key), sorted(given.rows, key=key)
    if first != second:
        missing = collections.Counter(right.rows)
        missing.subtract(given.rows)
        different = {"kind": "rows", "cause": cause(right, first, second), "counts": [len(first), len(second)]}
        different["right"] = next((row for row in right.rows if missing[row] > 0), None)
        different["given"] = next((row for row in given.rows if missing[row] < 0), None)
        return "different", different
    if right.rows != given.rows and is_ordered(statement):
        rows = next((a, b) for a, b in zip(right.rows, given.rows) if a != b)
        return "different", {"kind": "order", "right": rows[0], "given": rows[1]}
    return "same", None


def cause(right, first, second):
    """A short name for how sorted rows differ."""
    if len(first) != len(second):
        return "no rows" if not second else "rows where there are none" if not first else "another number of rows"
    if len(first[0]) != len(second[0]):
        return "another number of columns"
    for a, b in zip(first, second):
        for column, (x, y) in enumerate(zip(a, b)):
            if x != y:
                what = "NULL instead of a value" if y is None else "a value instead of NULL" if x is None else as_text(x, y)
                return f"{what} of type {NAMES.get(right.types[column], 'of a table, or another')}"
    return "another value"


def as_text(x, y):
    """What two different texts are to each other."""
    with contextlib.suppress(ArithmeticError):
        first, second = decimal.Decimal(x), decimal.Decimal(y)
        if first == second:
            return "the same number in other digits"
        if abs(first - second) <= abs(first) * decimal.Decimal("1e-9"):
            return "a number that differs behind nine digits"
    with contextlib.suppress(ValueError):
        if x[:1] in ("{", "[") and json.loads(x) == json.loads(y):
            return "the same JSON with other blanks or order"
    return "another value"


# Names of the types that the scripts use most, by their numbers in PostgreSQL's protocol.
NAMES = {16: "boolean", 17: "bytea", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 114: "json", 700: "float4", 701: "float8", 705: "unknown",
         1042: "char", 1043: "varchar", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1266: "timetz",
         1700: "numeric", 2249: "record", 3802: "jsonb", 1005: "int2[]", 1007: "int4[]", 1009: "text[]", 1016: "int8[]", 1022: "float8[]"}


class Pair:
    """A new database in both systems."""

    def __init__(self, near, name, binary):
        self.near, self.binary, self.name = dict(near), binary, name
        self.stack = contextlib.ExitStack()
        # The names of what was refused here, and of tables whose rows may be others than in PostgreSQL.
        self.refused, self.other = set(), set()
        near_link = Connection(self.near)
        near_link.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        near_link.close()
        self.right = Connection(self.near | {"PGDATABASE": name})
        self.start()

    def start(self):
        self.running = self.stack.enter_context(server.running(self.binary, "--threads", "1"))
        self.given = Connection(drivers.freestone(self.running))

    def close(self):
        self.right.close()
        self.given.close()
        self.stack.close()

    def run(self, statement, data):
        """Executes a statement in both. Returns both answers."""
        guarded = self.given.in_block() and self.right.in_block() and not re.match(r"(?i)(commit|rollback|end|abort)\b", statement)
        right = self.right.execute(statement, data)
        if guarded:
            self.given.execute("SAVEPOINT conformance_guard")
        given = self.given.execute(statement, data)
        if not self.given.alive():
            given = Answer(f"the connection ended: {given.error}", "lost")
            self.again()
        elif guarded and right.error is None and given.error is not None:
            self.given.execute("ROLLBACK TO conformance_guard")
        elif guarded and right.error is not None and given.error is None:
            self.given.execute("SELECT the block fails")
        elif guarded and given.error is None:
            self.given.execute("RELEASE conformance_guard")
        return right, given

    def follows(self, statement, error):
        """Whether a difference follows from one before it: what it names was refused, or its tables have other rows since then."""
        if error is None:
            before = not self.other.isdisjoint(words_of(statement))
        else:
            missing = MISSING.match(error)
            before = bool(missing and missing[1].lower() in self.refused)
        if created := CREATES.match(statement):
            self.refused.add(created[1].lower())
        self.other.update(name.lower() for name in CHANGES.findall(statement))
        # Tables that others inherit from, and tables with rules and triggers.
        self.other.update(name.lower() for names in DEPENDS.findall(statement) for name in names if name)
        return before

    def derived(self, statement):
        """Notes what a statement without a difference makes of tables that have other rows."""
        names = [name.lower() for name in CHANGES.findall(statement)]
        if created := re.match(r'(?is)create\b.*?\b(?:table|view)\s+"?(\w+)"?.*?\bas\b', statement):
            names.append(created[1].lower())
        if names and not self.other.isdisjoint(words_of(statement) - set(names)):
            self.other.update(names)

    def again(self):
        """Connects once more, to a new server if there is none any more."""
        try:
            self.given = Connection(drivers.freestone(self.running))
        except ConnectionError:
            with contextlib.suppress(Exception):
                self.stack.close()
            self.stack = contextlib.ExitStack()
            self.start()


def run(pair, path, sources):
    """The counts of a script by outcome, and its differences."""
    counts, differences = collections.Counter(), []
    for line, statement, data in Script(path.read_text(encoding="utf-8"), sources).statements():
        if data is None:
            statement, data = of_client(statement, sources)
        right, given = pair.run(statement, data)
        outcome, difference = compared(statement, right, given)
        counts["statements"] += 1
        counts[outcome] += 1
        counts["state"] += outcome == "refused" and right.state == given.state
        if difference:
            if given.state == "lost":
                difference["kind"] = "lost"
            difference["follows"] = pair.follows(statement, given.error)
            differences.append({"file": path.stem, "line": line, **difference, "statement": statement})
        else:
            pair.derived(statement)
    return counts, differences


def kind_of(difference):
    """What a difference has in common with others."""
    if difference["follows"]:
        return f"{difference['kind']}: follows from a difference before it"
    if difference["kind"] in ("error", "lost", "accepted"):
        # Numbers and names differ from one statement to the next. What a syntax error finds is its kind.
        said = re.sub(r"\d+", "…", difference["error"].splitlines()[0])
        said = said if said.startswith("syntax error") else re.sub(r"'[^']*'|\"[^\"]*\"", "…", said)
        return f"{difference['kind']}: {said[:160]}"
    return f"{difference['kind']}: {difference['cause']}" if "cause" in difference else difference["kind"]


def shown(name, counts):
    share = 100 * (counts["same"] + counts["refused"]) / max(1, counts["statements"])
    return f"{name:<14}{counts['statements']:>11}" + "".join(f"{counts[outcome]:>11}" for outcome in OUTCOMES) + f"{share:>10.1f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=pathlib.Path, help="src/test/regress of PostgreSQL's sources")
    parser.add_argument("--files", default=FILES.replace(" ", ","), help="the names of scripts, with commas")
    parser.add_argument("--freestone", default=server.BINARY, help="the binary")
    parser.add_argument("--out", type=argparse.FileType("w", encoding="utf-8"), help="a file for all differences, as lines of JSON")
    parser.add_argument("--kinds", type=int, default=0, help="how many kinds of differences to print")
    arguments = parser.parse_args()
    sources, total, kinds = arguments.sources.resolve(), collections.Counter(), collections.defaultdict(list)
    began = time.monotonic()
    with drivers.postgresql() as near:
        if near is None:
            sys.exit("PostgreSQL is not installed: apt-get install postgresql")
        print(f"{'script':<14}{'statements':>11}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES) + f"{'share':>12}", flush=True)
        for number, name in enumerate(arguments.files.split(",")):
            with contextlib.closing(Pair(near, f"regress_{name}", arguments.freestone)) as pair:
                before = run(pair, sources / "sql/test_setup.sql", sources)
                after = run(pair, sources / f"sql/{name}.sql", sources)
            for of, (counts, differences) in [("test_setup", before), (name, after)][number > 0:]:
                print(shown(of, counts), flush=True)
                total += counts if of == name else {}
                for difference in differences:
                    kinds[kind_of(difference)].append(difference)
                    if arguments.out:
                        arguments.out.write(json.dumps(difference, ensure_ascii=False) + "\n")
    print(shown("all scripts", total))
    print(f"both refuse {total['refused']}, {total['state']} of them with the same SQLSTATE; {time.monotonic() - began:.0f} s")
    for kind, differences in sorted(kinds.items(), key=lambda pair: -len(pair[1]))[:arguments.kinds]:
        example = differences[0]
        print(f"{len(differences):>5}  {kind}\n       {example['file']}:{example['line']}  {' '.join(example['statement'].split())[:200]}")


if __name__ == "__main__":
    main()
