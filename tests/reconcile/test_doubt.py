"""Faults that explain a difference that lost events explain, too: neither is proved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill import Job
from backfill.reconciliation.explaining.case import Explanation
from backfill.time.epoch import moment_of
from tests.files import write_rows
from tests.reconcile.test_checkpoint import write

pytestmark = [pytest.mark.usefixtures("interpreted"), pytest.mark.slow]

SECOND = 1_000_000
JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at, id: id, arrival: place}
engine: %s
windows:
  w: {%s, aggregates: {value: %s}}
tables: {path: out}
checks: {builtin: off}
"""
MINUTE = "tumbling: {size: 60s}"
#: An event and its row that show that all other windows of the stream are complete.
LAST, LAST_ROW = ("z", 90_000, 1.0), ("z", 90_000, 90_060, 1.0)
Told = dict[tuple[str, int], Explanation]


def explanations_of(
    spark: SparkSession,
    folder: Path,
    window: str,
    value: str,
    events: list[tuple[str, int, float]],
    stream: list[tuple[str, int, int, float]],
    engine: str = "kafka-streams",
    **settings: Any,
) -> Told:
    """What each difference is said to come from, by key and start (s).

    Args:
        events: key, second and amount of each; one that is given again is a copy.
        stream: key, bounds (s) and value of each window.
    """
    (folder / "job.yaml").write_text(JOB % (engine, window, value))
    rows = [
        {"user": key, "at": moment_of(at * SECOND), "amount": n, "id": f"{key}{at}", "place": place}
        for place, (key, at, n) in enumerate(events)
    ]
    write_rows(folder / "src" / "a.parquet", rows)
    whole = value in ("count", "max(int(amount))")
    windows = [
        {
            "user": key,
            "window_start": moment_of(start * SECOND),
            "window_end": moment_of(end * SECOND),
            "value": int(n) if whole else n,
        }
        for key, start, end, n in stream
    ]
    write_rows(folder / "stream" / "a.parquet", windows)
    job = Job.load(folder / "job.yaml")
    job.run(spark)
    given: dict[str, Any] = {"stream": str(folder / "stream"), "format": "table", **settings}
    if engine == "kafka-streams":
        given["retention"] = "30d"
    reconciled = job.reconcile("w", spark, **given)
    return {
        (explained.key[0], explained.difference.hull[0] // SECOND): explained.explanation
        for explained in reconciled.differences
    }


def causes(found: Told) -> dict[tuple[str, int], tuple[str, bool]]:
    """The causes, and whether they are proved."""
    return {
        name: (" ".join(explanation.causes), explanation.proved)
        for name, explanation in found.items()
    }


def test_a_value_that_may_be_rounded_or_lack_an_event(spark: SparkSession, tmp_path: Path) -> None:
    events = [("a", 10, 3.0), ("a", 20, 0.25), ("b", 10, 3.0), ("b", 20, 0.125), LAST]
    stream = [("a", 0, 60, 3.0), ("b", 0, 60, 3.12), LAST_ROW]
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "sum(amount)", events, stream, grace="1h"
    )
    # Neither leaving out an event nor counting one twice makes 3.12 of 3.125.
    assert causes(explanations) == {("a", 0): ("rounded", False), ("b", 0): ("rounded", True)}


def test_an_end_that_may_be_another_or_lack_an_event(spark: SparkSession, tmp_path: Path) -> None:
    session = "session: {gap: 60s}"
    events = [("a", 0, 5.0), ("a", 60, 1.0), ("b", 0, 1.0), ("b", 60, 5.0), LAST]
    stream = [("a", 0, 0, 5.0), ("b", 0, 0, 5.0), ("z", 90_000, 90_000, 1.0)]
    explanations = explanations_of(
        spark, tmp_path, session, "max(int(amount))", events, stream, grace="1h"
    )
    assert causes(explanations) == {
        ("a", 0): ("end_convention", False),
        ("b", 0): ("end_convention", True),
    }


def test_windows_that_may_be_shifted_or_lack_events(spark: SparkSession, tmp_path: Path) -> None:
    hour = 3_600
    times = [hour + 1, hour + 2, 2 * hour + 1]
    events = [(key, at, 1.0) for key in "ab" for at in times] + [("z", 90_000, 1.0)]
    last = ("z", 90_000, 93_600, 1)
    # No loss of events makes a window of b where it has no event.
    stream = [("a", hour, 2 * hour, 1), ("b", 0, hour, 2), ("b", hour, 2 * hour, 1), last]
    explanations = explanations_of(
        spark, tmp_path, "tumbling: {size: 1h}", "count", events, stream, grace="100h"
    )
    seen = causes(explanations)
    assert {cause for (key, _), cause in seen.items() if key == "b"} == {("zone_shift", True)}
    assert seen["a", hour][1] is False
    # If windows are shifted, this one is elsewhere.
    assert seen["a", 2 * hour] == ("missing_in_stream", False)


def test_which_event_overlapping_windows_lack(spark: SparkSession, tmp_path: Path) -> None:
    hopping = "hopping: {size: 120s, advance: 30s}"
    events = [("a", at, 1.0) for at in (1020, 1040, 1140)] + [("z", 90_000, 1.0)]
    stream = [("a", start, start + 120, 1) for start in (930, 960, 990, 1020)]
    stream += [("z", start, start + 120, 1) for start in (89_910, 89_940, 89_970, 90_000)]
    explanations = explanations_of(spark, tmp_path, hopping, "count", events, stream, grace="1h")
    # The stream has the event of 1040 and no other.
    assert {explanation.causes for explanation in explanations.values()} == {("missing_in_stream",)}
    proved = {
        start: explanation.evidence["left_out"]
        for (_, start), explanation in explanations.items()
        if explanation.proved
    }
    lost = {start: [event["time_us"] // SECOND for event in own] for start, own in proved.items()}
    assert lost == {key: [1140] for key in (1050, 1080, 1110, 1140)}
    assert {start for _, start in explanations} - {*lost} == {930, 960, 990, 1020}


def test_windows_that_may_be_missing_or_not_complete(spark: SparkSession, tmp_path: Path) -> None:
    events = [("q", 0, 1.0), ("a", 100_000, 1.0), ("b", 100_200, 1.0), ("b", 195_000, 1.0)]
    stream = [("q", 0, 60, 1)]
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "count", events, stream, grace="1000s", emit="suppressed"
    )
    # The last event would have completed the windows before it, and may be the only one lost.
    assert causes(explanations) == {
        ("a", 99_960): ("missing_in_stream", False),
        ("b", 100_200): ("missing_in_stream", False),
        ("b", 195_000): ("pending", True),
    }


def test_the_order_of_additions_with_copies(spark: SparkSession, tmp_path: Path) -> None:
    one, two = 0.13, 8.515
    orders = one + two + two, two + two + one
    assert orders[0] != orders[1]
    events = [(key, at, n) for key in "ab" for at, n in ((10, one), (20, two), (20, two))]
    stream = [*((key, 0, 60, n) for key, n in zip("ab", orders, strict=True)), LAST_ROW]
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "sum(amount)", [*events, LAST], stream, grace="1h"
    )
    assert causes(explanations) == {(key, 0): ("redelivered", True) for key in "ab"}


def test_a_search_that_is_cut_short_rules_nothing_out(spark: SparkSession, tmp_path: Path) -> None:
    events = [("a", 100 + n, float(n)) for n in range(250)]
    whole = sum(n for _, _, n in events)
    stream = [("a", 0, 3_600, whole), ("z", 90_000, 93_600, 1.0)]
    lost = [*events, ("a", 3_000, 0.25), LAST]
    explanations = explanations_of(
        spark, tmp_path, "tumbling: {size: 1h}", "sum(amount)", lost, stream, grace="1h"
    )
    assert causes(explanations) == {("a", 0): ("rounded", False)}


def test_what_else_the_stream_lost_or_counted_twice(spark: SparkSession, tmp_path: Path) -> None:
    hour = 3_600
    times = [hour + 1, 2 * hour + 1, 2 * hour + 2, 10 * hour + 1, 10 * hour + 2]
    events = [("a", at, 1.0) for at in times] + [("z", 90_000, 1.0)]
    # As many events as there are, but not where they belong.
    stream = [("a", 2 * hour, 3 * hour, 1), ("a", 10 * hour, 11 * hour, 4)]
    stream.append(("z", 90_000, 93_600, 1))
    seen = causes(
        explanations_of(
            spark, tmp_path, "tumbling: {size: 1h}", "count", events, stream, grace="100h"
        )
    )
    assert seen["a", hour] == ("missing_in_stream", True)
    assert seen["a", 2 * hour] == ("zone_shift", False)


def test_windows_that_others_show_to_be_complete(spark: SparkSession, tmp_path: Path) -> None:
    events = [("b", 0, 1.0), ("a", 10, 1.0), ("a", 500, 1.0), LAST, ("z", 180_000, 1.0)]
    stream = [("a", 0, 60, 1), ("z", 90_000, 90_060, 1)]
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "count", events, stream, grace="1h", emit="suppressed"
    )
    assert causes(explanations) == {
        ("b", 0): ("missing_in_stream", True),
        ("a", 480): ("missing_in_stream", True),
        ("z", 180_000): ("pending", True),
    }


def test_keys_that_are_replayed_together(spark: SparkSession, tmp_path: Path) -> None:
    keys = [f"k{n}" for n in range(40)]
    events = [(key, 10 + n, 1.111) for n in range(20) for key in keys]
    stream = [(key, 0, 60, 22.2) for key in keys] + [LAST_ROW]
    given = {"grace": "1h", "caching": True}
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "sum(amount)", [*events, LAST], stream, **given
    )
    # Asking whether a fault is needed does not use up the tries of other keys.
    assert causes(explanations) == {(key, 0): ("rounded", True) for key in keys}


def test_windows_that_a_checkpoint_shows_to_be_complete(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's last batch evicted by a watermark of 1,000 s, which is that of the batch before."""
    log = write(tmp_path / "log", {0: (0, 0), 1: (1_000_000, 0)}, {f"{tmp_path}/src/a.parquet": 0})
    events = [("q", 0, 1.0), ("a", 300, 1.0), ("b", 1_000, 1.0)]
    stream = [("q", 0, 60, 1)]
    given = {"engine": "spark", "emit": "append", "checkpoint": log}
    explanations = explanations_of(spark, tmp_path, MINUTE, "count", events, stream, **given)
    assert causes(explanations) == {
        ("a", 300): ("missing_in_stream", True),
        ("b", 960): ("pending", True),
    }


def test_windows_that_are_shifted_beside_one_with_another_fault(
    spark: SparkSession, tmp_path: Path
) -> None:
    hour = 3_600
    events = [("a", 300 * n + k, 1.0) for n in range(5) for k in (1, 2)] + [LAST]
    stream = [("a", hour + 300 * n, hour + 300 * n + 300, 2 + (n == 0)) for n in range(5)]
    stream.append(("z", 90_000, 90_300, 1))
    seen = causes(
        explanations_of(
            spark, tmp_path, "tumbling: {size: 300s}", "count", events, stream, grace="100h"
        )
    )
    moved = {("a", at + 300 * n): ("zone_shift", True) for n in range(1, 5) for at in (0, hour)}
    # Besides, one event came twice.
    other = {("a", 0): ("missing_in_stream", False), ("a", hour): ("unexplained", False)}
    assert seen == moved | other


def test_windows_alike_do_not_seem_shifted(spark: SparkSession, tmp_path: Path) -> None:
    quarter = 900
    events = [("a", quarter * n + k, 1.0) for n in range(10) for k in (1, 2)] + [LAST]
    stream = [("a", quarter * n, quarter * n + quarter, 2 - (n == 1)) for n in range(10) if n != 5]
    stream.append(("z", 90_000, 90_900, 1))
    explanations = explanations_of(
        spark, tmp_path, "tumbling: {size: 15m}", "count", events, stream, grace="100h"
    )
    # It is unknown which of its two events one window lacks, but known that another lacks both.
    assert causes(explanations) == {
        ("a", quarter): ("missing_in_stream", False),
        ("a", 5 * quarter): ("missing_in_stream", True),
    }


@pytest.mark.parametrize("given", [{}, {"emit": "on_close"}])
def test_a_lost_event_that_moved_the_clock_leaves_others_in_doubt(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any]
) -> None:
    hopping = "hopping: {size: 300s, advance: 150s}"
    events = [("a", 375), ("c", 510), ("a", 430), ("a", 640), ("a", 530), ("c", 9_000)]
    # Without the event at 640, the one at 530 is in time.
    stream = [("a", 150, 1), ("a", 300, 3), ("a", 450, 1)]
    stream += [("c", start, 1) for start in (300, 450, 8_850, 9_000)]
    explanations = explanations_of(
        spark,
        tmp_path,
        hopping,
        "count",
        [(key, at, 1.0) for key, at in events],
        [(key, start, start + 300, float(n)) for key, start, n in stream],
        grace="30s",
        **given,
    )
    assert causes(explanations) == {
        ("a", 150): ("redelivered late", False),
        # If all keys are replayed together, the clock without the event is known, too.
        ("a", 450): ("missing_in_stream", True) if given else ("unexplained", False),
        ("a", 600): ("missing_in_stream", True),
    }


def told_of_sessions(
    spark: SparkSession,
    folder: Path,
    events: list[tuple[str, int]],
    stream: list[tuple[str, int, int, int]],
    engine: str,
) -> Told:
    """Like `explanations_of`, for sessions with a gap of a minute, whose events are counted."""
    counted = [(key, at, 1.0) for key, at in events]
    rows = [(*place, float(n)) for *place, n in stream]
    return explanations_of(
        spark, folder, "session: {gap: 60s}", "count", counted, rows, engine, drained=True
    )


@pytest.mark.parametrize("engine", ["flink", "beam"])
@pytest.mark.parametrize("gap", [30, 90])
def test_another_gap_of_engines_that_add_it_to_the_end(
    spark: SparkSession, tmp_path: Path, engine: str, gap: int
) -> None:
    events = [("a", 0), ("a", 200), ("a", 280), ("a", 500), ("z", 9_000)]
    made = {30: [(0, 0), (200, 200), (280, 280), (500, 500)], 90: [(0, 0), (200, 280), (500, 500)]}
    stream = [("a", first, last + gap, 2 if last > first else 1) for first, last in made[gap]]
    stream.append(("z", 9_000, 9_000 + gap, 1))
    explanations = told_of_sessions(spark, tmp_path, events, stream, engine)
    assert {explanation.causes for explanation in explanations.values()} == {("wrong_gap",)}
    assert {explanation.evidence["gap_us"] for explanation in explanations.values()} == {
        gap * SECOND
    }
    assert all(explanation.proved for explanation in explanations.values())


def test_windows_of_another_size_beside_a_lost_event(spark: SparkSession, tmp_path: Path) -> None:
    events = [("a", at, 1.0) for at in (10, 350, 700, 900, 1_300)] + [LAST]
    # Windows of 400 s, without the event at 700.
    stream = [("a", 0, 400, 2), ("a", 800, 1_200, 1), ("a", 1_200, 1_600, 1)]
    stream.append(("z", 90_000, 90_400, 1))
    explanations = explanations_of(
        spark, tmp_path, "tumbling: {size: 300s}", "count", events, stream, grace="1h"
    )
    lacking = {
        start: explanation
        for (key, start), explanation in explanations.items()
        if key == "a" and start % 400
    }
    assert {explanation.causes for explanation in lacking.values()} == {("missing_in_stream",)}
    assert not any(explanation.proved for explanation in lacking.values())


def test_a_gap_of_twice_the_length_or_twice_the_gap_at_the_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [("a", 0), ("b", 0), ("b", 100), ("a", 200), ("z", 9_000)]
    # With a gap of two minutes, those of b would be one.
    stream = [(key, at, at + 120, 1) for key, at in events]
    explanations = told_of_sessions(spark, tmp_path, events, stream, "flink")
    assert {key: proved for (key, _), (_, proved) in causes(explanations).items()} == {
        "a": False,
        "b": True,
        "z": False,
    }
    assert {explanation.causes for explanation in explanations.values()} == {("end_convention",)}


def test_what_was_late_by_the_clock_of_a_lost_event(spark: SparkSession, tmp_path: Path) -> None:
    events = [("a", 10, 1.0), ("a", 200, 1.0), ("a", 20, 1.0), ("z", 9_000, 1.0)]
    stream = [("a", 0, 60, 1.0), ("z", 9_000, 9_060, 1.0)]
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "count", events, stream, "flink", drained=True
    )
    assert causes(explanations) == {
        ("a", 0): ("late", False),
        ("a", 180): ("missing_in_stream", True),
    }


def test_a_window_that_may_hold_what_another_seems_to_lack(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [("a", 10, 2.0), ("a", 20, 3.0), ("a", 200, 1.0), ("z", 9_000, 1.0)]
    stream = [("a", 0, 60, 2.0), ("a", 180, 240, 1.0), ("z", 9_000, 9_060, 1.0)]
    beside = [("a", 3, 63, 3.0), *stream]
    for rows, proved in ((stream, True), (beside, False)):
        folder = tmp_path / f"{proved}"
        folder.mkdir()
        explanations = explanations_of(spark, folder, MINUTE, "sum(amount)", events, rows, "flink")
        assert causes(explanations)["a", 0] == ("missing_in_stream", proved)


def test_what_was_late_by_the_clock_of_an_event_that_may_be_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    at = ((10, 1.0), (61, 5.0), (20, 1.0), (100, 7.0))
    events = [*(("a", second, n) for second, n in at), ("z", 9_000, 1.0)]
    stream = [("a", 0, 60, 1.0), ("a", 60, 120, 7.0), ("z", 9_000, 9_060, 1.0)]
    stream.append(("a", 303, 363, 9.0))
    explanations = explanations_of(
        spark, tmp_path, MINUTE, "sum(amount)", events, stream, "flink", drained=True
    )
    assert causes(explanations)["a", 0] == ("late", False)
    assert causes(explanations)["a", 60] == ("missing_in_stream", False)
