"""Installs a wheel in empty environments, with the oldest and the newest Python of this machine, and tries it."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .settings import ReleaseError

OLDEST_PYTHON = (3, 10)
NEWEST_MINOR_TRIED = 20

#: What a user does first. It prints `works` at its end.
FIRST_STEPS = """
import sys, tempfile, freestone, pyarrow
assert freestone.__version__ == sys.argv[1], (freestone.__version__, sys.argv[1])
frame = pyarrow.table({"city": ["Oslo", "Rome", "Oslo"], "n": [3, 5, 4]})
with tempfile.TemporaryDirectory() as folder, freestone.connect(folder + "/db") as db:
    assert db.load("sold", frame) == 3
    rows = db.sql("SELECT city, sum(n) FROM sold GROUP BY city ORDER BY city").fetchall()
    assert rows == [("Oslo", 7), ("Rome", 5)], rows
    try:
        db.sql("SELECT missing FROM sold")
        raise SystemExit("a column that does not exist was found")
    except freestone.ProgrammingError as error:
        assert "missing" in str(error), error
print("works")
"""


def interpreters() -> list[Path]:
    """The oldest and the newest Python of this machine that the package supports. They may be the same one."""
    found = {}
    for candidate in candidates():
        version = version_of(candidate)
        if version is not None and version >= OLDEST_PYTHON:
            found.setdefault(version, candidate)
    if not found:
        raise ReleaseError("no Python 3.10 or later is in PATH or among pyenv's versions")
    return [found[version] for version in sorted({min(found), max(found)})]


def candidates() -> list[Path]:
    """Programs that may be a Python: those of pyenv, and those in PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    programs = sorted(pyenv.glob("versions/3.*/bin/python3"))
    names = ["python3", *(f"python3.{minor}" for minor in range(OLDEST_PYTHON[1], NEWEST_MINOR_TRIED))]
    return programs + [Path(path) for path in map(shutil.which, names) if path is not None]


def version_of(python: Path) -> tuple[int, int] | None:
    """Major and minor version; nothing if the program does not run, as one of pyenv's names without a version behind it."""
    printed = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
    numbers = re.fullmatch(r"(\d+) (\d+)\s*", printed.stdout)
    return (int(numbers[1]), int(numbers[2])) if printed.returncode == 0 and numbers else None


def try_wheel(wheel: Path, version: str) -> list[str]:
    """Installs the wheel with each Python, and runs the first steps. Returns a line about each."""
    return [try_with(python, wheel, version) for python in interpreters()]


def try_with(python: Path, wheel: Path, version: str) -> str:
    """Installs the wheel and what it depends on in an environment that is empty, and runs the first steps there."""
    with tempfile.TemporaryDirectory(prefix="freestone-wheel-") as folder:
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
        own = Path(folder) / "venv/bin/python"
        steps = [
            ("venv", [python, "-m", "venv", Path(folder) / "venv"]),
            ("pip install", [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]),
            ("the first steps", [own, "-I", "-c", FIRST_STEPS, version]),
        ]
        for name, command in steps:
            result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if result.returncode != 0:
                raise ReleaseError(f"{wheel.name} does not work with {python}: {name} failed\n{result.stdout}{result.stderr}")
        if result.stdout.strip() != "works":
            raise ReleaseError(f"{wheel.name} does not work with {python}: the first steps printed {result.stdout!r}")
        major, minor = version_of(python) or (0, 0)
        return f"{wheel.name} works with Python {major}.{minor}"
