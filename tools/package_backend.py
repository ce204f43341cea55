"""What pip calls to build the Python package (PEP 517): maturin, with the folder of compiled dependencies that the Makefile has.

Without it, `pip install .` in a clone would compile all dependencies again, in a folder `target` of the tree. A source distribution has no
Makefile, and is built where maturin builds it.
"""

import os
from pathlib import Path

from maturin import (  # noqa: F401
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parent.parent

if (ROOT / "Makefile").is_file():
    os.environ.setdefault("CARGO_TARGET_DIR", str(Path.home() / ".cache/freestone/target"))
