"""Tumbling, hopping and sliding windows in a store, by stream time. Times in ms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill import aggregates as agg
from backfill.errors import ReplayError, WindowError
from tests.replay.stream import MS, arriving, event, late, late_windows, rows, run, sent, windows

KAFKA = "kafka-streams"
TEN = TumblingWindow(size="10ms")
HOPS = HoppingWindow(size="10ms", advance="4ms")


def test_a_window_takes_events_until_its_end_is_not_after_the_close() -> None:
    # T = 25, grace 5: windows that end by 20 are closed.
    result = run(arriving(25, 20, 19), TEN, KAFKA, grace="5ms")
    assert late(result) == [(2, "late", 1)]
    assert late_windows(result) == [(2, 10, 20, 1)]
    assert rows(result.final) == [(20, 30, 2)]


def test_hopping_windows_by_ascending_start_clipped_at_the_epoch() -> None:
    # [-4, 6) would hold 5, too, but does not exist.
    result = run(arriving(5, 3), HOPS, KAFKA, grace="1s")
    assert sent(result) == [
        (0, 0, 10, 1, "update"),
        (0, 4, 14, 1, "update"),
        (1, 0, 10, 2, "update"),
    ]


def test_a_late_event_is_lost_for_some_windows_and_kept_for_others() -> None:
    # 11 lies in [4, 14) and [8, 18); at T = 15 the first is closed.
    result = run(arriving(15, 11), HOPS, KAFKA)
    assert not result.dropped
    assert late_windows(result) == [(1, 4, 14, 2)]
    assert rows(result.final) == [(12, 22, 1), (8, 18, 2)]


def test_records_carry_the_largest_event_time_in_the_window() -> None:
    result = run(arriving(3, 8, 5), TEN, KAFKA, grace="1s")
    assert [e.timestamp for e in result.emissions] == [3_000, 8_000, 8_000]


def test_emit_on_close_takes_what_ends_at_the_close() -> None:
    result = run(arriving(("b", 1), ("a", 2), ("a", 10)), TEN, KAFKA, emit="on_close")
    assert sent(result) == [(2, 0, 10, 1, "final"), (2, 0, 10, 1, "final")]
    assert [e.key for e in result.emissions] == ["a", "b"]
    assert rows(result.pending) == [(10, 20, 1)]
    assert [e.timestamp for e in result.emissions] == [2_000, 1_000]


def test_a_burst_loses_windows_that_the_store_has_hidden() -> None:
    # The default retention is size plus grace, 10 ms. At T = 40 the store has put a start of 40;
    # what starts before 30 is no longer shown, and so never emitted.
    result = run(arriving(1, 40, 41), TEN, KAFKA, emit="on_close")
    assert not result.emissions
    assert rows(result.lost) == [(0, 10, 1)]
    longer = run(arriving(1, 40, 41), TEN, KAFKA, emit="on_close", retention="40ms")
    assert rows(longer.final) == [(0, 10, 1)]
    assert not longer.lost


def test_after_a_restart_a_restored_store_refuses_what_the_operator_takes() -> None:
    # Segments are a minute long: that of 0 is gone once 200 s have been put.
    events = arriving(("b", 200_000), ("a", 5), ("a", 5))
    restored = run(events, TEN, KAFKA, restarts=[1], restored=True)
    assert rows(restored.emissions) == [(0, 10, 1), (0, 10, 1)]
    assert rows(restored.refused) == [(0, 10, 1), (0, 10, 1)]
    # On disk, the store's stream time is lost too.
    on_disk = run(events, TEN, KAFKA, restarts=[1])
    assert rows(on_disk.final) == [(0, 10, 2)]
    assert not on_disk.refused


def test_after_a_restart_a_window_that_was_there_says_how_far_time_had_come() -> None:
    events = [event(n, "a", time, wall_clock=n * MS) for n, time in enumerate((13, 31, 31))]
    settings: dict[str, Any] = {"emit": "on_close", "emit_interval": "20ms", "restarts": [2]}
    # 31 is put where it was, and [10, 20] is past the retention, which is as long as a window.
    lost = run(events, TEN, KAFKA, **settings)
    assert (lost.emissions, rows(lost.lost)) == ((), [(10, 20, 1)])
    kept = run(events, TEN, KAFKA, retention="1s", **settings)
    assert sent(kept) == [(2, 10, 20, 1, "final")]


def test_suppressed_windows_wait_for_the_grace() -> None:
    result = run(arriving(1, 14, 15, 2), TEN, KAFKA, grace="5ms", emit="suppressed")
    assert sent(result) == [(2, 0, 10, 1, "final")]
    assert late(result) == [(3, "late", 1)]


def test_a_cache_sends_the_last_value_at_the_commit() -> None:
    result = run(arriving(1, 11, 2), TEN, KAFKA, grace="1s", caching=True)
    assert sent(result) == [(2, 10, 20, 1, "update"), (2, 0, 10, 2, "update")]


def test_a_retention_shorter_than_size_and_grace_is_refused() -> None:
    with pytest.raises(ReplayError, match="retention"):
        run(arriving(1), TEN, KAFKA, retention="9ms")


@pytest.mark.parametrize(
    "window",
    [
        TumblingWindow(size="1 day"),
        TumblingWindow(size="1h", offset="1m"),
        CumulatingWindow(size="1h", step="1m"),
        CountWindow(size=3),
        SlidingWindow(size=None),
        SlidingWindow(size="1s"),
        SlidingWindow(size="1s", before=True),
    ],
    ids=str,
)
def test_what_it_has_not_is_refused(window: Any) -> None:
    with pytest.raises(WindowError, match=r"window: the engine kafka-streams has no such window"):
        run(arriving(1), window, KAFKA)


SLIDING = SlidingWindow(size="10ms", distinct=True)


def distinct_windows(times: Iterable[int], length: int) -> set[tuple[int, int, int]]:
    """KIP-450 from scratch: [t - d, t], and [t + 1, t + 1 + d] if it holds an event."""
    times = list(times)
    starts = {max(0, t - length) for t in times}
    starts |= {t + 1 for t in times if any(t < other <= t + 1 + length for other in times)}
    return {(s, s + length, sum(1 for t in times if s <= t <= s + length)) for s in starts}


class TestSliding:
    def test_the_distinct_windows_both_ends_included(self) -> None:
        result = run(arriving(20, 25, 35), SLIDING, KAFKA, grace="1s")
        assert sorted(rows(result.final)) == [
            (10, 20, 1),
            (15, 25, 2),
            (21, 31, 1),
            (25, 35, 2),
            (26, 36, 1),
        ]

    def test_existing_windows_latest_first_then_the_new_ones(self) -> None:
        result = run(arriving(20, 30, 26), SLIDING, KAFKA, grace="1s")
        assert [(s, n) for a, s, _, n, _ in sent(result) if a == 1] == [(21, 1), (20, 2)]
        # Around 26: [21, 31] and [20, 30] are updated, then its left and right windows are made.
        assert [(s, n) for a, s, _, n, _ in sent(result) if a == 2] == [
            (21, 2),
            (20, 3),
            (16, 2),
            (27, 1),
        ]

    def test_events_near_the_epoch_share_a_window(self) -> None:
        result = run(arriving(4, 7), SLIDING, KAFKA, grace="1s")
        assert sorted(rows(result.final)) == [(0, 10, 2), (5, 15, 1)]

    def test_late_by_the_event_and_by_the_window_strictly(self) -> None:
        # T = 50, grace 10: what ends before 40 is closed. 30 + 10 is not, but [20, 30] is.
        result = run(arriving(50, 30), SLIDING, KAFKA, grace="10ms")
        assert late_windows(result) == [(1, 20, 30, 10)]
        assert late(result) == [(1, "late", 10)]  # no window was there to take it
        result = run(arriving(50, 29), SLIDING, KAFKA, grace="10ms")
        assert late(result) == [(1, "late", 1)]
        assert not result.dropped_windows

    def test_records_without_a_value_are_dropped_and_move_no_clock(self) -> None:
        events = [event(0, "a", 20), event(1, "a", 90, value=None), event(2, "a", 25)]
        result = run(events, SLIDING, KAFKA, grace="0s")
        assert late(result) == [(1, "no_value", None)]
        assert sorted(rows(result.final)) == [(10, 20, 1), (15, 25, 2), (21, 31, 1)]
        # Sessions and windows of time count them, with null fields.
        aggregates = {"n": agg.count(), "amounts": agg.count("amount")}
        for window in (TEN, SessionWindow(gap="10ms")):
            result = run([events[1]], window, KAFKA, aggregates=aggregates)
            assert result.final[0].values == {"n": 1, "amounts": 0}

    def test_emitted_on_close_strictly(self) -> None:
        events = arriving(20, 30, 31)
        result = run(events, SLIDING, KAFKA, emit="on_close")
        assert sent(result) == [(1, 10, 20, 1, "final"), (2, 20, 30, 2, "final")]

    def test_what_is_late_or_early_takes_no_turn_to_look_for_closed_windows(self) -> None:
        def sent_by_turns(*times: int, **more: Any) -> Any:
            events = [event(n, "a", time, wall_clock=3 * MS * n) for n, time in enumerate(times)]
            return sent(run(events, SLIDING, KAFKA, emit="on_close", retention="1s", **more))

        # 3 is nearer to the epoch than a window is long, so the operator first looks at 21.
        assert sent_by_turns(3, 21, emit_interval="20ms") == [(1, 0, 10, 1, "final")]
        # 1 is late; the interval is over both when it comes and when 130 does.
        late = sent_by_turns(100, 60, 1, 130, grace="50ms", emit_interval="5ms")
        assert late == [(3, 50, 60, 1, "final")]

    def test_the_store_of_windows_that_are_emitted_on_close_hides_them_a_tick_later(self) -> None:
        window = SlidingWindow(size="4ms", distinct=True)
        events = arriving(("a", 994), ("b", 999), ("b", 1_000), ("a", 998), ("b", 1_001))

        def found(emit: str, store: str) -> list[tuple[float, float, Any]]:
            result = run(events, window, KAFKA, emit=emit, store=store, grace="2ms")
            return [row for row in rows(result.final) if row[:2] == (994, 998)]

        # [994, 998] holds 994 if [990, 994] is found when 998 comes. [990, 994] starts 10 ms, which
        # is the retention, before the latest window.
        assert found("on_close", "disk") == [(994, 998, 2)]
        assert found("on_close", "memory") == found("on_update", "disk") == [(994, 998, 1)]

    @settings(max_examples=200)
    @given(st.lists(st.integers(0, 60), max_size=25), st.integers(1, 15))
    def test_without_drops_they_are_those_of_the_definition(
        self, times: list[int], length: int
    ) -> None:
        window = SlidingWindow(size=f"{length}ms", distinct=True)
        result = run(arriving(*times), window, KAFKA, grace="1h")
        assert not result.dropped_windows
        assert set(rows(result.final)) == distinct_windows(times, length)
        assert len(result.final) == len(set(rows(result.final)))


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99)), max_size=40))
def test_caching_changes_no_final_window(events: list[Any]) -> None:
    placed = arriving(*events)
    for window in (TEN, HOPS, SLIDING):
        plain = run(placed, window, KAFKA, grace="20ms")
        cached = run(placed, window, KAFKA, grace="20ms", caching=True, commits=3)
        assert sorted(windows(plain.final)) == sorted(windows(cached.final))
