"""Reads facts from programs and libraries: the versions of glibc and the libraries that they need, and paths of the build."""

import re
from pathlib import Path

#: Libraries that every Linux system with glibc has, and the Debian package of each.
DEBIAN_PACKAGES = {
    "libc.so.6": "libc6",
    "libm.so.6": "libc6",
    "libdl.so.2": "libc6",
    "libpthread.so.0": "libc6",
    "librt.so.1": "libc6",
    "ld-linux-x86-64.so.2": "libc6",
    "ld-linux-aarch64.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
}


def glibc_needed(content: bytes) -> tuple[int, ...]:
    """The newest version of glibc that has a symbol which the file needs: `(2, 17)`. Empty without glibc."""
    found = re.findall(rb"\0GLIBC_(\d+(?:\.\d+)+)(?=\0)", content)
    return max((tuple(int(part) for part in version.split(b".")) for version in found), default=())


def libraries_needed(content: bytes) -> list[str]:
    """The shared libraries with versioned symbols or by well-known names that an ELF file names."""
    found = set(re.findall(rb"\0((?:lib|ld-)[a-zA-Z0-9_+-]+\.so\.\d+)(?=\0)", content))
    return sorted(name.decode() for name in found if name.decode() in DEBIAN_PACKAGES)


def build_paths(content: bytes, folders: list[Path]) -> list[str]:
    """Paths below the folders that are in the file. Such a path makes its bytes depend on where it was built."""
    found = []
    for folder in folders:
        prefix = str(folder).encode() + b"/"
        found += [match.decode(errors="replace") for match in re.findall(re.escape(prefix) + rb"[\w./+-]*", content)]
    return sorted(set(found))
