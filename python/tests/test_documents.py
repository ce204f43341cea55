"""The examples in documents and docstrings."""

import doctest
import re
import socket
import subprocess
import sys
from pathlib import Path

import duckdb
import freestone
import freestone.adbc
import freestone.dbapi
import freestone.sqlalchemy
import pyarrow
import pytest
from conftest import TARGET, serving

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import docs as site  # noqa: E402

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Examples that `make test-ecosystem` runs, because they need more packages.
IN_ECOSYSTEM = ["docs/tools/ibis.md", "docs/tools/narwhals.md"]
SESSIONS = [name for path in DOCUMENTS if ">>> " in path.read_text() and (name := path.relative_to(ROOT).as_posix()) not in IN_ECOSYSTEM]


def test_sessions_are_found():
    assert {"README.md", "docs/python.md", "docs/tools/sqlalchemy.md"} <= set(SESSIONS)
    assert all(">>> " in (ROOT / name).read_text() for name in IN_ECOSYSTEM)


@pytest.mark.parametrize("document", SESSIONS)
def test_documents(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testfile(str(ROOT / document), module_relative=False, encoding="utf-8")
    assert failed == 0


@pytest.mark.parametrize("module", [freestone, freestone.dbapi, freestone.adbc, freestone.sqlalchemy], ids=lambda module: module.__name__)
def test_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_public_things_are_documented():
    for owner in [freestone.Connection, freestone.Relation, freestone.dbapi.Connection, freestone.dbapi.Cursor]:
        for name in dir(owner):
            thing = getattr(owner, name)
            if not name.startswith("_") and (callable(thing) or isinstance(thing, property)):
                assert thing.__doc__, f"{owner.__name__}.{name}"


def test_types_are_shipped():
    package = Path(freestone.__file__).parent
    assert (package / "py.typed").is_file() and (package / "_freestone.pyi").is_file()


# Tables that the examples in SQL use without creating them, and their rows.
TABLES = {
    "t": "(a INT, b INT, c INT, price_old INT, price_new INT, id INT, customer INT, day INT, amount INT, year INT, city INT)",
    "d": "(k VARCHAR PRIMARY KEY)",
    "k": "(id INT PRIMARY KEY, name VARCHAR)",
    "orders": "(day INT, customer INT, number INT)",
    "archive": "(a INT, b INT, c INT, price_old INT, price_new INT, id INT, customer INT, day INT, amount INT, year INT, city INT)",
    "a": "(k INT, x INT)",
    "b": "(k INT, y INT)",
    "people": "(name VARCHAR, age INT)",
    "trades": "(k INT, t TIMESTAMP, amount INT)",
    "prices": "(k INT, t TIMESTAMP, price INT)",
    "cities": "(country VARCHAR, city VARCHAR, year INT, people INT)",
    "sales": "(id INT, jan INT, feb INT, mar INT)",
    "days": "(id INT PRIMARY KEY, year INT)",
    "customers": "(id INT PRIMARY KEY, region VARCHAR, nation VARCHAR)",
    "accounts": "(id INT, amount DECIMAL(10, 2))",
}
FILES = {
    "lineitem.tbl": "1|2|3\n",
    "dir/one.csv": "a;b\n1;2\n",
    "events.ndjson": '{"a": 1}\n',
    "more/two.csv": "id,b\n1,2\n",
    "f.csv": "id;day\n7;2024-02-29\n",
}
# A grammar instead of a statement: alternatives, optional parts, and parts that are left out.
GRAMMAR = re.compile(r"…| \| (?!\|)|\[[A-Z(](?!.*'\])|\[(IF|AS|t\b)")


def blocks(kind):
    """Pairs of a document and the text of a block of this kind."""
    for path in DOCUMENTS:
        for block in re.findall(rf"^```{kind}\n(.*?)^```", path.read_text(), re.M | re.S):
            yield path.relative_to(ROOT), block


def statements(block):
    """The statements of a block that are no grammar."""
    text = re.sub(r"--.*", "", block)
    pieces = re.findall(r"(?:'[^']*'|[^;'])+", text)
    return [piece.strip() for piece in pieces if piece.strip() and not GRAMMAR.search(piece)]


SQL = [(path, block) for path, block in blocks("sql") if statements(block)]


@pytest.mark.parametrize("path, block", SQL, ids=[f"{path}-{at}" for at, (path, _) in enumerate(SQL)])
def test_sql_in_documents(path, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = statements(block)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    db = freestone.connect("db", pmem="emulated")
    if "read_parquet" in block:
        db.sql("COPY (SELECT 1 AS a) TO 'a.parquet'; COPY (SELECT 2 AS a) TO 'b.parquet'")
    for name, columns in TABLES.items():
        if not re.search(rf"(?<!SHOW )CREATE (TEMP )?TABLE {name}\b", ";".join(run)):
            kind = "(a INT, b INT, c INT)" if name == "t" and "lineitem.tbl" in block else columns
            db.sql(f"CREATE TABLE {name} {kind}")
    for statement in run:
        made = re.match(r"(?:CREATE (?:TEMP |TEMPORARY )?TABLE|SELECT \w INTO(?: TEMP)?) (\w+)", statement)
        if made:
            db.sql(f"DROP TABLE IF EXISTS {made[1]} CASCADE")
        relation = db.sql(statement)
        if relation.columns:
            relation.fetchall()


def test_most_statements_in_documents_run():
    assert len(SQL) >= 20 and sum(len(statements(block)) for _, block in SQL) >= 80


def test_commands_in_documents_exist():
    """Commands and options in blocks for the system's shell are those of the program."""
    seen = 0
    for path, block in [*blocks("sh"), *blocks("console")]:
        for line in block.splitlines():
            words = re.search(r"(?:^\$ |^|\| )(?:\w+=\S+ |\w+='.*?' )?freestone ((?:serve|user add|check|advise|calibrate|demo)\b.*)", line)
            if words is None:
                continue
            command, _, rest = words[1].split("#")[0].partition(" ")
            arguments = [command, "add"] if command == "user" else [command]
            shown = subprocess.run([TARGET / "release" / "freestone", *arguments, "--help"], capture_output=True, text=True)
            assert shown.returncode == 0, line
            for option in re.findall(r"--[a-z-]+", rest):
                assert re.search(rf"{option}\b", shown.stdout), f"{path}: {option} in {line}"
                seen += 1
    assert seen >= 5


#: What stands for the reader's own names in examples of programs.
PLACES = {
    "/path/to/libfreestone_adbc.so": "{driver}",
    "freestone://ann:password@127.0.0.1:5577": "{address}",
    "127.0.0.1:31337": "{flight}",
    '"username": "ann", "password": "…"': '"username": "freestone", "password": "{password}"',
}
PROGRAMS = [(path, block) for path, block in blocks("python") if ">>> " not in block]


@pytest.mark.parametrize("path, block", PROGRAMS, ids=[f"{path}-{at}" for at, (path, _) in enumerate(PROGRAMS)])
def test_programs_in_documents(path, block, tmp_path, monkeypatch):
    """Examples without results run to their end, with a server and a table as they need them."""
    monkeypatch.chdir(tmp_path)
    db = freestone.connect()
    db.sql("CREATE TABLE accounts (id INT, amount DECIMAL(10, 2)); INSERT INTO accounts VALUES (1, 50), (2, 0)")
    flight = f"127.0.0.1:{free_port()}"
    with serving("--flight", flight) as address:
        values = {"driver": TARGET / "release/libfreestone_adbc.so", "address": address, "flight": flight, "password": address.split(":")[2].split("@")[0]}
        for text, name in PLACES.items():
            block = block.replace(text, name.format_map({key: str(value) for key, value in values.items()}))
        names = {"db": db, "frame": pyarrow.table({"sold": [3, 5]})}
        exec(compile(block, str(path), "exec"), names)
        if "connection" in names:
            names["connection"].close()


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_programs_are_found():
    assert {str(path) for path, _ in PROGRAMS} >= {"docs/adbc.md", "docs/python.md", "docs/server.md"}


def rows_of(heading, document):
    """The cells of the table below a heading of a document."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", document.read_text(), re.M | re.S)[1]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def code(cell):
    """The code at the start of a cell; nothing if there is none."""
    found = re.match(r"`([^`]*)`", cell)
    return found and found[1]


def test_differences_from_duckdb_are_true():
    rows = rows_of("What differs", ROOT / "docs/duckdb.md")
    assert len(rows) >= 6
    with freestone.connect() as db:
        for expression, here, there in rows:
            for engine, error, expected in [(db, freestone.Error, here), (duckdb, duckdb.Error, there)]:
                query = f"SELECT {code(expression)}"
                if expected.startswith("error"):
                    with pytest.raises(error):
                        engine.sql(query).fetchall()
                else:
                    assert str(engine.sql(query).fetchall()[0][0]) == code(expected), (query, engine)


def test_what_is_missing_is_refused():
    rows = rows_of("What is missing", ROOT / "docs/duckdb.md")
    assert len(rows) >= 3
    with freestone.connect() as db:
        for statement, _ in rows:
            with pytest.raises(freestone.Error):
                db.sql(code(statement)).fetchall()


def test_the_summary_has_every_page():
    """A page that the summary does not have is missing in the site."""
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    listed = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", summary)}
    assert {path.resolve() for path in DOCUMENTS if path.name != "SUMMARY.md"} <= listed


def test_pages_of_the_site_link_within_it(tmp_path):
    """What `make docs` gives to mdBook has all files that its pages link to, so that links work in the site as in the tree."""
    site.copy_pages(tmp_path)
    source = tmp_path / "src"
    pages = sorted(source.rglob("*.md"))
    assert len(pages) >= 40 and (source / "SUMMARY.md") in pages
    for page in pages:
        for target in re.findall(r"\]\(([^)\s#]+)", page.read_text()):
            # mdBook calls each README `index`.
            file = page.parent / re.sub(r"index[.]md$", "README.md", target)
            assert "://" in target or file.is_file(), f"{page.relative_to(source)}: {target}"


def test_links_of_the_site_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h2 id="x">x</h2><a href="b.html#y"></a><a href="a.html#z"></a><a href="c.html"></a><a href="#x"></a>')
    (tmp_path / "b.html").write_text('<a name="y"></a><script src="https://host.example/x.js"></script><a href="https://host.example"></a>')
    assert site.site_problems(tmp_path) == ["a.html: a.html#z", "a.html: c.html", "b.html loads https://host.example/x.js"]
