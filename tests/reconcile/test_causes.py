"""Each fault is put into a correct output of the stream and must be found, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from backfill import HoppingWindow, SessionWindow, SlidingWindow, TumblingWindow
from backfill import aggregates as agg
from backfill.causes import ACCEPTABLE, CAUSES, check_acceptable
from backfill.engines import engine
from backfill.errors import JobFileError
from backfill.reconciliation.explaining.case import Case, Explanation
from backfill.reconciliation.explaining.doubles import Doubles, same_rows
from backfill.reconciliation.explaining.explain import explain
from backfill.reconciliation.explaining.matching import match
from backfill.reconciliation.explaining.operator import ENDLESS, Operator, without_loss
from backfill.reconciliation.explaining.shared_replay import SharedKey, SharedReplay
from backfill.reconciliation.rows import Row, same_values
from backfill.replay import Event, Replayed, replay
from backfill.windows import AnyWindow

pytestmark = pytest.mark.one_lane

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
GAP = SessionWindow(gap="60s")
AGGREGATES = {"n": agg.count(), "total": agg.sum("amount"), "mean": agg.mean("price")}


def event(seconds: float, arrival: int, amount: int = 1, key: str = "a") -> Event:
    value = {"amount": amount, "price": amount / 3}
    return Event(key=key, time=round(seconds * SECOND), arrival=arrival, value=value)


def stream_of(
    events: Sequence[Event], window: AnyWindow = GAP, name: str = "kafka-streams", **settings: Any
) -> tuple[Operator, list[Row]]:
    """An operator, and the rows that it wrote."""
    operator = Operator(
        window=window, engine=engine(name), aggregates=AGGREGATES, settings=settings
    )
    return operator, operator.rows(operator.replay(events).final)


def batch_of(events: Sequence[Event], window: AnyWindow = GAP) -> list[Row]:
    made = replay(events, window, aggregates=AGGREGATES)
    return [Row(final.start, final.end, final.values) for final in made.final]


def explained(
    operator: Operator,
    events: Sequence[Event],
    batch: Sequence[Row],
    stream: Sequence[Row],
    /,
    **facts: Any,
) -> list[Explanation]:
    def same(one: Row, other: Row) -> bool:
        return same_values(one.values, other.values, {})

    sessions = isinstance(operator.window, SessionWindow)
    _, differences = match(batch, stream, same, sessions=sessions)
    case = Case(operator, events, stream, differences, **facts)
    explanations = explain(case)
    assert len(explanations) == len(differences)
    return explanations


def causes(found: Sequence[Explanation]) -> list[tuple[tuple[str, ...], bool]]:
    return [(explanation.causes, explanation.proved) for explanation in found]


def visits() -> list[Event]:
    """Three sessions of one key, in order; events 10, 20, 30 s apart, sessions minutes apart."""
    times = [0, 10, 30, 60, 300, 320, 350, 900, 910, 930, 960]
    return [event(t, i, amount=i + 1) for i, t in enumerate(times)]


def test_what_is_alike_is_no_difference() -> None:
    operator, stream = stream_of(visits(), grace="10s", retention="1d")
    assert explained(operator, visits(), batch_of(visits()), stream) == []


def test_late_events() -> None:
    events = [*visits(), event(340, 11, 50)]
    operator, stream = stream_of(events, grace="10s", retention="1d")
    explanations = explained(operator, events, batch_of(events), stream)
    assert causes(explanations) == [(("late",), True)]
    assert explanations[0].evidence["dropped"] == [
        {"arrival": 22, "late_by_us": (960 - 10 - 60 - 350) * SECOND}
    ]


def test_an_event_late_for_some_windows_only() -> None:
    window = HoppingWindow(size="60s", advance="20s")
    events = [event(2_000, 0), event(2_100, 1), event(2_055, 2, 7)]
    operator, stream = stream_of(events, window, grace="10s", retention="1d")
    explanations = explained(operator, events, batch_of(events, window), stream)
    # Its windows begin at 2,000, 2,020 and 2,040; the first two have closed.
    assert causes(explanations) == [(("late",), True)] * 2


def test_a_published_window_without_events_and_nothing_in_the_stream() -> None:
    """The table is of events that the source no longer has."""
    operator, _ = stream_of([], name="flink")
    events = [event(0, 0), event(10, 1)]
    of_old_events = Row(5 * SECOND, 5 * SECOND, batch_of([event(5, 0)])[0].values)
    explanations = explained(operator, events, [of_old_events], [])
    assert causes(explanations) == [(("unexplained",), False)]


def test_windows_that_are_not_closed() -> None:
    events = visits()
    operator, stream = stream_of(events, name="spark", watermark_delay="0s")
    explanations = explained(operator, events, batch_of(events), stream)
    assert causes(explanations) == [(("pending",), True)]


def test_redelivered_events() -> None:
    copy = replace(visits()[5], arrival=11)
    events = [*visits(), copy]
    operator, stream = stream_of(events, grace="1h", retention="1d")
    explanations = explained(operator, events, batch_of(visits()), stream, copies={11: 5})
    assert causes(explanations) == [(("redelivered",), True)]
    assert explanations[0].evidence["copies"] == [22]


def test_the_engines_own_losses() -> None:
    # Hidden by retention: an event within the gap of a hidden session begins a new one.
    events = [event(0, 0), event(10, 1), event(130, 2, key="b"), event(70, 3)]
    operator = Operator(
        window=GAP,
        engine=engine("kafka-streams"),
        aggregates=AGGREGATES,
        settings={"grace": "0s", "retention": "60s"},
    )
    made = operator.replay(events)
    stream = [
        row
        for row, window in zip(operator.rows(made.final), made.final, strict=True)
        if window.key == "a"
    ]
    own = [record for record in events if record.key == "a"]
    clocked = [
        replace(record, clock=clock * SECOND)
        for record, clock in zip(own, (0, 10, 130), strict=True)
    ]
    explanations = explained(operator, clocked, batch_of(own), stream)
    assert len(explanations) == 1
    assert explanations[0].proved
    assert explanations[0].causes == ("engine_loss",)


def shifted(rows: list[Row]) -> list[Row]:
    return [row._replace(start=row.start + HOUR, end=row.end + HOUR) for row in rows]


def rounded(rows: list[Row]) -> list[Row]:
    return [
        row._replace(values={**row.values, "mean": round(row.values["mean"], 2)}) for row in rows
    ]


@pytest.mark.parametrize(
    ("spoil", "cause"),
    [
        (shifted, "zone_shift"),
        (rounded, "rounded"),
        (lambda rows: [r._replace(end=r.end + 60 * SECOND) for r in rows], "end_convention"),
        (lambda rows: rows[1:], "missing_in_stream"),
        (lambda rows: [], "missing_in_stream"),
    ],
)
def test_faults_of_the_output(spoil: Callable[[list[Row]], list[Row]], cause: str) -> None:
    operator, stream = stream_of(visits(), grace="10s", retention="1d")
    explanations = explained(operator, visits(), batch_of(visits()), spoil(stream))
    assert explanations
    assert {(explanation.causes, explanation.proved) for explanation in explanations} == {
        ((cause,), True)
    }


def test_two_faults_at_once() -> None:
    events = [*visits(), event(340, 11, 50)]
    operator, stream = stream_of(events, grace="10s", retention="1d")
    explanations = explained(operator, events, batch_of(events), rounded(shifted(stream)))
    assert {explanation.causes[0] for explanation in explanations} <= {"zone_shift", "rounded"}
    assert all(explanation.proved for explanation in explanations)


def test_a_window_that_is_lost_beside_windows_that_are_shifted() -> None:
    operator, stream = stream_of(visits(), grace="10s", retention="1d")
    explanations = explained(operator, visits(), batch_of(visits()), shifted(stream[1:]))
    counts = Counter(causes(explanations))
    assert counts == {(("missing_in_stream",), True): 1, (("zone_shift",), True): 4}


def test_a_window_that_looks_like_another_has_not_been_shifted() -> None:
    window = TumblingWindow(size="1h")
    places = (10, 10.5, 15, 17, 17.1, 17.2)
    events = [event(hours * 3_600, i) for i, hours in enumerate(places)]
    settings = {"watermark_delay": "1d", "api": "datastream"}
    operator, batch = stream_of(events, window, "flink", **settings)
    _, stream = stream_of([events[0], *events[2:]], window, "flink", **settings)
    explanations = explained(operator, events, batch, stream)
    # It is unknown which of two events that are alike is missing.
    assert causes(explanations) == [(("missing_in_stream",), False)]
    # The first window has the values of that of 17:00, which the stream has, too.
    counted = [row._replace(values=batch[-1].values) for row in batch[:1]] + batch[1:]
    [(names, _)] = causes(explained(operator, events, batch, counted))
    assert "zone_shift" not in names
    # Only the last window is shifted, as if clocks had changed in between.
    explanations = explained(operator, events, batch, [*batch[:-1], *shifted(batch[-1:])])
    assert [names for names, _ in causes(explanations)] == [("missing_in_stream",), ("zone_shift",)]


def test_windows_that_overlap_have_causes_of_their_own() -> None:
    window = HoppingWindow(size="20s", advance="10s")
    events = [event(100, 0), event(205, 1), event(300, 2), event(215, 3)]
    # The stream has not received the second event, and has dropped the last one.
    received = [events[0], *events[2:]]
    operator, stream = stream_of(received, window, grace="0s", retention="1d")
    explanations = explained(operator, events, batch_of(events, window), stream)
    assert causes(explanations) == [
        (("missing_in_stream",), True),
        (("missing_in_stream", "late"), True),
        (("late",), True),
    ]
    assert [explanation.evidence.get("left_out") for explanation in explanations] == [
        [2],
        [2],
        None,
    ]


def test_an_event_that_is_lost_beside_one_that_is_late() -> None:
    window = TumblingWindow(size="20s")
    events = [event(5, 0), event(100, 1), event(10, 2)]
    operator, stream = stream_of(events[1:], window, grace="0s", retention="1d")
    explanations = explained(operator, events, batch_of(events, window), stream)
    # Both events may be lost.
    assert causes(explanations) == [(("missing_in_stream", "late"), False)]
    assert explanations[0].evidence["left_out"] == [0]
    assert [drop["arrival"] for drop in explanations[0].evidence["dropped"]] == [4]


@pytest.mark.parametrize(
    "settings", [{"restarts": (2,)}, {"caching": True, "commits": (2,)}, {"restarts": (2, 4)}]
)
def test_an_event_is_lost_where_the_operator_restarted(settings: dict[str, Any]) -> None:
    window = TumblingWindow(size="20s")
    keys = {"a": [event(0, 0), event(5, 2, 3)], "b": [event(100, 4, key="b")]}
    operator = Operator(
        window=window,
        engine=engine("kafka-streams"),
        aggregates=AGGREGATES,
        settings={"retention": "1d", **settings},
    )
    shared = SharedReplay(operator, keys)
    operator = replace(operator, among=SharedKey(shared, "a"))
    explanations = explained(
        operator, keys["a"], batch_of(keys["a"], window), batch_of(keys["a"][:1], window)
    )
    assert causes(explanations) == [(("missing_in_stream",), True)]
    assert explanations[0].evidence["left_out"] == [2]


def test_an_event_at_the_end_that_is_inclusive() -> None:
    window = TumblingWindow(size="20s")
    events = [event(seconds, i) for i, seconds in enumerate((10, 20, 30, 45, 100))]
    operator, stream = stream_of(events, window, "storm", watermark_delay="0s")
    explanations = explained(operator, events, batch_of(events, window)[:2], stream[:2])
    assert causes(explanations) == [(("end_convention",), True)] * 2


@pytest.mark.parametrize(("gap", "bounds"), [("15s", (10, 20)), ("25s", (20, 30))])
def test_a_wrong_gap(gap: str, bounds: tuple[int, int]) -> None:
    operator, _ = stream_of(visits(), grace="10s", retention="1d")
    _, stream = stream_of(visits(), SessionWindow(gap=gap), grace="10s", retention="1d")
    explanations = explained(operator, visits(), batch_of(visits()), stream)
    assert {(explanation.causes, explanation.proved) for explanation in explanations} == {
        (("wrong_gap",), True)
    }
    least, most = bounds
    assert explanations[0].evidence["at_least_us"] == least * SECOND
    assert explanations[0].evidence["less_than_us"] == most * SECOND


def test_a_wrong_size() -> None:
    window = TumblingWindow(size="60s")
    operator, _ = stream_of(visits(), window, grace="10s", retention="1d")
    wrong = TumblingWindow(size="30s")
    _, stream = stream_of(visits(), wrong, grace="10s", retention="1d")
    explanations = explained(operator, visits(), batch_of(visits(), window), stream)
    assert {(explanation.causes, explanation.proved) for explanation in explanations} == {
        (("wrong_size",), True)
    }


def test_the_gap_edge_of_another_engine() -> None:
    events = [event(0, 0), event(60, 1, 2), event(300, 2, 4)]
    operator, _ = stream_of(events, name="flink")
    beam = Operator(window=GAP, engine=engine("beam"), aggregates=AGGREGATES)
    stream = beam.rows(beam.replay(events).final)
    explanations = explained(operator, events, batch_of(events), stream)
    assert causes(explanations) == [(("gap_edge",), True)]
    # The stream's own engine has that edge, but the batch does not.
    assert causes(explained(beam, events, batch_of(events), stream)) == [(("gap_edge",), True)]


@pytest.mark.parametrize("lost", [[4], [5], [1, 2]])
def test_events_that_the_stream_never_saw(lost: list[int]) -> None:
    kept = [record for record in visits() if record.arrival not in lost]
    operator, stream = stream_of(kept, grace="10s", retention="1d")
    explanations = explained(operator, visits(), batch_of(visits()), stream)
    assert causes(explanations) == [(("missing_in_stream",), True)]
    assert explanations[0].evidence["left_out"] == [2 * arrival for arrival in lost]


def test_events_that_cannot_be_told_apart_are_one_explanation() -> None:
    twins = [*visits(), event(320, 11, 6)]
    _, stream = stream_of(visits(), grace="1h", retention="1d")
    operator, _ = stream_of(twins, grace="1h", retention="1d")
    explanations = explained(operator, twins, batch_of(twins), stream)
    assert causes(explanations) == [(("missing_in_stream",), True)]


def test_an_event_that_the_stream_saw_twice() -> None:
    events = visits()
    again = sorted([*events, replace(events[5], arrival=5.5)], key=lambda record: record.arrival)
    operator, stream = stream_of(again, grace="10s", retention="1d")
    explanations = explained(operator, events, batch_of(events), stream)
    assert causes(explanations) == [(("redelivered",), True)]


def test_a_tombstone_that_is_missing() -> None:
    events = [event(0, 0), event(100, 1, 2), event(50, 2, 4)]
    operator, stream = stream_of(events, grace="10m", retention="1d")
    left = Row(100 * SECOND, 100 * SECOND, {"n": 1, "total": 2, "mean": 2 / 3})
    explanations = explained(operator, events, batch_of(events), [*stream, left])
    assert causes(explanations) == [(("tombstone_missing",), True)]


def test_a_restart_that_is_known_and_one_that_is_not() -> None:
    events = [event(0, 0), event(1_000, 1, 2), event(20, 2, 4), event(900, 3, 8), event(21, 4, 16)]
    operator, stream = stream_of(events, grace="10s", retention="1d", restarts=(2,))
    unaware, _ = stream_of(events, grace="10s", retention="1d")
    batch = batch_of(events)
    assert causes(explained(unaware, events, batch, stream))[0][0][0] in ("restart", "late")
    assert all(explanation.proved for explanation in explained(operator, events, batch, stream))


def test_what_the_batch_lacks() -> None:
    operator, stream = stream_of(visits(), grace="10s", retention="1d")
    # The batch was published before the last session's events were in the source.
    explanations = explained(operator, visits(), batch_of(visits()[:7]), stream)
    assert causes(explanations) == [(("missing_in_batch",), True)]
    # The source lacks the events, too: only the stream can have seen them.
    explanations = explained(operator, visits()[:7], batch_of(visits()[:7]), stream)
    assert causes(explanations) == [(("missing_in_batch",), False)]


def test_what_is_past_the_batchs_retention() -> None:
    operator, stream = stream_of(visits(), grace="10s", retention="1d")
    batch = batch_of(visits())[1:]
    explanations = explained(operator, visits(), batch, stream, expired=100 * SECOND)
    assert causes(explanations) == [(("retention",), True)]


@pytest.mark.parametrize("seed", range(25))
def test_random_corruption_is_never_given_a_cause(seed: int) -> None:
    chance = random.Random(seed)
    operator, stream = stream_of(visits(), grace="10s", retention="1d")
    place = chance.randrange(len(stream))
    row = stream[place]
    values = {
        "n": row.values["n"] + chance.randrange(1, 50),
        "total": row.values["total"] + chance.randrange(1_000, 9_999),
        "mean": chance.uniform(50, 90),
    }
    stream[place] = row._replace(values=values)
    explanations = explained(operator, visits(), batch_of(visits()), stream)
    assert causes(explanations) == [(("unexplained",), False)]


def test_without_the_order_of_arrival_lateness_is_possible_and_not_proved() -> None:
    events = [event(100, 0), event(130, 1, 9)]
    operator, _ = stream_of(events, grace="10s", retention="1d")
    unordered = replace(operator, ordered=False)
    explanations = explained(unordered, events, batch_of(events), [])
    assert causes(explanations) == [(("late",), False)]
    assert causes(explained(operator, events, batch_of(events), [])) == [
        (("missing_in_stream",), True)
    ]


def test_a_restart_whose_state_was_restored() -> None:
    events = [event(0, 0), event(101, 1, 2), event(20, 2, 4), event(40, 3, 8)]
    unaware, _ = stream_of(events, grace="10s")
    for restored in (False, True):
        # A restored store knows how far time had come, and hides the session of second 0.
        _, stream = stream_of(events, grace="10s", restarts=(2,), restored=restored)
        assert len(stream) == (4 if restored else 2)
        explanations = explained(unaware, events, batch_of(events), stream)
        assert causes(explanations) == ([(("restart", "engine_loss"), False)] if restored else [])
    assert explanations[0].evidence["restored"] is True


def test_windows_that_an_engine_clips_at_the_epoch() -> None:
    window = HoppingWindow(size="60s", advance="20s")
    events = [event(10, 0), event(-30, 1, 2), event(500, 2, 4)]
    operator, stream = stream_of(events, window, grace="1h", retention="1d")
    assert min(row.start for row in stream) == 0
    explanations = explained(operator, events, batch_of(events, window), stream)
    # Four windows begin before the epoch: with the event before it, that after it, or both.
    assert causes(explanations) == [(("end_convention",), True)] * 4


def test_events_without_a_key_do_not_reach_an_operator_that_drops_them() -> None:
    events = [replace(record, key=None) for record in visits()]
    operator, stream = stream_of(events, grace="10s", retention="1d")
    assert stream == []
    explanations = explained(operator, events, batch_of(visits()), stream)
    assert causes(explanations) == [(("missing_in_stream",), True)] * 3


def test_doubles_that_differ_by_the_order_in_which_they_were_added() -> None:
    prices = [1.5e308, -1.5e308, 1.5e308, -1.5e308]
    events = [replace(event(i, i), value={"amount": 1, "price": p}) for i, p in enumerate(prices)]
    operator, stream = stream_of(events, grace="10s", retention="1d")
    assert stream[0].values["mean"] == 0.0
    doubles = Doubles(events, {"mean": AGGREGATES["mean"]}, 1_000)

    def of(mean: float) -> list[tuple[tuple[str, ...], bool]]:
        batch = [row._replace(values={**row.values, "mean": mean}) for row in batch_of(events)]
        return causes(explained(operator, events, batch, stream, doubles=doubles))

    # With both of one sign first, the sum overflows; with the others after them, it is NaN.
    assert of(float("nan")) == [(("float_order",), True)]
    assert of(float("inf")) == [(("float_order",), True)]
    # No order of additions gives this.
    assert of(1e300) == [(("missing_in_batch",), True)]


def test_doubles_within_what_the_order_can_do_are_alike() -> None:
    events = [replace(event(i, i), value={"price": p}) for i, p in enumerate([0.1, 0.2, 0.3])]
    events.append(replace(event(900, 4), value={"price": 1e9}))
    aggregates = {"total": agg.sum("price"), "spread": agg.stddev("price")}
    doubles = Doubles(events, aggregates, 1_000)
    one = Row(0, 2 * SECOND, {"total": 0.1 + (0.2 + 0.3), "spread": 0.1})
    near = one._replace(values={"total": (0.1 + 0.2) + 0.3, "spread": 0.1 + 1e-17})
    assert one.values != near.values
    assert same_rows(one, near, doubles)
    # The bound depends on the window's own events, whatever others the key has.
    far = one._replace(values={**one.values, "total": 0.6 + 1e-12})
    assert not same_rows(one, far, doubles)


def test_a_key_is_replayed_once_for_a_setting_however_much_of_it_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [event(1_000 * i, i, amount=i + 1) for i in range(12)]
    operator, stream = stream_of(events, grace="10s", retention="1d")
    stream = [row._replace(values={**row.values, "total": -7}) for row in stream]
    tried: list[bool] = []
    replayed = Operator.replay

    def replay_and_note(own: Operator, events: Sequence[Event]) -> Replayed:
        tried.append(own.engine.rules.gap_inclusive)
        return replayed(own, events)

    monkeypatch.setattr(Operator, "replay", replay_and_note)
    explanations = explained(operator, events, batch_of(events), stream)
    assert causes(explanations) == [(("unexplained",), False)] * 12
    assert tried.count(False) == 1


def test_what_may_be_accepted_is_every_cause_that_is_told() -> None:
    # The names are in people's job files and scripts: removing or adding one must be deliberate.
    names = {
        *("late", "pending", "engine_loss", "overlap", "redelivered", "retention", "restart"),
        *("tombstone_missing", "gap_edge", "end_convention", "zone_shift", "wrong_gap"),
        *("wrong_size", "rounded", "float_order", "missing_in_stream", "missing_in_batch"),
        # Only for joins.
        "spurious",
    }
    assert {*CAUSES} == names | {"unexplained"}
    assert {*ACCEPTABLE} == names | {"possible"}
    assert all(name == cause.name and cause.since for name, cause in CAUSES.items())
    assert len({cause.color for cause in CAUSES.values()}) == len(CAUSES)
    with pytest.raises(ValueError, match="not listed as causes: lat"):
        Explanation(("late", "lat"), True)
    with pytest.raises(JobFileError, match=r"accept: .*got 'lat'.*Did you mean 'late'"):
        check_acceptable(["pending", "lat"])
    with pytest.raises(JobFileError, match="unexplained"):
        check_acceptable(["unexplained"])


OVER = SlidingWindow(size="60s")
DISTINCT = SlidingWindow(size="60s", distinct=True)


def rows_of_events(events: Sequence[Event], window: SlidingWindow = OVER) -> list[Row]:
    """What a batch computes: nothing is late."""
    operator = Operator(
        window=window, engine=without_loss(engine("flink"), window), aggregates=AGGREGATES
    )
    operator = replace(operator, settings=ENDLESS if window.distinct else {})
    return operator.rows(operator.replay(events).final)


def test_rows_of_events_at_the_same_time_are_told_apart() -> None:
    times = [1_000, 1_010, 1_010, 1_200]
    events = [event(time, arrival) for arrival, time in enumerate(times)]
    operator, stream = stream_of(events, OVER, "flink", watermark_delay="20s")
    batch = rows_of_events(events)
    assert len({row.bounds for row in batch}) == 4
    assert explained(operator, events, batch, stream) == []
    # One of two equal rows is lost.
    (explanation,) = explained(operator, events, batch, [stream[0], stream[1], stream[3]])
    assert explanation.causes == ("unexplained",)


def test_a_late_event_is_missing_in_all_rows_that_look_back_to_it() -> None:
    times = [1_000, 1_050, 1_090, 1_040, 1_105, 1_170]
    events = [event(time, arrival) for arrival, time in enumerate(times)]
    operator, stream = stream_of(events, OVER, "flink", watermark_delay="0s")
    explanations = explained(operator, events, rows_of_events(events), stream)
    # Its own row, and those of 1,050 and 1,090; that of 1,105 does not look back so far.
    assert causes(explanations) == [(("late",), True)] * 3
    assert all(explanation.evidence["dropped"][0]["arrival"] == 6 for explanation in explanations)


def test_a_late_event_of_distinct_windows() -> None:
    events = [event(1_000, 0), event(1_030, 1), event(1_200, 2), event(1_010, 3, 7)]
    operator, stream = stream_of(events, DISTINCT, grace="10s", retention="1d")
    explanations = explained(
        operator,
        events,
        rows_of_events(events, DISTINCT),
        stream,
        batch=replace(operator, settings=ENDLESS),
    )
    assert {explanation.causes for explanation in explanations} == {("late",)}
    assert all(explanation.proved for explanation in explanations)


def test_distinct_windows_of_another_size() -> None:
    events = [event(1_000 + 7 * n, n) for n in range(5)]
    operator, _ = stream_of(events, DISTINCT, grace="1d", retention="2d")
    _, stream = stream_of(
        events, SlidingWindow(size="30s", distinct=True), grace="1d", retention="2d"
    )
    explanations = explained(
        operator,
        events,
        rows_of_events(events, DISTINCT),
        stream,
        batch=replace(operator, settings=ENDLESS),
    )
    assert {explanation.causes[0] for explanation in explanations} == {"wrong_size"}
