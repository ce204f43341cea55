"""Where things are: the benchmark's own Python environment, the freestone binary, the TPC-H data, the machine."""

import hashlib
import json
import os
import platform
import subprocess
import sys
import venv
from pathlib import Path

BENCH = Path(__file__).resolve().parent
CACHE = Path.home() / ".cache" / "freestone"
QUERIES = BENCH.parent / "crates" / "freestone-data" / "queries"
DESIGNS = BENCH / "designs"
TABLES = ("region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem")
SSB_TABLES = ("date", "part", "supplier", "customer", "lineorder")


def environment_python(name: str = "") -> Path:
    """The interpreter of bench/.venv. The first call creates it, later calls update it if requirements.txt has changed.

    With a name, the environment is that of requirements-NAME.txt. It is in the cache folder, because experiments run
    copies of the scripts.
    """
    folder = CACHE / f"venv-{name}" if name else BENCH / ".venv"
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    requirements = BENCH / (f"requirements-{name}.txt" if name else "requirements.txt")
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {requirements.name} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
        stamp.write_text(wanted)
    return python


def enter_environment(name: str = "") -> None:
    """Restarts this program with the interpreter of its environment, unless it runs with that one already."""
    python = environment_python(name)
    if Path(sys.prefix).resolve() != python.parent.parent.resolve():
        os.execv(python, [str(python), *sys.argv])


def default_freestone() -> Path:
    """The path of the command line after a release build."""
    target = os.environ.get("CARGO_TARGET_DIR", CACHE / "target")
    return Path(target) / "release" / "freestone"


def tpch_data(folder: Path | None, scale: float, freestone: Path) -> Path:
    """The folder with the eight Parquet files of TPC-H, which are generated if they do not exist."""
    return generated("tpch", TABLES, folder, scale, freestone)


def ssb_data(folder: Path | None, scale: float, freestone: Path) -> Path:
    """The folder with the five Parquet files of the Star Schema Benchmark, which are generated if they do not exist."""
    return generated("ssb", SSB_TABLES, folder, scale, freestone)


def generated(benchmark: str, tables: tuple[str, ...], folder: Path | None, scale: float, freestone: Path) -> Path:
    folder = folder or CACHE / "bench" / f"{benchmark}-sf{scale:g}"
    if all((folder / f"{table}.parquet").exists() for table in tables):
        return folder
    command = [laboratory(freestone), "generate", benchmark, "--scale", f"{scale:g}", "--output", folder]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(
            f"error: no data of {benchmark} in {folder} and {freestone} cannot make it: {error}\n"
            "hint: build both by `make build lab`, name the first by --freestone, or name a folder of Parquet files by --data"
        )
    return folder


def laboratory(freestone: Path | str) -> Path:
    """The program with experiments and generators, which `make lab` builds in the same folder as the command line."""
    return Path(freestone).with_name("freestone-lab")


def tpch_queries() -> dict[str, str]:
    """The 22 queries of TPC-H by name: q01 to q22."""
    return {path.stem: path.read_text() for path in sorted((QUERIES / "tpch").glob("q*.sql"))}


def ssb_queries() -> dict[str, str]:
    """The 13 queries of the Star Schema Benchmark by name: q1.1 to q4.3."""
    return {path.stem: path.read_text() for path in sorted((QUERIES / "ssb").glob("q*.sql"))}


def hardware() -> str:
    """One line that describes the machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def print_medians(rows: int, unit: str, digits: int, found: dict[str, dict[str, float]], path: Path | None) -> None:
    """Prints a table with a row per statement and a column per engine, and writes it to a file if one is named."""
    engines = next(iter(found.values()), {})
    print(f"| {rows:,} rows, {unit} | {' | '.join(engines)} |")
    print("|---" * (len(engines) + 1) + "|")
    for name, times in found.items():
        print(f"| {name} | {' | '.join(f'{time:.{digits}f}' for time in times.values())} |")
    if path:
        path.write_text(json.dumps({"hardware": hardware(), "rows": rows, unit.replace("µ", "u"): found}, indent=1))
