"""Windows that fire when a watermark passes them: merging, lateness, panes. Times in ms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill import AfterCount, CumulatingWindow, HoppingWindow, SessionWindow, TumblingWindow
from backfill.errors import ReplayError
from backfill.windows import SlidingWindow
from tests.replay.stream import arriving, event, late, late_windows, rows, run, sent, windows

GAP = SessionWindow(gap="10ms")
TEN = TumblingWindow(size="10ms")


class TestSessionsLateAfterMerging:
    """Flink's. Its DataStream watermark is the largest t less the delay and 1 ms."""

    def test_a_session_fires_when_the_watermark_has_its_last_tick(self) -> None:
        # [0, 10) fires at a watermark of 9: when 10 has come.
        assert rows(run(arriving(0, 9), GAP, "flink").final) == [(0, 19, 2)]
        result = run(arriving(("a", 0), ("b", 9), ("b", 10)), GAP, "flink")
        assert sent(result)[0] == (2, 0, 10, 1, "on_time")
        assert [e.timestamp for e in result.emissions] == [9_999 // 1_000 * 1_000, 19_000]

    def test_sql_sees_a_watermark_a_millisecond_earlier(self) -> None:
        result = run(arriving(("a", 0), ("b", 9)), GAP, "flink", api="sql")
        assert sent(result)[0] == (1, 0, 10, 1, "on_time")

    def test_touching_sessions_merge(self) -> None:
        assert rows(run(arriving(0, 10), GAP, "flink", watermark_delay="1ms").final) == [(0, 20, 2)]

    def test_late_is_what_comes_of_merging(self) -> None:
        # Watermark 19 after 20: [5, 15) alone is late by 19 - 14 + 1; with [12, 22) it is not.
        result = run(arriving(("b", 20), ("a", 5), ("a", 12), ("a", 5)), GAP, "flink")
        assert late(result) == [(1, "late", 6)]
        assert rows(result.final) == [(5, 22, 2)]
        # end - 1 + L <= watermark: 9 + 10 <= 19.
        at = run(arriving(("b", 20), ("a", 0)), GAP, "flink", allowed_lateness="10ms")
        assert late(at) == [(1, "late", 1)]
        after = run(arriving(("b", 20), ("a", 1)), GAP, "flink", allowed_lateness="10ms")
        assert not after.dropped

    def test_a_late_event_fires_again(self) -> None:
        events = arriving(("a", 0), ("b", 15), ("a", 0))
        result = run(events, GAP, "flink", allowed_lateness="10ms")
        assert sent(result)[:2] == [(1, 0, 10, 1, "on_time"), (2, 0, 10, 2, "late")]
        assert rows(result.final) == [(0, 10, 2)]

    def test_a_late_event_fires_its_windows_latest_first(self) -> None:
        hops = HoppingWindow(size="10ms", advance="5ms")
        result = run(arriving(6, 40, 7), hops, "flink", allowed_lateness="1s")
        assert [pane[:3] for pane in sent(result)[:4]] == [
            (1, 0, 10),
            (1, 5, 15),
            (2, 5, 15),
            (2, 0, 10),
        ]

    def test_one_that_extends_a_fired_session_fires_on_time_with_everything(self) -> None:
        # [0, 10) fired at watermark 14. 8 makes it [0, 18), which is not complete.
        events = arriving(("a", 0), ("b", 15), ("a", 8), ("b", 18))
        result = run(events, GAP, "flink", allowed_lateness="10ms")
        assert sent(result)[:2] == [
            (1, 0, 10, 1, "on_time"),
            (3, 0, 18, 2, "on_time"),
        ]
        assert rows(result.final) == [(0, 18, 2)]
        assert rows(result.superseded) == [(0, 10, 1)]

    def test_overlap_is_legal_when_the_state_is_gone(self) -> None:
        # Without lateness [0, 10) is gone at watermark 14; [8, 18) is not late by itself.
        events = arriving(("a", 0), ("b", 15), ("a", 8))
        result = run(events, GAP, "flink")
        assert rows(result.final) == [(0, 10, 1), (8, 18, 1)]
        assert rows(result.begun_anew) == [(8, 18, 1)]

    def test_gaps_differ(self) -> None:
        events = [event(0, "a", 0, gap=30), event(1, "a", 5), event(2, "a", 30)]
        assert rows(run(events, GAP, "flink", watermark_delay="1s").final) == [(0, 40, 3)]
        with pytest.raises(ReplayError, match="gap: must be whole milliseconds, greater than zero"):
            run([event(0, "a", 0, gap=0)], GAP, "flink")
        with pytest.raises(ReplayError, match="gap: the engine kafka-streams has no gaps"):
            run([event(0, "a", 0, gap=5)], GAP, "kafka-streams")


class TestSessionsLateBeforeMerging:
    """Beam's: an event exactly the gap apart is another session's."""

    def test_the_gap_is_exclusive(self) -> None:
        result = run(arriving(0, 10), GAP, "beam", watermark_delay="1s")
        assert rows(result.final) == [(0, 10, 1), (10, 20, 1)]
        assert not result.begun_anew
        assert rows(run(arriving(0, 9), GAP, "beam", watermark_delay="1s").final) == [(0, 19, 2)]

    def test_late_by_its_own_window_strictly(self) -> None:
        # t + g - 1 + L < watermark, 20: 10 is kept, 9 is not, though [12, 22) is open.
        result = run(arriving(("b", 20), ("a", 12), ("a", 9)), GAP, "beam")
        assert rows(result.final) == [(12, 22, 1)]
        assert late(result) == [(2, "late", 2)]
        assert not run(arriving(("b", 20), ("a", 11)), GAP, "beam").dropped
        exact = run(arriving(("b", 20), ("a", 10)), GAP, "beam")
        assert late(exact) == [(1, "late", 1)]

    def test_discarding_panes_are_deltas_and_final_is_their_sum(self) -> None:
        events = arriving(("a", 0), ("b", 15), ("a", 0), ("b", 40))
        result = run(events, GAP, "beam", allowed_lateness="20ms")
        assert [e for e in sent(result) if e[1] == 0] == [
            (1, 0, 10, 1, "on_time"),
            (2, 0, 10, 1, "late"),
        ]
        assert rows(result.final) == [(0, 10, 2)]

    def test_a_window_that_begins_late_fires_at_once(self) -> None:
        # [0, 10) begins when the watermark is 15: its first event does not wait for a second one.
        events = arriving(("b", 15), ("a", 0), ("a", 0), ("a", 0), ("b", 60))
        for window in (GAP, TEN):
            result = run(events, window, "beam", allowed_lateness="20ms", late=2)
            assert [e for e in sent(result) if e[1] == 0] == [
                (1, 0, 10, 1, "late"),
                (3, 0, 10, 2, "late"),
            ]

    def test_a_session_that_fired_on_time_and_grew_counts_anew_for_early_panes(self) -> None:
        # [0, 10) has fired at 15; 8 joins it with the event at 15 to [0, 25), as the first of two.
        events = arriving(("a", 0), ("a", 15), ("a", 8), ("a", 9))
        result = run(events, GAP, "beam", allowed_lateness="20ms", early=2)
        assert sent(result)[:2] == [(1, 0, 10, 1, "on_time"), (3, 0, 25, 3, "early")]

    def test_early_panes_and_the_empty_one_on_time(self) -> None:
        result = run(arriving(0, 1, 2, 3), GAP, "beam", early=2)
        assert sent(result) == [
            (1, 0, 11, 2, "early"),
            (3, 0, 13, 2, "early"),
            (None, 0, 13, 0, "on_time"),
        ]
        assert rows(result.final) == [(0, 13, 4)]
        assert rows(result.superseded) == [(0, 11, 2)]
        accumulating = run(arriving(0, 1, 1), GAP, "beam", early=2, accumulation="accumulating")
        assert sent(accumulating) == [(1, 0, 11, 2, "early"), (None, 0, 11, 3, "on_time")]

    def test_a_bundle_has_one_early_pane_with_all_of_it(self) -> None:
        events = arriving(0, 1, 2, ("b", 0), 3, 4)
        result = run(events, GAP, "beam", early=2, batch_size=5, watermark_delay="1s")
        assert sent(result) == [
            (4, 0, 13, 4, "early"),
            (None, 0, 10, 1, "on_time"),
            (None, 0, 14, 1, "on_time"),
        ]
        # Bundles can be given; with one event each, there is a pane for every two.
        named = [event(i, "a", i, batch=i // 3) for i in range(5)]
        result = run(named, GAP, "beam", early=2, watermark_delay="1s")
        assert [(a, n) for a, _, _, n, _ in sent(result)] == [(2, 3), (4, 2), (None, 0)]
        result = run(arriving(*range(5)), GAP, "beam", early=2, watermark_delay="1s")
        assert [(a, n) for a, _, _, n, _ in sent(result)] == [(1, 2), (3, 2), (None, 1)]

    def test_the_watermark_stands_still_in_a_bundle(self) -> None:
        # With one event in each bundle, 30 completes [0, 10) and makes 1 late.
        events = arriving(0, 30, 1)
        assert late(run(events, GAP, "beam")) == [(2, "late", 20)]
        result = run(events, GAP, "beam", batch_size=3)
        assert not result.dropped
        assert sent(result) == [(2, 0, 11, 2, "on_time"), (None, 30, 40, 1, "on_time")]
        # Late panes do not come within a bundle either.
        settings: dict[str, Any] = {"allowed_lateness": "90ms", "accumulation": "accumulating"}
        late_ones = [event(0, "a", 0, watermark=20), *(event(i, "a", 0) for i in range(1, 4))]
        bundles = [replace(record, batch=min(record.arrival, 1)) for record in late_ones]
        assert [n for *_, n, _ in sent(run(bundles, GAP, "beam", **settings))] == [1, 4]
        assert [n for *_, n, _ in sent(run(late_ones, GAP, "beam", **settings))] == [1, 2, 3, 4]

    def test_a_session_that_begins_late_in_a_bundle_waits_for_its_late_trigger(self) -> None:
        settings: dict[str, Any] = {"allowed_lateness": "90ms", "late": 9, "early": 9}
        marked = [event(0, "b", 50, watermark=30), *(event(i, "a", 2 * i) for i in range(1, 5))]
        bundles = [replace(record, batch=min(record.arrival, 1)) for record in marked]
        result = run(bundles, GAP, "beam", **settings)
        assert [e for e in sent(result) if e[1] == 2] == [(None, 2, 18, 4, "late")]
        assert not result.superseded
        fewer = run(bundles, GAP, "beam", **{**settings, "late": 4})
        assert [e for e in sent(fewer) if e[1] == 2] == [(4, 2, 18, 4, "late")]
        # A complete session that grows and is open again counts only what its bundle brought.
        settings = {"allowed_lateness": "90ms", "early": 2}
        grown = [event(0, "a", 5, watermark=15), event(1, "a", 8), event(2, "a", 16)]
        result = run(
            [replace(record, batch=min(record.arrival, 1)) for record in grown],
            GAP,
            "beam",
            **settings,
        )
        assert sent(result)[1] == (2, 5, 26, 2, "early")

    @given(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), min_size=1, max_size=15),
        st.integers(1, 6),
        st.integers(1, 4),
    )
    def test_bundles_change_when_panes_come_and_not_what_they_add_up_to(
        self, placed: list[tuple[str, int]], size: int, early: int
    ) -> None:
        events = arriving(*placed)
        for window in (GAP, TEN):
            for mode in ("discarding", "accumulating"):
                settings = {"early": early, "accumulation": mode, "watermark_delay": "1s"}
                one = run(events, window, "beam", **settings)
                some = run(events, window, "beam", batch_size=size, **settings)
                assert sorted(windows(some.final)) == sorted(windows(one.final))
                assert not some.dropped
                # At most one pane for each window and bundle, besides the one on time.
                ended = [e.arrival for e in some.emissions if e.op == "early"]
                assert set(ended) <= {*range(size - 1, len(events), size), len(events) - 1}

    def test_late_events_in_batches(self) -> None:
        events = arriving(("a", 0), ("b", 15), ("a", 0), ("a", 0), ("a", 0), ("b", 99))
        settings: dict[str, Any] = {"allowed_lateness": "20ms", "late": 2}
        result = run(events, GAP, "beam", accumulation="accumulating", **settings)
        # Two at a time; the third comes when the window is dropped, at watermark 30.
        assert [e for e in sent(result) if e[1] == 0] == [
            (1, 0, 10, 1, "on_time"),
            (3, 0, 10, 3, "late"),
            (5, 0, 10, 4, "late"),
        ]


class TestAligned:
    def test_each_window_is_judged_by_itself(self) -> None:
        hops = HoppingWindow(size="10ms", advance="5ms")
        # Flink's watermark 11 after 12: [0, 10) is gone, [5, 15) is not.
        result = run(arriving(12, 7), hops, "flink")
        assert late_windows(result) == [(1, 0, 10, 3)]
        assert not result.dropped
        assert rows(result.final) == [(5, 15, 2), (10, 20, 1)]

    def test_strictness(self) -> None:
        # A watermark of 9 is the last tick of [0, 10): Flink has closed it, Beam has not.
        events = [event(0, "a", 3, watermark=9), event(1, "a", 4)]
        assert late(run(events, TEN, "flink")) == [(1, "late", 1)]
        assert not run(events, TEN, "beam").dropped
        ten = [event(0, "a", 3, watermark=10), event(1, "a", 4)]
        assert late(run(ten, TEN, "beam")) == [(1, "late", 1)]

    def test_events_before_the_epoch_are_like_any_others(self) -> None:
        result = run(arriving(-1, -11), TEN, "flink", watermark_delay="1s")
        assert rows(result.final) == [(-20, -10, 1), (-10, 0, 1)]

    def test_an_event_between_windows_is_in_none(self) -> None:
        result = run(arriving(3, 7), HoppingWindow(size="5ms", advance="10ms"), "flink")
        assert late(result) == [(1, "no_window", None)]

    def test_purging_panes(self) -> None:
        settings: dict[str, Any] = {"accumulation": "discarding", "allowed_lateness": "10ms"}
        result = run(arriving(1, 11, 2, 3), TEN, "flink", **settings)
        assert [e for e in sent(result) if e[1] == 0] == [
            (1, 0, 10, 1, "on_time"),
            (2, 0, 10, 1, "late"),
            (3, 0, 10, 1, "late"),
        ]
        assert rows(result.final) == [(0, 10, 3), (10, 20, 1)]
        # Nothing is new since the early pane, so there is nothing on time.
        early = run(arriving(1, 2), TEN, "flink", accumulation="discarding", early=2)
        assert sent(early) == [(1, 0, 10, 2, "early")]

    def test_on_update_is_a_pane_for_every_event(self) -> None:
        result = run(arriving(1, 2), TEN, "flink", emit="on_update")
        assert [(n, op) for _, _, _, n, op in sent(result)] == [
            (1, "early"),
            (2, "early"),
            (2, "on_time"),
        ]

    def test_a_changelog_retracts_before_it_updates(self) -> None:
        settings: dict[str, Any] = {"api": "sql-group", "allowed_lateness": "10ms"}
        result = run(arriving(1, 11, 2), TEN, "flink", **settings)
        assert sent(result) == [
            (1, 0, 10, 1, "+I"),
            (2, 0, 10, None, "-U"),
            (2, 0, 10, 2, "+U"),
            (None, 10, 20, 1, "+I"),
        ]
        assert rows(result.final) == [(0, 10, 2), (10, 20, 1)]

    def test_cumulating_windows_and_calendars_are_of_sql(self) -> None:
        window = CumulatingWindow(size="4ms", step="2ms")
        assert rows(run(arriving(1, 2), window, "flink").final) == [(0, 2, 1), (0, 4, 2)]
        day = 86_400_000
        berlin = run(arriving(-1, 0), TumblingWindow(size="1 day"), "flink", timezone="Asia/Tokyo")
        # Tokyo's day began at 15:00 UTC.
        assert rows(berlin.final) == [(-day * 9 // 24, day * 15 // 24, 2)]


class TestWatermarks:
    def test_the_least_of_the_inputs(self) -> None:
        events = [
            event(0, "a", 30, partition=0),
            event(1, "a", 3, partition=0),  # nothing is late: input 1 has not said anything
            event(2, "a", 12, partition=1),
            event(3, "a", 4, partition=0),  # late by input 1
        ]
        assert late(run(events, TEN, "flink")) == [(3, "late", 3)]

    def test_periodic(self) -> None:
        assert not run(arriving(30, 3), TEN, "flink", watermark_every=2).dropped
        assert late(run(arriving(30, 31, 3), TEN, "flink", watermark_every=2)) == [(2, "late", 22)]

    def test_dropped_events_move_it_and_it_never_falls(self) -> None:
        assert [a for a, *_ in late(run(arriving(30, 3, 9), TEN, "flink"))] == [1, 2]

    def test_given(self) -> None:
        events = [event(0, "a", 30), event(1, "a", 3, watermark=8), event(2, "a", 4, watermark=5)]
        result = run([*events, event(3, "a", 5, watermark=9), event(4, "a", 6)], TEN, "flink")
        assert late(result) == [(4, "late", 1)]
        assert sent(result)[0] == (3, 0, 10, 3, "on_time")

    def test_a_restart_begins_at_the_minimum_with_the_state_kept(self) -> None:
        events = arriving(("a", 25), ("a", 3), ("a", 22))
        assert late(run(events, TEN, "flink")) == [(1, "late", 16)]
        result = run(events, TEN, "flink", restarts=[1])
        assert not result.dropped
        assert rows(result.final) == [(0, 10, 1), (20, 30, 2)]

    def test_after_a_restart_a_window_is_completed_again_with_what_came_since(self) -> None:
        events = arriving(3, 15, 4, 5, 40, 41)
        lateness = {"allowed_lateness": "20ms"}
        whole = sent(run(events, TEN, "flink", **lateness))
        assert whole[:3] == [(1, 0, 10, 1, "on_time"), (2, 0, 10, 2, "late"), (3, 0, 10, 3, "late")]
        again = run(events, TEN, "flink", restarts=[2], **lateness)
        assert sent(again)[:3] == [
            (1, 0, 10, 1, "on_time"),
            (4, 0, 10, 3, "on_time"),
            (4, 10, 20, 1, "on_time"),
        ]
        assert rows(again.final)[:2] == [(0, 10, 3), (10, 20, 1)]
        once: dict[str, Any] = {"early": AfterCount(2), "restarts": [3], **lateness}
        early = sent(run(arriving(1, 2, 15, 3, 4, 40), TEN, "flink", **once))
        assert [pane[0] for pane in early if pane[4] == "early"] == [1]
        # A window that got no event since is not completed again.
        assert len(sent(run(events, TEN, "flink", restarts=[4], **lateness))) == len(whole)


class TestNulls:
    def test_a_null_key_is_a_group_or_refused(self) -> None:
        events = arriving((None, 1), ("a", 2))
        assert windows(run(events, TEN, "flink", api="sql").final) == [
            (None, 0, 10, 1),
            ("a", 0, 10, 1),
        ]
        with pytest.raises(ReplayError, match="key: the engine flink fails"):
            run(events, TEN, "flink")

    def test_a_null_time_is_dropped_or_refused(self) -> None:
        events = arriving(None, 2)
        assert late(run(events, TEN, "flink", api="sql")) == [(0, "no_time", None)]
        for engine in ("flink", "beam", "storm", "samza"):
            with pytest.raises(ReplayError, match=f"time: the engine {engine} fails"):
                run(events, TEN, engine)


class TestClosedOnTheRight:
    """Storm's windows (end - size, end]; the watermark is the largest t less the lag."""

    def test_a_window_fires_when_the_watermark_reaches_its_end(self) -> None:
        result = run(arriving(1, 10, 11), TEN, "storm")
        assert sent(result) == [(1, 0, 10, 2, "on_time")]
        assert rows(result.pending) == [(10, 20, 1)]

    def test_an_event_before_the_watermark_is_late_in_all_windows(self) -> None:
        hops = HoppingWindow(size="10ms", advance="5ms")
        result = run(arriving(12, 11), hops, "storm")
        assert late(result) == [(1, "late", 1)]
        assert late_windows(result) == [(1, 5, 15, 1), (1, 10, 20, 1)]
        assert not run(arriving(12, 11), hops, "storm", watermark_delay="1ms").dropped

    def test_an_event_at_the_watermark_is_not_late_but_its_window_may_have_fired(self) -> None:
        result = run(arriving(10, 10), TEN, "storm")
        assert late(result) == [(1, "late", 1)]
        assert sent(result) == [(0, 0, 10, 1, "on_time")]
        # [.., 10] of the first event has not fired when the watermark is 9.
        assert not run(arriving(9, 9), TEN, "storm").dropped

    def test_a_window_is_read_up_to_the_first_event_that_lies_behind_it_by_more_than_the_lag(
        self,
    ) -> None:
        # The watermark comes with every third event; 8 is behind 30 in the queue.
        events = arriving(("a", 5), ("a", 30), ("b", 8))
        result = run(events, TEN, "storm", watermark_every=3)
        assert sent(result) == [(2, 0, 10, 1, "on_time"), (2, 20, 30, 1, "on_time")]
        assert late(result) == [(2, "late", 20)]
        assert not run(events, TEN, "storm", watermark_every=3, watermark_delay="20ms").dropped
        # A longer window, which ends later, holds it.
        hops = HoppingWindow(size="30ms", advance="10ms")
        result = run(events, hops, "storm", watermark_every=3)
        assert late_windows(result) == [(2, -10, 20, 10), (2, -20, 10, 20)]
        assert [e[1:4] for e in sent(result)] == [
            (-20, 10, 1),
            (-10, 20, 1),
            (0, 30, 2),
            (0, 30, 1),
        ]

    def test_windows_behind_one_that_holds_nothing_are_skipped(self) -> None:
        # 8 is read first, and is after 2 by more than the lag: (-2, 2] holds nothing. The next
        # window to be read is the first one of 8; (0, 4] would have held 1.
        hops = HoppingWindow(size="4ms", advance="2ms")
        settings: dict[str, Any] = {"watermark_delay": "5ms", "watermark_every": 3}
        result = run(arriving(8, 1, 19), hops, "storm", **settings)
        assert sent(result) == [(2, 4, 8, 1, "on_time"), (2, 6, 10, 1, "on_time")]
        assert rows(result.lost) == [(0, 4, 1)]
        assert rows(result.pending) == [(16, 20, 1), (18, 22, 1)]

    def test_before_the_epoch_everything_is_late(self) -> None:
        assert late(run(arriving(-5), TEN, "storm")) == [(0, "late", 5)]


def test_plain_is_the_batch_result() -> None:
    events = [*arriving(100, 0, 10), event(9, None, 5)]
    result = run(events, GAP, "plain")
    assert rows(result.final) == [(0, 10, 2), (100, 100, 1)]
    assert late(result) == [(9, "no_key", None)]
    assert all(e.arrival is None for e in result.emissions)


@pytest.mark.parametrize("window", [TEN, SessionWindow(gap="10ms"), SlidingWindow(size=None)])
def test_what_is_not_processed_brings_its_watermark_all_the_same(window: Any) -> None:
    events = [event(0, "k", 5), event(1, "k", None, watermark=100), event(2, "k", 6)]
    result = run(events, window, "flink", api="sql")
    assert [(d.arrival, d.reason) for d in result.dropped] == [(1, "no_time"), (2, "late")]
    # As an event that is processed would, after the one that it follows.
    assert result.emissions[0].arrival == 1
