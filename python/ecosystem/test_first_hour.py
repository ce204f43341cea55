"""A notebook's first hour beside DuckDB: what differs is what the documentation names."""

import pathlib
import re

import first_hour
import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs/tools/notebooks.md"


def documented():
    """The names of the tasks in the page's list of differences."""
    section = PAGE.read_text(encoding="utf-8").split("## Differences from DuckDB")[1]
    return re.findall(r"^- \*(.+?)\*:", section, re.MULTILINE)


def test_differences_are_documented():
    pytest.importorskip("duckdb")
    found = first_hour.differences()
    of_freestone = [line for line in found if ": DuckDB fails: " not in line]
    assert [line for line in of_freestone if line.partition(": ")[0] not in documented()] == []
    assert set(documented()) <= {task.name for task in first_hour.tasks()}


def test_tasks_are_run():
    names = [task.name for task in first_hour.tasks()]
    assert len(names) >= 40 and len(set(names)) == len(names)
    right = first_hour.Task("right", "answer = db.sql('SELECT 1 AS a, NULL AS b').fetchall()")
    outcome = first_hour.run(right, "freestone")
    assert (outcome.answer, outcome.error, outcome.lines) == ([[1.0, None]], None, 1)
    wrong = first_hour.Task("wrong", "answer = 1", "db.sql('SELECT missing')\nanswer = 1")
    outcome = first_hour.run(wrong, "freestone")
    assert outcome.answer is None and outcome.error.startswith("ProgrammingError: no column missing") and outcome.lines == 2
