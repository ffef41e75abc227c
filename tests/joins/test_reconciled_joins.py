"""A batch join against what streaming joins wrote, both recorded and replayed ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill import reconcile_join
from backfill.errors import BackfillError
from backfill.reconciliation.joins.result import JoinReconciled
from backfill.replay import Event, replay_join
from backfill.time.durations import fixed
from tests.engines.recordings import Recording, recordings

pytestmark = pytest.mark.usefixtures("interpreted")

MS = 1_000
#: Kafka Streams' joins: events without a partner sought at each event, or now and then; inner.
JOINS = [
    recording
    for recording in recordings("joins")
    if recording.settings["name"] in ("full-5s-0s", "full-5s-throttled", "inner-asymmetric")
]
INTERVALS = [
    recording
    for recording in recordings("interval-join")
    if recording.settings["name"] == "asymmetric"
]
COMMON: Any = {"on": "key", "time": "time", "time_format": "epoch_ms", "arrival": "n"}
SCHEMA = "key string, time bigint, n int, clock bigint, empty boolean"

Pair = tuple[Any, "int | None", "int | None"]


def frames(
    spark: SparkSession, events: Iterable[tuple[bool, Any, int, int, int, bool]]
) -> list[DataFrame]:
    """The left and the right side: key, time in ms, arrival, wall clock, whether it is empty."""
    sides: dict[bool, list[Any]] = {True: [], False: []}
    for left, *row in events:
        sides[left].append(tuple(row))
    return [spark.createDataFrame(sides[left], SCHEMA) for left in (True, False)]


def recorded(spark: SparkSession, tick: int) -> list[DataFrame]:
    return frames(
        spark,
        (
            (
                row["side"] == "left",
                row["key"],
                row["time"],
                row["arrival"],
                (row["arrival"] + 1) * tick,
                row["empty"],
            )
            for row in JOINS[0].input()
        ),
    )


def output(spark: SparkSession, pairs: Sequence[Pair]) -> DataFrame:
    return spark.createDataFrame(list(pairs), "key string, n int, n_right int")


def written(recording: Recording) -> list[Pair]:
    return [(row["key"], row["left"], row["right"]) for row in recording.rows("output")]


def compared(spark: SparkSession, recording: Recording, pairs: Sequence[Pair]) -> JoinReconciled:
    given = recording.settings
    if given["engine"] == "flink":
        own = {"engine": "flink", "watermark_delay": f"PT{given['watermark_delay'].upper()}"}
        tick = 0
    else:
        own = {name: given[name] for name in ("grace", "emit_interval", "spurious", "store")}
        tick = round(float(given["wall_clock_per_event"].removesuffix("s")) * 1e6)
    left, right = recorded(spark, tick)
    return reconcile_join(
        left,
        right,
        output(spark, pairs),
        **COMMON,
        within=(given["before"], given["after"]),
        how=given.get("how", "inner"),
        wall_clock="clock" if tick else None,
        skipped=None if given["engine"] == "flink" else "empty",
        **own,
    )


def joined(recording: Recording) -> list[Pair]:
    """The batch join, pair by pair."""
    given = recording.settings
    before, after = (fixed(given[name], field=name).us // MS for name in ("before", "after"))
    how = given.get("how", "inner")
    # Flink joins records without a value like any others.
    all_alike = given["engine"] == "flink"
    events = [event for event in recording.input() if all_alike or not event["empty"]]
    left = [event for event in events if event["side"] == "left"]
    right = [event for event in events if event["side"] == "right"]
    pairs: list[Pair] = [
        (one["key"], one["arrival"], two["arrival"])
        for one in left
        for two in right
        if one["key"] is not None
        and one["key"] == two["key"]
        and -before <= two["time"] - one["time"] <= after
    ]
    lefts, rights = ({pair[place] for pair in pairs} for place in (1, 2))
    if how != "inner":
        pairs += [(e["key"], e["arrival"], None) for e in left if e["arrival"] not in lefts]
    if how == "full":
        pairs += [(e["key"], None, e["arrival"]) for e in right if e["arrival"] not in rights]
    return pairs


def differing(found: JoinReconciled, side: str) -> Counter[Pair]:
    return Counter(
        (difference.row["key"], difference.row["n"], difference.row["n_right"])
        for difference in found.differences
        if difference.side == side
    )


@pytest.mark.parametrize("recording", [*JOINS, *INTERVALS], ids=lambda recording: recording.name)
def test_what_an_engine_wrote_is_explained(spark: SparkSession, recording: Recording) -> None:
    batch, stream = Counter(joined(recording)), Counter(written(recording))
    comparison = compared(spark, recording, written(recording))
    assert differing(comparison, "batch") == batch - stream
    assert differing(comparison, "stream") == stream - batch
    assert (comparison.matched, comparison.batch, comparison.stream) == (
        (batch & stream).total(),
        batch.total(),
        stream.total(),
    )
    assert comparison.unexplained == 0
    assert comparison.causes


def test_causes_of_a_recording(spark: SparkSession) -> None:
    """Causes are found, and rows that nothing explains are called unexplained."""
    (recording,) = (
        candidate
        for candidate in recordings("joins")
        if candidate.settings["name"] == "left-5s-spurious"
    )
    pairs = written(recording)
    comparison = compared(spark, recording, pairs)
    assert comparison.causes == {"spurious": 80, "late": 62}
    assert not comparison.ok(["late"])
    assert comparison.ok(list(comparison.causes))
    # For one key a row is missing, and for another one a row is there twice.
    times = Counter(right for _, _, right in pairs)
    gone = next(pair for pair in pairs if pair[0] == "b" and times[pair[2]] > 1 and pair[2])
    twice = next(pair for pair in pairs if pair[0] == "bb" and None not in pair)
    pairs.remove(gone)
    again = compared(spark, recording, [*pairs, twice])
    unexplained = {
        difference.row["key"]
        for difference in again.differences
        if difference.cause == "unexplained"
    }
    assert unexplained == {"b", "bb"}
    assert not again.ok(list(comparison.causes))


def test_events_that_the_stream_never_received(spark: SparkSession) -> None:
    """Of 1,500 events of a hundred keys sixty are lost, once for each of two joins."""
    random = Random(7)
    for how, settings in (
        ("inner", {"engine": "flink", "watermark_delay": "3ms"}),
        ("full", {"grace": "4ms"}),
    ):
        events = []
        for n in range(1500):
            time = n // 5 + random.choice([0, 0, 0, -7, -30, 4])
            key = f"k{random.randrange(100)}"
            events.append((random.random() < 0.5, key, max(0, time), n, 0, False))
        gone = set(random.sample(range(1500), 60))
        sides: dict[bool, list[Event]] = {True: [], False: []}
        for left, key, time, n, _, _ in events:
            if n not in gone:
                sides[left].append(Event(key=key, time=time * MS, arrival=n))
        replayed = replay_join(sides[True], sides[False], within="9ms", how=how, **settings)
        pairs = [(emission.key, emission.left, emission.right) for emission in replayed.emissions]
        left, right = frames(spark, events)
        comparison = reconcile_join(
            left,
            right,
            output(spark, pairs),
            **COMMON,
            within="9ms",
            how=how,
            **settings,
        )
        assert comparison.causes["missing_in_stream"] > 0
        # What the missing events would have moved, the clock or a store, shows in other keys; and
        # an event without a partner leaves no trace of itself in an inner join.
        missing = {
            number
            for difference in comparison.differences
            if difference.cause == "missing_in_stream"
            for number in (difference.row["n"], difference.row["n_right"])
        }
        assert missing & gone
        assert comparison.unexplained < comparison.causes["missing_in_stream"]
        assert comparison.matched + sum(differing(comparison, "batch").values()) == comparison.batch
        assert (
            comparison.matched + sum(differing(comparison, "stream").values()) == comparison.stream
        )


def test_nothing_differs(spark: SparkSession) -> None:
    left, right = frames(spark, [(True, "a", 1, 0, 0, False), (False, "a", 2, 1, 0, False)])
    comparison = reconcile_join(
        left,
        right,
        output(spark, [("a", 0, 1)]),
        **COMMON,
        within="1ms",
    )
    assert (comparison.matched, comparison.differences, comparison.ok()) == (1, (), True)


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"within": "5 messages"},
        "within: a stream's join can be compared only if it pairs events by time",
    ),
    ({"how": "anti"}, "how: must be inner or left or full"),
    ({"engine": "storm"}, "engine: has no known join of two streams"),
    ({"arrival": "nn"}, "arrival: the left side has no such column"),
    ({"arrival": "key"}, "arrival: has the same value in two events of the left side"),
    ({"partition": "part"}, "partition: the left side has no such column"),
    ({"columns": "key, n AS number"}, "stream: the join has no such column"),
    ({"columns": "n"}, "on: the stream has no such column"),
    ({"columns": "key, bigint(n) AS n"}, "stream: is bigint in the stream, and int in the join"),
    ({"skipped": 3}, "skipped: must be a predicate"),
    ({"skipped": "nothing = 1"}, "skipped: does not fit the events"),
    ({"engine": "flink", "skipped": "empty"}, "skipped: the engine flink joins records without"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=lambda parameter: str(parameter)[:40])
def test_what_is_refused(spark: SparkSession, given: dict[str, Any], message: str) -> None:
    events = [
        (True, "a", 1, 0, 0, False),
        (True, "a", 1, 1, 0, False),
        (False, "a", 2, 2, 0, False),
    ]
    left, right = frames(spark, events)
    own = dict(given)
    columns = own.pop("columns", "key, n, n_right").split(", ")
    settings = {**COMMON, "within": "1ms", **own}
    with pytest.raises(BackfillError, match=message):
        reconcile_join(left, right, output(spark, []).selectExpr(*columns), **settings)
