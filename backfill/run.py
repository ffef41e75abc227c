"""One run of a job: read one snapshot, compute every window, check the sums, publish."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from backfill.columns import EVENTS, REASON
from backfill.compute import Built, Definition, Sliced, slice_events
from backfill.conservation import Totals, check_rows, check_windows, totals
from backfill.errors import SourceError
from backfill.events import (
    EventRules,
    Snapshot,
    Source,
    normalise,
    open_source,
    quarantine_rows,
    spark_errors,
)
from backfill.spec import JobSpec
from backfill.tables import DeltaStore, StagedFiles

QUARANTINE = "quarantine"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class WindowResult:
    """What a run published of one window.

    Attributes:
        rows: windows.
        events: the sum of their numbers of events.
        version: of the table.
    """

    rows: int
    events: int
    version: int


@dataclass(frozen=True)
class RunResult:
    """What a run did: read = accepted + duplicates + the sum of quarantined.

    Attributes:
        quarantined: rows by reason.
        windows: what was published, by window.
        horizon_us: the largest event time, µs since the epoch.
    """

    run_id: str
    read: int
    accepted: int
    duplicates: int
    quarantined: Mapping[str, int]
    windows: Mapping[str, WindowResult]
    horizon_us: int
    seconds: float


class Run:
    """One run: it reads one snapshot, has one now, and publishes at its end or not at all."""

    def __init__(
        self, spec: JobSpec, store: DeltaStore, spark: SparkSession, progress: Progress
    ) -> None:
        self.spec, self.store = spec, store
        self.spark, self.progress = spark, progress
        self.began = time.monotonic()
        now = dt.datetime.now(dt.timezone.utc)
        self.now_us = int(now.timestamp()) * 1_000_000 + now.microsecond
        self.id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        self.definitions = {
            name: Definition(each.window, each.aggregates) for name, each in spec.windows.items()
        }

    def execute(self) -> RunResult:
        """Runs, once."""
        self.progress(f"opening {self.spec.source.path}")
        source = open_source(self.spark, self.spec.source)
        with ExitStack() as stack, spark_errors(source.snapshot):
            return self._compute(source, stack)

    def _compute(self, source: Source, stack: ExitStack) -> RunResult:
        events = normalise(source.frame, self._rules(source))
        counted = Observation()
        usable = events.observe(
            counted, F.count(F.lit(1)).alias("read"), F.count(REASON).alias("unusable")
        ).where(F.col(REASON).isNull())
        self.progress(f"reading {_inputs(source.snapshot)} into slices")
        sliced = self._sliced(usable, source, stack)
        total = totals(sliced, self.definitions)
        read, unusable = counted.get["read"], counted.get["unusable"]
        if total.horizon is None:
            raise self._nothing_usable(events, read)
        self.progress(f"{read:,} rows read, {total.accepted:,} events accepted")

        staged = {QUARANTINE: self._stage_quarantine(events, unusable, stack)}
        check_rows(read, total, staged[QUARANTINE].rows)
        held = {}
        for name, definition in self.definitions.items():
            staged[name] = self._stage_window(name, sliced.build(definition), total, stack)
            held[name] = _sum(staged[name], EVENTS)
            check_windows(name, held[name], total)
            self.progress(f"{name}: {staged[name].rows:,} rows written")

        reasons = _reasons(staged[QUARANTINE])
        versions = self._publish(staged, read, total)
        return RunResult(
            run_id=self.id,
            read=read,
            accepted=total.accepted,
            duplicates=total.rows - total.accepted,
            quarantined=reasons,
            windows={
                name: WindowResult(staged[name].rows, held[name], versions[name])
                for name in self.definitions
            },
            horizon_us=total.horizon,
            seconds=time.monotonic() - self.began,
        )

    def _rules(self, source: Source) -> EventRules:
        spec = self.spec
        return EventRules(
            key=spec.key,
            time=spec.time,
            time_format=spec.time_format,
            timezone=spec.timezone,
            id=spec.id,
            arrival=spec.arrival or source.arrival,
            max_future_us=spec.max_future_us,
            now_us=self.now_us,
            date_column=spec.source.date_column,
            tick_us=spec.engine.tick_us,
            null_key=spec.engine.null_key,
            before_epoch=spec.engine.before_epoch,
        )

    def _sliced(self, usable: DataFrame, source: Source, stack: ExitStack) -> Sliced:
        """The slices, kept for all windows: the source is scanned once."""
        sliced = slice_events(
            usable,
            list(self.definitions.values()),
            key=self.spec.key,
            engine=self.spec.engine,
            zone=self.spec.timezone,
            id=self.spec.id,
            arrival=self.spec.arrival or source.arrival,
        )
        kept = sliced.kept_by_key()
        stack.callback(kept.frame.unpersist)
        return kept

    def _stage_quarantine(self, events: DataFrame, unusable: int, stack: ExitStack) -> StagedFiles:
        rows = quarantine_rows(events).withColumn("run_id", F.lit(self.id))
        # With nothing to quarantine there is no need to read the source again.
        return self._stage(QUARANTINE, rows if unusable else rows.limit(0), (), ("source",), stack)

    def _stage_window(
        self, name: str, built: Built, total: Totals, stack: ExitStack
    ) -> StagedFiles:
        assert total.horizon is not None
        order = (*self.spec.key, "window_start")
        return self._stage(name, built.table(total.horizon), ("date",), order, stack)

    def _stage(
        self,
        name: str,
        frame: DataFrame,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        stack: ExitStack,
    ) -> StagedFiles:
        staged = self.store.stage(
            name, frame, run_id=self.id, partition_by=partition_by, sort_by=sort_by
        )
        stack.callback(self.store.discard, staged)
        return staged

    def _publish(
        self, staged: Mapping[str, StagedFiles], read: int, total: Totals
    ) -> dict[str, int]:
        metadata = {
            "run_id": self.id,
            "read": str(read),
            "accepted": str(total.accepted),
            "duplicates": str(total.rows - total.accepted),
            "quarantined": str(staged[QUARANTINE].rows),
        }
        return {
            name: self.store.publish(name, files, replace="all", metadata=metadata)
            for name, files in staged.items()
        }

    def _nothing_usable(self, events: DataFrame, read: int) -> SourceError:
        path = self.spec.source.path
        if not read:
            return SourceError("is empty", field="source", value=path, way_out="Check the path")
        counts = events.groupBy(REASON).count().orderBy(F.desc("count")).collect()
        why = ", ".join(f"{row[REASON]}: {row['count']:,}" for row in counts)
        return SourceError(
            f"none of its {read:,} rows can be used ({why})",
            field="source",
            value=path,
            way_out="Check events.key, events.time and events.time_format in the job file",
        )


def _inputs(snapshot: Snapshot) -> str:
    if not snapshot.inputs:
        return "the table"
    size = sum(each.size for each in snapshot.inputs) / 1e6
    return f"{len(snapshot.inputs):,} files, {size:,.1f} MB,"


def _scan(staged: StagedFiles, column: str) -> ds.Scanner:
    return ds.dataset(staged.folder, format="parquet").scanner(columns=[column])


def _sum(staged: StagedFiles, column: str) -> int:
    """Adds up a column of the files as they were written."""
    if not staged.files:
        return 0
    return sum(pc.sum(batch[column]).as_py() or 0 for batch in _scan(staged, column).to_batches())


def _reasons(staged: StagedFiles) -> dict[str, int]:
    if not staged.files:
        return {}
    counts = _scan(staged, "reason").to_table()["reason"].value_counts()
    found = {str(each["values"]): each["counts"].as_py() for each in counts}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
