"""The cases of `conformance/`, with the clients that need only Python packages. `make conformance` runs all clients."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "conformance"))

import cases  # noqa: E402
import clients  # noqa: E402
import everyday  # noqa: E402
import run  # noqa: E402


@pytest.mark.parametrize("name", clients.PYTHON)
def test_client_gives_what_all_give(name):
    wrong, _ = run.run(name, cases.read())
    assert not wrong, "\n".join(wrong)


def test_cases_are_read():
    all_cases = cases.read()
    assert len(all_cases) > 40
    names = [case.name for case in all_cases if case.name]
    assert len(names) == len(set(names))
    with pytest.raises(ValueError):
        cases.case("queri x\nSELECT 1")


def test_everyday_statements_have_duckdbs_answers():
    lines = []
    assert everyday.main(show=lines.append), "\n".join(lines)
