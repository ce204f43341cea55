"""Ibis' own tests of backends, in a process of their own. ``suite/expected.txt`` names those that fail, with reasons."""

import os
import subprocess
import sys
from pathlib import Path

import ibis

SUITE = Path(__file__).with_name("suite")
TESTS = Path(ibis.__file__).parent / "backends" / "tests"


def test_ibis_suite(tmp_path):
    command = [sys.executable, "-m", "pytest", "-p", "ibis_suite", "-m", "freestone", "-c", SUITE / "pytest.ini", "--rootdir", TESTS.parents[2]]
    command += ["-p", "no:cacheprovider", "-q", "--tb=short", "--disable-warnings", TESTS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUITE), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)}
    ran = subprocess.run(list(map(str, command)), cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    print(ran.stdout.splitlines()[-1])
