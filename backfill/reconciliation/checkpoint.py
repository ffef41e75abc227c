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
    """What the logs of a checkpoint say.

    Attributes:
        of_file: the batch that read each file, by path.
        watermarks: the watermark by which each batch evicted, µs; it judged lateness by that of the
            batch before. Spark keeps the logs of the last hundred batches or so, so the first ones
            may be gone.
    """

    of_file: dict[str, int]
    watermarks: dict[int, int]

    def clock(self, batch: int) -> int:
        """The watermark by which the batch judges lateness, µs."""
        return self.watermarks.get(batch - 1, 0)

    def after(self, batch: int) -> int:
        """The watermark after the batch, µs: the one by which the next known batch evicted."""
        known = [number for number in self.watermarks if number > batch]
        return self.watermarks[min(known)] if known else self.last

    @property
    def first(self) -> int:
        """The first batch in the logs."""
        return min(self.watermarks)

    @property
    def last(self) -> int:
        """The watermark by which the last batch evicted, µs."""
        return self.watermarks[max(self.watermarks)]


def read_checkpoint(path: str) -> Batches:
    """Reads `offsets` and `sources` of a checkpoint of a query over files.

    A query that reads a source twice, such as a join whose sides are of the same files, has one log
    for it, and an offset for each read.

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
                offsets = [None if line is None else int(line["logOffset"]) for line in sources]
                reached.append((int(log.name), offsets))
        for source in (folder / "sources").iterdir():
            # A source that has not read anything yet has no offset.
            own = sorted(
                (offset, number)
                for number, offsets in reached
                if (offset := offsets[int(source.name)]) is not None
            )
            # The source has its own count, though it is called `batchId`: it leaves out batches
            # without new files, which Spark runs when the watermark has moved.
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
    """The JSON lines after the version; None where Spark wrote no object."""
    version, *lines = log.read_text(encoding="utf-8").splitlines()
    if version != "v1":
        raise ValueError(f"{log.name} has version {version}, but only v1 is known")
    return [json.loads(line) if line.startswith("{") else None for line in lines if line]
