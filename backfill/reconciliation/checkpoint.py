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

    def after(self, batch: int) -> int:
        """The watermark after the batch, µs: what the next one that is known evicted by."""
        known = [number for number in self.watermarks if number > batch]
        return self.watermarks[min(known)] if known else self.last

    @property
    def first(self) -> int:
        """The first batch that the logs tell of."""
        return min(self.watermarks)

    @property
    def last(self) -> int:
        """What the last batch evicted by, µs."""
        return self.watermarks[max(self.watermarks)]


def read_checkpoint(path: str) -> Batches:
    """Reads `offsets` and `sources` of a checkpoint of a query over files.

    A query that reads a source twice, as a join does whose sides are of the same files, has one log
    of it, and an offset for each time.

    Raises:
        SourceError: it is not a checkpoint, or cannot be read.
    """
    folder = Path(path)
    files: dict[str, int] = {}
    watermarks: dict[int, int] = {}
    reached: list[tuple[int, list[int | None]]] = []
    try:
        for log in (folder / "offsets").iterdir():
            if log.name.isdigit():
                header, *sources = _lines(log)
                assert header is not None
                watermarks[int(log.name)] = int(header["batchWatermarkMs"]) * 1_000
                offsets = [None if each is None else int(each["logOffset"]) for each in sources]
                reached.append((int(log.name), offsets))
        for source in (folder / "sources").iterdir():
            # What a source had not reached yet has no offset.
            own = sorted(
                (offset, number)
                for number, offsets in reached
                if (offset := offsets[int(source.name)]) is not None
            )
            # The source counts on its own: a batch without new files, as Spark runs it when the
            # watermark has moved, is none to it, though it calls `batchId` what it counts.
            for log in sorted(source.iterdir()):
                if log.name.split(".")[0].isdigit():
                    for entry in _lines(log):
                        assert entry is not None
                        place = bisect_left(own, (int(entry["batchId"]), 0))
                        if place < len(own):
                            files[local_path(entry["path"]) or entry["path"]] = own[place][1]
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise SourceError(
            f"is not the checkpoint of a query over files: {error}", field="checkpoint", value=path
        ) from error
    if not files or not watermarks:
        raise SourceError("contains no batch", field="checkpoint", value=path)
    return Batches(files, watermarks)


def _lines(log: Path) -> list[dict[str, Any] | None]:
    """The JSON lines behind the version; None where Spark has nothing to say."""
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"{log.name} is of version {version}, and v1 is known")
    return [json.loads(line) if line.startswith("{") else None for line in lines if line]
