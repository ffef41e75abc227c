"""The memory limit of this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backfill.runtimes.memory import limit

_MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        # Version 2 of control groups: this group's limit, and those of the groups around it.
        ("0::/a/b", {"a/b/memory.max": "3000"}, 3000),
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "2000"}, 2000),
        ("0::/a/b", {"a/b/memory.max": "1000", "a/memory.max": "2000"}, 1000),
        ("0::/", {"memory.max": "4000"}, 4000),
        # In a container, whose own group is mounted as the outermost one.
        ("0::/docker/1f", {"memory.max": "5000"}, 5000),
        # Version 1, in which each controller has its own groups.
        (
            "3:cpuset:/c\n4:memory:/a\n0::/",
            {
                "memory/a/memory.limit_in_bytes": "6000",
                "memory/c/memory.limit_in_bytes": "10",
                "memory/memory.limit_in_bytes": str(2**63 - 4096),
            },
            6000,
        ),
        ("4:cpu,memory:/a", {"memory/a/memory.limit_in_bytes": "7000"}, 7000),
        # A systemd path with a colon, and one that is not visible from here.
        ("0::/user@1:x.service", {"user@1:x.service/memory.max": "8000"}, 8000),
        ("0::/../../b", {}, _MACHINE),
        ("3:cpuset:/c", {"memory.max": "10"}, _MACHINE),
    ],
)
def test_the_smallest_limit_of_the_groups_around_counts(
    tmp_path: Path, groups: str, files: dict[str, str], expected: int
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups + "\n")
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert limit(tmp_path) == expected


def test_without_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert limit(tmp_path) == _MACHINE


def test_this_process_can_use_some_and_no_more_than_the_machine_has() -> None:
    assert 1 << 20 < limit() <= _MACHINE
