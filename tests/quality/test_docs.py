"""The pages of validations: readable without network, and safe whatever they hold."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from backfill.quality.docs import build_docs
from backfill.quality.evaluate import evaluate
from tests.quality.given import check

pytestmark = pytest.mark.usefixtures("interpreted")

HOSTILE = '<script>alert(1)</script><img src=x onerror=y>"\' onclick="z'


class Page(HTMLParser):
    """The elements of a page, its links, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.words: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)


def validation(
    run_id: str = "run-1", at: str = "2024-01-02T03:04:05Z", table: str = "sessions", most: int = 3
) -> dict[str, Any]:
    frame = pd.DataFrame({"user": ["ann", "bob", None], "start": [0, 9, 5], "end": [1, 9, 6]})
    checks = [
        check("expect_sessions_to_be_apart", gap="30m", start="start", end="end", key=["user"]),
        check("expect_events_to_be_conserved", column="end", events=16),
        check("expect_column_values_to_be_between", column="start", max_value=most),
        check("expect_column_values_to_be_between", column="none", max_value=most),
    ]
    validated = evaluate(frame, checks, table=table, run_id=run_id, key=["user"])
    document = json.loads(json.dumps(validated.document))
    return {"table": table, "run_id": run_id, "at": at, "document": document}


def pages(index: Path) -> list[Page]:
    return [Page(index.parent / link) for link in Page(index).links]


def test_the_history_of_validations(tmp_path: Path) -> None:
    given = [
        validation("run-1"),
        validation("run-3", at="2024-01-03T01:00:00.5+02:00", most=9, table="hourly"),
        validation("run-2", at="2024-01-02T22:59:00Z"),
    ]
    index = build_docs(given, tmp_path / "docs", title="web.yaml")
    assert index == tmp_path / "docs" / "index.html"
    assert (
        "web.yaml Validations Time (UTC) Table Run Met Not met "
        "2024-01-02 23:00:00 hourly run-3 3 1 "
        "2024-01-02 22:59:00 sessions run-2 2 2 "
        "2024-01-02 03:04:05 sessions run-1 2 2"
    ) in Page(index).text
    newest, _, oldest = pages(index)
    assert "hourly · 2024-01-02 23:00:00 · run-3" in newest.text
    assert newest.links == ["../index.html"]
    assert "start must be more than 30m after the latest end before it, for each user ." in (
        oldest.text
    )
    assert "end must sum to exactly 16 , the number of events." in oldest.text
    assert "2 unexpected values found." in oldest.text
    assert 'The column "none" in BatchData does not exist.' in oldest.text


def test_nothing_is_fetched(tmp_path: Path) -> None:
    index = build_docs([validation()], tmp_path, title="job")
    for page in (Page(index), *pages(index)):
        assert "://" not in page.source
        assert not page.tags & {"script", "link", "img", "iframe", "object"}
        assert "default-src 'none'" in page.source


def test_hostile_values_are_text(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"user": ["a", HOSTILE, HOSTILE, None], HOSTILE: [1, 2, 3, 4], "x": [[HOSTILE]] * 4}
    )
    values = [HOSTILE]
    quantiles = {"quantiles": [0.5], "value_ranges": [[0, 1]]}
    checks = [
        check("expect_sessions_to_be_apart", gap=9, start=HOSTILE, end=HOSTILE, key=["user"]),
        check("expect_sessions_to_be_apart", gap=9, start=HOSTILE, end=HOSTILE, key=[HOSTILE]),
        check("expect_events_to_be_conserved", column="user", events=1),
        check("expect_column_values_to_be_unique", column="user"),
        check("expect_column_values_to_be_in_set", column="user", value_set=values),
        check("expect_column_values_to_be_in_set", about=HOSTILE, column=HOSTILE, value_set=values),
        check("expect_column_values_to_not_be_null", column=f"no {HOSTILE}"),
        check("expect_compound_columns_to_be_unique", column_list=["user", HOSTILE]),
        check(f"expect_{HOSTILE}", column=HOSTILE),
        check("expect_column_distinct_values_to_equal_set", column="user", value_set=["a"]),
        check("expect_column_most_common_value_to_be_in_set", column="user", value_set=["a"]),
        check("expect_table_columns_to_match_set", column_set=values),
        check("expect_table_columns_to_match_ordered_list", column_list=values),
        check("expect_column_values_to_match_regex", column="user", regex=f"^{HOSTILE}$"),
        check("expect_column_values_to_be_of_type", column="user", type_=HOSTILE),
        check("expect_multicolumn_sum_to_equal", column_list=[HOSTILE], sum_total=3),
        check(
            "expect_column_quantile_values_to_be_between", column=HOSTILE, quantile_ranges=quantiles
        ),
    ]
    validated = evaluate(frame, checks, table=HOSTILE, run_id=HOSTILE, key=["user"])
    entry = {"table": HOSTILE, "run_id": HOSTILE, "at": "2024-01-02T03:04:05Z"}
    index = build_docs([{**entry, "document": validated.document}], tmp_path, title=HOSTILE)
    quiet = build_docs([validation()], tmp_path / "quiet", title="quiet")
    [harmless], [page] = pages(quiet), pages(index)
    for parsed in (Page(index), page):
        assert not parsed.tags & {"script", "img"}
        assert "onclick" not in parsed.attributes
        assert "<script>alert(1)</script>" in parsed.text
        assert not [link for link in parsed.links if "alert" in link]
    assert page.tags <= harmless.tags | {"h3", "p", "ul", "li"}


def test_hostile_parameters_are_text() -> None:
    """Also within lists and dictionaries, in which Great Expectations' view escapes nothing."""
    from backfill.quality.view import OfflineView, _escaped

    for value in (HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}):
        template = {"template": "must be $value", "params": {"value": value}}
        content = _escaped({"string_template": template})
        text = OfflineView().render_string_template(content["string_template"])
        assert "<script" not in text
        assert "&lt;script" in text


def test_built_again_it_is_the_same(tmp_path: Path) -> None:
    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    given = [validation("run-1"), validation("run-2", at="2024-01-03T00:00:00Z")]
    index = build_docs(given, tmp_path, title="job")
    first = files()
    made = [path.stat().st_mtime_ns for path in (tmp_path / "validations").iterdir()]
    build_docs(given, tmp_path, title="job")
    assert files() == first
    assert [path.stat().st_mtime_ns for path in (tmp_path / "validations").iterdir()] == made
    build_docs(given[:1], tmp_path, title="job")
    assert len(list((tmp_path / "validations").iterdir())) == len(pages(index)) == 1


def test_an_expectation_that_is_not_known_any_more(tmp_path: Path) -> None:
    given = validation()
    given["document"]["results"][2]["expectation_config"]["type"] = "expect_the_spanish_inquisition"
    [page] = pages(build_docs([given], tmp_path, title="job"))
    assert "Expectations that are not known here expect_the_spanish_inquisition" in page.text
    assert "end must sum to exactly 16" in page.text


def test_no_validations(tmp_path: Path) -> None:
    index = build_docs([], tmp_path, title="job")
    assert "Nothing has been validated yet." in Page(index).text


@pytest.mark.parametrize("text", ["lone \ud800 surrogate", "nul \x00"])
def test_odd_text(tmp_path: Path, text: str) -> None:
    index = build_docs([validation(run_id=text)], tmp_path, title="job")
    assert "sessions" in Page(index).text
