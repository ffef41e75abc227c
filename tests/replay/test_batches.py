"""Spark's micro-batches: two watermarks, three modes. Times in ms."""

from __future__ import annotations

import pytest

from backfill import HoppingWindow, SessionWindow, TumblingWindow
from backfill.errors import ReplayError
from backfill.replay import Event
from tests.replay.stream import event, late, late_windows, rows, run, sent, windows

GAP = SessionWindow(gap="10ms")
TEN = TumblingWindow(size="10ms")


def batches(*times: list[float | tuple[str | None, float]]) -> list[Event]:
    """Batches of events of key a, or of (key, time) pairs."""
    events: list[Event] = []
    for number, batch in enumerate(times):
        for place in batch:
            key, time = place if isinstance(place, tuple) else ("a", place)
            events.append(event(len(events), key, time, batch=number))
    return events


def test_lateness_by_the_watermark_of_two_batches_ago_eviction_by_the_last() -> None:
    # After batch 0 the watermark is 100: batch 1 evicts by it, batch 2 is judged by it.
    result = run(batches([100], [("b", 5)], [("b", 6)], [("b", 7)]), GAP, "spark")
    assert sent(result)[0] == (1, 5, 15, 1, "update")
    assert late(result) == [(2, "late", 84.001), (3, "late", 83.001)]
    assert rows(result.pending) == [(100, 110, 1)]


def test_with_one_watermark_the_next_batch_is_late_already() -> None:
    events = batches([100], [("b", 5)])
    result = run(events, GAP, "spark", allow_multiple=False)
    assert late(result) == [(1, "late", 85.001)]


def test_late_is_an_end_at_the_watermark_before_merging() -> None:
    # Watermark 100 for batch 2: 90 + 10 is late, although it touches [95, 105).
    result = run(batches([100], [95], [90, 91]), GAP, "spark")
    assert late(result) == [(2, "late", 0.001)]
    assert rows(result.pending) == [(91, 110, 3)]


def test_the_watermark_begins_at_the_epoch_and_is_whole_milliseconds() -> None:
    # An event that ends before the epoch is late in the first batch.
    assert late(run(batches([-20]), GAP, "spark")) == [(0, "late", 10.001)]
    # The watermark after 10.9 ms is 10 ms: [0.5, 10.5) is not late.
    result = run(batches([10.9], [11], [0.5]), GAP, "spark")
    assert not result.dropped
    assert rows(result.final)[0] == (0.5, 10.5, 1)


def test_a_batch_without_data_follows_if_the_last_one_raised_the_watermark() -> None:
    result = run(batches([5], [30]), GAP, "spark")
    assert sent(result) == [(None, 5, 15, 1, "update")]
    assert run(batches([5], [30], [29]), GAP, "spark").emissions[0].arrival == 2


def test_idle_batches_shift_what_is_late() -> None:
    events = batches([100], [("b", 5)])
    assert not run(events, GAP, "spark").dropped
    # The batch without data between the two counts.
    assert late(run(events, GAP, "spark", idle_batches=True)) == [(1, "late", 85.001)]
    numbered = [event(0, "a", 100, batch=0), event(1, "b", 5, batch=2)]
    assert late(run(numbered, GAP, "spark")) == [(1, "late", 85.001)]


def test_a_session_is_evicted_in_the_batch_that_made_it_and_begins_anew() -> None:
    result = run(batches([100], [("b", 91)], [("b", 95)], [("a", 200)], []), GAP, "spark")
    # 91 + 10 is over 100, so 100 does not evict it: it is still in the state, and 95 merges.
    assert [w for w in windows(result.final) if w[0] == "b"] == [("b", 91, 105, 2)]
    again = run(batches([100], [("b", 85), ("b", 89)], [("b", 95)], [200]), GAP, "spark")
    # [85, 99) was evicted in batch 1; 95 is not late in batch 2, and overlaps it.
    assert [w for w in windows(again.final) if w[0] == "b"] == [("b", 85, 99, 2), ("b", 95, 105, 1)]
    assert windows(again.begun_anew) == [("b", 95, 105, 1)]


def test_gaps_differ_and_those_that_are_none_are_filtered() -> None:
    events = [
        event(0, "a", 0, batch=0, gap=30),
        event(1, "a", 29, batch=0, gap=5),
        event(2, "a", 50, batch=0, gap=0),
        event(3, "a", 60, batch=0, gap=-1),
    ]
    result = run(events, GAP, "spark")
    assert late(result) == [(2, "no_gap", None), (3, "no_gap", None)]
    assert rows(result.final) == [(0, 34, 2)]  # the watermark is 60 all the same


def test_null_keys_are_a_group_and_null_times_are_dropped() -> None:
    events = [event(0, None, 1), event(1, None, 2), event(2, "a", None)]
    result = run(events, GAP, "spark", batch_size=3)
    assert windows(result.pending) == [(None, 1, 12, 2)]
    assert late(result) == [(2, "no_time", None)]


def test_complete_emits_everything_and_still_drops_late_session_rows() -> None:
    result = run(batches([100], [100], [1]), GAP, "spark", emit="complete")
    assert [(n, start) for _, start, _, n, _ in sent(result)] == [(1, 100), (2, 100), (2, 100)]
    assert late(result) == [(2, "late", 89.001)]
    # Windows of time drop nothing.
    kept = run(batches([100], [100], [1]), TEN, "spark", emit="complete")
    assert not kept.dropped
    assert rows(kept.final) == [(0, 10, 1), (100, 110, 2)]


def test_update_emits_what_was_touched_also_if_it_is_evicted() -> None:
    result = run(batches([100], [5], [105]), TEN, "spark", emit="update")
    assert sent(result) == [
        (0, 100, 110, 1, "update"),
        (1, 0, 10, 1, "update"),
        (2, 100, 110, 2, "update"),
    ]
    assert not result.pending


def test_windows_are_judged_one_by_one() -> None:
    hops = HoppingWindow(size="10ms", advance="5ms")
    # Watermark 12 in batch 2: [0, 10) is late, [5, 15) is not.
    result = run(batches([12], [12], [7]), hops, "spark")
    assert late_windows(result) == [(2, 0, 10, 2.001)]
    assert not result.dropped
    assert late(run(batches([15], [15], [7]), hops, "spark")) == [(2, "late", 0.001)]


def test_records_carry_the_last_microsecond() -> None:
    (first, *_) = run(batches([5], [30]), GAP, "spark").emissions
    assert first.timestamp == 15_000 - 1


def test_sessions_are_not_emitted_by_update() -> None:
    with pytest.raises(ReplayError, match="emit: sessions"):
        run(batches([1]), GAP, "spark", emit="update")


def test_batches_of_so_many_events() -> None:
    events = [event(i, "a", t) for i, t in enumerate([100, 1, 2, 3])]
    # Batches of two: 2 and 3 are judged by the watermark before the first.
    assert not run(events, GAP, "spark", batch_size=2).dropped
    assert [a for a, *_ in late(run(events, GAP, "spark"))] == [2, 3]
    with pytest.raises(ReplayError, match="batch"):
        run(batches([1]), GAP, "spark", batch_size=2)
    with pytest.raises(ReplayError, match="batch: comes after batch 1"):
        run([event(0, "a", 0, batch=1), event(1, "a", 0, batch=0)], GAP, "spark")


def test_a_watermark_that_is_given() -> None:
    events = [
        event(0, "a", 100, batch=0, watermark=20),
        event(1, "a", 100, batch=1, watermark=20),
        event(2, "b", 11, batch=2),
        event(3, "b", 10, batch=2),
    ]
    assert late(run(events, GAP, "spark")) == [(3, "late", 0.001)]


def test_in_complete_mode_the_last_batch_is_the_result() -> None:
    events = [event(0, "a", 1_000_000, batch=0), event(1, "a", 1_030_000, batch=1)]
    result = run(events, SessionWindow(gap="60s"), "spark", emit="complete")
    assert rows(result.final) == [(1_000_000, 1_090_000, 2)]
    assert (result.superseded, result.begun_anew) == ((), ())
    # Sessions apart both stand, and the first one is emitted again even if nothing joined it.
    events = [event(i, "a", t, batch=i) for i, t in enumerate([1_000_000, 1_200_000, 1_100_000])]
    result = run(events, SessionWindow(gap="60s"), "spark", emit="complete")
    assert rows(result.final) == [
        (1_000_000, 1_060_000, 1),
        (1_100_000, 1_160_000, 1),
        (1_200_000, 1_260_000, 1),
    ]


def test_a_row_without_a_time_raises_the_watermark_that_it_brings() -> None:
    marked = [
        event(0, "a", 5, batch=0, watermark=0),
        event(1, "a", None, batch=0, watermark=100),
        event(2, "a", 6, batch=2, watermark=0),
    ]
    result = run(marked, TEN, "spark")
    assert late(result) == [(1, "no_time", None), (2, "late", 90.001)]
