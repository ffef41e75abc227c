"""The `metrics:` section of job files: what it gives, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill import aggregates as agg
from backfill.spec import JobSpec
from backfill.time.durations import Fixed
from backfill.windows import MetricSlices, RollingWindow
from tests.pages import blocks
from tests.spec.test_job_file import load, problems

pytestmark = pytest.mark.one_lane

HOUR = 3_600_000_000
JOB = """\
source: {path: events, format: parquet}
events: {key: user_id, time: event_time}
metrics:
  cards:
    by: [[account], [account, country]]
    value: count_distinct(card)
    windows: [1h, 24h]
    step: 5m
    where: "amount > 0"
tables: {path: out}
"""


def test_each_grouping_is_a_table(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB)
    assert list(spec.windows) == ["cards_by_account", "cards_by_account_country"]
    table = spec.windows["cards_by_account_country"]
    assert table.window == RollingWindow(
        by=("account", "country"),
        windows=(Fixed(HOUR), Fixed(24 * HOUR)),
        step=Fixed(HOUR // 12),
        offset=Fixed(0),
    )
    cards = agg.count_distinct("card", where="amount > 0")
    assert dict(table.aggregates) == {"cards_1h": cards, "cards_1d": cards}


def named(tmp_path: Path, by: str) -> list[str]:
    spec: JobSpec = load(tmp_path, JOB.replace("[[account], [account, country]]", by))
    return list(spec.windows)


def test_the_documented_job_file(tmp_path: Path) -> None:
    spec = load(tmp_path, blocks("docs/metrics.md", "yaml")[0])
    tables = ["cards_by_account", "cards_by_account_country", "all", "all_slices"]
    assert list(spec.windows) == tables


def test_slices_are_a_table_beside_each_grouping(tmp_path: Path) -> None:
    spec = load(tmp_path, JOB.replace("step: 5m", "step: 5m\n    keep_slices: true"))
    assert list(spec.windows) == [
        *("cards_by_account", "cards_by_account_slices"),
        *("cards_by_account_country", "cards_by_account_country_slices"),
    ]
    step = Fixed(HOUR // 12)
    table = spec.windows["cards_by_account_slices"]
    assert table.window == MetricSlices(
        by=("account",), windows=(step,), step=step, offset=Fixed(0), metric="cards_by_account"
    )
    assert dict(table.aggregates) == {"cards": agg.count_distinct("card", where="amount > 0")}


def test_the_names_of_tables(tmp_path: Path) -> None:
    assert named(tmp_path, "[account]") == ["cards"]
    assert named(tmp_path, "[[account]]") == ["cards"]
    assert named(tmp_path, "[]") == ["cards"]
    assert named(tmp_path, "[[], [account]]") == ["cards_by_all", "cards_by_account"]


@pytest.mark.parametrize("name", ["kafka-streams", "spark", "flink", "beam", "storm", "samza"])
def test_engines_have_the_plain_metrics_at_their_own_ticks(tmp_path: Path, name: str) -> None:
    text = JOB.replace("tables:", f"engine: {name}\ntables:")
    assert len(load(tmp_path, text).windows) == 2
    text = text.replace("step: 5m", "step: 5m\n    offset: 100us")
    if name == "spark":
        assert len(load(tmp_path, text).windows) == 2
        return
    (only,) = problems(tmp_path, text)
    assert f"9: metrics.cards.offset: must be whole milliseconds under the engine {name}" in only


def test_windows_and_metrics_stand_side_by_side(tmp_path: Path) -> None:
    windows = "windows: {hourly: {tumbling: {size: 1h}, aggregates: {n: count}}}\ntables:"
    more = "checks: {cards_by_account: [{expect_column_values_to_not_be_null: {column: at}}]}\n"
    spec = load(tmp_path, JOB.replace("tables:", windows) + more)
    assert list(spec.windows) == ["hourly", "cards_by_account", "cards_by_account_country"]
    assert list(spec.checks.own) == ["cards_by_account"]


BAD = [
    ("step: 5m", "step: 7m", ["7: metrics.cards.windows: must be a whole number of steps of 7m"]),
    ("step: 5m", "step: 5", ["8: metrics.cards.step: a bare number has no unit"]),
    ("step: 5m", "step: 1 day", ["8: metrics.cards.step: can't be a calendar span"]),
    ("step: 5m", "step: 0s", ["8: metrics.cards.step: must be greater than zero"]),
    ("step: 5m", "step: 5m\n    keep_slices: yes!", ["9: metrics.cards.keep_slices: must be"]),
    (
        "value: count_distinct(card)",
        "value: stddev(amount)\n    keep_slices: true",
        ["7: metrics.cards.keep_slices: can't be merged from slices (got 'stddev(amount) where"],
    ),
    ("    step: 5m\n", "", ["4: metrics.cards.step: is missing"]),
    ("step: 5m", "step: 5m\n    offset: soon", ["9: metrics.cards.offset: not a duration"]),
    ("[1h, 24h]", "[]", ["7: metrics.cards.windows: needs a list of durations", '"1d"']),
    ("[1h, 24h]", "1h", ["7: metrics.cards.windows: needs a list of durations"]),
    ("[1h, 24h]", "[1h, 1 month]", ["metrics.cards.windows: can't be a calendar span"]),
    ("[1h, 24h]", "[3600]", ["metrics.cards.windows: a bare number has no unit"]),
    ("[[account], [account, country]]", "account", ["5: metrics.cards.by: must be a list of col"]),
    ("[[account], [account, country]]", "[a, [b]]", ["metrics.cards.by: must be a column's name"]),
    ("[[account], [account, country]]", "[a, a]", ["metrics.cards.by: must be a column's name"]),
    ("[[account], [account, country]]", "[at]", ["not one of the result's own columns"]),
    ("[[account], [account, country]]", "[date]", ["metrics.cards: is a name reserved", "'date'"]),
    ("[[account], [account, country]]", "[cards_1h]", ["metrics.cards: is already a key column"]),
    ("[[account], [account, country]]", "[cards]", ["metrics.cards.name: the name is that of a d"]),
    (
        "[[account], [account, country]]",
        "[[a b], [c]]",
        [
            "can't be used as a table name (got 'cards_by_a b')",
            "Make this grouping a separate metric",
        ],
    ),
    (
        "[[account], [account, country]]",
        "[[a, b], [a_b]]",
        ["metrics.cards: two tables would have this name (got 'cards_by_a_b')"],
    ),
    ("count_distinct(card)", "cuont(card)", ["6: metrics.cards.value: no such", "'count'?"]),
    ("count_distinct(card)", "[a]", ["6: metrics.cards.value: must be text"]),
    ('"amount > 0"', "[a]", ["9: metrics.cards.where: must be text"]),
    (
        "  cards:\n    by: [[account], [account, country]]",
        "  events:\n    by: [account]",
        ["4: metrics.events: is a name reserved for the tables"],
    ),
    ("  cards:", "  _cards:", ["metrics._cards.name: the name is reserved"]),
    ("  cards:", '  "a b":', ["can't be used as a table name (got 'a b_by_account')"]),
    ("    where:", "    were:", ["9: metrics.cards.were: no such setting", "'where'?"]),
    ("metrics:\n", "metrics: {}\nx:\n", ["needs at least one window"]),
    (
        "tables:",
        "windows: {Cards_by_account: {tumbling: {size: 1h}, aggregates: {n: count}}}\ntables:",
        ["3: metrics: two tables would have this name (got 'cards_by_account')", "Rename the m"],
    ),
    (
        "tables:",
        "checks: {cards: [{expect_column_values_to_not_be_null: {column: at}}]}\ntables:",
        ["10: checks.cards: the job has no window or check group", "cards_by_account"],
    ),
    *(
        (
            "tables:",
            f"checks: {{cards_by_account: [{{{given}}}]}}\ntables:",
            [
                "10: checks.cards_by_account: needs a column that a metric's table does not "
                f"have (got '{value}'). Use at"
            ],
        )
        for given, value in (
            ("expect_column_values_to_not_be_null: {column: window_start}", "window_start"),
            (
                "expect_compound_columns_to_be_unique: {column_list: [user, event_time]}",
                "event_time",
            ),
            ("expect_sessions_to_be_apart: {gap: 30m}", "expect_sessions_to_be_apart"),
        )
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), BAD, ids=[new for _, new, _ in BAD])
def test_what_is_refused(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    assert old in JOB
    messages = "\n".join(problems(tmp_path, JOB.replace(old, new, 1)))
    for part in expected:
        assert part in messages
