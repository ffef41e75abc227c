"""Bounds of the times in a file are never narrower than what is read from it."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME
from backfill.errors import SourceError
from backfill.events import EventRules, Source, normalise, time_bounds, time_column
from backfill.events.times import MAX_US, MIN_US
from tests.inputs import opened, write

pytestmark = pytest.mark.usefixtures("interpreted")

DAY = 86_400_000_000
NOON = datetime(2024, 7, 1, 12, tzinfo=timezone.utc)
NOON_US = 1_719_835_200_000_000
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia"]
# Times near clock changes in these zones, and elsewhere.
ANCHORS = [NOON_US, 1_711_846_800_000_000, 930_362_400_000_000, 1_325_203_200_000_000, 0, -(10**15)]

FORMATS = {
    "instant": None,
    "millis": None,
    "wall_clock": None,
    "day": None,
    "epoch_us": "epoch_us",
    "epoch_ms": "epoch_ms",
    "int_s": "epoch_s",
    "unsigned_s": "epoch_s",
    "double_s": "epoch_s",
    "decimal_s": "epoch_s",
    "wide_decimal_s": "epoch_s",
}


def table(times: list[int | None]) -> pa.Table:
    """Columns of every type; the n-th row of each is close to the n-th time."""

    def made(type_: pa.DataType, value: Any) -> pa.Array:
        return pa.array([None if us is None else value(us) for us in times], type_)

    def seconds(us: int) -> Decimal:
        return Decimal(us) / 1_000_000

    return pa.table(
        {
            "instant": made(pa.timestamp("us", "UTC"), int),
            "millis": made(pa.timestamp("ms", "UTC"), lambda us: us // 1_000),
            "wall_clock": made(pa.timestamp("us"), int),
            "day": made(pa.date32(), lambda us: us // DAY),
            "epoch_us": made(pa.int64(), int),
            "epoch_ms": made(pa.int64(), lambda us: us // 1_000),
            "int_s": made(pa.int32(), lambda us: us // 1_000_000),
            "unsigned_s": made(pa.uint32(), lambda us: abs(us) // 1_000_000),
            "double_s": made(pa.float64(), lambda us: us / 1_000_000),
            "decimal_s": made(pa.decimal128(18, 6), seconds),
            "wide_decimal_s": made(pa.decimal128(30, 6), seconds),
            "text": made(pa.string(), str),
        }
    )


def check(source: Source, names: list[str], zone: str = "UTC", tick: int = 1) -> None:
    """Compare with what Spark reads from these columns, file by file."""
    paths = [file.path for file in source.snapshot.inputs]
    times = [time_column(source.frame, name, FORMATS[name], zone) for name in names]
    ends = [
        F.struct(F.min(time), F.max(time)).alias(n) for n, time in zip(names, times, strict=True)
    ]
    rows = source.frame.groupBy("_source").agg(*ends).collect()
    for name in names:
        rules = EventRules(
            key=(), time=name, time_format=FORMATS[name], timezone=zone, tick_us=tick
        )
        bounds = time_bounds(source, rules, paths)
        assert set(bounds) == set(paths)
        for row in rows:
            known, (least, largest) = bounds[row._source], row[name]
            assert known is not None
            least, largest = least // tick * tick, largest // tick * tick
            assert known[0] <= least <= largest <= known[1], rules
            # As narrow as clocks allow, plus a tick for what was cut off.
            slack = DAY + 14 * DAY * (least < 0) + tick
            assert least - slack <= known[0]
            assert known[1] <= largest + slack


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_footers(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    anchor = data.draw(st.sampled_from(ANCHORS))
    near = st.integers(-200, 200).map(lambda n: anchor + n * DAY // 96) | st.integers(
        anchor - 2_000_000, anchor + 2_000_000
    )
    path = tmp_path_factory.mktemp("footers")
    for name in "ab":
        times = data.draw(st.lists(st.none() | near, max_size=20))
        pq.write_table(table([*times, data.draw(near)]), path / f"{name}.parquet", row_group_size=3)
    source = opened(spark, "parquet", path)
    zone = data.draw(st.sampled_from(ZONES))
    tick = data.draw(st.sampled_from([1, 1_000, 7_000]))
    check(source, list(FORMATS), zone, tick)


def test_exact_where_clocks_have_no_say(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table([NOON_US, None, NOON_US + 1_234_567]), tmp_path / "a.parquet")
    source = opened(spark, "parquet", tmp_path)
    [path] = [file.path for file in source.snapshot.inputs]
    for name, expected in (
        ("instant", (NOON_US, NOON_US + 1_234_567)),
        ("wall_clock", (NOON_US, NOON_US + 1_234_567)),
        ("day", (NOON_US - DAY // 2, NOON_US - DAY // 2)),
        ("decimal_s", (NOON_US, NOON_US + 1_234_567)),
        ("int_s", (NOON_US, NOON_US + 1_000_000)),
    ):
        rules = EventRules(key=(), time=name, time_format=FORMATS[name])
        assert time_bounds(source, rules, [path]) == {path: expected}
    ticks = EventRules(key=(), time="instant", tick_us=1_000)
    assert time_bounds(source, ticks, [path]) == {path: (NOON_US, NOON_US + 1_234_000)}
    berlin = EventRules(key=(), time="wall_clock", timezone="Europe/Berlin")
    moved = NOON_US - DAY // 12
    assert time_bounds(source, berlin, [path]) == {path: (moved, moved + 1_234_567)}


def test_times_in_another_unit_are_beyond_the_calendar(spark: SparkSession, tmp_path: Path) -> None:
    largest = 2**63 - 1
    for least, most in [(NOON_US, largest), (-largest - 1, NOON_US), (largest, largest)]:
        pq.write_table(pa.table({"seconds": [least, most]}), tmp_path / "a.parquet")
        rules = EventRules(key=(), time="seconds", time_format="epoch_s")
        source = opened(spark, "parquet", tmp_path)
        paths = [file.path for file in source.snapshot.inputs]
        [bounds] = time_bounds(source, rules, paths).values()
        assert bounds == (MAX_US if least > 0 else MIN_US, MAX_US)


def test_only_the_inputs_that_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    for name in "abc":
        pq.write_table(table([NOON_US]), tmp_path / f"{name}.parquet")
    source = opened(spark, "parquet", tmp_path)
    rules = EventRules(key=(), time="instant")
    path = str(tmp_path / "b.parquet")
    assert time_bounds(source, rules, [path]) == {path: (NOON_US, NOON_US)}
    assert time_bounds(source, rules, []) == {}
    with pytest.raises(SourceError, match="absent: is not a file of the source"):
        time_bounds(source, rules, ["absent"])


def test_what_is_not_known(spark: SparkSession, tmp_path: Path) -> None:
    nothing = tmp_path / "null.parquet"
    pq.write_table(table([None, None]), nothing)
    some = tmp_path / "some.parquet"
    pq.write_table(table([NOON_US]), some, write_statistics=False)
    old = tmp_path / "old.parquet"
    pq.write_table(table([NOON_US]), old, use_deprecated_int96_timestamps=True)
    for path in (nothing, some, old):
        source = opened(spark, "parquet", path)
        for name in ("instant", "text", "absent"):
            rules = EventRules(key=(), time=name)
            assert time_bounds(source, rules, [str(path)]) == {str(path): None}, (path, name)
    unit = EventRules(key=(), time="epoch_us")
    assert time_bounds(opened(spark, "parquet", old), unit, [str(old)]) == {str(old): None}
    source = opened(spark, "parquet", old)
    old.write_text("broken since")
    rules = EventRules(key=(), time="epoch_us", time_format="epoch_us")
    assert time_bounds(source, rules, [str(old)]) == {str(old): None}


def test_numbers_that_are_none(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [1.5, float("inf")]}), path)
    rules = EventRules(key=(), time="t", time_format="epoch_s")
    assert time_bounds(opened(spark, "parquet", path), rules, [str(path)]) == {str(path): None}


def test_names_with_dots(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    nested = pa.array([{"t": 7}], pa.struct([("t", pa.int64())]))
    pq.write_table(pa.table({"s": nested, "s.t": [5], "x": [1]}), path)
    source = opened(spark, "parquet", path, schema="`s.t` bigint")
    rules = EventRules(key=(), time="s.t", time_format="epoch_us")
    assert time_bounds(source, rules, [str(path)]) == {str(path): (5, 5)}


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
@pytest.mark.parametrize("zone", ZONES)
def test_folders_of_dates(spark: SparkSession, tmp_path: Path, format: str, zone: str) -> None:
    # Days of 23, 25 and 24 hours, the day that Samoa left out, and a folder without a date.
    names = ["2024-03-31", "1999-10-31", "2024-07-01", "2011-12-30", "2011-12-31", "1999-10-30"]
    steps = [n * DAY // 48 for n in range(-48, 96)]
    for name in names:
        start = (date.fromisoformat(name) - date(1970, 1, 1)).days * DAY
        rows = [{"t": str(start + step)} for step in steps]
        write(tmp_path, format, f"date={name}/x", rows)
    write(tmp_path, format, "date=__HIVE_DEFAULT_PARTITION__/x", [{"t": "5"}])
    source = opened(spark, format, tmp_path, schema="t string, date date")
    rules = EventRules(key=(), time="t", time_format="epoch_us", date_column="date", timezone=zone)
    bounds = time_bounds(source, rules, [file.path for file in source.snapshot.inputs])
    assert bounds.pop(str(tmp_path / f"date=__HIVE_DEFAULT_PARTITION__/x.{format}")) is None
    events = normalise(source.frame, rules).where(F.col(REASON).isNull())
    read = events.groupBy("_source").agg(F.min(TIME), F.max(TIME)).collect()
    assert len(read) >= len(names) - 1
    for path, least, largest in read:
        known = bounds[path]
        assert known is not None
        assert known[0] <= least <= largest <= known[1] < known[0] + 3 * DAY
    if zone == "Europe/Berlin":
        low, high = bounds[str(tmp_path / f"date=2024-07-01/x.{format}")] or (0, 0)
        assert (low, high) == (NOON_US - 14 * DAY // 24, NOON_US + 10 * DAY // 24 - 1)


def test_folders_and_footers(spark: SparkSession, tmp_path: Path) -> None:
    def rows(*hours: int) -> list[dict[str, Any]]:
        return [{"t": NOON + timedelta(hours=hour)} for hour in hours]

    inside = write(tmp_path, "parquet", "date=2024-07-01/a", rows(-20, 3))
    outside = write(tmp_path, "parquet", "date=2024-07-03/b", rows(-20, 3))
    source = opened(spark, "parquet", tmp_path)
    rules = EventRules(key=(), time="t", date_column="date")
    start = NOON_US - DAY // 2
    assert time_bounds(source, rules, [str(inside), str(outside)]) == {
        str(inside): (start, NOON_US + DAY // 8),
        str(outside): (start + 2 * DAY, start + 3 * DAY - 1),
    }


def test_delta_tells_by_its_log(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    for first in (NOON_US, NOON_US + DAY):
        held = table([first, None, first + 1_234_567]).drop(["unsigned_s", "millis"])
        days = pa.array([date(2024, 7, 1)] * 3)
        write_deltalake(
            path, held.append_column("date", days), partition_by=["date"], mode="append"
        )
    source = opened(spark, "delta", Path(path))
    check(source, [name for name in FORMATS if name in held.column_names])
    names = [file.path for file in source.snapshot.inputs]
    for name in names:
        Path(name).write_bytes(b"")  # what follows is not read from the files
    bounds = time_bounds(source, EventRules(key=(), time="instant"), names)
    spans = sorted(bounds.values(), key=str)
    assert [low for low, _ in spans] == [NOON_US, NOON_US + DAY]  # type: ignore[misc]
    assert [high - low for low, high in spans] == [1_234_999] * 2  # type: ignore[misc]
    by_date = EventRules(key=(), time="text", time_format="epoch_us", date_column="date")
    start = NOON_US - DAY // 2
    assert set(time_bounds(source, by_date, names).values()) == {(start, start + DAY - 1)}


def test_delta_without_statistics_tells_by_its_footers(spark: SparkSession, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), table([NOON_US]))
    log = tmp_path / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)))
    source = opened(spark, "delta", tmp_path)
    [path] = [file.path for file in source.snapshot.inputs]
    rules = EventRules(key=(), time="instant")
    assert time_bounds(source, rules, [path]) == {path: (NOON_US, NOON_US)}


def test_formats_without_statistics(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "csv", "a", [{"t": "2024-07-01"}])
    source = opened(spark, "csv", tmp_path)
    assert time_bounds(source, EventRules(key=(), time="t"), [str(path)]) == {str(path): None}
    spark.range(1).createOrReplaceTempView("bounds_of_events")
    table_ = opened(spark, "table", Path("bounds_of_events"))
    assert time_bounds(table_, EventRules(key=(), time="id", time_format="epoch_s"), []) == {}
