"""Conditions on raw columns: Spark pushes them down, and no event is ever lost to them."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME
from backfill.events import EventRules, normalise, time_condition, to_local, within
from tests.inputs import opened

pytestmark = pytest.mark.usefixtures("interpreted")

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DAY = 86_400_000_000
HOUR = DAY // 24
LOW, HIGH = 1_719_792_000_000_000, 1_719_878_400_000_000  # 2024-07-01, a day of UTC
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia"]

WALL_CLOCK = "timestampadd(MICROSECOND, us, TIMESTAMP_NTZ'1970-01-01 00:00:00')"
# How a raw column is made from `us`, an instant, and how it is read.
KINDS: dict[str, tuple[str, str | None]] = {
    "instant": ("timestamp_micros(us)", None),
    "wall_clock": (WALL_CLOCK, None),
    "day": (f"cast({WALL_CLOCK} as date)", None),
    "micros": ("us", "epoch_us"),
    "millis": ("us div 1000", "epoch_ms"),
    "seconds": ("try_cast(us div 1000000 as int)", "epoch_s"),
    "double_seconds": ("cast(us as double) / 1000000", "epoch_s"),
    "double_micros": ("cast(us as double)", "epoch_us"),
    "decimal_seconds": ("cast(us as decimal(20,0)) / 1000000", "epoch_s"),
    "short_decimal": ("try_cast(us / 1000000000 as decimal(6,2))", "epoch_s"),
    "text": ("cast(us as string)", "epoch_us"),
}  # fmt: skip


def us(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def changes(zone: str) -> list[int]:
    """The hours at which the clocks change, µs since the epoch."""
    jumps = []
    for year in (1945, 1987, 1999, 2011, 2024):
        hours = [
            datetime(year, 1, 1, tzinfo=timezone.utc) + timedelta(hours=n) for n in range(8760)
        ]
        offsets = [hour.astimezone(ZoneInfo(zone)).utcoffset() for hour in hours]
        jumps += [
            us(hour)
            for hour, before, after in zip(hours[1:], offsets, offsets[1:], strict=False)
            if before != after
        ]
    return jumps or [LOW]


CHANGES = {zone: changes(zone) for zone in ZONES}
deltas = st.one_of(
    st.integers(-100, 100).map(lambda n: n * HOUR // 4),
    st.integers(-3_000, 3_000),
    st.integers(-3 * DAY, 3 * DAY),
)


@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_event_is_lost(spark: SparkSession, kind: str, data: st.DataObject) -> None:
    zone = data.draw(st.sampled_from(ZONES))
    anchor = data.draw(st.sampled_from(CHANGES[zone]) | st.integers(-(10**15), 10**16))
    near = deltas.map(lambda delta: anchor + delta)
    times = data.draw(st.lists(near, min_size=30, max_size=60))
    end = st.none() | st.sampled_from(times) | near
    ranges = data.draw(st.lists(st.tuples(end, end), min_size=3, max_size=3))
    rules = EventRules(
        key=(),
        time="t",
        time_format=KINDS[kind][1],
        timezone=zone,
        tick_us=data.draw(st.sampled_from([1, 1_000, 7_000])),
        date_column=data.draw(st.sampled_from([None, "day", "text_day"])),
    )
    frame = spark.range(1).select(F.explode(F.array(*map(F.lit, [*times, None]))).alias("us"))
    frame = frame.selectExpr(f"{KINDS[kind][0]} as t")
    # Dates as `normalise` expects them, from its own times.
    local = to_local(F.col(TIME), zone)
    day = F.date_from_unix_date(((local - F.pmod(local, F.lit(DAY))) / DAY).cast("int"))
    timed = normalise(frame, replace(rules, date_column=None))
    frame = timed.withColumns({"day": day, "text_day": day.cast("string")}).drop(TIME, REASON)
    conditions = [time_condition(frame.schema, rules, *span) for span in ranges]
    kept = [
        F.lit(True) if condition is None else F.coalesce(condition, F.lit(False))
        for condition in conditions
    ]
    events = normalise(frame.select("*", F.array(*kept).alias("kept")), rules)
    rows = events.where(F.col(REASON).isNull()).select(TIME, "kept").collect()
    for time, flags in rows:
        for (low, high), is_kept in zip(ranges, flags, strict=True):
            inside = (low is None or low <= time) and (high is None or time < high)
            assert is_kept or not inside, (zone, rules.tick_us, time, low, high)
            far = (low is not None and time < low - 3 * DAY) or (
                high is not None and time >= high + 3 * DAY
            )
            if kind not in ("text", "short_decimal"):
                assert not (is_kept and far), (zone, rules.tick_us, time, low, high)


def test_extreme_bounds(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("timestamp_micros(0) as t", "date'1970-01-01' as day")
    rules = EventRules(key=(), time="t", date_column="day", timezone="Pacific/Apia")
    for low, high, rows in ((-(10**30), 10**30, 1), (10**30, None, 0), (None, -(10**30), 0)):
        assert within(frame, rules, low, high).count() == rows
    assert within(frame, rules, None, None) is frame
    assert within(frame, EventRules(key=(), time="absent"), 0, 1) is frame


def scan(frame: DataFrame) -> dict[str, str]:
    """The filters that the plan's scan shows."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame.explain("formatted")
    return dict(
        re.findall(r"^(PartitionFilters|PushedFilters): \[(.*)\]$", printed.getvalue(), re.M)
    )


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A column of each kind, in a folder for each date."""
    path = tmp_path_factory.mktemp("within") / "events"
    frame = spark.range(0, 4 * DAY, HOUR).selectExpr(f"id + {LOW - DAY} as us")
    columns = [f"{text} as {name}" for name, (text, _) in KINDS.items() if name != "short_decimal"]
    days = frame.selectExpr("us", *columns, f"cast({WALL_CLOCK} as date) as date")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        days.repartition("date").write.partitionBy("date").parquet(str(path))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return path


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("text", "short_decimal")])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_filters_are_pushed_into_the_scan(
    spark: SparkSession, files: Path, name: str, zone: str
) -> None:
    source = opened(spark, "parquet", files)
    rules = EventRules(key=(), time=name, time_format=KINDS[name][1], timezone=zone)
    condition = time_condition(source.frame.schema, rules, LOW, HIGH)
    above = within(source.frame, rules, LOW, HIGH).groupBy().agg(F.max(name))
    below = source.only([file.path for file in source.snapshot.inputs], condition)
    for frame in (above, below):
        filters = scan(frame)["PushedFilters"]
        assert f"GreaterThanOrEqual({name}," in filters
        assert re.search(rf"LessThan(OrEqual)?\({name},", filters)


def test_folders_of_dates_are_pruned(spark: SparkSession, files: Path) -> None:
    source = opened(spark, "parquet", files)
    rules = EventRules(key=(), time="text", time_format="epoch_us", date_column="date")
    rows = within(source.frame, rules, LOW, HIGH)
    assert "date" in scan(rows.groupBy().count())["PartitionFilters"]
    assert {row.us // DAY for row in rows.collect()} == {LOW // DAY}
    paths = [file.path for file in source.snapshot.inputs]
    below = source.only(paths, time_condition(source.frame.schema, rules, LOW, HIGH))
    assert "date" in scan(below)["PartitionFilters"]
    assert below.count() == 24


def test_times_in_text_without_dates_are_left_alone(spark: SparkSession, files: Path) -> None:
    frame = opened(spark, "parquet", files).frame
    rules = EventRules(key=(), time="text", time_format="epoch_us")
    assert within(frame, rules, LOW, HIGH) is frame


def test_rows_within_are_counted_alike(spark: SparkSession, files: Path) -> None:
    source = opened(spark, "parquet", files)
    for name, (_, time_format) in KINDS.items():
        if name == "short_decimal":
            continue
        rules = EventRules(key=(), time=name, time_format=time_format, timezone="Europe/Berlin")
        counts: dict[str, Any] = {}
        for how, frame in (
            ("all", source.frame),
            ("within", within(source.frame, rules, LOW, HIGH)),
        ):
            events = normalise(frame, rules).where(f"{TIME} >= {LOW} and {TIME} < {HIGH}")
            counts[how] = events.count()
        assert counts["within"] == counts["all"] > 0, name
