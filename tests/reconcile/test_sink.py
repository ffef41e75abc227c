"""What a killed query left in the folder of Spark's file sink is not its output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill.errors import SourceError
from backfill.reconciliation.output.sink import not_committed
from backfill.windows import TumblingWindow
from tests.files import write_rows
from tests.on_sail import ROWS
from tests.reconcile.streams import final, stream

pytestmark = pytest.mark.usefixtures("interpreted")

SECOND = 1_000_000


def logged(folder: Path, name: str, *actions: tuple[str, str], version: str = "v1") -> None:
    log = folder / "_spark_metadata" / name
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        # Where the query ran; the folder has been copied since.
        json.dumps({"path": f"file:///elsewhere/a%20b/{file}", "size": 1, "action": action})
        for action, file in actions
    ]
    log.write_text("\n".join([version, *lines]))


def test_logs_and_compact_logs(tmp_path: Path) -> None:
    files = [f"{tmp_path}/part-{n}.parquet" for n in range(6)]
    # This is not the folder of a sink: everything is output.
    assert not_committed(str(tmp_path), files) == []
    logged(tmp_path, "0", ("add", "part-0.parquet"))
    logged(tmp_path, "1", ("add", "part-1.parquet"), ("add", "part-5.parquet"))
    assert not_committed(str(tmp_path), files) == files[2:5]
    # A compact log stands for those before it, including what they deleted.
    logged(tmp_path, "2.compact", ("add", "part-0.parquet"), ("add", "part-2.parquet"))
    logged(tmp_path, "3", ("add", "part-3.parquet"), ("delete", "part-0.parquet"))
    (tmp_path / "_spark_metadata" / ".3.crc").write_text("no log")
    assert not_committed(f"file://{tmp_path}", files) == [files[n] for n in (0, 1, 4, 5)]
    logged(tmp_path, "4", version="v2")
    with pytest.raises(SourceError, match="v2"):
        not_committed(str(tmp_path), files)


def test_only_committed_rows_are_decoded(spark: SparkSession, tmp_path: Path) -> None:
    for part, n in ((f"part-0.{ROWS}", 1), (f"part-1.{ROWS}", 2), (f"part-2.{ROWS}", 3)):
        row = {"user": "a", "window_start": n * 60_000, "window_end": n * 60_000 + 60_000}
        write_rows(tmp_path / part, [{**row, "events": n}])
    logged(tmp_path, "0", ("add", f"part-0.{ROWS}"))
    logged(tmp_path, "1", ("add", f"part-2.{ROWS}"))
    minute = TumblingWindow(size="60s")
    kinds = {"user": T.StringType()}, {"events": T.LongType()}
    decoded = stream(
        spark, tmp_path, "spark-append", minute, key=kinds[0], aggregates=kinds[1], engine="spark"
    )
    assert final(decoded) == {
        ("a", 60 * SECOND, 120 * SECOND): (1,),
        ("a", 180 * SECOND, 240 * SECOND): (3,),
    }
