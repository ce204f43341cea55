"""What all tests share."""

import freestone
import pytest


@pytest.fixture
def db():
    with freestone.connect(threads=2, memory_limit="512MB") as connection:
        yield connection


def pytest_terminal_summary(terminalreporter):
    """A line in the form of `cargo test`, which the test command counts."""
    count = lambda *names: sum(len(terminalreporter.stats.get(name, [])) for name in names)  # noqa: E731
    passed, failed, skipped = count("passed"), count("failed", "error"), count("skipped")
    word = "FAILED" if failed else "ok"
    terminalreporter.write_line(f"test result: {word}. {passed} passed; {failed} failed; {skipped} ignored")
