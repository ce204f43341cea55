"""Type checkers: a program that uses the package, and the stubs of the package."""

import subprocess
import sys

PROGRAM = """
import datetime
from decimal import Decimal
from typing import Iterator, List, Tuple

import freestone
import freestone.adbc
import freestone.dbapi as dbapi


def rows(db: freestone.Connection) -> Iterator[Tuple[object, ...]]:
    yield from db.sql("select 1")


with freestone.connect(":memory:", threads=2, memory_limit="1GB") as db:
    loaded: int = db.load("t", "x.csv", design={"design": "row"}, append=True, sort="a")
    relation: freestone.Relation = db.sql("select $1, $2", [1, Decimal(2)])
    one = relation.fetchone()
    if one is not None:
        print(one[0])
    names: List[str] = relation.columns
    written: int = relation.to_parquet("x.parquet", compression="zstd")
    total: freestone.Relation = relation.filter("a > 1").join(db.table("t"), ["a"], how="left").sum("b", groups="a").limit(3)
    shape: Tuple[int, int] = total.order("a").shape
    db.register("frame", [1]).from_df([1]).create("t", sort="a")
    try:
        db.sql("select $a", {"a": datetime.date(2024, 1, 2)})
    except freestone.CancelledError as error:
        print(error.message, error.hint)

cursor = dbapi.connect("freestone://a:b@localhost").cursor().executemany("insert into t values (?)", [(1,), (2,)])
count: int = cursor.rowcount
path: str = freestone.adbc.driver_path()
"""

WRONG = """
import freestone

count: str = freestone.connect(1).load("t", "x.csv")
"""


def checked(module, *arguments, cwd):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


def test_a_program_is_well_typed(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = checked("mypy", "--strict", "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong.py").write_text(WRONG)
    done = checked("mypy", "--strict", "wrong.py", cwd=tmp_path)
    assert "2 errors" in done.stdout, done.stdout


def test_stubs_are_those_of_the_module(tmp_path):
    done = checked("mypy.stubtest", "freestone._freestone", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
