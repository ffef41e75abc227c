"""Rules for bots, against plain Python."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import BotRule, bots
from backfill.bot_rules import Bots
from backfill.errors import ColumnError, WindowError
from tests import drawn, reference_bots, reference_rules
from tests.event_frames import rows
from tests.reference_rules import Visit

GAP = 1_800_000_000
HOUR = 2 * GAP
DAY = 24 * HOUR
#: The nights around which clocks in Berlin went back, and forward.
AUTUMN, SPRING = 1_761_436_800_000_000, 1_743_289_200_000_000
MANY = BotRule(name="many", events=4)
QUICK = BotRule(name="quick", events=2, no_pause_longer_than="10m", remove="day")
BUSY = BotRule(name="busy", events=2, per="hour", remove="day")
CRAWLER = BotRule(name="crawler", where="login")
RULES = {
    "events": [MANY],
    "hour": [BUSY],
    "pause": [QUICK],
    "where by day": [BotRule(name="crawler", where="login", remove="day")],
    "both": [BotRule(name="both", events=2, where="login", no_pause_longer_than="25m")],
    "all": [
        CRAWLER,
        BotRule(name="steady", events=9, no_pause_longer_than="1m", remove="day"),
        MANY,
        BotRule(name="hourly", events=3, per="hour"),
    ],
}

times = st.one_of(
    st.none(),
    st.builds(
        lambda base, n, fine: base + n * GAP // 3 + fine,
        st.sampled_from([0, DAY - GAP, AUTUMN, SPRING]),
        st.integers(-9, 9),
        st.sampled_from([-1, 0, 0, 0, 1]),
    ),
)
visits = drawn.few_or_many(
    st.builds(
        Visit,
        st.sampled_from(["a", "b", None]),
        times,
        referrer=st.sampled_from([None, "x", "y"]),
        login=st.sampled_from([None, False, False, False, False, False, True]),
    )
)
#: One key with most of the events, of a day and the night after it.
HOT = [Visit("hot", n * 60_000_000, referrer=str(n)) for n in range(2_000)]
#: Ten minutes apart, so that every rule holds for some visits, whatever else is drawn.
SOME = [
    [Visit("a", n * GAP // 3, login=crawler and not n) for n in range(count)]
    for count, crawler in ((6, False), (4, False), (3, True), (1, False))
]


@cache
def given_visits() -> list[list[Visit]]:
    return [[], HOT, *SOME, *drawn.cases(visits, 300)]


@pytest.mark.parametrize("with_id", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_bots_are_those_of_plain_python(spark: SparkSession, name: str, with_id: bool) -> None:
    every = [
        v if v.key is None else replace(v, key=f"{number}:{v.key}")
        for number, own in enumerate(given_visits())
        for v in own
    ]
    judged = bots(
        reference_rules.frame(spark, every),
        RULES[name],
        gap="30m",
        key="key",
        time="time",
        time_format="epoch_us",
        timezone="Europe/Berlin",
        id="referrer" if with_id else None,
    )
    own = (lambda v: v.referrer) if with_id else None
    expected = reference_bots.names(RULES[name], every, GAP, "Europe/Berlin", own)
    assert len(set(expected)) > len(RULES[name]), "each rule holds for some, and none for some"
    made = Counter((row[0], row[1], row[4], row[5], row[8]) for row in rows(judged))
    drawn.check(
        made,
        Counter(
            (v.key, v.time, v.referrer, v.login, rule)
            for v, rule in zip(every, expected, strict=True)
        ),
        case=lambda row: given_visits()[drawn.number(row[0])] if row[0] else None,
    )


def test_one_group_of_all_events(spark: SparkSession) -> None:
    events = spark.range(6).selectExpr("id", "timestamp_seconds(id) at")
    judged = bots(events, [BotRule(name="many", events=5)], gap="30m", key=[], time="at")
    assert {row["bot"] for row in judged.collect()} == {"many"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "1st", "events": 1}, "name: must be letters"),
    ({"name": "a"}, "name: has no condition that a session could meet"),
    ({"name": "a", "events": 0}, "events: must be a whole number of events"),
    ({"name": "a", "where": " "}, "where: must be a predicate in Spark SQL"),
    ({"name": "a", "where": "x", "per": "hour"}, "per: has no meaning without events"),
    ({"name": "a", "events": 1, "per": "day"}, "per: must be session or hour"),
    ({"name": "a", "events": 1, "remove": "key"}, "remove: must be session or day"),
    (
        {"name": "a", "where": "x", "no_pause_longer_than": "2s"},
        "no_pause_longer_than: has no meaning without events",
    ),
]


@pytest.mark.parametrize(("arguments", "problem"), REFUSED)
def test_rules_without_meaning_are_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(WindowError) as error:
        BotRule(**arguments)
    assert str(error.value).startswith(problem)
    assert error.value.way_out


def test_rules_that_cannot_stand_together_are_refused() -> None:
    for rules in ([], [MANY, MANY]):
        with pytest.raises(WindowError, match="rules: "):
            Bots.of("30m", rules)
    with pytest.raises(WindowError, match="gap: must be greater than zero"):
        Bots.of("0s", [MANY])


def test_what_does_not_fit_the_events_is_refused(spark: SparkSession) -> None:
    events = spark.range(1).selectExpr("id", "timestamp_seconds(id) at")
    common = {"gap": "30m", "key": "id", "time": "at"}
    with pytest.raises(WindowError, match="where: is not a predicate but bigint"):
        bots(events, [BotRule(name="a", where="id")], **common)
    with pytest.raises(ColumnError, match="already have a column"):
        bots(events.withColumnRenamed("id", "bot"), [MANY], **{**common, "key": "bot"})
