"""Where a query's output and checkpoint lie, and whether they belong to the query asked for.

Spark's checkpoint does not hold the query: one with another gap, key or type would go on with the
state of the old one. So a record of the query is kept next to the checkpoint.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from backfill.errors import TableError
from backfill.events.model import CORRUPT, SOURCE
from backfill.folders import LocalFolder, meet
from backfill.ledger.state import settings
from backfill.spec import JobSpec
from backfill.time.durations import Fixed
from backfill.windows import JoinWindow

_ANOTHER = "Stream to another folder"
# Settings for the batch only: the stream follows Spark's rules, and counts every copy.
_NOT_OURS = frozenset({"engine", "events.id"})


@dataclass(frozen=True)
class Checkpoint:
    """One window's output, in `to/WINDOW`, and checkpoint, in `to/_checkpoints/WINDOW`.

    Attributes:
        delays: the watermark's, and that of a join's right side.
    """

    spec: JobSpec
    window: str
    to: Path
    delays: tuple[Fixed, Fixed]

    @property
    def output(self) -> Path:
        """The folder of Parquet files that the query writes."""
        return self.to / self.window

    @property
    def folder(self) -> Path:
        """Spark's checkpoint of the query."""
        return self.to / "_checkpoints" / self.window

    @property
    def _record(self) -> Path:
        return self.folder.with_name(f"{self.window}.json")

    def check(self, schema: StructType) -> None:
        """Refuses to go on if the results would not be those of one query.

        Args:
            schema: the source's.

        Raises:
            TableError: the output would lie among the events, or belongs to something else; the job
                file or the source's types have changed since the query began; or the output is
                gone.
        """
        output = LocalFolder(self.output)
        if self.spec.source.meets(output):
            raise TableError(
                "the output would be written into the folder that events are read from",
                field="to",
                value=str(self.to),
                way_out="Choose a folder outside the source",
            )
        for place in self.spec.table_folders():
            if meet(str(output), place):
                raise TableError(
                    f"the output would be written into the folder of a table of the job: {place}",
                    field="to",
                    value=str(self.to),
                    way_out=_ANOTHER,
                )
        if not self._record.exists():
            for taken in (self.output, self.folder):
                if taken.exists() and any(taken.iterdir()):
                    raise TableError(
                        "holds files that this job's stream did not write, or whose checkpoint is "
                        "missing",
                        field=str(taken),
                        way_out=_ANOTHER,
                    )
            return
        self._compare(json.loads(self._record.read_text(encoding="utf-8")), schema)
        if any((self.folder / "commits").glob("[0-9]*")) and not self.output.exists():
            raise TableError(
                "is missing, but the checkpoint would continue after it",
                field=str(self.output),
                way_out=_ANOTHER,
            )

    def begin(self, schema: StructType) -> None:
        """Records the query when it is about to be started for the first time."""
        if self._record.exists():
            return
        self._record.parent.mkdir(parents=True, exist_ok=True)
        new = self._record.with_suffix(".new")
        new.write_text(json.dumps(self._now(schema), indent=1), encoding="utf-8")
        os.replace(new, self._record)

    def _now(self, schema: StructType) -> dict[str, dict[str, Any]]:
        own = {k: v for k, v in settings(self.spec, self.window).items() if k not in _NOT_OURS}
        delay, right = map(str, self.delays)
        delays = {"stream.watermark_delay": delay}
        if right != delay and isinstance(self.spec.windows[self.window].window, JoinWindow):
            delays["stream.right_watermark_delay"] = right
        place = {"source.path": self.spec.source.path, "source.format": self.spec.source.format}
        types = {
            field.name: field.dataType.simpleString()
            for field in schema
            if field.name not in (CORRUPT, SOURCE)
        }
        return {"settings": {**place, **own, **delays}, "types": types}

    def _compare(self, recorded: dict[str, dict[str, Any]], schema: StructType) -> None:
        now = self._now(schema)
        old = recorded["settings"]
        changed = [
            f"{name} (was {old.get(name, 'absent')})"
            for name in dict.fromkeys([*old, *now["settings"]])
            if now["settings"].get(name) != old.get(name)
        ]
        if changed:
            raise TableError(
                f"the query was started with different settings: {', '.join(changed)}",
                field=str(self.folder),
                way_out=f"{_ANOTHER}, or restore the settings",
            )
        for name, type in recorded["types"].items():
            if now["types"].get(name) != type:
                raise TableError(
                    f"column {name} was {type} when the query was started, and is now "
                    f"{now['types'].get(name, 'missing')}",
                    field=str(self.folder),
                    way_out="Set the types in source.schema",
                )
