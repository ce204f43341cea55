"""The files that people install: archives, a Debian package, the ADBC library with its manifest, a container file, what starts
containers of it, and a formula."""

import email.utils
import hashlib
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from . import binaries
from .archives import gzipped, sha256, write_file, write_tar
from .settings import ADBC_SYSTEMS, DEBIAN_ARCHITECTURES, ROOT, ReleaseError, Settings

HERE = Path(__file__).parent
DEPLOY = ROOT / "deploy"
#: Where completions are below `share`: in the archive as the shells name the folders, and in Debian as its packages do.
COMPLETIONS = {
    "bash": ("bash-completion/completions/freestone", "bash-completion/completions/freestone"),
    "zsh": ("zsh/site-functions/_freestone", "zsh/vendor-completions/_freestone"),
    "fish": ("fish/vendor_completions.d/freestone.fish", "fish/vendor_completions.d/freestone.fish"),
}
DESCRIPTION = "analytical SQL database with layouts that can be chosen"
LONG_DESCRIPTION = """\
Freestone is an analytical SQL database in one program. It queries CSV,
Parquet, JSON and Arrow files in place, and stores tables in layouts that
you set, compare and change: rows, columns, column groups, sorted or
clustered. It also serves a database to clients of PostgreSQL and Arrow
Flight SQL."""


def extras(program: Path) -> dict[str, bytes]:
    """The completions and manual pages that the program writes about itself, by their names below `share`."""
    files = {}
    for shell, (name, _) in COMPLETIONS.items():
        files[name] = printed([program, "completions", shell])
    with tempfile.TemporaryDirectory() as folder:
        printed([program, "man-pages", folder])
        pages = sorted(Path(folder).glob("*.1"))
        files |= {f"man/man1/{page.name}": page.read_bytes() for page in pages}
    if not pages:
        raise ReleaseError(f"{program} man-pages wrote no pages")
    return files


def printed(command: list) -> bytes:
    result = subprocess.run(command, capture_output=True)
    if result.returncode != 0:
        raise ReleaseError(f"{' '.join(map(str, command))} failed: {result.stderr.decode()}")
    return result.stdout


def program_archive(settings: Settings, program: Path, share: dict[str, bytes]) -> Path:
    """`freestone-VERSION-TARGET.tar.gz`: the program, its documents, completions and manual pages."""
    name = f"freestone-{settings.version}-{settings.target}"
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / name
        write_file(folder / "bin/freestone", program.read_bytes(), 0o755)
        for document in ("LICENSE", "README.md", "CHANGELOG.md"):
            write_file(folder / document, (ROOT / document).read_bytes())
        for path, content in share.items():
            write_file(folder / "share" / path, content)
        return write_tar(settings.output / f"{name}.tar.gz", folder, settings.epoch)


def library_archive(settings: Settings, library: Path) -> Path:
    """`freestone-adbc-VERSION-TARGET.tar.gz`: the library, and the manifest by which ADBC's driver managers find it."""
    name = f"freestone-adbc-{settings.version}-{settings.target}"
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / name
        write_file(folder / library.name, library.read_bytes())
        write_file(folder / "freestone.toml", manifest(settings, library.name))
        write_file(folder / "LICENSE", (ROOT / "LICENSE").read_bytes())
        write_file(folder / "README.md", (ROOT / "docs/adbc.md").read_bytes())
        return write_tar(settings.output / f"{name}.tar.gz", folder, settings.epoch)


def manifest(settings: Settings, library: str) -> str:
    """A driver manifest of ADBC 1.8. The library is an absolute path, or a name that users replace by one: managers do not look next to the manifest."""
    machine = DEBIAN_ARCHITECTURES.get(settings.machine, settings.machine)
    platform = f"{ADBC_SYSTEMS[settings.system]}_{machine}" + ("_musl" if settings.target.endswith("-musl") else "")
    return f"""manifest_version = 1
name = "Freestone"
publisher = "Freestone"
license = "Apache-2.0"
version = "{settings.version}"

[ADBC]
version = "1.1.0"

[Driver]
entrypoint = "AdbcDriverFreestoneInit"

[Driver.shared]
{platform} = "{library}"
"""


def debian_package(settings: Settings, program: Path, share: dict[str, bytes]) -> Path:
    """`freestone_VERSION-1_ARCHITECTURE.deb`, made by dpkg-deb, which takes the times from SOURCE_DATE_EPOCH."""
    if shutil.which("dpkg-deb") is None:
        raise ReleaseError("dpkg-deb is not installed: install the package dpkg, or leave out `deb` by --only")
    architecture = DEBIAN_ARCHITECTURES[settings.machine]
    output = settings.output / f"freestone_{settings.version}-1_{architecture}.deb"
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "freestone"
        write_debian_files(settings, folder, program, share)
        write_debian_control(settings, folder, program, architecture)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(folder), str(output)]
        result = subprocess.run(command, env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(settings.epoch)}, capture_output=True, text=True)
    if result.returncode != 0:
        raise ReleaseError(f"dpkg-deb failed: {result.stderr}")
    return output


def write_debian_files(settings: Settings, folder: Path, program: Path, share: dict[str, bytes]) -> None:
    """The files that the package installs."""
    write_file(folder / "usr/bin/freestone", program.read_bytes(), 0o755)
    for archived, installed in COMPLETIONS.values():
        write_file(folder / "usr/share" / installed, share[archived])
    for name, content in share.items():
        if name.startswith("man/"):
            write_file(folder / f"usr/share/{name}.gz", gzipped(content))
    documents = folder / "usr/share/doc/freestone"
    write_file(documents / "copyright", debian_copyright(settings))
    write_file(documents / "changelog.Debian.gz", gzipped(debian_changelog(settings).encode()))
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


def write_debian_control(settings: Settings, folder: Path, program: Path, architecture: str) -> None:
    """The description of the package, and the checksums of its files."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    size = sum(-(-file.stat().st_size // 1024) for file in files)
    description = "\n".join(f" {line}" for line in LONG_DESCRIPTION.splitlines())
    fields = {
        "Package": "freestone",
        "Version": f"{settings.version}-1",
        "Architecture": architecture,
        "Maintainer": "The Freestone developers <freestone@freestone.example>",
        "Installed-Size": str(size),
        "Depends": ", ".join(debian_dependencies(program.read_bytes())),
        "Section": "database",
        "Priority": "optional",
        "Description": f"{DESCRIPTION}\n{description}",
    }
    write_file(folder / "DEBIAN/control", "".join(f"{name}: {value}\n" for name, value in fields.items() if value))
    sums = [f"{md5(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    write_file(folder / "DEBIAN/md5sums", "".join(sums))
    (folder / "DEBIAN").chmod(0o755)


def md5(file: Path) -> str:
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()


def debian_dependencies(content: bytes) -> list[str]:
    """The packages that the program needs, as it names the libraries and the versions of glibc."""
    glibc = binaries.glibc_needed(content)
    packages = {binaries.DEBIAN_PACKAGES[name] for name in binaries.libraries_needed(content)}
    versions = {"libc6": f" (>= {'.'.join(map(str, glibc))})" if glibc else ""}
    return sorted(package + versions.get(package, "") for package in packages)


def debian_copyright(settings: Settings) -> str:
    """The copyright file in Debian's machine-readable form, with the year of the commit."""
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: freestone

Files: *
Copyright: {time.gmtime(settings.epoch).tm_year} The Freestone developers
License: Apache-2.0
 On Debian systems, the text of the Apache License 2.0 is in
 /usr/share/common-licenses/Apache-2.0.
"""


def debian_changelog(settings: Settings) -> str:
    date = email.utils.formatdate(settings.epoch)
    return f"""freestone ({settings.version}-1) unstable; urgency=medium

  * Version {settings.version}; CHANGELOG.md of the sources says what is new.

 -- The Freestone developers <freestone@freestone.example>  {date}
"""


def container_file(settings: Settings) -> Path:
    """`Dockerfile`, which takes the program from the archive next to it."""
    text = (HERE / "Dockerfile").read_text(encoding="utf-8").replace("@ARCHIVE@", f"freestone-{settings.version}-{settings.target}")
    problems = container_problems(text, settings.output)
    if problems:
        raise ReleaseError(f"the container file is wrong: {'; '.join(problems)}")
    return write_file(settings.output / "Dockerfile", text)


def deployment_files(settings: Settings) -> list[Path]:
    """`compose.yaml` for Docker Compose, and the chart for Helm, whose version must be that of the program."""
    about = (DEPLOY / "chart" / "Chart.yaml").read_text(encoding="utf-8")
    if len(re.findall(rf"^(?:version|appVersion): {re.escape(settings.version)}$", about, flags=re.MULTILINE)) != 2:
        raise ReleaseError(f"deploy/chart/Chart.yaml does not have version and appVersion {settings.version}")
    compose = write_file(settings.output / "compose.yaml", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as parent:
        # Helm expects the chart's name as the folder.
        folder = Path(parent) / "freestone"
        shutil.copytree(DEPLOY / "chart", folder)
        chart = write_tar(settings.output / f"freestone-chart-{settings.version}.tgz", folder, settings.epoch)
    return [compose, chart]


#: The instructions of a Dockerfile.
INSTRUCTIONS = {"FROM", "ARG", "LABEL", "RUN", "ADD", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD", "ENV", "STOPSIGNAL"}


def container_problems(text: str, context: Path) -> list[str]:
    """What is wrong with a container file, as far as can be seen without a container engine."""
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line.strip()]
    problems = [f"{step[0]} is no instruction, or has no argument" for step in steps if step[0] not in INSTRUCTIONS or len(step) < 2]
    last = {step[0]: step[1] for step in steps if len(step) == 2}
    user = last.get("USER", "root").split(":")[0]
    if not user.isdigit() or user == "0":
        problems.append(f"the user is {user}, not the number of a user that is not root")
    if "FROM" not in last or ":" not in last["FROM"]:
        problems.append("FROM names no image with a version")
    ports = set(last.get("EXPOSE", "").split())
    listening = set(re.findall(r'0\.0\.0\.0:(\d+)"', last.get("CMD", "")))
    if ports != listening:
        problems.append(f"the exposed ports are {sorted(ports)}, the server listens on {sorted(listening)}")
    sources = [step[1].split()[-2] for step in steps if step[0] in ("ADD", "COPY") and len(step[1].split()) > 1]
    problems += [f"{name} is not in {context}" for name in sources if not (context / name).exists()]
    return problems


def formula(settings: Settings, address: str) -> Path:
    """`freestone.rb`, the formula for Homebrew, with the checksums of the archives in the output folder."""
    prefix = f"freestone-{settings.version}-"
    archives = {file.name.removeprefix(prefix).removesuffix(".tar.gz"): file for file in settings.output.glob(f"{prefix}*.tar.gz")}
    systems = {"macos": "-apple-darwin", "linux": "-unknown-linux-gnu"}
    blocks = []
    for system, suffix in systems.items():
        for processor, machine in (("arm", "aarch64"), ("intel", "x86_64")):
            file = archives.get(machine + suffix)
            if file is not None:
                blocks.append(formula_block(system, processor, f"{address.rstrip('/')}/{file.name}", sha256(file)))
    if not blocks:
        raise ReleaseError(f"{settings.output} has no archive that Homebrew could install")
    text = (HERE / "formula.rb").read_text(encoding="utf-8")
    return write_file(settings.output / "freestone.rb", text.replace("@VERSION@", settings.version).replace("@ARCHIVES@", "\n".join(blocks)))


def formula_block(system: str, processor: str, url: str, digest: str) -> str:
    return f"""  on_{system} do
    on_{processor} do
      url "{url}"
      sha256 "{digest}"
    end
  end
"""
