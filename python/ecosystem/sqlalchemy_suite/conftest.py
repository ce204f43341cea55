"""SQLAlchemy's own tests of dialects, run on Freestone. ``setup.cfg`` names the requirements."""

import tempfile

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from requirements import skipped  # noqa: E402
from sqlalchemy.testing.plugin import pytestplugin  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403


def pytest_configure(config):
    if not config.option.dburi:
        folder = tempfile.TemporaryDirectory(prefix="freestone-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        config.option.dburi = [f"freestone:///{folder.name}/db"]
    pytestplugin.pytest_configure(config)


def pytest_collection_modifyitems(session, config, items):
    pytestplugin.pytest_collection_modifyitems(session, config, items)
    reasons, used = skipped("test"), set()
    for item in items:
        # The name of a class ends with that of the database.
        test = f"{item.parent.name.partition('_freestone')[0]}.{item.name}"
        for name in (test, test.partition("[")[0], test.partition(".")[0]):
            if name in reasons:
                used.add(name)
                item.add_marker(pytest.mark.skip(reason=reasons[name]))
    if not config.option.keyword and set(reasons) != used:
        raise pytest.UsageError(f"skipped.txt names tests that do not exist: {', '.join(sorted(set(reasons) - used))}")
