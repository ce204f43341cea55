"""The examples in documents and docstrings."""

import doctest
import re
import subprocess
from pathlib import Path

import freestone
import freestone.adbc
import freestone.dbapi
import freestone.sqlalchemy
import pytest
from conftest import TARGET

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["docs/python.md", "README.md"])
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
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]):
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
            db.sql(f"DROP TABLE IF EXISTS {made[1]}")
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
