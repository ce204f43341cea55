"""Random statements of `conformance/`, compared with DuckDB, at a fixed seed. `make fuzz` runs more of them."""

import pathlib
import subprocess
import sys

import pytest
from conftest import TARGET

CONFORMANCE = pathlib.Path(__file__).parents[2] / "conformance"
# The number of statements of each kind takes a few seconds.
COUNTS = {
    "joins": 200, "subqueries": 40, "aggregates": 300, "expressions": 400, "times": 300,
    "forms": 200, "files": 120, "sorts": 100, "recursions": 60, "dependencies": 200,
}


@pytest.mark.parametrize("kind", COUNTS)
def test_random_statements_answer_as_in_duckdb(kind):
    script = CONFORMANCE / f"random_{kind}.py"
    command = [sys.executable, "-B", script, TARGET / "release" / "freestone", str(COUNTS[kind]), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
