"""A run over everything: each table is replaced in one commit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from backfill.columns import REASON
from backfill.compute import Sliced
from backfill.conservation import check_held, check_rows, totals
from backfill.events import Snapshot, spark_errors
from backfill.execution.base import QUARANTINE, BaseRun, reasons, total
from backfill.execution.gate import Rows
from backfill.execution.results import Past, RunResult, WindowResult
from backfill.execution.retention import ended, ended_windows
from backfill.quality.events import Counted
from backfill.store import StagedFiles
from backfill.time.dates import Dates


class FullRun(BaseRun):
    """Computes every date of the source; covered dates that have no events now are cleared."""

    def execute(self) -> RunResult:
        """Runs, once."""
        with self.stack, spark_errors(self.source.snapshot):
            return self._compute()

    def _compute(self) -> RunResult:
        events = self.reader.rows(list(self.inputs))
        counted = Observation()
        usable_events = events.where(F.col(REASON).isNull())
        usable = events.observe(
            counted, F.count(F.lit(1)).alias("read"), F.count(REASON).alias("unusable")
        ).where(F.col(REASON).isNull())
        self.choose(self.inputs, list(self.definitions))
        self.progress(f"reading {_inputs(self.source.snapshot)} into slices")
        sliced = self._kept(usable)
        sums = totals(sliced, self.definitions)
        # First, for of what Spark finds to be empty it need not have observed anything.
        if sums.first is None or sums.horizon is None:
            raise self.nothing_usable()
        read, unusable = counted.get["read"], counted.get["unusable"]
        self.progress(f"{read:,} rows read, {sums.accepted:,} events accepted")

        limit = self.limit(sums.horizon)
        past = None
        if limit is not None and sums.first < limit:
            past = self.past(
                usable_events,
                {
                    name: ended_windows(sliced, definition, limit)
                    for name, definition in self.definitions.items()
                },
                limit,
            )
        staged = {QUARANTINE: self.stage_quarantine(_bad(events if unusable else None, past))}
        check_rows(read, sums, staged[QUARANTINE].rows - (past.rows if past else 0))
        held = {}
        for name, definition in self.definitions.items():
            built = sliced.build(definition)
            if past is not None and limit is not None:
                built = replace(built, frame=built.frame.where(~ended(built, limit)))
            staged[name] = self.stage_window(name, built.table(sums.horizon))
            held[name] = total(staged[name])
            check_held(name, held[name] + (past.held[name] if past else 0), sums.assigned[name])
            self.progress(f"{name}: {staged[name].rows:,} rows written")

        found = reasons(staged[QUARANTINE])
        low, _ = self.widened((sums.first, sums.first + 1), self.definitions.values())
        covered = self.hull(low, sums.horizon)
        accepted = sums.accepted - (past.events if past else 0)
        duplicates = sums.rows - sums.accepted - (past.rows - past.events if past else 0)
        facts = {
            "read": read,
            "accepted": accepted,
            "duplicates": duplicates,
            "quarantined": staged[QUARANTINE].rows,
        }
        checks = self.audit(
            Counted(
                sliced=sliced,
                events=usable_events,
                id=self.spec.id,
                read=read,
                quarantined=staged[QUARANTINE].rows,
                span=self.known_span(),
            ),
            {
                name: Rows(
                    frame=self.store.read_staged(self.spark, staged[name]),
                    dates=self.over(covered, sums.horizon),
                    version=None,
                    without=(),
                    held=held[name] + (past.held[name] if past else 0),
                    assigned=sums.assigned[name],
                    written=staged[name].rows,
                )
                for name in self.definitions
            },
        )
        changed = {name: self.changed(staged[name], None) for name in self.definitions}
        versions = {
            # The quarantine last: whatever was counted before it, a rerun finds what it lacks.
            name: self._publish(
                name, staged[name], covered, sums.horizon, {**facts, "changed": changed.get(name)}
            )
            for name in [*self.definitions, QUARANTINE]
        }
        return RunResult(
            run_id=self.id,
            read=read,
            accepted=accepted,
            duplicates=duplicates,
            quarantined=found,
            windows={
                name: WindowResult(staged[name].rows, held[name], versions[name])
                for name in self.definitions
            },
            horizon_us=sums.horizon,
            seconds=time.monotonic() - self.began,
            checks=checks,
        )

    def _kept(self, usable: DataFrame) -> Sliced:
        """The slices, kept for all windows: the source is scanned once."""
        sliced = self.slices(usable, list(self.definitions)).by_key()
        kept = sliced.frame.persist()
        self.stack.callback(kept.unpersist)
        return replace(sliced, frame=kept)

    def _publish(
        self,
        name: str,
        files: StagedFiles,
        covered: Dates,
        horizon: int,
        facts: Mapping[str, int | None],
    ) -> int:
        state = self.states[name]
        return self.store.publish(
            name,
            files,
            replace="all",
            base=state.version,
            dates=None,
            metadata=self.metadata(rows=files.rows, **facts),
            record=self.recorded(state, covered=covered, horizon=horizon),
        )


def _bad(unusable: DataFrame | None, past: Past | None) -> DataFrame | None:
    """The rows that go to the quarantine."""
    if unusable is None or past is None:
        return past.frame if past is not None else unusable
    return unusable.where(F.col(REASON).isNotNull()).unionByName(past.frame)


def _inputs(snapshot: Snapshot) -> str:
    if not snapshot.inputs:
        return "the table"
    size = sum(each.size for each in snapshot.inputs) / 1e6
    return f"{len(snapshot.inputs):,} files, {size:,.1f} MB,"
