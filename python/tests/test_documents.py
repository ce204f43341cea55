"""The examples in documents and docstrings."""

import doctest
from pathlib import Path

import freestone
import freestone.adbc
import freestone.dbapi
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["docs/python.md", "README.md"])
def test_documents(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testfile(str(ROOT / document), module_relative=False, encoding="utf-8")
    assert failed == 0


@pytest.mark.parametrize("module", [freestone, freestone.dbapi, freestone.adbc], ids=lambda module: module.__name__)
def test_docstrings(module):
    assert doctest.testmod(module).failed == 0


def test_public_things_are_documented():
    for owner in [freestone.Connection, freestone.Relation, freestone.dbapi.Connection, freestone.dbapi.Cursor]:
        for name, thing in vars(owner).items():
            if not name.startswith("_") and (callable(thing) or isinstance(thing, property)):
                assert thing.__doc__, f"{owner.__name__}.{name}"


def test_types_are_shipped():
    package = Path(freestone.__file__).parent
    assert (package / "py.typed").is_file() and (package / "_freestone.pyi").is_file()
