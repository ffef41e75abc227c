"""The live files, and what their statistics say about their rows."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import TableError
from backfill.store import DeltaStore, StagedFiles
from tests.store.by_hand import by_hand
from tests.tables import files_of, folder_of, paths_of, rows_of

Windows = Callable[..., DataFrame]
Stage = Callable[..., StagedFiles]
Publish = Callable[..., int]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def us(text: str) -> int:
    return (datetime.fromisoformat(f"{text}+00:00") - EPOCH) // timedelta(microseconds=1)


def test_keys_times_and_dates_are_bounded(
    store: DeltaStore, windows: Windows, stage: Stage, publish: Publish
) -> None:
    publish(
        stage(
            windows(
                ("b", "2024-01-02", "2024-01-02 10:00:00.000001"),
                ("a", "2024-01-02", "2024-01-02 11:00:00"),
                ("é", "1969-12-31", "1969-12-31 23:59:59.999999"),
            ),
            "r1",
        )
    )
    old, new = files_of(store, "sessions")
    assert [old.path, new.path] == list(paths_of(store, "sessions"))
    assert (old.rows, new.rows) == (1, 2)
    assert new.size == (folder_of(store, "sessions") / new.path).stat().st_size
    assert new.minimum["user_id"] == "a"
    assert new.maximum["user_id"] == "b"
    assert new.minimum["date"] == new.maximum["date"] == date(2024, 1, 2)
    assert old.minimum["date"] == date(1969, 12, 31)
    # Statistics have milliseconds: the bounds are wider than the values by less than two.
    assert new.minimum["window_start"] == us("2024-01-02T10:00:00")
    assert 0 <= new.maximum["window_start"] - us("2024-01-02T11:00:00") < 2000
    assert new.minimum["window_end"] == us("2024-01-02T10:10:00")
    assert 0 <= new.maximum["window_end"] - us("2024-01-02T11:10:00") < 2000
    assert old.minimum["window_start"] == -1000
    assert 0 <= old.maximum["window_start"] + 1 < 2000
    assert new.minimum["events"] == new.maximum["events"] == 1
    assert new.minimum["is_open"] is False
    assert new.maximum["is_open"] is False
    assert not {"_state", "_state.n", "n"} & set(new.minimum)


def test_types_and_nulls(spark: SparkSession, store: DeltaStore, publish: Publish) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES (1.10BD, timestamp_ntz'1969-12-31 23:59:59.5', NULL, 2.5D, 'x y'),"
        "(2.25BD, NULL, NULL, -1D, 'x y') AS t(amount, local, nothing, ratio, part)"
    ).withColumn("nothing", F.lit(None).cast("string"))
    publish(store.stage("t", frame, run_id="r1", partition_by=("part",), sort_by=("amount",)))
    (file,) = files_of(store, "t")
    assert file.minimum == {
        "amount": Decimal("1.10"),
        "local": -500_000,
        "ratio": -1.0,
        "part": "x y",
    }
    assert file.maximum == {
        "amount": Decimal("2.25"),
        "local": -500_000 + 999,
        "ratio": 2.5,
        "part": "x y",
    }


def test_versions_and_absent_tables(store: DeltaStore, publish: Publish) -> None:
    assert files_of(store, "sessions") == ()
    publish(by_hand(store, "r1"))
    assert files_of(store, "sessions") == ()
    publish(by_hand(store, "r2", "2024-01-01", "2024-01-02"), [])
    assert len(files_of(store, "sessions")) == 2
    assert files_of(store, "sessions", version=0) == ()


def test_files_of_other_writers(store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    folder = folder_of(store, "sessions")
    rows = DeltaTable(folder).to_pyarrow_table()
    write_deltalake(str(folder), rows, mode="append")
    own, foreign = sorted(files_of(store, "sessions"), key=lambda file: "r1" not in file.path)
    start = us("2024-01-01T12:00:00.000001")
    for file in (own, foreign):
        assert file.rows == 1
        assert file.minimum["date"] == date(2024, 1, 1)
        assert file.minimum["window_start"] <= start <= file.maximum["window_start"]


@pytest.mark.parametrize(
    ("features", "refused"),
    [
        (["timestampNtz", "v2Checkpoint", "columnMapping", "deletionVectors"], None),
        (["vacuumProtocolCheck", "typeWidening"], "(got 'typeWidening, vacuumProtocolCheck')"),
    ],
)
def test_features_that_others_have_given_a_table(
    store: DeltaStore, publish: Publish, features: list[str], refused: str | None
) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": [*features, "appendOnly", "invariants"],
    }
    commit = folder_of(store) / "_delta_log" / f"{1:020}.json"
    commit.write_text(json.dumps({"protocol": protocol}))
    if refused is None:
        assert len(files_of(store, "sessions")) == 1
        return
    with pytest.raises(TableError, match=re.escape(refused)):
        files_of(store, "sessions")


@pytest.mark.parametrize("features", [None, ["columnMapping"]])
def test_columns_that_others_have_renamed(
    store: DeltaStore, publish: Publish, features: list[str] | None
) -> None:
    publish(by_hand(store, "r1", "2024-01-01"))
    log = folder_of(store) / "_delta_log"
    texts = (log / f"{0:020}.json").read_text().splitlines()
    [metadata] = [json.loads(text)["metaData"] for text in texts if "metaData" in text]
    metadata["configuration"]["delta.columnMapping.mode"] = "name"
    schema = json.loads(metadata["schemaString"])
    for number, field in enumerate(schema["fields"], 1):
        own = {"id": number, "physicalName": field["name"]}
        field["metadata"] = {f"delta.columnMapping.{name}": value for name, value in own.items()}
    metadata["schemaString"] = json.dumps(schema)
    # The protocol of old tables does not name features.
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    if features:
        named = {"readerFeatures": features, "writerFeatures": features}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **named}
    actions = [{"protocol": protocol}, {"metaData": metadata}]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(
        TableError, match=r"features that are not supported .*\(got 'columnMapping'\)"
    ):
        files_of(store, "sessions")


def test_thousands_of_files(store: DeltaStore, publish: Publish) -> None:
    staged = by_hand(store, "r1", "2024-01-01")
    (file,) = staged.files
    whole = (Path(staged.folder) / file.path).read_bytes()
    copies = []
    for number in range(3000):
        path = f"date={date(2000, 1, 1) + timedelta(number)}/part.parquet"
        (Path(staged.folder) / path).parent.mkdir()
        (Path(staged.folder) / path).write_bytes(whole)
        copies.append(replace(file, path=path))
    publish(replace(staged, files=tuple(copies)))
    begin = time.monotonic()
    files = files_of(store, "sessions")
    assert time.monotonic() - begin < 3
    assert len(files) == 3000
    assert files[0].minimum["date"] == date(2000, 1, 1)


def test_only_some_files_are_read(spark: SparkSession, store: DeltaStore, publish: Publish) -> None:
    publish(by_hand(store, "r1", "2024-01-01", "2024-01-02", "2024-01-03"))
    monday, tuesday, _ = paths_of(store, "sessions")
    frame = rows_of(store, spark, "sessions", files=[tuesday, monday, tuesday])
    assert sorted(str(row.date) for row in frame.collect()) == ["2024-01-01", "2024-01-02"]
    assert rows_of(store, spark, "sessions", files=[]).collect() == []
    publish(by_hand(store, "r2", "2024-01-01"), [monday])
    with pytest.raises(
        TableError, match=r"the file is not part of version 1 \(got 'date=2024-01-01"
    ):
        rows_of(store, spark, "sessions", files=[monday])
    assert rows_of(store, spark, "sessions", version=0, files=[monday]).count() == 1
    # A file that is not asked for may be gone.
    (folder_of(store, "sessions") / tuesday).unlink()
    assert rows_of(store, spark, "sessions", version=0, files=[monday]).count() == 1
