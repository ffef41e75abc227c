"""What the logs of a Spark query's checkpoint tell, as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backfill.errors import SourceError
from backfill.reconciliation.checkpoint import read_checkpoint

pytestmark = pytest.mark.usefixtures("interpreted")


def write(folder: Path, offsets: dict[int, tuple[int, int]], sources: dict[str, int]) -> str:
    """Writes a checkpoint.

    Args:
        folder: the checkpoint's folder.
        offsets: for each batch, the watermark (ms) and how far it read the source.
        sources: the source's number for each file.
    """
    (folder / "offsets").mkdir(parents=True)
    (folder / "sources" / "0").mkdir(parents=True)
    for batch, (watermark, reached) in offsets.items():
        lines = ["v1", json.dumps({"batchWatermarkMs": watermark, "conf": {}})]
        lines.append(json.dumps({"logOffset": reached}))
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    by_number: dict[int, list[str]] = {}
    for file, number in sources.items():
        by_number.setdefault(number, []).append(file)
    for number, files in by_number.items():
        entries = [{"path": f"file://{path}", "timestamp": 1, "batchId": number} for path in files]
        text = "\n".join(["v1", *map(json.dumps, entries)])
        (folder / "sources" / "0" / str(number)).write_text(text)
    return str(folder)


def test_batches_without_files_are_the_querys_and_none_of_the_sources(tmp_path: Path) -> None:
    offsets = {0: (0, 0), 1: (50, 0), 2: (50, 1), 3: (70, 1), 4: (70, 3)}
    sources = {"/a": 0, "/b": 1, "/c": 2, "/d": 3, "/planned": 4}
    batches = read_checkpoint(write(tmp_path, offsets, sources))
    # A batch can take the files of several of the source's numbers; the last one was not begun.
    assert batches.of_file == {"/a": 0, "/b": 2, "/c": 4, "/d": 4}
    assert [batches.clock(batch) for batch in range(5)] == [0, 0, 50_000, 50_000, 70_000]
    assert (batches.first, batches.last) == (0, 70_000)


def test_logs_that_spark_has_dropped_are_noticed(tmp_path: Path) -> None:
    batches = read_checkpoint(write(tmp_path, {7: (50, 3), 8: (60, 4)}, {"/a": 0, "/b": 4}))
    assert batches.first == 7


def test_what_is_no_checkpoint_over_files(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match="checkpoint: is not the checkpoint of a query over files"
    ):
        read_checkpoint(str(tmp_path))
    nothing = write(tmp_path / "empty", {}, {})
    with pytest.raises(SourceError, match="checkpoint: contains no batch"):
        read_checkpoint(nothing)


def test_several_sources_that_are_each_read_twice(tmp_path: Path) -> None:
    """As in a join whose sides both read all of them; the second source is empty at first."""
    folder = tmp_path / "checkpoint"
    write(folder, {}, {"/a": 0, "/b": 1})
    (folder / "sources" / "1").mkdir()
    entry = json.dumps({"path": "file:///other", "timestamp": 1, "batchId": 0})
    (folder / "sources" / "1" / "0").write_text(f"v1\n{entry}")
    for batch, offsets in enumerate([(0, None), (1, None), (1, 0)]):
        both = ["-" if offset is None else json.dumps({"logOffset": offset}) for offset in offsets]
        header = json.dumps({"batchWatermarkMs": batch * 10, "conf": {}})
        (folder / "offsets" / str(batch)).write_text("\n".join(["v1", header, *both, *both]))
    batches = read_checkpoint(str(folder))
    assert batches.of_file == {"/a": 0, "/b": 1, "/other": 2}
    assert [batches.after(batch) for batch in range(3)] == [10_000, 20_000, 20_000]
