"""`updates` by Spark, the keys apart, against one replay of all the events in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

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
    updates,
)
from backfill import aggregates as agg
from backfill.replay import Event, Replayed, replay
from tests import drawn
from tests.frames import rows

pytestmark = pytest.mark.usefixtures("interpreted")
MS = 1_000
SCHEMA = (
    "key string, time bigint, arrival bigint, amount bigint, shop string, part string, "
    "batch bigint, mark bigint, wall bigint"
)
GAP = SessionWindow(gap="20ms")
HOPS = HoppingWindow(size="40ms", advance="20ms")
TENS = TumblingWindow(size="10ms", offset="-3ms")
COMMON: dict[str, Any] = {"key": "key", "time": "time", "time_format": "epoch_us"}
OFTEN = Repeatedly(AfterAny(AfterCount(4), AfterAll(AfterProcessingTime("30ms"), AfterCount(2))))

#: By name: as Spark computes them, and over the fields of the replay.
AGGREGATES = {
    "n": agg.count(),
    "total": agg.sum("amount"),
    "most": agg.max("amount * 2"),
    "buys": agg.count(where="amount > 0"),
    "shops": agg.count_distinct("shop"),
    "first": agg.first("shop"),
    "mean": agg.mean("amount"),
}
FIELDS = {
    "n": agg.count(),
    "total": agg.sum("amount"),
    "most": agg.max("twice"),
    "buys": agg.count(where="positive"),
    "shops": agg.count_distinct("shop"),
    "first": agg.first("shop"),
    "mean": agg.mean("amount"),
}


@dataclass(frozen=True)
class Case:
    """An engine, what it is told, and which columns the events bring.

    `unusable`: it drops events without a key or a time, rather than that it fails; `ordered`: time
    is processing time.
    """

    engine: str
    settings: dict[str, Any]
    columns: tuple[str, ...] = ()
    no_key: bool = True
    no_time: bool = False
    ordered: bool = False


CASES = {
    "kafka-streams": Case("kafka-streams", {"grace": "9ms"}, no_time=True),
    "kafka-streams, partitions": Case(
        "kafka-streams", {"grace": "9ms", "emit": "suppressed"}, ("partition",), no_time=True
    ),
    "suppressed": Case("kafka-streams", {"grace": "9ms", "emit": "suppressed"}, no_time=True),
    "spark": Case("spark", {"watermark_delay": "9ms"}, ("batch",), no_time=True),
    "spark, idle": Case(
        "spark",
        {"watermark_delay": "9ms", "idle_batches": True, "allow_multiple": False},
        ("batch", "watermark"),
        no_time=True,
    ),
    "flink": Case(
        "flink",
        {"watermark_delay": "9ms", "allowed_lateness": "15ms", "early": 2},
        no_key=False,
    ),
    "flink, sql": Case("flink", {"api": "sql-group", "watermark_delay": "9ms"}, no_time=True),
    "beam": Case("beam", {"watermark_delay": "9ms", "allowed_lateness": "15ms", "late": 2}),
    "beam, watermarks": Case(
        "beam", {"allowed_lateness": "15ms", "accumulation": "accumulating"}, ("watermark",)
    ),
    "beam, bundles": Case(
        "beam",
        {"watermark_delay": "9ms", "early": Repeatedly(AfterAny(AfterCount(2)))},
        ("batch",),
    ),
    "beam, triggers": Case(
        "beam",
        {
            "early": OFTEN,
            "late": Repeatedly(AfterAny(AfterSilence("9ms"), AfterEventTime("12ms"))),
            "allowed_lateness": "200ms",
            "accumulation": "retracting",
        },
        ("wall_clock",),
    ),
    "samza": Case("samza", {"early": AfterProcessingTime("15ms")}, ordered=True),
    "samza, timers": Case("samza", {"timer_interval": "30ms", "early": 2}, ordered=True),
    "plain": Case("plain", {}, no_key=False),
}

Row = tuple[Any, ...]


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows of SCHEMA around the epoch, mostly in order, with ties, copies and what is unusable."""
    each = st.tuples(
        st.sampled_from(["a", "a", "b", "c", None]),
        st.integers(-40, 40) | st.none(),
        st.sampled_from([0, 0, 1, 999]),
        st.none() | st.integers(-3, 3),
        st.sampled_from("xyz"),
        st.integers(0, 6),
    )
    found = draw(st.lists(each, min_size=40, max_size=120))
    base, wall, mark, made = -150, 0, -(10**6), []
    for i, (key, off, fine, amount, shop, step) in enumerate(found):
        base += step
        wall += 3 * step
        mark = max(mark, (base - 20) * MS) if shop == "x" else mark
        time = None if off is None or not i % 7 else (base + off // (1 if i % 3 else 9)) * MS + fine
        # Batches of a few events; some have none.
        batch = 2 * (i // 5) - (i // 5) % 2
        part = "01"[ord(key) % 2] if key else "0"
        own = (key, time, 7 * i - 300, amount, shop, part, batch)
        made.append((*own, mark if shop == "x" else None, wall * MS + fine))
    return made


def told_to(case: Case, stream: Sequence[Row]) -> list[Row]:
    """The stream as the engine would take it."""
    found = []
    for key, time, *rest in stream:
        if case.ordered:
            time = rest[-1]
        if (key is None and not case.no_key) or (time is None and not case.no_time):
            continue
        found.append((key, time, *rest))
    return found


def played(case: Case, window: Any, stream: Iterable[Row]) -> Replayed:
    events = [
        Event(
            key=key,
            time=time,
            arrival=arrival,
            value={
                "amount": amount,
                "shop": shop,
                "twice": None if amount is None else 2 * amount,
                "positive": amount is not None and amount > 0,
            },
            partition=part if "partition" in case.columns else 0,
            batch=batch if "batch" in case.columns else None,
            watermark=mark if "watermark" in case.columns else None,
            wall_clock=wall if "wall_clock" in case.columns else None,
        )
        for key, time, arrival, amount, shop, part, batch, mark, wall in stream
    ]
    return replay(events, window, engine=case.engine, aggregates=FIELDS, **case.settings)


COLUMNS = {"partition": "part", "batch": "batch", "watermark": "mark", "wall_clock": "wall"}


def made(spark: SparkSession, case: Case, window: Any, stream: Sequence[Row]) -> DataFrame:
    frame = spark.createDataFrame(list(reversed(stream)), SCHEMA).repartition(3)
    return updates(
        frame,
        window,
        arrival="arrival",
        aggregates=AGGREGATES,
        engine=case.engine,
        **COMMON,
        **{name: COLUMNS[name] for name in case.columns},
        **case.settings,
    )


def by_key(found: Iterable[Row]) -> dict[Any, list[Row]]:
    """Key, number and the rest to the results of each key, in order."""
    own: dict[Any, list[Row]] = defaultdict(list)
    for key, _, *rest in sorted(found, key=lambda row: row[1]):
        own[key].append(tuple(rest))
    return dict(own)


def of_spark(frame: DataFrame) -> dict[Any, list[Row]]:
    bounds = ("window_start", "window_end", "arrival", "op", "is_retraction")
    return by_key(rows(frame.select("key", "number", *bounds, *AGGREGATES)))


def of_python(result: Replayed) -> dict[Any, list[Row]]:
    last: dict[Any, list[Any]] = {}
    found = []
    for i, each in enumerate(result.emissions):
        place = each.key, each.start, each.end
        if each.values is not None:
            last[place] = list(each.values.values())
        back = each.values is None
        found.append((each.key, i, each.start, each.end, each.arrival, each.op, back, *last[place]))
    return by_key(found)


@pytest.mark.parametrize("name", CASES)
def test_as_one_replay_of_all(spark: SparkSession, name: str) -> None:
    case = CASES[name]
    for stream, window in zip(drawn.cases(streams(), 2), (GAP, HOPS), strict=True):
        taken = told_to(case, stream)
        found = of_spark(made(spark, case, window, taken))
        expected = of_python(played(case, window, taken))
        drawn.check(found, expected, lambda key, given=(window, taken): given)
