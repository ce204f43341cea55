"""Makes the files of a release.

    PYTHONPATH=tools python3 -m release [wheels|all|compare] [--target TRIPLE]… [--profile dist]

`wheels` builds a wheel per target; the wheel of this machine is tried in empty environments with the oldest and the newest Python that is
here. `all` makes the archives, the Debian package, the ADBC library, the container file with the files that start containers, the formula
and SHA256SUMS as well. `compare` makes all of them a second time, compiling the crates of the sources again, and compares the bytes.
"""

import argparse
import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

from . import builds, packages, wheels
from .archives import read_sums, write_sums
from .binaries import build_paths
from .settings import ReleaseError, Settings, make_settings

#: Where the archives will be, which the formula names, unless --address says it.
ADDRESS = "https://freestone.example/releases"
PARTS = ("wheel", "archive", "library", "deb", "container", "formula")


def main() -> None:
    options = arguments()
    try:
        made = [make_settings(options.profile, target, options.output, tuple(options.cargo)) for target in options.target or [None]]
        made = [dataclasses.replace(settings, target_folder=settings.target_folder / "release-build") for settings in made]
        if options.what == "compare":
            compare(made, options)
        else:
            make(made, options)
    except ReleaseError as error:
        sys.exit(f"error: {error}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["wheels", "all", "compare"])
    parser.add_argument("--target", action="append", help="a target of rustc; may be repeated [default: this machine's]")
    parser.add_argument("--profile", choices=["dist", "release"], default="dist", help="`release` is quicker, for tests of this program [default: dist]")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--output", type=Path, help="the folder for the files [default: dist in CARGO_TARGET_DIR]")
    parser.add_argument("--address", default=ADDRESS, help="where the archives can be downloaded, for the formula")
    parser.add_argument("--cargo", action="append", default=[], metavar="OPTION", help="a further option of cargo, such as --cargo=--offline")
    options = parser.parse_args()
    unknown = set(options.only) - set(PARTS)
    if unknown:
        parser.error(f"--only does not know {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    return options


def make(targets: list[Settings], options: argparse.Namespace) -> None:
    """Makes the files, and prints their names."""
    output = targets[0].output
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for settings in targets:
        if options.what == "wheels" or "wheel" in options.only:
            note(f"built {make_wheel(settings).name}")
        if options.what != "wheels":
            make_packages(settings, options)
    if options.what != "wheels" and "formula" in options.only:
        note(f"wrote {packages.formula(targets[0], options.address).name}, with archives at {options.address}")
    note(f"wrote {write_sums(output)}")


def make_wheel(settings: Settings) -> Path:
    """Builds a wheel, and tries it if it is of this machine."""
    wheel = builds.wheel(settings, settings.output)
    if settings.is_native:
        for line in wheels.try_wheel(wheel, settings.version):
            note(line)
    else:
        note(f"not tried: {wheel.name} is for another kind of machine")
    return wheel


def make_packages(settings: Settings, options: argparse.Namespace) -> None:
    """The files of one target, without its wheel. Manual pages and completions are written by a program that runs here."""
    wanted = options.only
    if {"archive", "deb", "container", "formula"} & set(wanted):
        program = builds.program(settings)
        check_paths(settings, program)
        share = packages.extras(program if settings.is_native else native_program(settings))
        note(f"wrote {packages.program_archive(settings, program, share).name}")
        if "deb" in wanted and settings.target.endswith("-linux-gnu"):
            note(f"wrote {packages.debian_package(settings, program, share).name}")
        if "container" in wanted and settings.target.endswith("-linux-gnu") and settings.is_native:
            for file in [packages.container_file(settings), *packages.deployment_files(settings)]:
                note(f"wrote {file.name}")
    if "library" in wanted and settings.target.endswith("-musl"):
        note(f"left out: the ADBC library for {settings.target}, because a library cannot be linked statically there")
    elif "library" in wanted:
        library = builds.library(settings)
        check_paths(settings, library)
        note(f"wrote {packages.library_archive(settings, library).name}")


def native_program(settings: Settings) -> Path:
    program = dataclasses.replace(settings, target=settings.host).built / "freestone"
    if not program.exists():
        raise ReleaseError(f"name {settings.host} as the first --target: its program writes the manual pages")
    return program


def check_paths(settings: Settings, file: Path) -> None:
    """No path of this machine may be in what ships. With the profile `release`, dependencies have theirs."""
    found = build_paths(file.read_bytes(), [folder for folder, _ in builds.hidden_paths(settings)])
    if found and settings.profile == "dist":
        raise ReleaseError(f"{file.name} has paths of this machine: {', '.join(found[:3])}")
    if found:
        note(f"not for shipping: {file.name} has {len(found)} paths of this machine, because dependencies of the profile release keep theirs")


def compare(targets: list[Settings], options: argparse.Namespace) -> None:
    """Makes everything again in another folder, with the sources' crates compiled again, and compares the checksums."""
    before = read_sums(targets[0].output)
    again = targets[0].output.with_name(targets[0].output.name + "-again")
    for settings in targets:
        clean(settings)
    make([dataclasses.replace(settings, output=again) for settings in targets], options)
    after = read_sums(again)
    different = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if different:
        raise ReleaseError(f"made twice, these differ: {', '.join(different)}; compare {targets[0].output} and {again}")
    note(f"made twice with identical bytes: {len(after)} files")


def clean(settings: Settings) -> None:
    """Removes what was linked, so that it is compiled and linked again."""
    for package in ("freestone-cli", "freestone-adbc", "freestone-python"):
        target = [] if settings.is_native else ["--target", settings.target]
        command = ["cargo", "clean", "--profile", settings.profile, "--package", package, *target]
        if subprocess.run(command, env=builds.environment(settings)).returncode != 0:
            raise ReleaseError(f"cargo clean of {package} failed")


def note(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
