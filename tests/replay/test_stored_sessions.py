"""KIP-94's sessions: merging, lateness, stream time, and what the store forgets. Times in ms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from backfill import SessionWindow
from tests.replay.stream import MS, arriving, event, late, rows, run, sent, windows

pytestmark = pytest.mark.one_lane

GAP = SessionWindow(gap="10ms")
KAFKA = "kafka-streams"


def test_an_event_joins_what_is_within_the_gap_both_ends_included() -> None:
    result = run(arriving(0, 10, 21), GAP, KAFKA)
    assert sent(result) == [
        (0, 0, 0, 1, "update"),
        (1, 0, 0, None, "tombstone"),
        (1, 0, 10, 2, "update"),
        (2, 21, 21, 1, "update"),
    ]
    assert rows(result.final) == [(0, 10, 2), (21, 21, 1)]
    assert [e.timestamp for e in result.emissions] == [e.end for e in result.emissions]


def test_an_event_between_sessions_merges_them_tombstones_by_end() -> None:
    result = run(arriving(20, 0, 10), GAP, KAFKA, grace="20ms")
    assert sent(result)[2:] == [
        (2, 0, 0, None, "tombstone"),
        (2, 20, 20, None, "tombstone"),
        (2, 0, 20, 3, "update"),
    ]
    assert rows(result.final) == [(0, 20, 3)]


def test_a_tombstone_comes_although_bounds_stay_but_not_at_an_instant() -> None:
    result = run(arriving(0, 0, 5, 3), GAP, KAFKA)
    assert sent(result) == [
        (0, 0, 0, 1, "update"),
        (1, 0, 0, 2, "update"),
        (2, 0, 0, None, "tombstone"),
        (2, 0, 5, 3, "update"),
        (3, 0, 5, None, "tombstone"),
        (3, 0, 5, 4, "update"),
    ]


def test_lateness_is_judged_after_merging_and_strictly() -> None:
    # T = 100, grace 20, gap 10: what ends before 70 is closed.
    at_close = run(arriving(100, 70), GAP, KAFKA, grace="20ms")
    assert not at_close.dropped
    below = run(arriving(100, 69), GAP, KAFKA, grace="20ms")
    assert late(below) == [(1, "late", 1)]
    # By itself, 65 would be late; but it is near enough to 75, which is not.
    merged = run(arriving(100, 75, 65), GAP, KAFKA, grace="20ms")
    assert not merged.dropped
    assert rows(merged.final) == [(100, 100, 1), (65, 75, 2)]


def test_a_late_event_moves_the_clock_of_its_partition_only() -> None:
    events = [
        event(0, "a", 100, partition=0),
        event(1, "b", 0, partition=1),
        event(2, "a", 0, partition=0),
        event(3, "c", 50, partition=0),
    ]
    result = run(events, GAP, KAFKA)
    assert late(result) == [(2, "late", 90), (3, "late", 40)]


def test_events_without_key_or_time_or_before_the_epoch_do_not_move_the_clock() -> None:
    events = [
        event(0, None, 1000),
        event(1, "a", None),
        event(2, "a", -1),
        event(3, "a", 5),
    ]
    result = run(events, GAP, KAFKA)
    assert late(result) == [(0, "no_key", None), (1, "no_time", None), (2, "before_epoch", None)]
    assert rows(result.final) == [(5, 5, 1)]


def test_a_restart_loses_stream_time_but_not_the_store() -> None:
    events = arriving(100, 95, 0, 92)
    assert late(run(events, GAP, KAFKA)) == [(2, "late", 90)]
    restarted = run(events, GAP, KAFKA, restarts=[2])
    assert not restarted.dropped
    # 95 and 100 are still found: the store was restored.
    assert rows(restarted.final) == [(0, 0, 1), (92, 100, 3)]


def test_a_store_that_was_on_disk_loses_its_stream_time_too() -> None:
    # Retention 10: at 20 what ends at 10 or before is hidden.
    events = arriving(("a", 8), ("b", 20), ("a", 12))
    assert rows(run(events, GAP, KAFKA, restarts=[2]).final) == [(8, 12, 2)]
    restored = run(events, GAP, KAFKA, restarts=[2], restored=True)
    assert rows(restored.final) == [(8, 8, 1), (12, 12, 1)]


def test_a_restored_store_refuses_what_the_operator_takes() -> None:
    # Segments are a minute long: that of 5 is gone. The next event does not find a refused one.
    events = arriving(("b", 200_000), ("a", 5), ("a", 6))
    restored = run(events, GAP, KAFKA, restarts=[1], restored=True)
    assert not restored.dropped
    assert sent(restored)[1:] == [(1, 5, 5, 1, "update"), (2, 6, 6, 1, "update")]
    assert rows(restored.refused) == [(5, 5, 1), (6, 6, 1)]
    on_disk = run(events, GAP, KAFKA, restarts=[1])
    assert rows(on_disk.final) == [(5, 6, 2)]
    assert not on_disk.refused


def test_a_cached_session_is_refused_when_it_is_flushed() -> None:
    events = arriving(("b", 200_000), ("a", 5), ("a", 6))
    result = run(events, GAP, KAFKA, restarts=[1], restored=True, caching=True)
    assert rows(result.final) == [(5, 6, 2)]
    assert rows(result.refused) == [(5, 6, 2)]


def test_a_hidden_session_is_begun_anew_though_it_is_within_the_gap() -> None:
    # gap 10, grace 0: retention 10. At T = 20 what ends at 10 or before is hidden; 12 is not late.
    events = arriving(("a", 8), ("b", 20), ("a", 12))
    result = run(events, GAP, KAFKA)
    assert not result.dropped
    assert rows(result.final) == [(8, 8, 1), (12, 12, 1)]
    assert rows(result.begun_anew) == [(12, 12, 1)]
    longer = run(events, GAP, KAFKA, retention="1s")
    assert rows(longer.final) == [(8, 12, 2)]
    assert not longer.begun_anew


def test_at_the_close_the_old_count_is_replaced() -> None:
    # 10 is hidden once 20 has been put, and an event at 10 is not late.
    result = run(arriving(("a", 10), ("a", 10), ("b", 20), ("a", 10)), GAP, KAFKA)
    assert not result.dropped
    assert rows(result.final) == [(10, 10, 1)]
    assert rows(result.begun_anew) == [(10, 10, 1)]


def test_times_are_floored_to_milliseconds() -> None:
    result = run([event(0, "a", 0.999), event(1, "a", 10.9)], GAP, KAFKA)
    assert rows(result.final) == [(0, 10, 2)]


def test_as_of_an_arrival() -> None:
    result = run(arriving(0, 5, 100), GAP, KAFKA)
    assert result.as_of(-1) == ()
    assert len(result.as_of(0)) == 1
    assert [e.values and e.values["n"] for e in result.as_of(1)] == [1, None, 2]
    assert result.as_of(2) == result.emissions


def test_the_order_of_the_list_means_nothing() -> None:
    events = arriving(100, 69, 20)
    assert run(events[::-1], GAP, KAFKA).emissions == run(events, GAP, KAFKA).emissions


class TestOnClose:
    def test_what_ends_before_the_close_is_emitted_once(self) -> None:
        # What ends before 5 is closed at T = 15.
        events = arriving(("a", 5), ("b", 15), ("b", 16))
        result = run(events, GAP, KAFKA, emit="on_close", retention="1h")
        assert sent(result) == [(2, 5, 5, 1, "final")]
        assert windows(result.pending) == [("b", 15, 16, 2)]

    def test_by_end_start_and_key(self) -> None:
        events = arriving(("b", 5), ("a", 5), ("a", 3), ("c", 4), ("z", 100))
        result = run(events, GAP, KAFKA, emit="on_close", retention="1h")
        assert windows(result.emissions) == [("c", 4, 4, 1), ("a", 3, 5, 2), ("b", 5, 5, 1)]

    def test_whole_segments_are_deleted_before_they_are_emitted(self) -> None:
        # retention 10 ms, segments of a minute: 0 to 59,999 lives until T - 10 is past it.
        minute = 60_000
        events = arriving(("a", 5), ("a", minute - 1), ("b", minute + 9), ("b", minute + 10))
        result = run(events, GAP, KAFKA, emit="on_close")
        # 5 was emitted when 59,999 came; the event that would have emitted 59,999 deleted it.
        assert windows(result.emissions) == [("a", 5, 5, 1)]
        assert windows(result.lost) == [("a", minute - 1, minute - 1, 1)]
        longer = run(events, GAP, KAFKA, emit="on_close", retention="2m")
        assert not longer.lost
        assert rows(longer.emissions) == [(5, 5, 1), (minute - 1, minute - 1, 1)]

    def test_a_session_that_was_emitted_and_merged_later_is_superseded(self) -> None:
        # At T = 20 what ends before 10 closes; 12 is not late, and finds 8.
        events = arriving(("a", 8), ("b", 20), ("a", 12), ("b", 40))
        result = run(events, GAP, KAFKA, emit="on_close", retention="1h")
        assert rows(result.emissions) == [(8, 8, 1), (8, 12, 2)]
        assert rows(result.final) == [(8, 12, 2)]
        assert rows(result.superseded) == [(8, 8, 1)]

    def test_after_a_restart_what_had_closed_before_is_never_emitted(self) -> None:
        # At T = 40 what ends before 30 has closed. Stream time is lost, the last close time is not.
        events = arriving(("a", 40), ("a", 5), ("b", 70))
        result = run(events, GAP, KAFKA, emit="on_close", retention="1h", restarts=[1])
        assert not result.dropped
        assert rows(result.final) == [(40, 40, 1)]
        assert rows(result.lost) == [(5, 5, 1)]


class TestSuppressed:
    def test_what_ends_at_the_close_is_emitted_too_by_end_then_key_bytes(self) -> None:
        events = arriving(("b", 5), ("ab", 5), ("c", 4), ("z", 15))
        result = run(events, GAP, KAFKA, emit="suppressed")
        assert windows(result.emissions) == [("c", 4, 4, 1), ("ab", 5, 5, 1), ("b", 5, 5, 1)]
        assert windows(result.pending) == [("z", 15, 15, 1)]

    def test_tombstones_are_swallowed(self) -> None:
        result = run(arriving(0, 5, 50), GAP, KAFKA, emit="suppressed")
        assert sent(result) == [(2, 0, 5, 2, "final")]

    def test_nothing_retracts_what_was_sent(self) -> None:
        events = arriving(("a", 8), ("b", 20), ("a", 12), ("b", 40))
        result = run(events, GAP, KAFKA, emit="suppressed", retention="1h")
        assert rows(result.emissions) == [(8, 8, 1), (8, 12, 2)]
        assert rows(result.superseded) == [(8, 8, 1)]
        assert rows(result.final) == [(8, 12, 2)]

    def test_its_stream_time_is_lost_on_restart(self) -> None:
        # At T = 15 what ends by 5 goes at once. After the restart, T is 3, and 3 waits for 13.
        events = arriving(("b", 15), ("a", 3), ("c", 13))
        result = run(events, GAP, KAFKA, emit="suppressed", restarts=[1])
        assert sent(result) == [(2, 3, 3, 1, "final")]


class TestCaching:
    def test_only_the_last_value_of_a_commit_goes_on_in_order_of_last_change(self) -> None:
        events = arriving(("a", 0), ("b", 0), ("a", 0), ("c", 0))
        result = run(events, GAP, KAFKA, caching=True, commits=3)
        assert [(e.arrival, e.key, e.values["n"]) for e in result.emissions if e.values] == [
            (2, "b", 1),
            (2, "a", 2),
            (3, "c", 1),
        ]

    def test_a_session_that_never_left_the_cache_leaves_no_tombstone(self) -> None:
        result = run(arriving(0, 5, 9), GAP, KAFKA, caching=True, commits=[1])
        assert sent(result) == [
            (1, 0, 5, 2, "update"),
            (2, 0, 5, None, "tombstone"),
            (2, 0, 9, 3, "update"),
        ]

    def test_a_tombstone_for_what_the_store_hides_is_swallowed(self) -> None:
        # 8 is committed. At the next commit the store gets 18 first (retention 10), which hides
        # it: the tombstone that 12 caused goes nowhere, and 8 stays for good.
        events = arriving(("a", 8), ("b", 18), ("a", 12), ("b", 30))
        whole = run(events, GAP, KAFKA, caching=True, commits=[0])
        assert rows(whole.final) == [(8, 12, 2)]
        assert rows(whole.superseded) == [(8, 8, 1)]
        assert [e.op for e in whole.emissions] == ["update"] * 4

    def test_the_cache_finds_what_the_store_hides(self) -> None:
        events = arriving(("a", 8), ("b", 20), ("a", 12))
        assert rows(run(events, GAP, KAFKA, caching=True).final) == [(8, 12, 2)]

    def test_before_a_suppression(self) -> None:
        events = arriving(("a", 0), ("a", 5), ("b", 50))
        result = run(events, GAP, KAFKA, caching=True, commits=[1], emit="suppressed")
        assert sent(result) == [(2, 0, 5, 2, "final")]

    def test_commits_at_intervals_of_the_wall_clock(self) -> None:
        # Commits by the events' own times: more than 30 ms after 0, and then after 30 and 60.
        events = arriving(("a", 0), ("a", 5), ("a", 30), ("b", 31), ("a", 61), ("b", 200))
        result = run(events, GAP, KAFKA, caching=True, commits="30ms", grace="1s")
        assert [(e.arrival, e.key, e.start // MS) for e in result.emissions] == [
            (2, "a", 0),
            (2, "a", 30),
            (3, "b", 31),
            (4, "a", 61),
            (5, "b", 200),
        ]
        # Commits by the times at which events say they were processed: all within one interval.
        together = [replace(record, wall_clock=7 * MS) for record in events]
        result = run(together, GAP, KAFKA, caching=True, commits="30ms", grace="1s")
        assert {e.arrival for e in result.emissions} == {5}


class TestCacheAfterRestart:
    """State is found on disk, and what was hidden is seen again, as in real Kafka Streams."""

    def test_a_session_keeps_what_it_held_when_it_was_merged_into_another(self) -> None:
        settings: dict[str, Any] = {"caching": True, "commits": 2, "restarts": [3]}
        events = arriving(999_998, 999_991, 999_992, 999_991)
        result = run(events, SessionWindow(gap="6ms"), KAFKA, grace="1ms", **settings)
        assert [(s, e, n) for _, s, e, n, _ in sent(result)][-2:] == [
            (999_991, 999_991, None),
            (999_991, 999_998, 5),
        ]

    def test_a_session_that_is_removed_says_how_far_time_had_come(self) -> None:
        settings: dict[str, Any] = {"caching": True, "commits": 100, "restarts": [2]}
        events = arriving(66, 57, 67, 60, 70)
        result = run(events, SessionWindow(gap="4ms"), KAFKA, grace="5ms", **settings)
        assert [emission[:4] for emission in sent(result)] == [
            (1, 66, 66, 1),
            (1, 57, 57, 1),
            (4, 66, 66, None),
            (4, 57, 60, 2),
            (4, 66, 70, 3),
        ]


class TestEmissionAtIntervals:
    """The operator looks for closed windows every 20 ms of the wall clock."""

    def test_what_closed_meanwhile_comes_together(self) -> None:
        events = arriving(("a", 0), ("b", 11), ("c", 12), ("d", 25), ("e", 31))
        settings: dict[str, Any] = {"emit": "on_close", "retention": "1s"}
        at_once = run(events, GAP, KAFKA, **settings)
        assert [(e.arrival, e.key) for e in at_once.emissions] == [
            (1, "a"),
            (3, "b"),
            (3, "c"),
        ]
        result = run(events, GAP, KAFKA, emit_interval="20ms", **settings)
        assert [(e.arrival, e.key) for e in result.emissions] == [(3, "a"), (3, "b"), (3, "c")]
        slow = [replace(record, wall_clock=record.arrival * MS) for record in events]
        result = run(slow, GAP, KAFKA, emit_interval="20ms", **settings)
        assert result.emissions == ()
        assert {window.key for window in result.pending} == set("abcde")
        # After a restart, it looks at the first event.
        again = run(slow, GAP, KAFKA, emit_interval="20ms", restarts=[3], **settings)
        assert [(e.arrival, e.key) for e in again.emissions] == [(3, "a"), (3, "b"), (3, "c")]


class TestPastRetention:
    """KIP-94's drafts. A retention of 60 s in two segments: the segment of T - 60 s lives."""

    EVENTS = arriving(0, 200_000, 130_000, 119_999, 5)

    @pytest.mark.parametrize("draft", ["drop", "forward"])
    def test_what_the_store_still_takes_is_never_late(self, draft: str) -> None:
        events = arriving(200_000, 139_999)
        result = run(events, GAP, KAFKA, past_retention=draft, retention="60s")
        assert not result.dropped
        assert rows(result.final) == [(200_000, 200_000, 1), (139_999, 139_999, 1)]

    def test_one_drops_the_event(self) -> None:
        result = run(self.EVENTS, GAP, KAFKA, past_retention="drop", retention="60s")
        # Segments are a minute long: the one from 120 s lives at T = 200 s.
        assert late(result) == [(3, "past_retention", 1), (4, "past_retention", 119_995)]

    def test_the_other_forwards_it_and_does_not_store_it(self) -> None:
        events = [*self.EVENTS, event(5, "a", 6)]
        result = run(events, GAP, KAFKA, past_retention="forward", retention="60s")
        assert not result.dropped
        assert sent(result)[-2:] == [(4, 5, 5, 1, "update"), (5, 6, 6, 1, "update")]

    def test_the_retention_is_a_day_by_default(self) -> None:
        day = 86_400_000
        # Segments are half a day long.
        events = arriving(3 * day + day // 4, 2 * day, 2 * day - 1)
        result = run(events, GAP, KAFKA, past_retention="drop")
        assert late(result) == [(2, "past_retention", 1)]


def test_first_and_last_values_and_kept_events() -> None:
    result = run(arriving(5, 0, 9), GAP, KAFKA, grace="20ms", keep_events=True)
    assert result.final[0].events == (0, 1, 2)
    assert result.emissions[0].events == (0,)
    assert run(arriving(5), GAP, KAFKA).final[0].events is None


def test_bounds_are_microseconds() -> None:
    (only,) = run(arriving(7), GAP, KAFKA).final
    assert (only.start, only.end) == (7 * MS, 7 * MS)
