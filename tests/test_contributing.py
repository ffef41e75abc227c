"""The files and names that CONTRIBUTING.md mentions exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_lane

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUOTED = set(re.findall(r"`([^`\n]+)`", TEXT))
#: Quoted names, and where they are said to be: `NAME` of `path`.
NAMED = re.findall(r"`(\w+)`(?:, `(\w+)`)*(?: and `\w+`)? (?:of|in) `(backfill/[\w/]+\.py)`", TEXT)


@pytest.mark.parametrize(
    "path", sorted(path for path in QUOTED if re.match(r"(backfill|tests)/\S*$", path))
)
def test_a_path(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("name", "path"), [(names[0], names[-1]) for names in NAMED])
def test_a_name(name: str, path: str) -> None:
    assert re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))


def test_the_parts_of_the_package() -> None:
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.MULTILINE)
    parts = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)} - {"backfill"}
    assert {"cli", "job.py", "time"} <= parts
    assert all((ROOT / "backfill" / part).exists() for part in parts)
    packages = {path.parent.name for path in (ROOT / "backfill").glob("*/__init__.py")}
    assert packages <= parts
