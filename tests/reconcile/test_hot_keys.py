"""A key with many differences: each is explained from the events near it, as if from all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from backfill import (
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill import aggregates as agg
from backfill.engines import engine
from backfill.reconciliation.explaining import doubt, explain, input_faults
from backfill.reconciliation.explaining.case import Case, Explanation
from backfill.reconciliation.explaining.matching import Difference, match
from backfill.reconciliation.explaining.nearby import nearby
from backfill.reconciliation.explaining.operator import Operator, without_loss
from backfill.reconciliation.explaining.outcome import Outcome
from backfill.reconciliation.explaining.tally import Tally
from backfill.reconciliation.explaining.timeline import Timeline
from backfill.reconciliation.rows import Row, same_values
from backfill.replay import Event
from backfill.windows import AnyWindow

pytestmark = pytest.mark.one_lane

SECOND = 1_000_000
MINUTE = TumblingWindow(size="1m")
AGGREGATES = {"n": agg.count(), "total": agg.sum("amount")}
#: Windows that all of ENGINES have, that Flink and plain have, and that plain has.
WINDOWS: tuple[tuple[AnyWindow, ...], ...] = (
    (MINUTE, HoppingWindow(size="3m", advance="1m"), SessionWindow(gap="20s")),
    (SlidingWindow(size="40s"), CumulatingWindow(size="3m", step="1m")),
    (TumblingWindow(size="1 local hour"), TumblingWindow(size="1 day")),
)
ENGINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("plain", {}),
    ("kafka-streams", {"grace": "1m", "retention": "30d"}),
    ("kafka-streams", {"grace": "5s", "retention": "30d", "emit": "suppressed"}),
    ("flink", {"watermark_delay": "10s", "allowed_lateness": "1m"}),
    ("flink", {"watermark_delay": "10s"}),
    ("spark", {"watermark_delay": "30s"}),
    ("beam", {"watermark_delay": "10s", "accumulation": "accumulating"}),
)


def clocked(times: Sequence[tuple[int, int]], delay: int, **given: Any) -> list[Event]:
    """Events of these seconds and amounts, in this order, each with the watermark before it."""
    clock, events = -(1 << 63), []
    for place, (second, amount) in enumerate(times):
        value = {"amount": amount}
        events.append(
            Event(key="a", time=second * SECOND, arrival=2 * place, value=value, clock=clock)
        )
        clock = max(clock, (second - delay) * SECOND)
    return [replace(event, **given) for event in events]


def case_of(
    operator: Operator, events: Sequence[Event], seen: Sequence[Event], spoilt: Sequence[Row] = ()
) -> Case:
    """What the operator wrote for the events it has seen, against a batch of all."""
    last = max((event.clock for event in events if event.clock is not None), default=None)
    operator = replace(operator, end_clock=last)
    rules = without_loss(operator.engine, operator.window)
    batch = replace(operator, engine=rules, settings={}, end_clock=None)
    bare = [replace(event, clock=None) for event in events]
    ours = [row._replace(written=None) for row in batch.rows(batch.replay(bare).final)]
    stream = [row._replace(written=None) for row in operator.written(operator.replay(seen))]
    stream = [*spoilt] or stream
    _, differences = match(
        ours,
        stream,
        lambda one, other: same_values(one.values, other.values, {}),
        sessions=isinstance(operator.window, SessionWindow),
    )
    return Case(operator, events, stream, differences, batch=batch)


def explained(case: Case) -> list[tuple[tuple[str, ...], bool]]:
    return [(explanation.causes, explanation.proved) for explanation in explain.explain(case)]


def drawn(chance: random.Random) -> Case | None:
    """A key with some late, lost or repeated events; None if nothing differs."""
    kind = chance.choice([0, 0, 0, 1, 1, 2])
    window = chance.choice(WINDOWS[kind])
    name, settings = chance.choice((ENGINES, [ENGINES[0], ENGINES[4]], ENGINES[:1])[kind])
    second, times = 0, []
    for _ in range(chance.randrange(20, 60)):
        second += chance.choice([1, 3, 10, 20, 21, 60, 300, 600])
        late = second if chance.random() < 0.8 else second + chance.choice([5, 30, 90, 700])
        times.append((late, second, chance.randrange(1, 10_000)))
    delay = int(settings.get("watermark_delay", "0s").removesuffix("s"))
    events = clocked([(at, amount) for _, at, amount in sorted(times)], delay)
    if name == "plain":
        events = [replace(event, clock=None) for event in events]
    operator = Operator(
        window=window, engine=engine(name), aggregates=AGGREGATES, settings=settings
    )
    lost, again = chance.choice([0, 0.1]), chance.choice([0, 0.1])
    seen = [
        copy
        for event in events
        if chance.random() >= lost
        for copy in (
            [event, replace(event, arrival=event.arrival + 1)]
            if chance.random() < again
            else [event]
        )
    ]
    case = case_of(operator, events, seen)
    if chance.random() < 0.3:
        noise = [
            row._replace(values={**row.values, "total": (row.values["total"] or 0) + 3})
            if chance.random() < 0.3
            else row
            for row in case.stream
        ]
        case = case_of(operator, events, seen, noise)
    return case if case.differences else None


def everywhere(case: Case, hull: tuple[int, int], base: Outcome) -> tuple[Case, Outcome]:
    return case, base


class Anything(Tally):
    """A tally that rules nothing out."""

    def __init__(self, case: Case, difference: Difference, base: Outcome) -> None:
        two = (*difference.batch, *difference.stream) * 2
        super().__init__(case, Difference((), two), base)


@pytest.mark.parametrize("seed", range(4))
def test_near_events_say_what_all_events_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    cases = [case for case in (drawn(chance) for _ in range(25)) if case is not None]
    near = [explained(replace(case, made={})) for case in cases]
    divided = [
        nearby(case, difference.hull, Outcome(case.operator, case.events))[0] is not case
        for case in cases
        for difference in case.differences
    ]
    assert 2 * sum(divided) > len(divided)
    monkeypatch.setattr(explain, "nearby", everywhere)
    monkeypatch.setattr(doubt, "nearby", everywhere)
    whole = [explained(replace(case, made={})) for case in cases]
    for case, one, other in zip(cases, near, whole, strict=True):
        assert one == other, (case.operator, case.events, case.stream)


@pytest.mark.parametrize("seed", range(2))
def test_no_set_of_events_that_is_it_is_passed_over(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(100 + seed)
    cases = [case for case in (drawn(chance) for _ in range(8)) if case is not None]
    counted = [explain.explain(replace(case, made={})) for case in cases]
    monkeypatch.setattr(input_faults, "Tally", Anything)
    tried = [explain.explain(replace(case, made={})) for case in cases]

    def causes(found: list[Explanation]) -> list[tuple[str, ...]]:
        return [explanation.causes for explanation in found]

    for case, some, all_ in zip(cases, counted, tried, strict=True):
        for one, other in zip(causes(some), causes(all_), strict=True):
            # Their sums find more sets of events than can be tried.
            assert one == other or other == ("unexplained",), (case.operator, case.events, one)


def test_each_difference_costs_what_is_near_it(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    replayed = 0
    replay = Operator.replay

    def counting(self: Operator, events: Sequence[Event]) -> Any:
        nonlocal replayed
        replayed += len(events)
        return replay(self, events)

    monkeypatch.setattr(Operator, "replay", counting)
    operator = Operator(
        window=MINUTE,
        engine=engine("kafka-streams"),
        aggregates=AGGREGATES,
        settings={"grace": "1h", "retention": "30d"},
    )
    costs = []
    for minutes in (50, 400):
        times = [
            (60 * minute + 10 * n, chance.randrange(1, 10_000))
            for minute in range(minutes)
            for n in range(6)
        ]
        events = clocked(times, 0)
        lost = [event for place, event in enumerate(events) if place % 6]
        noise = operator.rows(operator.replay(events).final)
        noise = [row._replace(values={"n": 9, "total": 1}) for row in noise]
        for case, cause in (
            (case_of(operator, events, lost), "missing_in_stream"),
            (case_of(operator, events, events, noise), "unexplained"),
        ):
            replayed = 0
            explanations = explain.explain(case)
            assert {explanation.causes for explanation in explanations} == {(cause,)}
            costs.append(replayed / len(explanations))
    # Eight times as many differences in eight times as many events: each costs the same.
    assert costs[2] < 1.2 * costs[0], costs
    assert costs[3] < 1.2 * costs[1], costs


def lost_and_again(
    amounts: Sequence[int], window: AnyWindow, left: set[int], again: set[int]
) -> Case:
    events = clocked([(5 * place, amount) for place, amount in enumerate(amounts)], 0)
    last = clocked([(100_000, 1)], 0, arrival=10_000, clock=events[-1].time)
    seen = [
        copy
        for place, event in enumerate(events)
        if place not in left
        for copy in (
            [event, replace(event, arrival=event.arrival + 1)] if place in again else [event]
        )
    ]
    operator = Operator(
        window=window,
        engine=engine("kafka-streams"),
        aggregates=AGGREGATES,
        settings={"grace": "1h", "retention": "30d"},
    )
    return case_of(operator, [*events, *last], [*seen, *last])


AMOUNTS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]


@pytest.mark.parametrize("places", [{3, 7}, {0, 5, 11}, {1, 2, 6, 9}, {0, 2, 4, 6, 8, 10}])
def test_events_that_were_lost_or_came_twice_anywhere_in_a_window(places: set[int]) -> None:
    hour = TumblingWindow(size="1h")
    (lost,) = explain.explain(lost_and_again(AMOUNTS, hour, places, set()))
    assert (lost.causes, lost.proved) == (("missing_in_stream",), True)
    assert lost.evidence["left_out"] == [2 * place for place in sorted(places)]
    (twice,) = explain.explain(lost_and_again(AMOUNTS, hour, set(), places))
    assert (twice.causes, twice.proved) == (("redelivered",), True)
    assert twice.evidence["repeated"] == [2 * place for place in sorted(places)]


def test_events_in_a_row_of_a_large_window() -> None:
    amounts = range(1, 81)
    hour, row = TumblingWindow(size="1h"), set(range(20, 45))
    for left, again, cause, name in (
        (row, set[int](), "missing_in_stream", "left_out"),
        (set[int](), row, "redelivered", "repeated"),
    ):
        (explanation,) = explain.explain(lost_and_again(amounts, hour, left, again))
        # Other events with the same sum are possible; there are too many sets of them to try.
        assert (explanation.causes, explanation.proved) == ((cause,), False)
        assert explanation.evidence[name] == [2 * place for place in sorted(row)]


def test_a_session_of_which_all_events_came_twice() -> None:
    session = SessionWindow(gap="60s")
    (explanation,) = explain.explain(lost_and_again(AMOUNTS[:8], session, set(), set(range(8))))
    assert explanation.causes == ("redelivered",)
    assert explanation.evidence["repeated"] == [2 * place for place in range(8)]


def test_rows_about_a_span() -> None:
    chance = random.Random(3)
    for _ in range(300):
        rows = [
            Row(start, start + chance.choice([-3, 0, 1, 5, 40]), {})
            for start in (chance.randrange(100) for _ in range(chance.randrange(12)))
        ]
        low = chance.randrange(-5, 110)
        high = low + chance.randrange(30)
        near = Timeline(rows).about(low, high)
        wanted = [r for r in rows if min(r.bounds) <= high and max(r.bounds) >= low]
        assert all(row in near for row in wanted)
        assert all(row in rows and min(row.bounds) <= high for row in near)
        # A row that ends before the span comes only after one that does not, and began earlier.
        assert not near or max(max(row.bounds) for row in near[:1]) >= low


def test_a_window_that_nothing_explains_leaves_far_losses_proved() -> None:
    day = 86_400
    times = [(day * number + 60 * n, 1 + n) for number in (0, 10) for n in range(5)]
    events = clocked([*times, (20 * day, 1)], 0)
    operator = Operator(
        window=MINUTE,
        engine=engine("kafka-streams"),
        aggregates=AGGREGATES,
        settings={"grace": "1h", "retention": "30d"},
    )
    rows = operator.rows(operator.replay(events).final)
    rows = [row for row in rows if row.start not in (120 * SECOND, (10 * day + 120) * SECOND)]
    strange = Row(-500 * SECOND, -70 * SECOND, {"n": 77, "total": 1})
    explanations = explain.explain(case_of(operator, events, events, [*rows, strange]))
    assert [(explanation.causes, explanation.proved) for explanation in explanations] == [
        (("unexplained",), False),
        (("missing_in_stream",), False),
        (("missing_in_stream",), True),
    ]


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_null_in_the_stream_comes_of_no_events(name: str) -> None:
    events = clocked([(10, 1), (20, 2), (30, 4)], 0)
    operator = Operator(window=MINUTE, engine=engine("plain"), aggregates=AGGREGATES, settings={})
    events = [replace(event, clock=None) for event in events]
    row = Row(0, 60 * SECOND, {"n": 3, "total": 7, name: None})
    assert explained(case_of(operator, events, events, [row])) == [(("unexplained",), False)]


def test_an_event_at_the_end_of_a_storm_window_completes_it() -> None:
    events = clocked([(10, 1), (60, 2)], 0, clock=None)
    operator = Operator(window=MINUTE, engine=engine("storm"), aggregates=AGGREGATES, settings={})
    case = case_of(operator, events, events)
    batch = [Row(0, 60 * SECOND, {"n": 2, "total": 3})]
    case = replace(case, stream=[], differences=[Difference(tuple(batch), ())])
    (explanation,) = explain.explain(case)
    # Without the second event the window waits; the first one need not be lost.
    assert explanation.causes == ("missing_in_stream", "pending")
    assert explanation.evidence["left_out"] == [2]


def test_an_event_that_came_four_times_or_others_that_came_twice() -> None:
    case = lost_and_again([1, 2, 3], TumblingWindow(size="1h"), set(), {0, 1, 2})
    (explanation,) = explain.explain(case)
    # The values would be the same if the second event had come four times.
    assert (explanation.causes, explanation.proved) == (("redelivered",), False)


def test_a_few_lost_events_of_many() -> None:
    hour, lost = TumblingWindow(size="1h"), {5, 30, 200}
    amounts = random.Random(1).sample(range(10**9), 220)
    (explanation,) = explain.explain(lost_and_again(amounts, hour, lost, set()))
    assert (explanation.causes, explanation.proved) == (("missing_in_stream",), True)
    assert explanation.evidence["left_out"] == [2 * place for place in sorted(lost)]


def test_what_is_not_tried_to_its_end_is_not_proved() -> None:
    hour = TumblingWindow(size="1h")
    means = {"mean": agg.mean("amount")}
    # Without the first two events, the mean is the same as without the last two.
    amounts = [3, 900, *range(100, 206), 900, 3]
    case = lost_and_again(amounts, hour, {0, 1}, set())
    values = {row.bounds: sum(amounts[2:]) / len(amounts[2:]) for row in case.stream[:1]}

    def only_mean(rows: Sequence[Row], known: dict[tuple[int, int], float]) -> list[Row]:
        return [row._replace(values={"mean": known.get(row.bounds, 1.0)}) for row in rows]

    ours = {(0, 3_600 * SECOND): sum(amounts) / len(amounts)}
    case = replace(
        case,
        operator=replace(case.operator, aggregates=means),
        stream=only_mean(case.stream, values),
        differences=[
            Difference(tuple(only_mean(d.batch, ours)), tuple(only_mean(d.stream, values)))
            for d in case.differences
        ],
    )
    (explanation,) = explain.explain(case)
    assert (explanation.causes, explanation.proved) == (("missing_in_stream",), False)


def test_events_that_came_twice_without_a_count() -> None:
    case = lost_and_again([1, 2, 40], TumblingWindow(size="1h"), set(), {0, 1})
    sums = {"total": agg.sum("amount")}

    def only_sums(rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(row._replace(values={"total": row.values["total"]}) for row in rows)

    differences = [Difference(only_sums(d.batch), only_sums(d.stream)) for d in case.differences]
    operator = replace(case.operator, aggregates=sums)
    case = replace(case, operator=operator, stream=only_sums(case.stream), differences=differences)
    (explanation,) = explain.explain(case)
    # Other events are possible: one may have come more often, or another may be lost as well.
    assert (explanation.causes, explanation.proved) == (("redelivered",), False)
    assert explanation.evidence["repeated"] == [0, 2]
