"""Archives and checksums whose bytes depend on nothing but the content: sorted names, one time, one owner."""

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

MODE_FILE, MODE_PROGRAM, MODE_FOLDER = 0o644, 0o755, 0o755


def write_tar(path: Path, folder: Path, epoch: int) -> Path:
    """Packs a folder into a `.tar.gz` with the folder's name as the first part of all names."""
    names = sorted([folder, *folder.rglob("*")], key=lambda file: file.relative_to(folder.parent).as_posix())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in names:
            member = archive.gettarinfo(file, file.relative_to(folder.parent).as_posix())
            normalize(member, epoch)
            if member.isreg():
                with file.open("rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)
    path.write_bytes(gzipped(buffer.getvalue()))
    return path


def normalize(member: tarfile.TarInfo, epoch: int) -> None:
    """Sets what depends on the machine: times, owners and the umask."""
    member.mtime = epoch
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    is_program = member.isdir() or bool(member.mode & 0o100)
    member.mode = MODE_PROGRAM if is_program else MODE_FILE


def gzipped(content: bytes) -> bytes:
    """Compressed, without a name and a time."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def write_file(path: Path, content: bytes | str, mode: int = MODE_FILE) -> Path:
    """Writes a file, and the folders that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def sha256(path: Path) -> str:
    """The checksum of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def write_sums(folder: Path) -> Path:
    """Writes `SHA256SUMS` of the files in a folder, in the form of `sha256sum --check`."""
    sums = folder / "SHA256SUMS"
    files = sorted(file for file in folder.iterdir() if file.is_file() and file != sums)
    return write_file(sums, "".join(f"{sha256(file)}  {file.name}\n" for file in files))


def read_sums(folder: Path) -> dict[str, str]:
    """The checksums in `SHA256SUMS` by name."""
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
