"""Inputs that are the same though they look new: equal content, and files that were compacted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from backfill.errors import SourceError
from backfill.events import Rewrite, digest, digests
from backfill.events.compaction import rewrites
from tests.inputs import opened

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_digests_are_of_the_content(tmp_path: Path, size: int) -> None:
    content = bytes(n * 7919 % 251 for n in range(size))
    path = tmp_path / "a b%20+"
    path.write_bytes(content)
    assert digest(str(path)) == hashlib.blake2b(content, digest_size=16).hexdigest()


def test_digests_of_many_files(tmp_path: Path) -> None:
    paths = [tmp_path / str(n) for n in range(50)]
    for n, path in enumerate(paths):
        path.write_text(str(n % 10))
    hashes = digests([*map(str, paths), "s3a://bucket/x"])
    assert hashes.pop("s3a://bucket/x") is None
    assert list(hashes) == [str(path) for path in paths]
    assert len(set(hashes.values())) == 10
    assert digests([]) == {}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone: cannot be read: No such file") as raised:
        digests([str(tmp_path / "gone")])
    assert "\n" not in str(raised.value)


def test_compactions_are_told_from_new_events(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "events")

    def append(number: int) -> None:
        rows = pa.table({"n": [number], "place": ["x y"]})
        write_deltalake(path, rows, mode="append", partition_by=["place"])

    def inputs() -> frozenset[str]:
        return frozenset(file.path for file in opened(spark, "delta", Path(path)).snapshot.inputs)

    append(1)
    append(2)  # version 1
    first = inputs()
    DeltaTable(path).optimize.compact()  # version 2
    second = inputs()
    append(3)
    third = inputs()
    DeltaTable(path).optimize.compact()  # version 4
    fourth = inputs()
    DeltaTable(path).delete("n = 1")  # version 5
    assert len(first) == 2
    assert len(second) == len(fourth) == 1
    assert rewrites(path, 0, 5) == (Rewrite(2, second, first), Rewrite(4, fourth, third))
    assert rewrites(path, 2, 3) == rewrites(path, 5, 5) == ()
    assert rewrites(f"file://{path}/", 3, 4) == (Rewrite(4, fourth, third),)


def test_a_log_that_does_not_reach_back(tmp_path: Path) -> None:
    path = str(tmp_path / "events")
    for number in range(3):
        write_deltalake(path, pa.table({"n": [number]}), mode="append")
    (tmp_path / "events" / "_delta_log" / f"{1:020}.json").unlink()
    assert rewrites(path, 1, 2) == ()
    assert rewrites(path, 0, 2) == ()
    # The table was recreated.
    assert rewrites(path, 7, 2) == ()
    (tmp_path / "events" / "_delta_log" / f"{1:020}.json").write_text("{")
    with pytest.raises(SourceError, match=r"the log of the Delta table cannot be read: ") as raised:
        rewrites(path, 0, 2)
    assert "\n" not in str(raised.value)
