"""Event times against plain Python: zoneinfo for wall clocks, fractions for numbers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from math import floor, isfinite, ulp
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.errors import ColumnError, JobFileError
from backfill.events import time_column, to_local
from tests import drawn

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ZONES = ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "UTC"]


@pytest.fixture(params=["America/St_Johns", "Asia/Tokyo"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def micros(moment: datetime) -> int:
    """A wall clock's time in UTC: fold 0 is the earlier of two, and moves times in gaps forward."""
    return (moment.astimezone(timezone.utc) - EPOCH) // timedelta(microseconds=1)


def local_text(moment: datetime) -> str:
    return moment.isoformat(sep=" ")


def transitions(zone: str) -> list[datetime]:
    """Local times near every clock change in some years."""
    times = []
    for year in (1916, 1945, 1955, 1969, 1985, 2015, 2024):
        day = datetime(year, 1, 1)
        while day.year == year:
            here, there = (
                t.replace(tzinfo=ZoneInfo(zone)).utcoffset() for t in (day, day + timedelta(1))
            )
            if here != there:
                times += [day + timedelta(minutes=15 * step, microseconds=1) for step in range(96)]
            day += timedelta(1)
    return times


def read(
    spark: SparkSession, texts: list[str | None], cast: str, fmt: str | None, zone: str = "UTC"
) -> list[int | None]:
    frame = spark.createDataFrame(list(enumerate(texts)), "n int, text string")
    frame = frame.withColumn("a `b`.c", F.col("text").cast(cast))
    rows = frame.select("n", time_column(frame, "a `b`.c", fmt, zone).alias("t")).collect()
    return [row.t for row in sorted(rows)]


#: As in text: an hour that occurs twice means the first one, as in Python without `fold`.
moments = st.datetimes(datetime(1902, 1, 1), datetime(2037, 12, 31)).map(
    lambda time: time.replace(fold=0)
)


@pytest.mark.parametrize("zone", ZONES)
def test_wall_clocks_follow_the_zone(zoned: SparkSession, zone: str) -> None:
    times = [*transitions(zone), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2, 1, 2)]
    expected = [micros(time.replace(tzinfo=ZoneInfo(zone))) for time in times]
    texts: list[str | None] = [local_text(time) for time in times]
    assert read(zoned, texts, "timestamp_ntz", None, zone) == expected
    assert read(zoned, texts, "string", "iso", zone) == expected
    whole: list[str | None] = [local_text(time)[:19] for time in times]
    seconds = [micros(time.replace(tzinfo=ZoneInfo(zone), microsecond=0)) for time in times]
    assert read(zoned, whole, "string", "yyyy-MM-dd HH:mm:ss", zone) == seconds


@pytest.mark.parametrize("zone", ZONES)
def test_any_wall_clock(spark: SparkSession, zone: str) -> None:
    times = drawn.cases(moments, 400)
    expected = [micros(time.replace(tzinfo=ZoneInfo(zone))) for time in times]
    texts: list[str | None] = [local_text(time) for time in times]
    assert read(spark, texts, "timestamp_ntz", None, zone) == expected, drawn.SEEDS
    assert read(spark, texts, "string", "iso", zone) == expected, drawn.SEEDS
    frame = spark.createDataFrame(list(enumerate(expected)), "n int, t long")
    back = sorted(frame.select("n", to_local(F.col("t"), zone).alias("l")).collect())
    for row, instant in zip(back, expected, strict=True):
        local = (EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(zone))
        assert row.l == micros(local.replace(tzinfo=timezone.utc)), (instant, drawn.SEEDS)


def test_dates_are_local_midnight(zoned: SparkSession) -> None:
    expected = [
        micros(datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))),
        micros(datetime(1960, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))),
        None,
    ]
    texts = ["2024-07-01", "1960-01-01", None]
    assert read(zoned, texts, "date", None, "Europe/Berlin") == expected
    assert read(zoned, texts, "string", "iso", "Europe/Berlin") == expected


@pytest.mark.spark_only
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_times_beyond_the_calendar_are_none(spark: SparkSession, zone: str) -> None:
    days = [-(1 << 31), -110_000_000, 110_000_000, (1 << 31) - 1]
    ends = ["-290308-12-21T19:59:05.224192", "+294247-01-10T04:00:54.775807"]
    frame = spark.createDataFrame(
        [(day, end) for day in days for end in ends], "day int, at string"
    ).select(
        F.date_from_unix_date("day").alias("day"),
        F.concat("at", F.lit("Z")).cast("timestamp").alias("instant"),
        F.col("at").cast("timestamp_ntz").alias("wall"),
    )
    assert frame.where("day IS NULL OR instant IS NULL OR wall IS NULL").isEmpty()
    times = [time_column(frame, name, None, zone) for name in frame.columns]
    assert {tuple(row) for row in frame.select(*times).collect()} == {(None, None, None)}


def test_instants_stay(zoned: SparkSession) -> None:
    texts = ["2024-07-01 00:00:00.000001Z", "1969-12-31 23:59:59.999999Z"]
    assert read(zoned, texts, "timestamp", None, "Europe/Berlin") == [1719792000000001, -1]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2015-05-17T10:05:03Z", 1431857103000000),
        ("2015-05-17t10:05:03Z", None),
        ("2015-05-17 10:05:03.123456789+02:00", 1431849903123456),
        ("2015-05-17T10:05:03,5-0330", 1431869703500000),
        ("2015-05-17T10:05+02", 1431849900000000),
        (" 2015-05-17T10:05:03z ", 1431857103000000),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("0002-01-01T00:00:00Z", -62104060800000000),
        ("0002-01-01T00:00:00+01:00", None),
        ("9998-12-31T23:59:59.999999Z", 253370764799999999),
        ("9999-01-01T00:00:00Z", None),
        ("2015-02-29T10:05:03Z", None),
        ("2015-05-17T24:00:00Z", None),
        ("2015-05-17T10:05:60Z", None),
        ("2015-05-17T10:05:03+19:00", None),
        ("2015-05-17T10:05:03 Europe/Berlin", None),
        ("2015-05-17T", None),
        ("2015-5-17", None),
        ("1431857103", None),
        ("", None),
    ],
)
def test_iso(spark: SparkSession, text: str, expected: int | None) -> None:
    assert read(spark, [text], "string", "iso") == [expected]


def test_patterns(zoned: SparkSession) -> None:
    log = "dd/MMM/yyyy:HH:mm:ss Z"
    texts = ["17/May/2015:10:05:03 +0200", "99/Foo/2015:10:05:03 +0200", None]
    assert read(zoned, texts, "string", log, "Asia/Tokyo") == [1431849903000000, None, None]


@pytest.mark.parametrize("pattern", ["isoo", "yyyy-qq", "YYYY-MM-dd", "yyyy {", "HH:mm[ XXX]", "'"])
def test_what_is_no_pattern(spark: SparkSession, pattern: str) -> None:
    with pytest.raises(JobFileError, match="time_format: "):
        read(spark, ["x"], "string", pattern)


UNITS = {"epoch_s": 10**6, "epoch_ms": 10**3, "epoch_us": 1}


def in_years(value: Fraction) -> int | None:
    result = floor(value)
    return result if -62104060800000000 <= result <= 253370764799999999 else None


INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**12), 10**12)
DOUBLES = st.floats() | st.floats(-3e9, 3e9) | st.floats(-1e-3, 1e-3) | st.sampled_from([-0.0, 0.1])
DECIMALS = st.decimals(-(10**15), 10**15, places=9)


@pytest.mark.parametrize("count", [0, 400])
@pytest.mark.parametrize("fmt", list(UNITS))
def test_numbers(spark: SparkSession, fmt: str, count: int) -> None:
    unit = UNITS[fmt]
    integers: list[int] = drawn.cases(INTEGERS, count) if count else []
    doubles: list[float] = drawn.cases(DOUBLES, count) if count else []
    decimals: list[Decimal] = drawn.cases(DECIMALS, count) if count else []
    for type_, values in (
        ("bigint", integers),
        ("double", doubles),
        ("decimal(38,9)", decimals),
        ("string", [format(value, "f") for value in decimals]),
    ):
        rows = list(enumerate(values))
        frame = spark.createDataFrame(rows, f"n int, v {type_}")
        got = sorted(frame.select("n", time_column(frame, "v", fmt, "UTC").alias("t")).collect())
        for row, value in zip(got, values, strict=True):
            finite = not isinstance(value, float) or isfinite(value)
            exact = Fraction(value) if finite else None
            if isinstance(value, float) and exact is not None:
                if ulp(value) * unit <= 1:
                    exact = Fraction(repr(value))
                elif row.t is not None:  # doubles are more than a microsecond apart
                    assert abs(row.t - exact * unit) <= 1, (value, drawn.SEEDS)
                    continue
            expected = None if exact is None else in_years(exact * unit)
            assert row.t == expected, (type_, value, drawn.SEEDS)


@pytest.mark.parametrize(
    ("type_", "fmt", "way_out"),
    [
        ("string", None, "time_format to iso"),
        ("bigint", None, "epoch_s"),
        ("timestamp", "iso", "Leave time_format out"),
        ("timestamp_ntz", "epoch_s", "Leave time_format out"),
        ("bigint", "iso", "epoch_s"),
        ("float", "epoch_s", "doubles"),
        ("array<int>", None, "timestamp"),
    ],
)
def test_types_that_do_not_go_together(
    spark: SparkSession, type_: str, fmt: str | None, way_out: str
) -> None:
    frame = spark.createDataFrame([], f"t {type_}")
    with pytest.raises(ColumnError, match=way_out):
        time_column(frame, "t", fmt, "UTC")


def test_zones(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "t timestamp")
    with pytest.raises(JobFileError, match="Did you mean 'Europe/Berlin'"):
        time_column(frame, "t", None, "Europe/Berlim")
