"""What runs over a part of the dates put into the quarantine, once for each input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON
from backfill.execution.base import QUARANTINE, BaseRun
from backfill.execution.results import Past
from backfill.execution.retention import BEYOND
from backfill.ledger.record import Input
from backfill.store import StagedFiles
from backfill.time.dates import Dates


@dataclass(frozen=True)
class Unusable:
    """What of a run goes to the quarantine: written, and not published yet.

    Attributes:
        rows: those of inputs that no run had looked at.
        reasons: how many rows for each; events beyond retention besides.
        replaced: the files of the table that they take the place of.
        inputs: what was looked at.
    """

    staged: StagedFiles
    rows: int
    reasons: Mapping[str, int]
    replaced: Sequence[str]
    inputs: Mapping[str, Input]


class QuarantiningRun(BaseRun):
    """A run that adds to a quarantine what the inputs new to it hold."""

    def fresh(self, paths: Iterable[str]) -> list[str]:
        """Those of the inputs whose unusable rows are not in the quarantine yet."""
        record = self.states[QUARANTINE].record
        known = {} if record is None else record.inputs
        return [
            path
            for path in paths
            if path not in known or known[path].digest != self.inputs[path].digest
        ]

    def unusable(self, fresh: Sequence[str], past: Past | None) -> Unusable:
        """Writes what cannot be used.

        Args:
            fresh: the inputs that no run has looked at.
            past: events beyond retention, of any inputs.
        """
        rows = self.reader.unusable(list(fresh))
        by_reason = rows.groupBy(REASON).count().collect() if fresh else []
        found = {row[REASON]: row["count"] for row in by_reason}
        count = sum(found.values())
        gone = past.rows if past is not None else 0
        if past is not None and gone:
            found[BEYOND] = gone
            rows = rows.unionByName(past.frame)
        known, replaced = self._quarantined(fresh)
        staged = self.stage_quarantine(
            rows if count or gone else None,
            known=known if gone else None,
            kept=known if replaced else None,
        )
        inputs = {path: self.inputs[path] for path in fresh}
        return Unusable(staged, count, found, replaced, inputs)

    def quarantine(self, unusable: Unusable, closure: Dates, horizon: int | None) -> None:
        """Publishes what cannot be used; last, for a rerun finds what it lacks.

        Args:
            unusable: as `unusable` wrote it.
            closure: the run's.
            horizon: µs.
        """
        state = self.states[QUARANTINE]
        if unusable.inputs or unusable.staged.files or state.version is None:
            self.store.publish(
                QUARANTINE,
                unusable.staged,
                replace=unusable.replaced,
                base=state.version,
                dates=list(closure.ranges),
                metadata=self.metadata(quarantined=unusable.rows),
                record=self.recorded(state, horizon=horizon, inputs=unusable.inputs),
            )

    def _quarantined(self, fresh: Sequence[str]) -> tuple[DataFrame | None, list[str]]:
        """What is in the quarantine, without rows of inputs that have changed since.

        Returns:
            The rows, and the files to be written anew: all, where an input has changed.
        """
        state = self.states[QUARANTINE]
        if state.version is None:
            return None, []
        rows = self.store.read(self.spark, QUARANTINE, version=state.version)
        known = {} if state.record is None else state.record.inputs
        changed = [path for path in fresh if path in known]
        if not changed:
            return rows, []
        # An access log's rows have the line behind the path.
        path = F.regexp_replace("source", r":\d+$", "")
        gone = F.col("source").isin(changed) | path.isin(changed)
        files = self.store.files(QUARANTINE, version=state.version)
        return rows.where(F.col("source").isNull() | ~gone), list(files)
