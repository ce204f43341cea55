"""Compiles the command line, the ADBC library and the wheel with Cargo and maturin.

Programs are linked by zig where it is installed (`tools/release/requirements.txt`), against the symbols of glibc 2.17, so that they run
on every Linux system since 2014. Zig also compiles for other targets. Without zig, the system's linker is used, and the files need the
glibc of this machine or a later one.

In the profile `dist`, no path of this machine gets into the files: compilers write other prefixes instead. The profile `release` is
for tests of this program; it takes the dependencies as `make build` has compiled them, with the paths that are in them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .archives import write_file
from .settings import OLDEST_GLIBC, ROOT, ReleaseError, Settings

#: The linker's arguments that zig does not know.
UNKNOWN_TO_ZIG = "-Wl,--icf=all"


def zig_is_here() -> bool:
    """Whether the Python packages `ziglang` and `cargo-zigbuild` are installed for this Python."""
    return subprocess.run([sys.executable, "-c", "import ziglang"], capture_output=True).returncode == 0 and zigbuild() is not None


def zigbuild() -> str | None:
    return shutil.which("cargo-zigbuild", path=search_path())


def search_path() -> str:
    """PATH with the programs of this Python's environment first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def zig_linker(settings: Settings) -> Path:
    """A program that links for the target with glibc 2.17, as rustc calls a linker."""
    suffix = f".{OLDEST_GLIBC}" if settings.target.endswith("-gnu") else ""
    target = settings.target.replace("-unknown", "") + suffix
    script = f"""#!/bin/sh
for argument; do
    shift
    [ "$argument" = "{UNKNOWN_TO_ZIG}" ] || set -- "$@" "$argument"
done
exec cargo-zigbuild zig cc -- -target {target} "$@"
"""
    return write_file(settings.target_folder / f"zig-link-{target}", script, 0o755)


def hidden_paths(settings: Settings) -> list[tuple[Path, str]]:
    """Folders of this machine, and the names that stand for them in what is compiled. A folder within another one is later."""
    cargo_home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    return [(ROOT, "freestone"), (settings.build_folder, "build"), (settings.target_folder, "target"), (cargo_home, "cargo")]


def remap_flags(settings: Settings) -> list[str]:
    return [f"--remap-path-prefix={folder}={name}" for folder, name in hidden_paths(settings)]


def environment(settings: Settings) -> dict[str, str]:
    """The environment of Cargo and of the compilers that it calls."""
    variables = {name: value for name, value in os.environ.items() if name not in ("RUSTFLAGS", "CFLAGS", "CXXFLAGS", "FREESTONE_SYMBOLS")}
    variables |= {
        "PATH": search_path(),
        "CARGO_TARGET_DIR": str(settings.target_folder),
        "CARGO_BUILD_BUILD_DIR": str(settings.build_folder),
        "CARGO_INCREMENTAL": "0",
        "SOURCE_DATE_EPOCH": str(settings.epoch),
        # Zig's messages are in English, and C compilers write no time.
        "LC_ALL": "C",
    }
    if settings.profile == "dist":
        c_flags = " ".join(f"-ffile-prefix-map={folder}={name}" for folder, name in hidden_paths(settings))
        variables |= {"RUSTFLAGS": " ".join(remap_flags(settings)), "CFLAGS": c_flags, "CXXFLAGS": c_flags}
    return variables


def final_flags(settings: Settings) -> list[str]:
    """rustc's flags for the crate that is linked, after `--`."""
    flags = [] if settings.profile == "dist" else remap_flags(settings)
    if settings.is_native and settings.target.endswith("-linux-gnu") and zig_is_here():
        flags.append(f"-Clinker={zig_linker(settings)}")
    return flags


def cargo(settings: Settings, *arguments: str) -> None:
    """Compiles one program or library."""
    command = ["cargo", "rustc"] if settings.is_native else ["cargo", "zigbuild", "--target", zig_target(settings)]
    flags = ["--", *final_flags(settings)] if settings.is_native else []
    run([*command, "--locked", "--profile", settings.profile, *settings.cargo_options, *arguments, *flags], settings)


def zig_target(settings: Settings) -> str:
    """The target in the form of cargo-zigbuild, which has the oldest glibc that programs need to run."""
    if not zig_is_here():
        raise ReleaseError(f"{settings.target} is not this machine's target, so it needs zig: pip install -r tools/release/requirements.txt")
    return f"{settings.target}.{OLDEST_GLIBC}" if settings.target.endswith("-linux-gnu") else settings.target


def program(settings: Settings) -> Path:
    """Builds the command line."""
    cargo(settings, "--package", "freestone-cli", "--bin", "freestone")
    return settings.built / "freestone"


def library(settings: Settings) -> Path:
    """Builds the ADBC library."""
    cargo(settings, "--package", "freestone-adbc", "--lib")
    return settings.built / settings.library_name


def wheel(settings: Settings, folder: Path) -> Path:
    """Builds the wheel of the stable ABI, which is for all versions of Python from 3.10 on."""
    options = ["--out", str(folder), "--locked", "--profile", settings.profile, *settings.cargo_options]
    if not settings.is_native:
        zig_target(settings)
        options += ["--zig", "--target", settings.target]
    flags = ["--", *final_flags(settings)] if settings.is_native else []
    before = set(folder.glob("*.whl"))
    run([sys.executable, "-m", "maturin", "build", *options, *flags], settings)
    made = set(folder.glob("*.whl")) - before
    if len(made) != 1:
        raise ReleaseError(f"maturin wrote {len(made)} wheels to {folder}, not one: empty the folder")
    return made.pop()


def run(command: list[str], settings: Settings) -> None:
    """Runs a compiler. Its output is the user's."""
    print("+", " ".join(command), file=sys.stderr, flush=True)
    try:
        status = subprocess.run(command, cwd=ROOT, env=environment(settings)).returncode
    except FileNotFoundError:
        raise ReleaseError(f"{command[0]} is not installed, or not in PATH") from None
    if status != 0:
        raise ReleaseError(f"{' '.join(command[:3])} failed with status {status}")
