"""Triggers, by hand and against a slow reference. Times in ms."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    HoppingWindow,
    Repeatedly,
    SessionWindow,
    TumblingWindow,
)
from backfill.errors import ReplayError, WindowError
from tests.reference_triggers import Beam, Sent
from tests.replay.stream import MS, arriving, event, run, sent

GAP = SessionWindow(gap="10ms")
TEN = TumblingWindow(size="10ms")
HOPS = HoppingWindow(size="20ms", advance="10ms")

delays = st.integers(1, 12).map(lambda n: f"{n}ms")
leaves = (
    st.integers(1, 4).map(AfterCount)
    | delays.map(AfterProcessingTime)
    | delays.map(AfterSilence)
    | delays.map(AfterEventTime)
)
single = leaves | st.lists(leaves, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([AfterAny(*parts), AfterAll(*parts)])
)
triggers = single | single.map(Repeatedly)
modes = st.sampled_from(["accumulating", "discarding", "retracting"])


def at(arrival: int, key: str, time: int, wall: int) -> Any:
    return event(arrival, key, time, wall_clock=wall * MS)


@st.composite
def streams(draw: st.DrawFn) -> list[Any]:
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from("aab"), st.integers(0, 60), st.integers(0, 8)), max_size=25
        )
    )
    wall, events = 0, []
    for i, (key, time, step) in enumerate(drawn):
        wall += step
        events.append(at(i, key, time, wall))
    return events


def by_window(rows: list[Sent]) -> dict[Any, list[Any]]:
    panes: dict[Any, list[Any]] = defaultdict(list)
    for arrival, key, start, end, op, count in rows:
        panes[key, start, end].append((arrival, op, count))
    return dict(panes)


@pytest.mark.parametrize("window", [GAP, TEN, HOPS], ids=str)
@settings(max_examples=400)
@given(
    stream=streams(),
    early=st.none() | triggers,
    late=triggers,
    mode=modes,
    delay=st.integers(0, 8),
    lateness=st.integers(0, 30),
)
def test_as_the_reference(
    window: Any, stream: Any, early: Any, late: Any, mode: str, delay: int, lateness: int
) -> None:
    result = run(
        stream,
        window,
        "beam",
        early=early,
        late=late,
        accumulation=mode,
        watermark_delay=f"{delay}ms",
        allowed_lateness=f"{lateness}ms",
    )
    rows = [
        (e.arrival, e.key, e.start // MS, e.end // MS, e.op, e.values and e.values["n"])
        for e in result.emissions
    ]
    reference = Beam(window, delay=delay, lateness=lateness, early=early, late=late, mode=mode)
    assert by_window(rows) == by_window(reference.run(stream))


class TestByHand:
    """Beam's AfterWatermark, with early and late firings."""

    def test_every_so_often_by_the_wall_clock(self) -> None:
        # Beam's timers fire after their time, not at it.
        events = [at(0, "a", 1, 0), at(1, "b", 1, 10), at(2, "a", 2, 11), at(3, "b", 2, 99)]
        result = run(events, TEN, "beam", early=Repeatedly(AfterProcessingTime("10ms")))
        own = [(e.arrival, e.op) for e in result.emissions if e.key == "a"]
        assert own == [(2, "early"), (3, "early"), (None, "on_time")]

    def test_once(self) -> None:
        result = run(arriving(1, 2, 3, 4), TEN, "beam", early=AfterCount(2))
        assert [(a, n, op) for a, _, _, n, op in sent(result)] == [
            (1, 2, "early"),
            (None, 2, "on_time"),
        ]

    def test_any_is_the_first_and_all_the_last(self) -> None:
        events = [at(i, "a", i, 4 * i) for i in range(8)]
        both = AfterCount(3), AfterProcessingTime("10ms")
        first = run(events, TEN, "flink", early=Repeatedly(AfterAny(*both)))
        assert [a for a, *_, op in sent(first) if op == "early"] == [2, 5]
        last = run(events, TEN, "flink", early=Repeatedly(AfterAll(*both)))
        assert [a for a, *_, op in sent(last) if op == "early"] == [3, 6]

    def test_silence(self) -> None:
        events = [at(0, "a", 1, 0), at(1, "a", 2, 8), at(2, "b", 3, 17), at(3, "b", 3, 19)]
        result = run(events, TEN, "beam", early=Repeatedly(AfterSilence("10ms")))
        assert sent(result)[0] == (3, 0, 10, 2, "early")

    def test_merged_sessions_wait_after_what_came_first(self) -> None:
        early, late = Repeatedly(AfterEventTime("7ms")), AfterCount(3)
        events = arriving(7, 25, 13, 17)
        result = run(events, GAP, "beam", early=early, late=late, allowed_lateness="11ms")
        # The event at 25 came before the one at 13, which the session that it completes has.
        assert sent(result) == [(1, 7, 17, 1, "on_time"), (None, 7, 35, 3, "on_time")]

    def test_event_time(self) -> None:
        early = Repeatedly(AfterEventTime("5ms"))
        result = run(arriving(1, 5, 6, 7, 20), TEN, "beam", early=early)
        # The watermark, the largest time, is 5 ms beyond 1 at 6; at 20 the window is complete.
        assert sent(result)[:2] == [(2, 0, 10, 3, "early"), (4, 0, 10, 1, "on_time")]

    def test_samza_has_one_clock(self) -> None:
        hours = TumblingWindow(size="100ms")
        events = arriving(3, 5, 9, 20, 22, 120)
        after = run(events, hours, "samza", early=Repeatedly(AfterProcessingTime("10ms")))
        assert after.emissions == run(events, hours, "samza", early_after="10ms").emissions
        silent = run(events, hours, "samza", early=Repeatedly(AfterSilence("10ms")))
        assert [(a, n) for a, _, _, n, op in sent(silent) if op == "early"] == [(3, 3), (5, 5)]

    def test_what_is_due_before_samzas_timers_run_is_not_called_off(self) -> None:
        early = Repeatedly(AfterSilence("5ms"))
        events = arriving(40, 44, 49, 52, 58, 68, 70)
        result = run(
            events, TumblingWindow(size="100ms"), "samza", early=early, timer_interval="7ms"
        )
        # 44 calls off what is due at 45; timers run before 49. What is due at 57 stays after 58,
        # since timers run at 56 and, before 68, at 63.
        panes = [(arrival, n) for arrival, *_, n, op in sent(result) if op == "early"]
        assert panes == [(2, 2), (5, 5)]
        # The silence since 56 is over at 61, after the window's end at 60. The silence since 54,
        # which 56 broke, would have been over before.
        ended = run(
            arriving(54, 56, 63),
            TumblingWindow(size="60ms"),
            "samza",
            early=early,
            timer_interval="7ms",
        )
        assert sent(ended)[0] == (2, 0, 60, 2, "on_time")

    def test_what_combines_triggers_fires_at_each_event_in_beam_once_it_has_fired(self) -> None:
        # Early and late firings begin anew, but what they combine does not (Beam 2.73, Java).
        events = arriving(*range(8))
        for combined in (
            AfterAny(AfterCount(3), AfterCount(50)),
            AfterAll(AfterCount(3), AfterCount(2)),
        ):
            early = Repeatedly(combined)
            beam = run(events, TEN, "beam", early=early, accumulation="discarding")
            assert [n for *_, n, _ in sent(beam)] == [3, 1, 1, 1, 1, 1, 0]
            samza = run(events, TEN, "samza", early=early, accumulation="discarding")
            assert [n for *_, n, _ in sent(samza)] == [3, 3, 2]

    def test_a_session_that_begins_late_in_a_bundle(self) -> None:
        settings: dict[str, Any] = {"watermark_delay": "5ms", "allowed_lateness": "20ms", "late": 4}
        window = SessionWindow(gap="2ms")
        events = arriving(119, 100, 101)
        apart = run(events, window, "beam", **settings)
        assert sent(apart)[0] == (1, 100, 102, 1, "late")
        # Merged in its first bundle, it counts as fired on time.
        bundled = [replace(record, batch=min(record.arrival, 1)) for record in events]
        together = run(bundled, window, "beam", **settings)
        assert (None, 100, 103, 2, "late") in sent(together)
        assert not [pane for pane in sent(together) if pane[1] == 100 and pane[0] is not None]

    def test_a_session_that_is_complete_no_more_has_waited_since_the_first_of_both(self) -> None:
        walls = (102, 104, 106, 110)
        events = arriving(103, 105, 104, 112)
        timed = [replace(record, wall_clock=walls[record.arrival] * MS) for record in events]
        result = run(
            timed,
            SessionWindow(gap="2ms"),
            "beam",
            allowed_lateness="100ms",
            early=Repeatedly(AfterProcessingTime("4ms")),
            late=4,
            accumulation="discarding",
        )
        panes = [pane for pane in sent(result) if pane[1:3] == (103, 107)]
        assert panes == [(3, 103, 107, 2, "early"), (3, 103, 107, 0, "on_time")]

    def test_a_silence_that_timers_have_seen_begins_anew(self) -> None:
        early = Repeatedly(AfterAll(AfterSilence("5ms"), AfterCount(3)))
        window = TumblingWindow(size="100ms")
        result = run(arriving(0, 6, 7, 8, 9, 10, 30), window, "samza", early=early)
        assert [a for a, *_, op in sent(result) if op == "early"] == [6]

    def test_retractions(self) -> None:
        result = run(arriving(0, 5, 12, 30), GAP, "beam", early=1, accumulation="retracting")
        assert sent(result)[:5] == [
            (0, 0, 10, 1, "early"),
            (1, 0, 10, None, "retraction"),
            (1, 0, 15, 2, "early"),
            (2, 0, 15, None, "retraction"),
            (2, 0, 22, 3, "early"),
        ]
        assert [w[1:3] for w in result.final] == [(0, 22 * MS), (30 * MS, 40 * MS)]

    def test_both_of_two_sessions_that_become_one_are_taken_back(self) -> None:
        events = arriving(0, 15, 8)
        result = run(events, GAP, "beam", early=1, accumulation="retracting", watermark_delay="1s")
        assert sent(result)[2:5] == [
            (2, 0, 10, None, "retraction"),
            (2, 15, 25, None, "retraction"),
            (2, 0, 25, 3, "early"),
        ]


class TestRefused:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: AfterCount(0), "count: must be a whole number of events, at least 1"),
            (lambda: AfterProcessingTime("0s"), "delay: must be greater than zero"),
            (AfterAny, "AfterAny: combines at least one trigger"),
            (lambda: AfterAll(Repeatedly(AfterCount(1))), "AfterAll: is repeated already"),
            (lambda: Repeatedly(3), "Repeatedly: is not a trigger"),  # type: ignore[arg-type]
        ],
    )
    def test_triggers(self, make: Any, message: str) -> None:
        with pytest.raises(WindowError, match=message):
            make()

    def test_settings(self) -> None:
        for engine in ("flink", "samza"):
            with pytest.raises(
                ReplayError, match=f"accumulation: the engine {engine} does not retract"
            ):
                run(arriving(1), TEN, engine, accumulation="retracting")
        with pytest.raises(ReplayError, match="early_once: a trigger fires only once anyway"):
            run(arriving(1), TEN, "samza", early=AfterCount(2), early_once=True)
        with pytest.raises(ReplayError, match="early: must be a whole number, at least 1"):
            run(arriving(1), TEN, "beam", early="often")
        with pytest.raises(ReplayError, match=r"early\.AfterSilence.delay: must be whole milli"):
            run(arriving(1), TEN, "beam", early=AfterSilence("5us"))
