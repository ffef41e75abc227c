"""The `joins:` section of job files: what it gives, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.folders import LocalFolder
from backfill.ledger.state import settings
from backfill.windows import JoinWindow, by_place
from backfill.windows.message_gaps import messages
from tests.pages import blocks
from tests.spec.test_job_file import load, problems

pytestmark = pytest.mark.one_lane

JOB = """\
source: {path: events, format: parquet}
events: {key: user_id, time: at, id: event_id}
joins:
  sold:
    left: kind = 'click'
    right: kind = 'buy'
    within: [-5m, 30m]
    on: [user_id]
    how: left
    where: left.shop = right.shop
    columns: {ad: left.ad, price: right.`the price`}
tables: {path: out}
"""


def test_a_join_is_a_table(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB)
    assert list(spec.windows) == ["sold"]
    table = spec.windows["sold"]
    assert table.window == JoinWindow(
        left="kind = 'click'",
        right="kind = 'buy'",
        within=("5m", "30m"),
        how="left",
        where="left.shop = right.shop",
        columns={"ad": "left.ad", "price": "right.`the price`"},
    )
    assert not table.aggregates
    assert isinstance(table.window, JoinWindow)
    assert table.window.looked_at == ("ad", "the price", "shop")
    assert list(table.window.own_columns("id")) == ["id", "right_time", "id_right"]


def test_the_documented_job_file(tmp_path: Path) -> None:
    spec = load(tmp_path, blocks("docs/joins.md", "yaml")[0])
    sold, unsold = (entry.window for entry in spec.windows.values())
    assert isinstance(sold, JoinWindow)
    assert isinstance(unsold, JoinWindow)
    assert (sold.left, sold.right) == ("source = 'clicks'", "source = 'buys'")
    assert (unsold.left, unsold.right) == ("source = 'clicks'", "price > 10")


def test_before_can_be_written_with_or_without_a_minus(tmp_path: Path) -> None:
    (one,) = load(tmp_path, JOB).windows.values()
    (other,) = load(tmp_path, JOB.replace("[-5m", "[5m")).windows.values()
    assert one == other


def test_within_a_number_of_events(tmp_path: Path) -> None:
    (one,) = load(tmp_path, JOB.replace("[-5m, 30m]", "5 messages")).windows.values()
    assert isinstance(one.window, JoinWindow)
    assert one.window.within == messages(5)
    assert "within=5 messages, how=left" in str(one.window)
    assert by_place(one.window)


def test_what_makes_its_table_stale(tmp_path: Path) -> None:
    before = settings(load(tmp_path, JOB), "sold")
    assert before["joins.sold"] == (
        "join(left=\"kind = 'click'\", right=\"kind = 'buy'\", within=[-5m, 30m], how=left, "
        'where="left.shop = right.shop", ad=left.ad, price=right.the price)'
    )
    swapped = "{price: right.`the price`, ad: left.ad}"
    same = JOB.replace("{ad: left.ad, price: right.`the price`}", swapped)
    assert settings(load(tmp_path, same), "sold") == before
    for old, new in (("30m", "31m"), ("left.ad", "left.add"), ("how: left", "how: full")):
        assert settings(load(tmp_path, JOB.replace(old, new)), "sold") != before


def test_the_columns_that_a_condition_mentions() -> None:
    def mentioned(where: str) -> list[str]:
        window = JoinWindow(left="true", right="true", within="1m", where=where)
        return [str(column) for column in window.mentioned]

    assert mentioned("left.a = RIGHT . `b``c` AND 'left.d' <> \"right.e\"") == [
        "left.a",
        "right.b`c",
    ]
    assert mentioned("left.a.b > my.right.c") == ["left.a"]
    assert mentioned("`left`.a > `my`.right.c OR `x`.`right`.b") == ["left.a"]


def test_beside_windows_and_metrics(tmp_path: Path) -> None:
    more = """\
windows: {hourly: {tumbling: {size: 1h}, aggregates: {n: count}}}
metrics: {cards: {by: [[shop], [ad]], value: count, windows: [1h], step: 5m}}
checks: {sold: [{expect_column_values_to_not_be_null: {column: event_time}}]}
"""
    spec = load(tmp_path, JOB + more)
    assert list(spec.windows) == ["hourly", "cards_by_shop", "cards_by_ad", "sold"]


BAD = [
    ("left: kind = 'click'\n", "left: ''\n", ["5: joins.sold.left: is empty"]),
    ("    left: kind = 'click'\n", "", ["4: joins.sold.left: is missing"]),
    ("[-5m, 30m]", "[5, 30m]", ["7: joins.sold.within: a bare number has no unit"]),
    ("[-5m, 30m]", "[5m, -30m]", ["the time after the left event can't be negative"]),
    ("[-5m, 30m]", "[5m]", ["7: joins.sold.within: must be two durations, before and after"]),
    ("[-5m, 30m]", "0 messages", ["7: joins.sold.within: must be a whole number of messages"]),
    (
        "[user_id]",
        "[shop]",
        ["8: joins.sold.on: the events of a pair always share the job's key", "left.shop"],
    ),
    ("how: left", "how: outer", ["9: joins.sold.how: must be inner or left or full"]),
    ("how: left", "how: semi", ["11: joins.sold.columns.price: is of the right side"]),
    ("left.ad", "ad", ["11: joins.sold.columns.ad: must be a column of one side"]),
    ("{ad:", "{right_time:", ["11: joins.sold.columns.right_time", "is already a column"]),
    ("{ad:", "{event_time:", ["11: joins.sold.columns", "reserved"]),
    ("{ad:", "{user_id:", ["11: joins.sold.columns", "already a key column"]),
    ("key: user_id", "key: right_time", ["a join's table has its own column 'right_time'"]),
    ("id: event_id", "id: left_time", ["a join's table has its own column 'left_time'"]),
    ("id: event_id", "id: date", ["the id 'date' is a name reserved"]),
    ("{ad:", "{left_time:", ["11: joins.sold.columns.left_time", "is already a column"]),
    ("sold:", "events:", ["4: joins.events: is a name reserved"]),
    ("    how:", "    who:", ["9: joins.sold.who: no such setting", "how"]),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD)
def test_what_is_refused(tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    text = JOB.replace("    on: [user_id]\n", "") if old == "key: user_id" else JOB
    assert old in text
    refusal = "\n".join(problems(tmp_path, text.replace(old, new)))
    assert all(word in refusal for word in words), refusal


def test_an_engine_with_milliseconds(tmp_path: Path) -> None:
    text = JOB.replace("tables:", "engine: flink\ntables:")
    assert len(load(tmp_path, text).windows) == 1
    (problem,) = problems(tmp_path, text.replace("30m]", "1500us]"))
    expected = "joins.sold.within: must be whole milliseconds under the engine flink (got '1500us')"
    assert expected in problem


def test_names_that_others_have(tmp_path: Path) -> None:
    more = "windows: {SOLD: {tumbling: {size: 1h}, aggregates: {n: count}}}\n"
    (problem,) = problems(tmp_path, JOB + more)
    assert "joins: two tables would have this name (got 'sold')" in problem


def test_checks_of_columns_that_it_does_not_have(tmp_path: Path) -> None:
    more = "checks: {sold: [{expect_column_values_to_not_be_null: {column: window_start}}]}\n"
    (problem,) = problems(tmp_path, JOB + more)
    assert "needs a column that a join's table does not have" in problem


SOURCES = "sources: {clicks: {path: c, format: parquet}, buys: {path: b, format: json}}\n"


def test_several_sources(tmp_path: Path) -> None:
    text = JOB.split("\n", 1)[1].replace("kind = 'click'", "clicks")
    spec = load(tmp_path, SOURCES + text)
    assert list(spec.source.parts) == ["clicks", "buys"]
    assert spec.source.parts["buys"].path == str(tmp_path / "b")
    assert spec.source.inferred
    assert settings(spec, "sold")["sources"] == "buys, clicks"
    assert spec.source.meets(LocalFolder(tmp_path / "b" / "out"))
    assert not spec.source.meets(LocalFolder(tmp_path / "out"))
    window = spec.windows["sold"].window
    assert isinstance(window, JoinWindow)
    assert (window.left, window.right) == ("source = 'clicks'", "kind = 'buy'")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ("", "source: is missing. Give source, or sources by name"),
        ("source: {path: c, format: csv}\n" + SOURCES, "source: can't be combined with sources"),
        ("sources: {}\n", "1: sources: needs at least one source"),
        (
            SOURCES.replace("json", "json, option: {password: s3cret}"),
            "1: sources.buys.option: no such setting. Did you mean 'options'",
        ),
        ("sources: {path: b, options: {password: s3cret}}\n", "1: sources.path: must be a mapping"),
        (SOURCES.replace("json", "delta"), "1: sources.buys.format: can't be one of several"),
        (SOURCES.replace("json", "jsn"), "1: sources.buys.format: no such format (got 'jsn')"),
        (SOURCES.replace("buys", "_b"), "1: sources._b: can't be used as a name"),
        (
            SOURCES.replace("path: b", "path: out/../"),
            "tables.path: the tables would be written into the folder",
        ),
        (
            SOURCES.replace("format: json", "format: csv, options: {password: [s3cret]}"),
            "1: sources.buys.options.password: must be text",
        ),
    ],
)
def test_sources_that_are_refused(tmp_path: Path, sources: str, message: str) -> None:
    refusal = "\n".join(problems(tmp_path, sources + JOB.split("\n", 1)[1]))
    assert message in refusal
    assert "s3cret" not in refusal
