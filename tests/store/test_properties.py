"""Properties of tables that a job file gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from backfill.store import DeltaStore
from backfill.store.files.store import FileStore
from backfill.store.iceberg.store import IcebergStore
from backfill.store.layout import layout_of
from tests.lake import options
from tests.store.by_hand import by_hand, day, publish_to
from tests.tables import commits_of, folder_of, paths_of, rows_of

DAY, TUESDAY, WEDNESDAY = (f"2024-01-0{number}" for number in (1, 2, 3))
#: For each format, a property that its library knows; `owner` is one of the users' own.
KNOWN = {"delta": "delta.checkpointInterval", "iceberg": "history.expire.min-snapshots-to-keep"}
SIZE = {"delta": "delta.targetFileSize", "iceberg": "write.target-file-size-bytes"}
CODEC = {"delta": "delta.parquet.compression.codec", "iceberg": "write.parquet.compression-codec"}

Open = Callable[..., FileStore]


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str, tmp_path: Path) -> Open:
    def open_(properties: Mapping[str, str], sort_by: tuple[str, ...] = ()) -> FileStore:
        if kind == "delta":
            return DeltaStore(tmp_path / "out", properties, sort_by)
        return IcebergStore("lake", "web", options(tmp_path / "lake"), properties, sort_by)

    return open_


def properties_of(store: FileStore) -> Mapping[str, str]:
    if isinstance(store, IcebergStore):
        return store.catalog.load_table("web.sessions").properties
    return DeltaTable(folder_of(store)).metadata().configuration


def test_they_are_set_and_changed_and_others_stay(kind: str, opened: Open) -> None:
    first = opened({KNOWN[kind]: "20", "owner": "web"})
    publish_to(first, by_hand(first, "r1", DAY))
    properties = properties_of(first)
    assert (properties[KNOWN[kind]], properties["owner"]) == ("20", "web")
    changed = opened({KNOWN[kind]: "30"})
    publish_to(changed, by_hand(changed, "r2", TUESDAY), [], dates=day(TUESDAY))
    properties = properties_of(changed)
    assert (properties[KNOWN[kind]], properties["owner"]) == ("30", "web")
    runs = [commit.metadata.get("run_id") for commit in commits_of(changed, "sessions")]
    assert [run for run in runs if run] == ["r2", "r1"]
    # A run that began before the properties changed is published on top of them.
    late = by_hand(changed, "r3", WEDNESDAY)
    publish_to(opened({}), late, [], base=0, dates=day(WEDNESDAY))
    assert properties_of(changed)[KNOWN[kind]] == "30"


def test_files_are_compressed_and_cut_as_they_say(
    kind: str, opened: Open, spark: SparkSession, windows: Callable[..., DataFrame]
) -> None:
    seed = windows(("a", DAY, f"{DAY} 10:00:00"))
    many = seed.drop("user_id").crossJoin(
        spark.range(0, 60_000, 1, 4).selectExpr("sha1(string(id)) AS user_id")
    )
    for number, properties in enumerate(({}, {SIZE[kind]: "500000", CODEC[kind]: "zstd"})):
        store = opened(properties)
        frame = store.stage(
            "sessions",
            many.select(*seed.columns),
            run_id=f"r{number}",
            partition_by=("date",),
            sort_by=("user_id",),
        )
        publish_to(store, frame)
        paths = paths_of(store, "sessions")
        assert (len(paths) > 1) is bool(properties)
        footer = pq.read_metadata(folder_of(store) / paths[0])
        codec = footer.row_group(0).column(0).compression
        assert codec == ("ZSTD" if properties else "SNAPPY")
        assert rows_of(store, spark, "sessions").count() == 60_000


@pytest.mark.parametrize(
    ("text", "size"),
    [("134217728", 1 << 27), ("128MB", 1 << 27), ("104857600b", 104857600), ("2g", 1 << 31)],
)
def test_sizes(text: str, size: int) -> None:
    assert layout_of({"delta.targetFileSize": text}).task_bytes == size


def test_a_merge_that_asks_for_small_tasks_follows_them_too(
    kind: str, opened: Open, windows: Callable[..., DataFrame]
) -> None:
    store = opened({SIZE[kind]: "1000000"})
    staged = store.stage(
        "sessions",
        windows(("a", DAY, f"{DAY} 10:00:00"), ("b", DAY, f"{DAY} 11:00:00")).repartition(2),
        run_id="r1",
        partition_by=("date",),
        sort_by=("user_id",),
        task_bytes=1,
    )
    assert len(staged.files) == 1


def test_rows_are_sorted_first_as_the_job_says(
    opened: Open, spark: SparkSession, windows: Callable[..., DataFrame]
) -> None:
    store = opened({}, ("window_end", "user_id", "nothing"))
    rows = [
        ("b", DAY, f"{DAY} 12:00:00"),
        ("c", DAY, f"{DAY} 11:00:00"),
        ("a", DAY, f"{DAY} 12:00:00"),
    ]
    for number, batch in enumerate(([*rows], [("a", DAY, f"{DAY} 10:00:00")])):
        staged = store.stage(
            "sessions",
            windows(*batch),
            run_id=f"r{number}",
            partition_by=("date",),
            sort_by=("user_id", "window_start"),
        )
        publish_to(store, staged, [], dates=day(DAY))
    assert _keys(store) == [["c", "a", "b"], ["a"]]
    store.compact(spark, "sessions", run_id="compact", sort_by=("user_id", "window_start"))
    assert _keys(store) == [["a", "c", "a", "b"]]


def _keys(store: FileStore) -> list[list[str]]:
    """The keys of each file in their order, the largest file first."""
    folder = folder_of(store)
    read = (
        pq.read_table(folder / path)["user_id"].to_pylist() for path in paths_of(store, "sessions")
    )
    return sorted(read, key=len, reverse=True)
