"""The page of a reconciliation."""

from __future__ import annotations

import datetime as dt
from html.parser import HTMLParser
from pathlib import Path

import pytest

from backfill.reconciliation.explaining.case import Explanation
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.report import write_report
from backfill.reconciliation.result import Explained, Reconciled
from backfill.reconciliation.rows import Row

pytestmark = pytest.mark.one_lane

HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "{{ 7 * 7 }}", "\udc80"]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def page(folder: Path, found: Reconciled) -> Tags:
    path = folder / "page.html"
    write_report(path, found, job="job.yaml", now=dt.datetime(2026, 1, 1), time=str)
    tags = Tags()
    tags.feed(path.read_text(encoding="utf-8"))
    return tags


def test_whatever_keys_hold_is_text(tmp_path: Path) -> None:
    differences = [
        Explained(
            (key,),
            Difference((Row(5 * i, 5 * i + 3, {"n": key}),), ()),
            Explanation(("late",) if i else ("unexplained",), bool(i), {"why": key}),
        )
        for i, key in enumerate(HOSTILE)
    ]
    parsed = page(tmp_path, Reconciled("sessions", 96, differences, 100, 96, True))
    assert not {"script", "img", "link", "iframe"} & set(parsed.tags)
    assert not {
        attribute
        for attribute in parsed.attributes
        if attribute.startswith("on") or attribute == "src"
    }
    for key in HOSTILE[:3]:
        assert key in parsed.text
    assert "96.00%" in parsed.text
    # A bar for each cause, and one over time for each difference, since they lie apart.
    assert parsed.tags.count("rect") == 2 + 4


def test_nothing_differs(tmp_path: Path) -> None:
    parsed = page(tmp_path, Reconciled("sessions", 7, [], 7, 7, True))
    assert "100.00%" in parsed.text
    assert "rect" not in parsed.tags
