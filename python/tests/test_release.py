"""The program that makes the files of a release: archives, packages and their checks. Nothing is compiled here."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import freestone
import pytest
from conftest import TARGET

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from release import archives, binaries, packages, settings, wheels  # noqa: E402


@pytest.fixture
def made(tmp_path):
    """Settings that write to a temporary folder."""
    (tmp_path / "dist").mkdir()
    return settings.Settings(
        profile="dist",
        target="x86_64-unknown-linux-gnu",
        host="x86_64-unknown-linux-gnu",
        output=tmp_path / "dist",
        target_folder=tmp_path,
        build_folder=tmp_path,
        version="0.1.0",
        epoch=1_700_000_000,
        cargo_options=(),
    )


@pytest.fixture
def program(tmp_path):
    """A file in the place of the program, which needs glibc as a program does."""
    return archives.write_file(tmp_path / "freestone", b"\x7fELF\0libc.so.6\0libgcc_s.so.1\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_PRIVATE\0", 0o755)


SHARE = {
    "bash-completion/completions/freestone": b"complete -F _freestone freestone\n",
    "zsh/site-functions/_freestone": b"#compdef freestone\n",
    "fish/vendor_completions.d/freestone.fish": b"complete -c freestone\n",
    "man/man1/freestone.1": b".TH freestone 1\n",
}


def test_the_version_is_that_of_the_workspace():
    assert settings.version_of((ROOT / "Cargo.toml").read_text()) == freestone.__version__
    with pytest.raises(settings.ReleaseError):
        settings.version_of("[package]\nname = 'x'\n")


def test_archives_depend_on_content_alone(tmp_path):
    """Times, owners, modes and the order in which files were made change no byte."""
    sums = []
    for at, names in enumerate((["b", "a/c"], ["a/c", "b"])):
        folder = tmp_path / str(at) / "files"
        for name in names:
            archives.write_file(folder / name, name, 0o600 if at else 0o664)
        os.utime(folder / "b", (at, at))
        sums.append(archives.sha256(archives.write_tar(tmp_path / f"{at}.tar.gz", folder, 1_700_000_000)))
    assert sums[0] == sums[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        assert [member.name for member in archive] == ["files", "files/a", "files/a/c", "files/b"]
        assert {(member.uid, member.mtime) for member in archive} == {(0, 1_700_000_000)}


def test_program_archives_have_all_that_is_installed(made, program):
    with tarfile.open(packages.program_archive(made, program, SHARE)) as archive:
        files = {member.name.split("/", 1)[1]: member.mode for member in archive if member.isfile()}
    assert files["bin/freestone"] == 0o755
    assert {"LICENSE", "README.md", "CHANGELOG.md"} | {f"share/{name}" for name in SHARE} < set(files)


def test_sums_are_those_of_sha256sum(made):
    archives.write_file(made.output / "a", "1")
    archives.write_file(made.output / "b", "2")
    archives.write_sums(made.output)
    assert set(archives.read_sums(made.output)) == {"a", "b"}
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=made.output, check=True)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is part of Debian and its descendants")
def test_debian_packages_are_made_twice_alike(made, program):
    first = packages.debian_package(made, program, SHARE)
    digest = archives.sha256(first)
    ask = lambda *arguments: subprocess.run(["dpkg-deb", *arguments], check=True, capture_output=True, text=True).stdout  # noqa: E731
    assert ask("--field", first, "Depends").strip() == "libc6 (>= 2.17), libgcc-s1"
    listed = ask("--contents", first)
    for name in ("usr/bin/freestone", "usr/share/doc/freestone/copyright", "usr/share/man/man1/freestone.1.gz", "vendor-completions/_freestone"):
        assert name in listed
    assert all("root/root" in line for line in listed.splitlines())
    assert archives.sha256(packages.debian_package(made, program, SHARE)) == digest


def test_the_container_file_has_a_user(made):
    (made.output / "freestone-0.1.0-x86_64-unknown-linux-gnu.tar.gz").touch()
    text = packages.container_file(made).read_text()
    assert packages.container_problems(text, made.output) == []
    for old, new, problem in [
        ("USER 10001:10001", "", "the user is root"),
        ("USER 10001:10001", "USER 0", "the user is 0"),
        ("EXPOSE 5577 5432", "EXPOSE 5577", "exposed ports"),
        ("ADD freestone", "ADD missing", "is not in"),
        ("STOPSIGNAL", "STOPSIGNALS", "no instruction"),
        ("debian:bookworm-slim", "debian", "no image with a version"),
    ]:
        assert old in text
        found = packages.container_problems(text.replace(old, new), made.output)
        assert any(problem in line for line in found), (old, found)


def test_what_starts_containers_has_the_version(made):
    compose, chart = packages.deployment_files(made)
    assert "freestone worker" not in compose.read_text() and "--cluster=dns:worker:5578" in compose.read_text()
    with tarfile.open(chart) as archive:
        names = {member.name for member in archive}
    assert {"freestone/Chart.yaml", "freestone/values.yaml", "freestone/templates/_helpers.tpl", "freestone/templates/worker.yaml"} <= names
    digest = archives.sha256(chart)
    assert archives.sha256(packages.deployment_files(made)[1]) == digest
    with pytest.raises(settings.ReleaseError, match="version and appVersion 0.2.0"):
        packages.deployment_files(dataclasses.replace(made, version="0.2.0"))


def test_formulas_have_the_checksums_of_the_archives(made, program):
    archive = packages.program_archive(made, program, SHARE)
    other = dataclasses.replace(made, target="aarch64-apple-darwin")
    packages.program_archive(other, program, SHARE)
    text = packages.formula(made, "https://host.example/files/").read_text()
    assert f'url "https://host.example/files/{archive.name}"' in text and archives.sha256(archive) in text
    assert text.count("on_linux do") == text.count("on_macos do") == text.count("on_arm do") == 1 and "@" not in text
    assert text.count(" do\n") + text.count("\n  def ") + 1 == text.count("end\n")
    shutil.rmtree(made.output)
    made.output.mkdir()
    with pytest.raises(settings.ReleaseError, match="no archive"):
        packages.formula(made, "https://host.example")


def test_driver_managers_find_the_library_by_its_manifest(made, tmp_path, monkeypatch):
    """The manifest is unpacked into a folder that the driver manager searches, and gets the library's path."""
    from adbc_driver_manager import dbapi

    library = TARGET / "release" / made.library_name
    native = dataclasses.replace(made, target=settings.host_target())
    folder = tmp_path / "drivers"
    with tarfile.open(packages.library_archive(native, library)) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    manifest = unpacked / "freestone.toml"
    manifest.write_text(manifest.read_text().replace(f'"{made.library_name}"', f'"{unpacked / made.library_name}"'))
    monkeypatch.setenv("ADBC_DRIVER_PATH", str(unpacked))
    with dbapi.connect(driver="freestone", db_kwargs={"uri": ":memory:"}, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 42")
        assert cursor.fetchall() == [(42,)]


def test_facts_are_read_from_binaries(tmp_path):
    content = b"\0GLIBC_2.9\0GLIBC_2.34\0libm.so.6\0libunknown.so.1\0/build/target/x.rs\0/build/targets/y.rs\0"
    assert binaries.glibc_needed(content) == (2, 34)
    assert binaries.libraries_needed(content) == ["libm.so.6"]
    assert binaries.build_paths(content, [Path("/build/target")]) == ["/build/target/x.rs"]
    assert binaries.glibc_needed(b"") == ()


def test_wheels_are_tried_with_the_oldest_and_newest_python():
    found = [wheels.version_of(python) for python in wheels.interpreters()]
    assert found == sorted(found) and 1 <= len(found) <= 2 and found[0] >= (3, 10)


def test_wheels_that_do_not_install_are_errors(tmp_path):
    broken = archives.write_file(tmp_path / "freestone-0.1.0-cp310-abi3-manylinux_2_17_x86_64.whl", b"no wheel")
    with pytest.raises(settings.ReleaseError, match="pip install failed"):
        wheels.try_with(Path(sys.executable), broken, "0.1.0")


def units(package):
    """What Cargo would compile for a package: the description of each unit with those of all units below it, by its crate."""
    command = ["cargo", "build", "--release", "--locked", "--package", package, "--unit-graph", "-Zunstable-options"]
    printed = subprocess.run(command, cwd=ROOT, env={**os.environ, "RUSTC_BOOTSTRAP": "1"}, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stderr
    graph = json.loads(printed.stdout)["units"]
    known = {}

    def description(at):
        if at not in known:
            unit = graph[at]
            below = sorted(description(dependency["index"]) for dependency in unit["dependencies"])
            own = [unit[name] for name in ("pkg_id", "target", "mode", "features", "profile", "platform")]
            known[at] = hashlib.sha256(json.dumps([own, below], sort_keys=True).encode()).hexdigest()
        return known[at]

    found = {}
    for at, unit in enumerate(graph):
        found.setdefault((unit["pkg_id"], unit["target"]["name"], unit["mode"]), set()).add(description(at))
    return found


def test_pip_compiles_no_dependency_again():
    """Dependencies of the command line have the same features and profiles in the Python package, so that `make demo` compiles them for both."""
    program, package = units("freestone-cli"), units("freestone-python")
    shared = program.keys() & package.keys()
    assert len(shared) > 300
    assert sorted(key for key in shared if not package[key] <= program[key]) == []


def test_help_names_all_options():
    command = [sys.executable, "-B", "-m", "release", "--help"]
    shown = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT / "tools")}, capture_output=True, text=True)
    assert shown.returncode == 0 and "--target" in shown.stdout and "compare" in shown.stdout
