"""A pytest plugin that runs Ibis' own backend tests on Freestone.

    pytest -p ibis_suite --pyargs ibis.backends.tests -m freestone

``expected.txt`` names the tests that fail, each with its reason. Such a test is an expected failure, and an error if it
passes.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import ibis
import pytest
import stand_ins
from ibis.backends.tests.base import BackendTest

EXPECTED = Path(__file__).with_name("expected.txt")


class TestConf(BackendTest):
    """How Ibis' tests reach the backend."""

    supports_map = True
    stateful = False
    driver_supports_multiple_statements = True
    deps = ("freestone",)

    def _load_data(self, **_):
        stand_ins.load(self.connection, self.data_dir)

    @classmethod
    def name(cls):
        return "freestone"

    @staticmethod
    def connect(*, tmpdir, worker_id, **options):
        return ibis.freestone.connect(**options)


def _register() -> None:
    """Ibis looks for the class in ``ibis.backends.<backend>.tests.conftest``."""
    import ibis_freestone

    sys.modules["ibis.backends.freestone"] = ibis_freestone
    sys.modules["ibis.backends.freestone.tests"] = types.ModuleType("ibis.backends.freestone.tests")
    sys.modules["ibis.backends.freestone.tests.conftest"] = sys.modules[__name__]


_register()


@pytest.fixture(scope="session")
def stand_in_data(tmp_path_factory):
    return stand_ins.write(tmp_path_factory.mktemp("stand-ins"))


@pytest.fixture(scope="session")
def worker_id():
    """The fixture of pytest-xdist, in one process."""
    return "master"


def pytest_configure(config):
    # Ibis' conftest has a fixture of this name, which comes first; it is replaced where it is defined.
    import ibis.conftest

    @pytest.fixture(scope="session")
    def data_dir(stand_in_data):
        return stand_in_data

    ibis.conftest.data_dir = data_dir


def expected_failures() -> dict[str, str]:
    """Tests that fail, with reasons."""
    lines = (line.split("  ", 1) for line in EXPECTED.read_text().splitlines() if line and not line.startswith("#"))
    return {name: reason.strip() for name, reason in lines}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    reasons = expected_failures()
    for module in {item.module for item in items}:
        _expect_as_of_duckdb(vars(module).values())
    for item in items:
        _expect_as_of_duckdb(item.callspec.params.values() if hasattr(item, "callspec") else ())
        name = item.nodeid.rpartition("ibis/backends/tests/")[2]
        if name in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons[name], strict=True))


def _expect_as_of_duckdb(values) -> None:
    """Tests have dicts of what each backend gives, such as the name of a type. Freestone is to give what DuckDB gives."""
    for value in values:
        if isinstance(value, dict) and "duckdb" in value:
            value.setdefault("freestone", value["duckdb"])
