"""What a release is made of: the sources, their version and time, the target and the profile."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Rust's name of a target, and the names of it in Debian, ADBC and wheels. The first three parts of a glibc version that wheels
#: may need are those of manylinux2014.
DEBIAN_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
ADBC_SYSTEMS = {"linux": "linux", "darwin": "macos"}
OLDEST_GLIBC = "2.17"


class ReleaseError(Exception):
    """Something that a release needs is missing or wrong. The text says what to do."""


@dataclass(frozen=True)
class Settings:
    """The parameters of one run."""

    #: `release`, for tests of this program, or `dist`.
    profile: str
    target: str
    #: The target of the machine that compiles.
    host: str
    #: Where the files of the release are written.
    output: Path
    #: Cargo's folder for what it builds, and for compiled dependencies.
    target_folder: Path
    build_folder: Path
    version: str
    #: The time of the commit, in seconds: the time of all files in archives.
    epoch: int
    cargo_options: tuple[str, ...]

    @property
    def is_native(self) -> bool:
        return self.target == self.host

    @property
    def machine(self) -> str:
        return self.target.split("-")[0]

    @property
    def system(self) -> str:
        """`linux` or `darwin`."""
        return "darwin" if "-darwin" in self.target else "linux"

    @property
    def built(self) -> Path:
        """The folder with the programs and libraries that Cargo built."""
        folder = self.target_folder if self.is_native else self.target_folder / self.target
        return folder / self.profile

    @property
    def library_name(self) -> str:
        return "libfreestone_adbc.dylib" if self.system == "darwin" else "libfreestone_adbc.so"


def make_settings(profile: str, target: str | None, output: Path | None, cargo_options: tuple[str, ...]) -> Settings:
    """The settings of a run: what is not given is read from the sources, from git, from rustc and from the environment."""
    home = Path.home()
    target_folder = Path(os.environ.get("CARGO_TARGET_DIR") or home / ".cache/freestone/target").resolve()
    host = host_target()
    return Settings(
        profile=profile,
        target=target or host,
        host=host,
        output=(output or target_folder / "dist").resolve(),
        target_folder=target_folder,
        build_folder=Path(os.environ.get("CARGO_BUILD_BUILD_DIR") or target_folder).resolve(),
        version=version_of((ROOT / "Cargo.toml").read_text(encoding="utf-8")),
        epoch=commit_time(),
        cargo_options=cargo_options,
    )


def version_of(manifest: str) -> str:
    """The version of the workspace."""
    found = re.search(r'^\[workspace\.package\]\n(?:[^\[]*\n)?version = "([^"]+)"', manifest, re.MULTILINE)
    if not found:
        raise ReleaseError("Cargo.toml has no version in [workspace.package]")
    return found[1]


def host_target() -> str:
    """The target that rustc compiles for by default."""
    printed = output_of(["rustc", "-vV"])
    found = re.search(r"^host: (\S+)$", printed, re.MULTILINE)
    if not found:
        raise ReleaseError(f"rustc -vV names no host: {printed}")
    return found[1]


def commit_time() -> int:
    """SOURCE_DATE_EPOCH, or the time of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    return int(output_of(["git", "log", "-1", "--format=%ct"]))


def output_of(command: list[str]) -> str:
    """What a command prints. The sources' folder is its current folder."""
    try:
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        raise ReleaseError(f"{command[0]} is not installed, or not in PATH") from None
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"{' '.join(command)} failed: {error.stderr.strip()}") from None
