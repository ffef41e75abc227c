"""How much memory the processes of a run can use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

#: Used if the system does not say how much memory there is.
_UNKNOWN = 32 << 30


def limit(root: Path = Path("/")) -> int:
    """The bytes of memory that this process may use.

    That is the machine's memory, or less if a control group limits this process, as containers,
    Slurm and systemd do.

    Args:
        root: the folder with `proc` and `sys`.
    """
    limits = []
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _limits_of_groups(root):
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # a group that is invisible from here, or "max"
            continue
    return min(limits, default=_UNKNOWN)


def _limits_of_groups(root: Path) -> Iterator[Path]:
    """The files with the limits of this process's group and of the groups around it."""
    mounted = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not on Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, name = mounted, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = mounted / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container, its own group can be mounted in place of the outermost one.
        group = PurePosixPath(path.removeprefix("/"))
        for level in (group, *group.parents):
            yield folder / level / name
