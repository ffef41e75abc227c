from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill.store import DeltaStore, StagedFiles
from tests.objects import make_bucket, served
from tests.store.by_hand import publish_to

Stage = Callable[..., StagedFiles]


@pytest.fixture
def store(tmp_path: Path) -> DeltaStore:
    return DeltaStore(tmp_path / "out")


@pytest.fixture(scope="session")
def object_server() -> Iterator[dict[str, str]]:
    with served() as environment:
        yield environment


@pytest.fixture
def bucket(object_server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket, which Amazon's libraries can reach."""
    for name, value in object_server.items():
        monkeypatch.setenv(name, value)
    return make_bucket(object_server, tmp_path.name.replace("_", "-"))


@pytest.fixture
def windows(spark: SparkSession) -> Callable[..., DataFrame]:
    """Rows of a window table from (key, date, start), with the other columns of such a table."""

    def build(*rows: tuple[str, str, str], events: str = "1L") -> DataFrame:
        values = ", ".join(
            f"('{key}', timestamp'{start}Z', date'{date}')" for key, date, start in rows
        )
        return spark.sql(
            f"SELECT * FROM VALUES {values} AS t(user_id, window_start, date)"
        ).selectExpr(
            "user_id",
            "window_start",
            "window_start + INTERVAL 10 MINUTES AS window_end",
            f"{events} AS events",
            "false AS is_open",
            "named_struct('n', 1L) AS _state",
            "date",
        )

    return build


@pytest.fixture
def stage(store: DeltaStore) -> Stage:
    def build(frame: DataFrame, run_id: str, name: str = "sessions") -> StagedFiles:
        return store.stage(
            name, frame, run_id=run_id, partition_by=("date",), sort_by=("user_id", "window_start")
        )

    return build


@pytest.fixture
def publish(store: DeltaStore) -> Callable[..., int]:
    """Publishes in the store: see `publish_to`."""
    return partial(publish_to, store)
