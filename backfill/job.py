"""A job: what a job file describes, run over its whole source."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from backfill.errors import JobFileError, did_you_mean
from backfill.run import QUARANTINE, Progress, Run, RunResult
from backfill.spec import JobSpec
from backfill.tables import DeltaStore


class Job:
    """A validated job file, ready to run."""

    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.store = DeltaStore(spec.tables)

    @classmethod
    def load(cls, path: str | Path) -> Job:
        """Reads a job file.

        Raises:
            JobFileError: naming the line, the field, the value, and what is allowed.
        """
        return cls(JobSpec.load(path))

    def table(self, name: str, spark: SparkSession | None = None) -> DataFrame:
        """What is published of a window, or the quarantine: the columns that users see.

        Raises:
            JobFileError: if the job has no such window.
            TableError: if nothing has been published yet.
        """
        known = [*self.spec.windows, QUARANTINE]
        if name not in known:
            raise JobFileError(
                "the job has no such window",
                field="window",
                value=name,
                way_out=did_you_mean(name, known),
            )
        frame = self.store.read(spark or _session(), name)
        return frame.select(*(each for each in frame.columns if not each.startswith("_")))

    def run(
        self, spark: SparkSession | None = None, *, progress: Progress = lambda message: None
    ) -> RunResult:
        """Computes every window over the whole source and publishes the tables.

        Args:
            spark: the session to use, by default the current one or a new local one.
            progress: is told, in a line each, what is being done.

        Raises:
            SourceError: if the source can't be read, is empty, or has no usable event.
            ColumnError, AggregateError: if the job does not fit the source's columns.
            ConservationError: if events went in that did not come out.
            TableError: if a table can't be written or another run came between.
        """
        return Run(self.spec, self.store, spark or _session(), progress).execute()


def _session() -> SparkSession:
    from backfill.spark import session

    return session()
