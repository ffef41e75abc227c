"""Look-back windows, count windows, rolling counters and processing time. Times in ms."""

from __future__ import annotations

from typing import Any

import pytest

from backfill import CountWindow, HoppingWindow, SessionWindow, SlidingWindow, TumblingWindow
from backfill.errors import ReplayError, WindowError
from tests.replay.stream import arriving, event, late, rows, run, sent, windows

pytestmark = pytest.mark.one_lane


class TestRange:
    """OVER (ORDER BY t RANGE BETWEEN 10 ms PRECEDING AND CURRENT ROW)."""

    LENGTH = SlidingWindow(size="10ms")

    def test_one_row_for_each_with_its_peers(self) -> None:
        events = arriving(10, 5, 10, 20, 21)
        result = run(events, self.LENGTH, "flink", watermark_delay="1s")
        assert [
            (e.row, n) for e, (*_, n) in zip(result.final, rows(result.final), strict=True)
        ] == [
            (1, 1),
            (0, 3),
            (2, 3),
            (3, 3),
            (4, 2),
        ]
        assert rows(result.final)[1] == rows(result.final)[2] == (0, 10, 3)

    def test_a_row_is_late_by_what_has_fired_for_its_key(self) -> None:
        # The watermark is 20 after b; a has fired only 10.
        events = arriving(("a", 10), ("b", 20), ("a", 10), ("a", 12))
        result = run(events, self.LENGTH, "flink")
        assert late(result) == [(2, "late", 1)]
        assert rows(result.final) == [(0, 10, 1), (2, 12, 2)]

    def test_rows_up_to_the_epoch_are_late_for_a_key_that_has_not_fired(self) -> None:
        result = run(arriving(0, 1), self.LENGTH, "flink")
        assert late(result) == [(0, "late", 1)]
        assert not run(arriving(0, -1), self.LENGTH, "plain").dropped

    def test_a_silent_key_is_cleared_and_begins_anew(self) -> None:
        # a fired 100; its state goes at 100 + 15 + 1. After that, 50 is no longer late for it.
        events = arriving(("a", 100), ("b", 115), ("a", 50), ("b", 116), ("a", 50))
        result = run(events, self.LENGTH, "flink")
        assert late(result) == [(2, "late", 51)]
        assert rows(result.final) == [(90, 100, 1), (40, 50, 1)]

    def test_without_a_length_the_watermark_decides(self) -> None:
        events = arriving(("a", 10), ("a", -5), ("a", 10), ("a", 11), ("a", 30))
        result = run(events, SlidingWindow(size=None), "flink", watermark_delay="1ms")
        assert late(result) == [(1, "late", 15)]
        assert rows(result.final) == [(10, 10, 2), (10, 10, 2), (10, 11, 3), (10, 30, 4)]


class TestRows:
    def test_the_last_rows_by_time_then_arrival(self) -> None:
        events = arriving(3, 1, 3, 2)
        result = run(
            events,
            CountWindow(size=2, advance=1, order="time"),
            "flink",
            api="sql",
            watermark_delay="1s",
            keep_events=True,
        )
        assert [(e.row, e.events) for e in result.emissions] == [
            (1, (1,)),
            (3, (1, 3)),
            (0, (3, 0)),
            (2, (0, 2)),
        ]

    def test_late_by_key(self) -> None:
        events = arriving(("a", 10), ("a", 5), ("b", 5))
        result = run(events, CountWindow(size=2, order="time"), "flink", api="sql")
        assert late(result) == [(1, "late", 6)]

    def test_all_rows_up_to_each(self) -> None:
        # What the watermark has passed is late, whatever has fired for the key.
        events = arriving(("a", 10), ("a", 7), ("a", 12), ("b", 30), ("a", 20))
        result = run(
            events,
            CountWindow(size=None, order="time"),
            "flink",
            watermark_delay="4ms",
            keep_events=True,
        )
        assert late(result) == [(4, "late", 7)]
        assert [(e.row, e.start / 1000, e.end / 1000, e.events) for e in result.emissions] == [
            (1, 7, 7, (1,)),
            (0, 7, 10, (1, 0)),
            (2, 7, 12, (1, 0, 2)),
            (3, 30, 30, (3,)),
        ]
        pairs = run(
            arriving(3, 1, 2),
            CountWindow(size=None, advance=2, order="time"),
            "plain",
            keep_events=True,
        )
        assert [w.events for w in pairs.final] == [(1, 2), (1, 2, 0)]

    @pytest.mark.parametrize("engine", ["storm", "flink"])
    def test_only_rows_over_have_no_size(self, engine: str) -> None:
        api = "datastream" if engine == "flink" else None
        with pytest.raises(WindowError, match="no such window"):
            run(arriving(1), CountWindow(size=None), engine, api=api)


class TestCounts:
    @pytest.mark.parametrize("engine", ["flink", "storm"])
    def test_partial_first_windows_and_a_tail_that_waits(self, engine: str) -> None:
        events = arriving(5, 3, 9, 1, 7)
        result = run(events, CountWindow(size=3, advance=2), engine, keep_events=True)
        assert [(e.arrival, e.start / 1000, e.end / 1000, e.events) for e in result.emissions] == [
            (1, 3, 5, (0, 1)),
            (3, 1, 9, (1, 2, 3)),
        ]
        # The next window would hold these two and one more.
        assert [w.events for w in result.pending] == [(3, 4)]

    def test_tumbling_by_key_in_order_of_arrival(self) -> None:
        events = arriving(("a", 5), ("b", 1), ("a", 4), ("a", 1), ("b", 2))
        result = run(events, CountWindow(size=2, advance=2), "flink")
        assert windows(result.final) == [("a", 4, 5, 2), ("b", 1, 2, 2)]
        assert windows(result.pending) == [("a", 1, 1, 1)]

    def test_windows_of_one_bound_are_two(self) -> None:
        assert rows(run(arriving(1, 1, 1), CountWindow(size=1), "flink").final) == [(1, 1, 1)] * 3


class TestRollingCounters:
    """Storm's: slots of 10 ms, windows of 30."""

    WINDOW = HoppingWindow(size="30ms", advance="10ms")

    def test_one_zero_and_the_key_is_forgotten(self) -> None:
        result = run(arriving(("a", 1), ("a", 12), ("b", 65)), self.WINDOW, "storm", rolling=True)
        assert sent(result) == [
            (1, -20, 10, 1, "final"),
            (2, -10, 20, 2, "final"),
            (2, 0, 30, 2, "final"),
            (2, 10, 40, 1, "final"),
            (2, 20, 50, 0, "final"),
        ]
        assert windows(result.pending) == [("b", 40, 70, 1)]

    def test_an_event_at_a_tick_comes_after_it(self) -> None:
        result = run(arriving(1, 10, 20), self.WINDOW, "storm", rolling=True)
        assert [n for *_, n, _ in sent(result)] == [1, 2]

    def test_slots_fill_the_window(self) -> None:
        window = HoppingWindow(size="30ms", advance="20ms")
        with pytest.raises(WindowError, match="advance: the size 30ms is not a whole number"):
            run(arriving(1), window, "storm", rolling=True)


class TestProcessingTime:
    """Samza's: an event's time is when it was processed, and nothing is late."""

    GAP = SessionWindow(gap="10ms")

    def test_a_timer_runs_at_its_time(self) -> None:
        # TriggerScheduler runs what is due at or before now: at 10, before the event of 10.
        result = run(arriving(0, 9, 19, 30), self.GAP, "samza")
        assert sent(result) == [
            (2, 0, 9, 2, "on_time"),
            (3, 19, 19, 1, "on_time"),
            (None, 30, 30, 1, "on_time"),
        ]

    def test_a_late_event_joins_and_does_not_call_off_a_deadline_that_has_passed(self) -> None:
        # Timers run at 0, 25, 50. The session of 0 was due at 10, and stays due although 18 came.
        result = run(arriving(0, 18, 30, 35, 51), self.GAP, "samza", timer_interval="25ms")
        assert sent(result) == [
            (2, 0, 18, 2, "on_time"),
            (4, 30, 35, 2, "on_time"),
            (None, 51, 51, 1, "on_time"),
        ]
        # An event before that calls it off: 8 moves it to 18, 16 to 26, after the timers' run.
        result = run(arriving(0, 8, 16, 51), self.GAP, "samza", timer_interval="25ms")
        assert sent(result)[0] == (3, 0, 16, 3, "on_time")

    def test_a_pane_that_is_discarded_takes_the_sessions_start_with_it(self) -> None:
        settings: dict[str, Any] = {"early": 2, "accumulation": "discarding"}
        result = run(arriving(0, 5, 8, 12, 40), self.GAP, "samza", **settings)
        assert sent(result) == [
            (1, 0, 5, 2, "early"),
            (3, 8, 12, 2, "early"),
            (None, 40, 40, 1, "on_time"),
        ]
        assert rows(result.final) == [(0, 5, 2), (8, 12, 2), (40, 40, 1)]
        assert not result.superseded

    def test_discarded_panes_of_the_same_bounds_add_up(self) -> None:
        settings: dict[str, Any] = {"early": 2, "accumulation": "discarding", "keep_events": True}
        result = run(arriving(4, 4, 4, 4, 4), self.GAP, "samza", **settings)
        assert sent(result) == [
            (1, 4, 4, 2, "early"),
            (3, 4, 4, 2, "early"),
            (None, 4, 4, 1, "on_time"),
        ]
        assert rows(result.final) == [(4, 4, 5)]
        assert result.final[0].events == (0, 1, 2, 3, 4)

    def test_what_follows_a_discarded_pane_has_a_trigger_and_a_deadline_of_its_own(self) -> None:
        settings: dict[str, Any] = {"accumulation": "discarding", "early_once": True}
        result = run(arriving(0, 2, 4, 6, 30), self.GAP, "samza", early=2, **settings)
        assert sent(result) == [
            (1, 0, 2, 2, "early"),
            (3, 4, 6, 2, "early"),
            (None, 30, 30, 1, "on_time"),
        ]
        # But what begins in the same millisecond has the same start, whose trigger has fired.
        tied = run(arriving(5, 5, 8, 30), self.GAP, "samza", early=1, **settings)
        assert sent(tied)[:2] == [(0, 5, 5, 1, "early"), (3, 5, 8, 2, "on_time")]
        assert rows(tied.final)[0] == (5, 8, 3)
        # The timers run at 25: the deadline of the first three, 12, is not that of 20.
        late = run(
            arriving(0, 1, 2, 20, 27), self.GAP, "samza", early=3, timer_interval="25ms", **settings
        )
        assert sent(late) == [(2, 0, 2, 3, "early"), (None, 20, 27, 2, "on_time")]

    def test_an_early_trigger_that_is_not_repeated_fires_once_in_a_session(self) -> None:
        result = run(arriving(0, 2, 4, 6, 30, 31), self.GAP, "samza", early=2, early_once=True)
        assert [(arrival, n, op) for arrival, _, _, n, op in sent(result)] == [
            (1, 2, "early"),
            (4, 4, "on_time"),
            (5, 2, "early"),
            (None, 2, "on_time"),
        ]

    def test_early_panes_by_the_time_since_the_first_event(self) -> None:
        hours = TumblingWindow(size="100ms")
        result = run(arriving(3, 5, 9, 20, 22, 120), hours, "samza", early_after="10ms")
        # 3 sets a timer for 13; the next event after it, 20, one for 30.
        expected = [(3, 3, "early"), (5, 5, "early"), (5, 5, "on_time")]
        assert [(arrival, n, op) for arrival, _, _, n, op in sent(result)][:3] == expected
        once = run(arriving(3, 20, 22, 120), hours, "samza", early_after="10ms", early_once=True)
        assert [op for *_, op in sent(once)] == ["early", "on_time", "on_time"]
        with pytest.raises(ReplayError, match="early: can't be given together with early_after"):
            run(arriving(1), hours, "samza", early=1, early_after="10ms")

    def test_no_early_pane_follows_the_one_on_time(self) -> None:
        result = run(arriving(3, 25), TumblingWindow(size="10ms"), "samza", early_after="8ms")
        assert sent(result) == [(1, 0, 10, 1, "on_time"), (None, 20, 30, 1, "on_time")]

    def test_tumbling_windows_and_early_panes(self) -> None:
        settings: dict[str, Any] = {"early": 2, "accumulation": "discarding"}
        result = run(arriving(1, 2, 3, 11), TumblingWindow(size="10ms"), "samza", **settings)
        assert sent(result) == [
            (1, 0, 10, 2, "early"),
            (3, 0, 10, 1, "on_time"),
            (None, 10, 20, 1, "on_time"),
        ]
        assert rows(result.final) == [(0, 10, 3), (10, 20, 1)]

    def test_sessions_accumulate_over_early_panes(self) -> None:
        result = run(arriving(0, 5, 8), self.GAP, "samza", emit="on_update")
        assert [(end, n) for _, _, end, n, _ in sent(result)] == [(0, 1), (5, 2), (8, 3), (8, 3)]
        assert rows(result.final) == [(0, 8, 3)]
        assert rows(result.superseded) == [(0, 0, 1), (0, 5, 2)]

    def test_time_does_not_go_back(self) -> None:
        with pytest.raises(ReplayError, match="time: is before the time of an earlier arrival"):
            run([event(0, "a", 5), event(1, "a", 4)], self.GAP, "samza")


class TestPlain:
    def test_sliding_windows_are_of_rows(self) -> None:
        result = run(arriving(10, -5, 5), SlidingWindow(size="10ms"), "plain")
        assert rows(result.final) == [(-15, -5, 1), (-5, 5, 2), (0, 10, 2)]

    @pytest.mark.parametrize(
        ("order", "events"), [("time", [(1,), (1, 2), (2, 0)]), ("arrival", [(0,), (0, 1), (1, 2)])]
    )
    def test_counts_are_by_time_or_arrival(self, order: str, events: object) -> None:
        window = CountWindow(size=2, order=order)
        result = run(arriving(3, 1, 2), window, "plain", keep_events=True)
        assert [w.events for w in result.final] == events

    @pytest.mark.parametrize("order", ["time", "arrival"])
    @pytest.mark.parametrize("size", [2, 5, None])
    def test_the_rest_is_a_window(self, size: int | None, order: str) -> None:
        window = CountWindow(size=size, advance=2, order=order)
        result = run(arriving(1, 2, 3, 4, 5), window, "plain", keep_events=True)
        expected = {
            2: [(0, 1), (2, 3), (4,)],
            5: [(0, 1), (0, 1, 2, 3), (1, 2, 3, 4)],
            None: [(0, 1), (0, 1, 2, 3), (0, 1, 2, 3, 4)],
        }
        assert [w.events for w in result.final] == expected[size]
        assert not result.pending

    @pytest.mark.parametrize("order", ["time", "arrival"])
    def test_of_the_whole_stream(self, order: str) -> None:
        window = CountWindow(size=2, advance=2, per="stream", order=order)
        result = run(arriving(("a", 1), ("b", 2), ("a", 3)), window, "plain")
        assert windows(result.final) == [(None, 1, 2, 2), (None, 3, 3, 1)]
