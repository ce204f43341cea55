import os
from pathlib import Path

import pytest

pytest_plugins = ["dbt.tests.fixtures.project"]


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory):
    return {"type": "freestone", "threads": 4, "path": str(tmp_path_factory.mktemp("database") / "db")}


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory):
    """dbt's fixture writes into the folder of the package."""
    folder = str(tmp_path_factory.mktemp("logs"))
    os.environ["DBT_LOG_PATH"] = folder
    yield folder
    del os.environ["DBT_LOG_PATH"]


def pytest_collection_modifyitems(items):
    """Skips the tests that ``skipped.txt`` names by class, or by class and test."""
    lines = Path(__file__).with_name("skipped.txt").read_text().splitlines()
    reasons = dict(line.split("  ", 1) for line in lines if line and not line.startswith("#"))
    for item in items:
        found = [reasons[name] for name in (item.cls and item.cls.__name__, f"{item.cls and item.cls.__name__}::{item.name}") if name in reasons]
        if found:
            item.add_marker(pytest.mark.skip(reason=found[0]))
