"""A Spark query's checkpoint: which files each batch read, and with which watermark it ran."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill.errors import SourceError
from backfill.events.files import local_path


@dataclass(frozen=True)
class Batches:
    """What the logs of a checkpoint tell.

    Attributes:
        of_file: the batch that read each file, by path.
        watermarks: what each batch evicted by, µs; lateness is judged by the one before it. Spark
            keeps the logs of the last hundred batches or so, so the first one may be gone.
    """

    of_file: dict[str, int]
    watermarks: dict[int, int]

    def clock(self, batch: int) -> int:
        """What the batch judges lateness by, µs."""
        return self.watermarks.get(batch - 1, 0)

    @property
    def first(self) -> int:
        """The first batch that the logs tell of."""
        return min(self.watermarks)

    @property
    def last(self) -> int:
        """What the last batch evicted by, µs."""
        return self.watermarks[max(self.watermarks)]


def read_checkpoint(path: str) -> Batches:
    """Reads `offsets` and `sources/0` of a checkpoint of a query with one source of files.

    Raises:
        SourceError: it is not a checkpoint, or cannot be read.
    """
    folder = Path(path)
    files: dict[str, int] = {}
    watermarks: dict[int, int] = {}
    reached: list[tuple[int, int]] = []
    try:
        for log in (folder / "offsets").iterdir():
            if log.name.isdigit():
                header, source = _lines(log)
                watermarks[int(log.name)] = int(header["batchWatermarkMs"]) * 1_000
                reached.append((int(source["logOffset"]), int(log.name)))
        reached.sort()
        # The source counts on its own: a batch without new files, as Spark runs it when the
        # watermark has moved, is none to it, though it calls `batchId` what it counts.
        for log in sorted((folder / "sources" / "0").iterdir()):
            if log.name.split(".")[0].isdigit():
                for entry in _lines(log):
                    place = bisect_left(reached, (int(entry["batchId"]), 0))
                    if place < len(reached):
                        files[local_path(entry["path"]) or entry["path"]] = reached[place][1]
    except (OSError, ValueError, KeyError) as error:
        raise SourceError(
            f"is not the checkpoint of a query over files: {error}", field="checkpoint", value=path
        ) from error
    if not files or not watermarks:
        raise SourceError("contains no batch", field="checkpoint", value=path)
    return Batches(files, watermarks)


def _lines(log: Path) -> list[dict[str, Any]]:
    """The JSON lines behind the version."""
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"{log.name} is of version {version}, and v1 is known")
    return [json.loads(line) for line in lines if line.startswith("{")]
