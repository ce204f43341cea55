"""Processor time for single processes: groups of the Linux kernel with a quota per period, by cgroup v2 or v1.

A quota of 0.2 cores is 1 ms in each period of 5 ms, so that processes on a machine with fewer cores than processes still make
progress at the same time, as on machines of their own. The kernel's least quota is 1 ms: a smaller share has a longer period.
"""

import os
import shutil
from pathlib import Path

#: Microseconds.
PERIOD, QUOTA_MIN = 5_000, 1_000
CONTROLLER = "cpu"
#: The weight of a core by the version of the groups: a worker with 0.2 cores has the kernel's default.
WEIGHT_OF_CORE = {1: 5 * 1024, 2: 5 * 100}


class NotPossible(Exception):
    """This machine, or this user, cannot limit the processor time of processes."""


def hierarchies(mounts: str) -> list[tuple[int, Path]]:
    """Version and folder of the hierarchies that can limit processor time, by the text of /proc/mounts, the newer version first."""
    found = []
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        _, folder, kind, options = fields[:4]
        if kind == "cgroup2":
            found.append((2, Path(folder)))
        elif kind == "cgroup" and CONTROLLER in options.split(","):
            found.append((1, Path(folder)))
    return sorted(found, reverse=True)


def limits(version: int, cores: float) -> dict[str, str]:
    """The files of a group that limit it to so many cores, with what is written to them. The period comes first.

    The weight is in proportion, so that a group with more cores also gets more of a machine whose cores are all busy.
    """
    period = max(PERIOD, round(QUOTA_MIN / cores))
    quota = round(period * cores)
    if version == 2:
        return {"cpu.max": f"{quota} {period}", "cpu.weight": str(max(1, round(WEIGHT_OF_CORE[2] * cores)))}
    shares = max(2, round(WEIGHT_OF_CORE[1] * cores))
    return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota), "cpu.shares": str(shares)}


class Group:
    """A group of processes with a quota. Those that a member starts are members, too."""

    def __init__(self, version: int, folder: Path, cores: float) -> None:
        self.version, self.folder = version, folder
        folder.mkdir()
        self.limit(cores)

    def limit(self, cores: float) -> None:
        """Changes the quota, for members that run, too."""
        if self.version == 1:
            # Between the two files, the old quota must not be above the new period's share that the kernel allows.
            (self.folder / "cpu.cfs_quota_us").write_text("-1")
        for name, text in limits(self.version, cores).items():
            (self.folder / name).write_text(text)

    def command(self, command: list[str]) -> list[str]:
        """A command that joins the group, and then becomes another one."""
        return ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def remove(self) -> None:
        """Removes the group, whose members have ended."""
        self.folder.rmdir()


class Groups:
    """The groups of this run, below a group of their own."""

    def __init__(self, version: int, folder: Path) -> None:
        self.version, self.folder, self.groups = version, folder, {}
        folder.mkdir()

    @classmethod
    def make(cls) -> "Groups":
        """Makes the group of this run.

        Raises:
            NotPossible: there is no such hierarchy, or this user may not write to it.
        """
        reasons = []
        for version, root in hierarchies(Path("/proc/mounts").read_text()):
            folder = root / f"freestone-bench-{os.getpid()}"
            try:
                if version == 2 and CONTROLLER not in (root / "cgroup.subtree_control").read_text().split():
                    (root / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
                groups = cls(version, folder)
                if version == 2:
                    (folder / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
                groups.group("try", 1.0).remove()
                return groups
            except OSError as error:
                reasons.append(f"{root}: {error.strerror}")
                shutil.rmtree(folder, ignore_errors=True)
        raise NotPossible("; ".join(reasons) or "no cgroup hierarchy with the controller `cpu` is mounted")

    @property
    def kind(self) -> str:
        return f"cgroup v{self.version}, periods of {PERIOD / 1000:g} ms"

    def group(self, name: str, cores: float) -> Group:
        """A new group."""
        group = Group(self.version, self.folder / name, cores)
        self.groups[name] = group
        return group

    def remove(self) -> None:
        """Removes all groups, whose members have ended."""
        for group in self.groups.values():
            if group.folder.exists():
                group.remove()
        self.folder.rmdir()
