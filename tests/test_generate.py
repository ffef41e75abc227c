from __future__ import annotations

from datetime import date, datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from backfill.errors import JobFileError, TableError
from backfill.generate import generate

HOUR = 3600 * 1_000_000


def read(path: Path) -> list[dict[str, object]]:
    """All rows in order of arrival, times as microseconds."""
    table = ds.dataset(path, partitioning="hive").to_table()
    for name in ("event_time", "received_at"):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, table[name].cast(pa.int64()))
    return table.sort_by([("received_at", "ascending"), ("event_id", "ascending")]).to_pylist()


@pytest.fixture(scope="module")
def troubled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generated") / "events"
    generate(
        spark,
        str(path),
        events=20_000,
        days=4,
        keys=50,
        late=0.05,
        duplicates=0.02,
        hot_key=0.5,
        start=date(2026, 3, 28),
    )
    return path


def test_the_same_arguments_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    arguments = {"events": 500, "days": 2, "keys": 9, "late": 0.1, "duplicates": 0.1}
    before = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
    first = generate(spark, str(few), **arguments)
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "7")
    second = generate(spark, str(many), **arguments)
    if before is None:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
    assert read(few) == read(many)
    assert (first.rows, first.late, first.days) == (second.rows, second.late, second.days)


def test_another_seed_gives_other_rows(spark: SparkSession, tmp_path: Path) -> None:
    for seed in (1, 2):
        generate(spark, str(tmp_path / str(seed)), events=50, days=1, keys=9, seed=seed)
    one, two = (read(tmp_path / seed) for seed in ("1", "2"))
    assert {row["event_id"] for row in one}.isdisjoint(row["event_id"] for row in two)


@pytest.mark.parametrize(("events", "per_session"), [(1, 12), (100, 1), (101, 5)])
def test_the_number_of_events_is_exact(
    spark: SparkSession, tmp_path: Path, events: int, per_session: int
) -> None:
    path = tmp_path / "events"
    made = generate(spark, str(path), events=events, days=1, keys=7, per_session=per_session)
    rows = read(path)
    assert (made.events, made.rows, made.late) == (events, events, 0)
    assert len(rows) == len({row["event_id"] for row in rows}) == events


def test_without_late_events_arrival_is_order_of_time(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    generate(spark, str(path), events=5_000, days=3, keys=40)
    for folder in path.glob("received_date=*"):
        (file,) = folder.glob("*.parquet")
        times = ds.dataset(file).to_table()["event_time"].to_pylist()
        assert times == sorted(times)
    assert all(row["received_at"] - row["event_time"] == 1_000_000 for row in read(path))


def test_times_lie_in_the_days_asked_for(troubled: Path) -> None:
    times = [row["event_time"] for row in read(troubled)]
    first = datetime(2026, 3, 28, tzinfo=timezone.utc).timestamp() * 1_000_000
    assert first <= min(times)
    assert max(times) < first + 4 * 24 * HOUR


def test_files_land_by_the_day_of_arrival_in_utc(troubled: Path) -> None:
    for row in read(troubled):
        arrived = datetime.fromtimestamp(row["received_at"] // 1_000_000, timezone.utc).date()
        assert row["received_date"] == arrived.isoformat()


def test_shares_are_what_was_asked_for(troubled: Path) -> None:
    rows = read(troubled)
    deliveries: dict[object, list[dict[str, object]]] = {}
    for row in rows:
        deliveries.setdefault(row["event_id"], []).append(row)
    first = [copies[0] for copies in deliveries.values()]
    assert len(first) == 20_000
    assert len(rows) / 20_000 == pytest.approx(1.02, abs=0.005)
    late = [row for row in first if row["received_at"] - row["event_time"] >= HOUR]
    assert len(late) / 20_000 == pytest.approx(0.05, abs=0.01)
    hot = [row for row in first if row["user_id"] == "u0000000"]
    assert len(hot) / 20_000 == pytest.approx(0.5, abs=0.05)
    assert len({row["user_id"] for row in rows}) == 51
    buys = [row for row in first if row["event_type"] == "buy"]
    assert len(buys) / 20_000 == pytest.approx(0.05, abs=0.01)


def test_copies_differ_in_arrival_alone(troubled: Path) -> None:
    copies: dict[object, dict[str, object]] = {}
    for row in read(troubled):
        earlier = copies.setdefault(row["event_id"], row)
        if earlier is not row:
            assert earlier["received_at"] < row["received_at"]
            both = earlier | {"received_at": None, "received_date": None}
            assert both == row | {"received_at": None, "received_date": None}


def test_a_visit_has_some_twelve_events_half_a_minute_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "events"
    generate(spark, str(path), events=24_000, days=60, keys=1_000_000)
    last: dict[object, int] = {}
    steps = []
    for row in read(path):
        before = last.get(row["user_id"])
        if before is not None and row["event_time"] - before < HOUR:
            steps.append(row["event_time"] - before)
        last[row["user_id"]] = row["event_time"]
    assert sorted(steps)[len(steps) // 2] == pytest.approx(25_000_000, rel=0.05)
    assert 24_000 / (24_000 - len(steps)) == pytest.approx(12, rel=0.05)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("events", 0), ("events", 10**24), ("days", 0), ("keys", -1), ("keys", 10**20), ("late", 1.5)],
)
def test_numbers_without_sense_are_refused(
    spark: SparkSession, tmp_path: Path, argument: str, value: float
) -> None:
    arguments = {"events": 1, "days": 1, "keys": 1} | {argument: value}
    with pytest.raises(JobFileError, match=argument):
        generate(spark, str(tmp_path / "events"), **arguments)


def test_a_folder_that_exists_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="already exists"):
        generate(spark, str(tmp_path), events=1, days=1, keys=1)
    assert list(tmp_path.iterdir()) == []
