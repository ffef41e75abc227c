"""What the README and the pages under docs say is compared with the code: links, lists, tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill.aggregates import FACTORIES, parse
from backfill.causes import CAUSES
from backfill.engines import ENGINES, Engine
from backfill.quality.builtin import BUILTINS
from backfill.spec import JobSpec
from backfill.time.durations import Fixed
from tests.pages import ROOT, blocks, page

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def rows(text: str, first: str) -> Iterator[list[str]]:
    """The cells of a Markdown table whose first line begins with this cell."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {first} |"):
            break
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of headings."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


def test_every_page_is_linked_from_the_readme() -> None:
    text = page("README.md")
    for path in ROOT.glob("docs/*.md"):
        assert f"(docs/{path.name}" in text, path.name


def test_the_job_file_of_windows(tmp_path: Path) -> None:
    [text] = blocks("docs/windows.md", "yaml")
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    job = JobSpec.load(tmp_path / "job.yaml")
    names = ["sessions", "daily", "fiscal", "trailing", "growing", "moving", "hundreds"]
    assert list(job.windows) == names


def test_the_conventions_of_engines() -> None:
    def conventions(engine: Engine) -> list[str]:
        rules = engine.rules
        return [
            f"`{engine.name}`",
            "one session" if rules.gap_inclusive else "two sessions",
            "last event + gap" if rules.session_end == "last_event_plus_gap" else "last event",
            "[start, end)" if rules.closed == "left" else "(start, end]",
            "a group" if engine.null_key else "quarantined",
            "counted" if engine.before_epoch else "quarantined",
            str(Fixed(engine.tick_us)).replace("us", " µs").replace("ms", " ms"),
        ]

    table = list(rows(page("docs/windows.md"), "engine"))
    assert table == [conventions(engine) for engine in ENGINES.values()]


def test_every_aggregate_is_listed() -> None:
    cells = " ".join(cell for cell, _ in rows(page("docs/windows.md"), "aggregate"))
    named = re.findall(r"`([^`]+)`", cells)
    assert {re.split(r"\W", text)[0] for text in named} == set(FACTORIES)
    for text in named:
        parse(text.replace(", …", ""))


def test_every_cause_is_listed() -> None:
    causes = {name.strip("`"): since for name, since in rows(page("docs/reconciling.md"), "cause")}
    assert causes == {name: cause.since for name, cause in CAUSES.items()}


def test_every_check_is_listed() -> None:
    cells = " ".join(check for _, check, _ in rows(page("docs/checks.md"), "on"))
    assert set(re.findall(r"`(\w+)`", cells)) == set(BUILTINS)


def test_the_checks_of_the_readme_are_those_of_their_page() -> None:
    assert blocks("docs/checks.md", "yaml") == blocks("README.md", "yaml")[1:]
