"""Sessions whose gap is a number of messages, against plain Python over offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from backfill import SessionWindow, aggregate, messages, sessionize
from backfill import aggregates as agg
from backfill.engines import ENGINES
from backfill.errors import WindowError
from backfill.replay import Event, replay
from backfill.windows.message_gaps import Messages
from tests import drawn
from tests.event_frames import from_rows, rows

COMMON: dict[str, Any] = {"key": "key", "time": "time", "time_format": "epoch_us"}
AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("value"),
    "last": agg.last("value"),
    "values": agg.collect_list("value"),
    "spread": agg.variance("value"),
}
SCHEMA = "key string, time bigint, value bigint, partition int, offset bigint"


@dataclass(frozen=True)
class Sent:
    time: int
    value: int
    partition: int
    offset: int


@cache
def sent() -> st.SearchStrategy[list[Sent]]:
    """Messages of a key in two partitions, their offsets near the gap from each other."""
    steps = st.lists(
        st.tuples(st.sampled_from([1, 1, 2, 4, 5, 6, 10]), st.integers(-20, 20), st.integers(0, 1)),
        max_size=40,
    )

    def placed(drawn: list[tuple[int, int, int]]) -> list[Sent]:
        offsets = [-7, 0]
        events = []
        for value, (step, time, partition) in enumerate(drawn):
            offsets[partition] += step
            events.append(Sent(time, value, partition, offsets[partition]))
        return events

    return steps.map(placed)


def cut(events: Sequence[Sent], gap: int) -> list[list[Sent]]:
    """Cuts before each message that has at least `gap` offsets between it and the last one."""
    sessions: list[list[Sent]] = []
    for partition in (0, 1):
        last: int | None = None
        for event in sorted(events, key=lambda e: e.offset):
            if event.partition != partition:
                continue
            between = None if last is None else event.offset - last - 1
            if between is None or between >= gap:
                sessions.append([])
            sessions[-1].append(event)
            last = event.offset
    return sessions


def folded(session: Sequence[Sent]) -> tuple[Any, ...]:
    in_time = sorted(session, key=lambda e: (e.time, e.partition, e.offset))
    values = [e.value for e in in_time]
    mean = sum(values) / len(values)
    spread = None
    if len(values) > 1:
        spread = round(sum((v - mean) ** 2 for v in values) / (len(values) - 1), 6)
    bounds = in_time[0].time, in_time[-1].time
    return (*bounds, len(values), sum(values), values[-1], tuple(values), spread)


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("gap", [5, 1])
def test_a_session_ends_when_so_many_messages_have_passed(spark: SparkSession, gap: int) -> None:
    cases = drawn.cases(sent(), 100)
    given = from_rows(
        spark,
        [
            (f"{number}:a", e.time, e.value, e.partition, e.offset)
            for number, events in enumerate(cases)
            for e in events
        ]
        + [(None, 1, 1, 0, 3)],
        SCHEMA,
    )
    result = aggregate(
        given,
        SessionWindow(gap=messages(gap)),
        aggregates=AGGREGATES,
        arrival=["partition", "offset"],
        **COMMON,
    )
    assert result.columns[:4] == ["key", "session_id", "window_start", "window_end"]
    sessions: dict[str, Counter[Any]] = {}
    ids = set()
    collected = rows(result)
    for key, id, *row in collected:
        ids.add(id)
        sessions.setdefault(key, Counter())[tuple(map(_comparable, row))] += 1
    expected = {
        f"{number}:a": Counter(folded(session) for session in cut(events, gap))
        for number, events in enumerate(cases)
        if events
    }
    drawn.check(sessions, expected, lambda key: cases[drawn.number(key)])
    assert len(ids) == len(collected)


def test_a_copy_is_no_second_event(spark: SparkSession) -> None:
    events = from_rows(
        spark, [("a", 10, 1, 0, 100), ("a", 10, 1, 0, 103), ("a", 20, 2, 0, 105)], SCHEMA
    )
    result = aggregate(
        events,
        SessionWindow(gap="4 messages"),
        aggregates={"n": agg.count()},
        arrival="offset",
        id="value",
        **COMMON,
    )
    # The copy at the offset 103 does not extend the session.
    assert sorted(row[2:] for row in rows(result)) == [(10, 10, 1), (20, 20, 1)]


def test_a_gap_in_messages_is_refused_elsewhere(spark: SparkSession) -> None:
    window = SessionWindow(gap=messages(5))
    assert window == SessionWindow(gap="5 messages")
    assert str(window) == "session(gap=5 messages)"
    assert str(SessionWindow(gap=messages(1))) == "session(gap=1 message)"
    for count in (0, True, "5"):
        with pytest.raises(WindowError, match="gap: must be a whole number of messages"):
            messages(count)  # type: ignore[arg-type]
    with pytest.raises(WindowError, match="gap: must be a whole number of messages"):
        SessionWindow(gap="0 messages")
    events = from_rows(spark, [("a", 1, 1, 0, 0)], SCHEMA)
    counted: dict[str, Any] = {"aggregates": {"n": agg.count()}, **COMMON}
    for arrival in (None, "key", ["offset", "key"]):
        with pytest.raises(WindowError, match="gap: a gap of messages needs events with offsets"):
            aggregate(events, window, arrival=arrival, **counted)
    with pytest.raises(WindowError, match=r"gap: .*only `aggregate` and jobs take as a gap"):
        sessionize(events, window, arrival="offset", **COMMON)
    for name in ENGINES:
        with pytest.raises(WindowError, match="has no such window"):
            replay([Event(key="a", time=1, arrival=0)], window, engine=name)


def test_text_that_is_no_gap() -> None:
    assert SessionWindow(gap=" 7 messages ").gap == Messages(7)
    with pytest.raises(WindowError, match="gap: not a duration"):
        SessionWindow(gap="five messages")
