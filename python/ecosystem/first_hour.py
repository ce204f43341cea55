"""A notebook's first hour: tasks of loading, cleaning, joining, plotting and exporting, as users of DuckDB write them, in both systems.

    python python/ecosystem/first_hour.py              # a line per task
    python python/ecosystem/first_hour.py --task NAME  # one task, with its error

A task is a program in which ``db`` is ``duckdb`` or ``freestone``, and which leaves its answer in ``answer``. Where Freestone needs other words, it
has a program of its own, whose lines are counted: each such task, and each with another answer, is named in docs/tools/notebooks.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import decimal
import importlib
import io
import math
import os
import pathlib
import tempfile
import traceback
from typing import Any, Dict, List, Optional

TASKS = pathlib.Path(__file__).with_name("first_hour.txt")


@dataclasses.dataclass
class Task:
    """One task; ``freestone`` is its program there, if the one for DuckDB does not do."""

    name: str
    duckdb: str
    freestone: Optional[str] = None

    def program(self, system: str) -> str:
        return self.freestone if system == "freestone" and self.freestone is not None else self.duckdb


@dataclasses.dataclass
class Outcome:
    """What a system did with a task."""

    lines: int
    answer: Any = None
    error: Optional[str] = None
    trace: str = ""


def tasks(path: pathlib.Path = TASKS) -> List[Task]:
    """The tasks of the file: a line ``# name`` begins one, and a line ``# freestone`` its program for Freestone."""
    found: List[Task] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == "# freestone":
            found[-1].freestone = ""
        elif line.startswith("# "):
            found.append(Task(line[2:], ""))
        elif line and found[-1].freestone is not None:
            found[-1].freestone += line + "\n"
        elif line:
            found[-1].duckdb += line + "\n"
    return found


def plain(value: Any) -> Any:
    """An answer in a form that does not depend on the system: rows as lists, numbers as floats."""
    if hasattr(value, "collect") and hasattr(value, "collect_schema"):
        value = value.collect()
    if hasattr(value, "to_pylist") and hasattr(value, "schema"):
        return [plain(list(row.values())) for row in value.to_pylist()]
    if hasattr(value, "to_numpy") and hasattr(value, "columns"):
        rows = value.rows() if hasattr(value, "rows") else value.itertuples(index=False, name=None)
        return [plain(list(row)) for row in rows]
    if hasattr(value, "fetchall"):
        return plain(value.fetchall())
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("ndarray", "MaskedArray", "Series"):
        return [plain(one) for one in value]
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant") or isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, datetime.date):
        return datetime.datetime.combine(value, datetime.time()).isoformat()
    if isinstance(value, (bool, str, bytes)):
        return value
    if isinstance(value, (int, float, decimal.Decimal)) or hasattr(value, "item"):
        number = float(value)
        return None if math.isnan(number) else round(number, 9)
    return str(value)


def run(task: Task, system: str) -> Outcome:
    """Runs a task in a folder of its own, with a database of its own in memory."""
    program = task.program(system)
    module = importlib.import_module(system)
    outcome = Outcome(len(program.splitlines()))
    before = pathlib.Path.cwd()
    with tempfile.TemporaryDirectory() as folder, module.connect() as connection:
        module.set_default_connection(connection)
        space: Dict[str, Any] = {"db": module, "con": connection, "__name__": "__main__"}
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(PRELUDE + program, task.name, "exec"), space)  # noqa: S102 - these are our own programs
                outcome.answer = plain(space.get("answer", bool(printed.getvalue())))
        except Exception as error:  # noqa: BLE001 - any error is the outcome
            outcome.error = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            outcome.trace = traceback.format_exc()
        finally:
            os.chdir(before)
    return outcome


#: What every notebook begins with, and files that the tasks read.
PRELUDE = """
import datetime, pathlib
import pandas as pd, polars as pl, pyarrow as pa
pathlib.Path("sales.csv").write_text(
    "id,city,day,amount,note\\n"
    "1,Oslo,2024-01-01,10.5,first\\n2, Rome ,2024-01-02,20.0,\\n3,Oslo,2024-02-01,,NA\\n4,oslo,2024-02-15,7.25,x\\n4,oslo,2024-02-15,7.25,x\\n"
)
pathlib.Path("events.json").write_text('[{"id": 1, "who": {"name": "Ann"}, "tags": ["a", "b"]}, {"id": 2, "who": {"name": "Bob"}, "tags": []}]')
sales = pd.read_csv("sales.csv")
cities = pd.DataFrame({"city": ["Oslo", "Rome"], "land": ["Norway", "Italy"], "people": [700_000, 2_800_000]})
"""


def differences() -> List[str]:
    """A line for each task in which the systems differ, in lines, errors or answers."""
    found = []
    for task in tasks():
        theirs, ours = run(task, "duckdb"), run(task, "freestone")
        if ours.error is not None and theirs.error is None:
            found.append(f"{task.name}: Freestone fails: {ours.error}")
        elif theirs.error is not None and ours.error is None:
            found.append(f"{task.name}: DuckDB fails: {theirs.error}")
        elif ours.lines > theirs.lines:
            found.append(f"{task.name}: {ours.lines} lines instead of {theirs.lines}")
        elif ours.answer != theirs.answer:
            found.append(f"{task.name}: Freestone gives {ours.answer}, DuckDB {theirs.answer}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", help="only this one, with the answers and traces of both")
    given = parser.parse_args()
    if given.task is None:
        found = differences()
        print("\n".join(found))
        print(f"{len(tasks())} tasks, {len(found)} differences")
        return
    for task in tasks():
        for system in ("duckdb", "freestone") if task.name == given.task else ():
            outcome = run(task, system)
            print(f"--- {system}, {outcome.lines} lines\n{outcome.trace or outcome.answer}")


if __name__ == "__main__":
    main()
