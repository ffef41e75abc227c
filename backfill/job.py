"""A job: plans, runs and inspects what a job file describes."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill.errors import JobFileError
from backfill.events import spark_errors
from backfill.execution.execute import execute
from backfill.execution.run_result import RunResult
from backfill.folders import check_no_keys, folder_at, is_url
from backfill.kafka.copying import Copied, copy_topic
from backfill.ledger.state import states
from backfill.planning.bots import check_not_streamed
from backfill.planning.context import Progress
from backfill.planning.expiry import plan_expiry
from backfill.planning.late import plan_late
from backfill.planning.planner import plan_everything, plan_selection
from backfill.planning.selection import selected
from backfill.planning.stages import Plan
from backfill.progress import log_progress
from backfill.published.tables import PublishedTables
from backfill.reconciliation.checks import check_reconciled
from backfill.reconciliation.joins.tables import compare_join
from backfill.reconciliation.output.description import described
from backfill.reconciliation.reconcile import compare_with
from backfill.reconciliation.result import Reconciled
from backfill.runtimes.differences import needs_spark
from backfill.spec import JobSpec
from backfill.spec.stream import lateness
from backfill.stream import Streamed, stream
from backfill.windows import JoinWindow


class Job(PublishedTables):
    """A validated job file, ready to run.

    Progress of its methods goes to the function that is given as `progress`, one line per call, or
    else to the logger `backfill` at level INFO.

    Args:
        spec: the contents of the job file.
        store: where the tables are; by default Delta tables in the job file's `tables.path`.

    Example:
        >>> job = Job.load(job_file)
        >>> result = job.run(spark)
        >>> result.read, result.windows["hourly"].rows
        (3, 2)
        >>> [row.events for row in job.table("hourly", spark).orderBy("window_start").collect()]
        [2, 1]
        >>> [(run["kind"], run["user"] is None) for run in job.history()]
        [('run', False)]
    """

    @classmethod
    def load(cls, path: str | Path) -> Job:
        """Reads a job file.

        Args:
            path: the path of the job file. Relative paths in it start from its folder.

        Raises:
            JobFileError: with the line, the field, the value and what is allowed.

        Example:
            >>> list(Job.load(job_file).spec.windows)
            ['hourly']
        """
        return cls(JobSpec.load(path))

    def pull(
        self,
        *,
        topic: str | None = None,
        to: str | Path | None = None,
        progress: Progress = log_progress,
    ) -> Copied:
        """Copies what has come to the job's Kafka topic since the last copy into its folder.

        The folder becomes a Delta table of the records: `key`, `value`, `partition`, `offset` and
        `timestamp`. Each record is copied once, even if a copy was killed. It needs no Spark.

        Args:
            topic: another one of the same brokers, such as the streaming operator's output.
            to: the folder for its records; given with `topic`.
            progress: as for `run`; called for each commit, of some 64 MB.

        Returns:
            The numbers of records by partition, and how many offsets Kafka had deleted before.

        Raises:
            JobFileError: the source is not a topic, or only one of `topic` and `to` is given.
            SetupError: the package `confluent-kafka` is missing.
            SourceError: the brokers do not answer, or the folder holds something else.

        Example:
            >>> Job.load(job_file).pull()
            Traceback (most recent call last):
            backfill.errors.JobFileError: source.format: only topics of Kafka are copied; a source \
of this format is read where it is (got 'csv')
        """
        source = self.spec.source
        if source.topic is None:
            raise JobFileError(
                "only topics of Kafka are copied; a source of this format is read where it is",
                field="source.format",
                value=source.format,
            )
        if (topic is None) != (to is None):
            raise JobFileError(
                "another topic needs a folder of its own",
                field="topic" if to is None else "to",
                value=topic if to is None else str(to),
                way_out="Give both topic and to, or neither",
            )
        folder = source.path if to is None else folder_at(to, "to").uri
        return copy_topic(topic or source.topic, source.options, folder, progress)

    def plan(
        self,
        spark: SparkSession | None = None,
        *,
        start: str | dt.date | None = None,
        end: str | dt.date | None = None,
        date: str | dt.date | None = None,
        missing: bool = False,
        chunk: int | None = None,
        explain: bool = True,
        recompute: bool = False,
        expire: bool = False,
        late: str | Path | None = None,
        progress: Progress = log_progress,
    ) -> Plan:
        """Describes what `run` with the same selection would do, and why; nothing is written.

        Without a selection it can also plan `recompute` or `expire`.

        Args:
            spark: as for `run`.
            start: as for `run`.
            end: as for `run`.
            date: as for `run`.
            missing: as for `run`.
            chunk: as for `run`.
            explain: also determine how far beyond the range events would be read.
            recompute: plan a `recompute` instead.
            expire: plan an `expire` instead.
            late: as for `recompute`.
            progress: as for `run`.

        Raises:
            JobFileError: invalid dates, or arguments that can't be combined.
            TableError: only part of a stale table is selected.
            SourceError: the source can't be read.

        Example:
            >>> plan = Job.load(job_file).plan(spark, date="2026-01-10")
            >>> [(state.state, state.events) for state in plan.windows["hourly"]]
            [('missing', 3)]
        """
        zone = self.spec.timezone
        selection = selected(zone, start, end, date=date, missing=missing, chunk=chunk)
        if ((recompute or expire) and not selection.everything) or (recompute and expire):
            raise JobFileError(
                "can't be combined",
                field="recompute (--recompute), expire (--expire)",
                way_out="Give only one of them, and no dates",
            )
        if late is not None and not recompute:
            raise JobFileError(
                "is only allowed with recompute (--recompute)", field="late", value=str(late)
            )
        if expire:
            tables = states(self.spec, self.store, self.spec.windows)
            return Plan(selection, tuple(plan_expiry(self.spec, tables)))
        if recompute:
            paths = _late_paths(late)
            context = self._context(spark, progress, late=paths)
            with spark_errors(context.source.snapshot):
                return plan_late(context, explain=explain)
        return plan_selection(self._context(spark, progress), selection, explain=explain)

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        start: str | dt.date | None = None,
        end: str | dt.date | None = None,
        date: str | dt.date | None = None,
        missing: bool = False,
        chunk: int | None = None,
        publish_anyway: str | None = None,
        progress: Progress = log_progress,
    ) -> RunResult:
        """Computes windows and publishes them.

        Without a selection all dates are computed, and each table is replaced in one commit.
        With one, only windows that contain an event of the selected dates are replaced, in one
        commit per range and table.

        Args:
            spark: the session to use, by default the current one or a new local one.
            start: the first date, in the job's time zone; `today` and `yesterday` are allowed.
            end: the date after the last one (exclusive).
            date: a single date, instead of `start` and `end`.
            missing: only dates that have events and were never computed.
            chunk: split the range into runs of this many days. A failed run does not stop the
                others, and runs that were already committed are not repeated.
            publish_anyway: a reason to publish even if checks fail; kept in the history.
            progress: called with one line of text per step; by default the log `backfill`.

        Returns:
            Counts of events and rows, the outcomes of the checks, and the ranges that failed.

        Raises:
            ChecksFailed: a check failed; the computed rows are set aside, nothing is published.
            SourceError: the source can't be read, is empty, or has no usable event.
            ColumnError, AggregateError: the job does not fit the source's columns.
            ConservationError: events were lost in the computation.
            TableError: a table is stale or can't be written, or another run committed first.

        Example:
            >>> result = Job.load(job_file).run(spark, date="2026-01-10")
            >>> result.windows["hourly"].rows
            2
        """
        zone = self.spec.timezone
        selection = selected(zone, start, end, date=date, missing=missing, chunk=chunk)
        reason = _reason(publish_anyway)
        context = self._context(spark, progress)
        if selection.everything:
            plan = plan_everything(selection)
        else:
            plan = plan_selection(context, selection, explain=False, shown=False)
        return execute(context, plan, anyway=reason)

    def recompute(
        self,
        spark: SparkSession | None = None,
        *,
        late: str | Path | None = None,
        publish_anyway: str | None = None,
        progress: Progress = log_progress,
    ) -> RunResult | None:
        """Merges the events that arrived since the tables were published into them.

        Args:
            spark: as for `run`.
            late: a file or folder of late events, which becomes an input of the job.
            publish_anyway: as for `run`.
            progress: as for `run`.

        Returns:
            As `run`; None if there are no new events.

        Raises:
            ChecksFailed: as for `run`.
            TableError: nothing is published, a table is stale, or another run committed first.
            SourceError: an input is missing or has changed, or the source can't be read.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> late = job_file.parent / "late.csv"
            >>> with late.open("w") as file:
            ...     print("user,at", file=file)
            ...     print("a,2026-01-10T12:30:00Z", file=file)
            >>> job.recompute(spark, late=late).windows["hourly"].rows
            1
        """
        reason = _reason(publish_anyway)
        paths = _late_paths(late)
        context = self._context(spark, progress, late=paths)
        plan = plan_late(context, explain=False)
        return execute(context, plan, anyway=reason) if plan.stages else None

    def stream(
        self,
        spark: SparkSession | None = None,
        *,
        to: str | Path,
        files_per_batch: int | None = None,
        watermark_delay: str | None = None,
        progress: Progress = log_progress,
    ) -> dict[str, Streamed]:
        """Runs the job as Spark Structured Streaming queries until the source is drained.

        There is one query per window or join, under Spark's rules regardless of the job's engine:
        events behind the watermark are dropped, every copy of an event is counted, and a window is
        written once, when the watermark passes its end. A join has a watermark on each side, and
        the query's is the lesser one. The next call continues each query from its checkpoint with
        the files that arrived since.

        Args:
            spark: as for `run`.
            to: a folder. The output goes to `to/WINDOW` as Parquet in the format `spark-append`,
                the checkpoints go to `to/_checkpoints`.
            files_per_batch: the maximum number of files in a micro-batch; by default all files.
                Files are read in the order of their modification times.
            watermark_delay: a duration such as "10s" that overrides the job file's
                `stream.watermark_delay`; the default there is 0s. That of a join's right side
                is `stream.right_watermark_delay`, or else the same.
            progress: as for `run`.

        Returns:
            The counts of each query, by window.

        Raises:
            SourceError: the source can't be read as a stream of files.
            WindowError: Structured Streaming does not support such windows or joins.
            ColumnError, AggregateError: the job does not fit the source's columns.
            TableError: the folder contains other data, or was started with another job file; or
                the job has rules for bots.

        Example:
            >>> done = Job.load(job_file).stream(spark, to=job_file.parent / "streamed")
            >>> done["hourly"].rows
            1
        """
        delay = (
            None if watermark_delay is None else lateness(watermark_delay, field="watermark_delay")
        )
        check_not_streamed(self.spec, "a stream")
        session = self._session(spark)
        needs_spark(session, "streams run")
        return stream(
            self.spec,
            session,
            _output_folder(to),
            files_per_batch=files_per_batch,
            watermark_delay=delay,
            progress=progress,
        )

    def reconcile(
        self,
        window: str,
        spark: SparkSession | None = None,
        *,
        stream: str | None = None,
        checkpoint: str | None = None,
        sample: float | None = None,
        progress: Progress = log_progress,
        **settings: Any,
    ) -> Reconciled:
        """Compares a published table with a streaming operator's output and explains differences.

        The events of keys that differ are replayed: up to 100,000 in this process, more than that
        in parts on Spark's workers, which need backfill installed; if they lack it, this process
        replays up to 500,000. The events of one key must fit into the memory of one worker.
        A million differences take some 100 MB of this process's memory.

        Args:
            window: the name of the table.
            spark: as for `run`.
            stream: the path of the operator's output; by default the job file's `stream.path`.
            checkpoint: the checkpoint folder of a Spark query, which says which batch read which
                files.
            sample: the share of the keys to compare, greater than 0 and up to 1.
            progress: as for `run`.
            settings: override the job file's `stream` section, such as `grace="10s"`.

        Returns:
            The number of matching windows, and each difference with its causes and whether they
            are proved.

        Raises:
            JobFileError: a setting is missing or invalid.
            TableError: nothing is published, the table is stale, or the job has rules for bots.
            SourceError, ColumnError: the stream's output can't be read.
            ReplayError: the engine does not have the setting.
            SetupError: the runtime does not read the stream's output as Spark does.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.table("hourly", spark).write.parquet(str(job_file.parent / "streamed"))
            >>> found = job.reconcile(
            ...     "hourly", spark, stream=str(job_file.parent / "streamed"), format="table"
            ... )
            >>> found.matched, len(found.differences)
            (2, 0)
        """
        self._known(window, list(self.spec.windows))
        check_not_streamed(self.spec, "comparing with a stream")
        if sample is not None and not 0 < sample <= 1:
            raise JobFileError(
                "must be a share, greater than 0 and up to 1",
                field="sample",
                value=sample,
                way_out="Write it like 0.01",
            )
        given = described(self.spec, stream, settings)
        context = self._context(spark, progress)
        joins = isinstance(self.spec.windows[window].window, JoinWindow)
        compare = compare_join if joins else compare_with
        reconciled = compare(context, window, given, checkpoint=checkpoint, sample=sample)
        return replace(reconciled, checks=check_reconciled(self.spec, reconciled, context.run_id))


def reconcile(
    job: Job | str | Path, window: str, spark: SparkSession | None = None, **options: Any
) -> Reconciled:
    """Compares a published table with a streaming operator's output, as `Job.reconcile` does.

    Args:
        job: a job, or the path of a job file.
        window: the name of the table.
        spark: as for `Job.run`.
        options: the arguments of `Job.reconcile`.

    Returns:
        As `Job.reconcile`.

    Raises:
        JobFileError: the job file, a setting or the name of the window is invalid.
        BackfillError: everything else that `Job.reconcile` raises.

    Example:
        >>> result = Job.load(job_file).run(spark)
        >>> streamed = str(job_file.parent / "streamed")
        >>> Job.load(job_file).table("hourly", spark).write.parquet(streamed)
        >>> reconcile(job_file, "hourly", spark, stream=streamed, format="table").matched
        2
    """
    loaded = job if isinstance(job, Job) else Job.load(job)
    return loaded.reconcile(window, spark, **options)


def _reason(given: str | None) -> str | None:
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise JobFileError("must be a reason, not empty", field="publish_anyway", value=given)
    return given


def _output_folder(to: str | Path) -> Path:
    path = Path(to).absolute()
    # An empty path would be the current folder.
    if not str(to).strip() or is_url(str(to)) or (path.exists() and not path.is_dir()):
        raise JobFileError("must be a local folder", field="to", value=str(to))
    return path


def _late_paths(late: str | Path | None) -> list[str]:
    if late is None:
        return []
    if not str(late).strip():
        # An empty path would be the current folder.
        raise JobFileError("is empty", field="late", way_out="Give a file, a folder or a glob")
    check_no_keys(str(late), "late")
    return [str(late) if is_url(str(late)) else str(Path(late).absolute())]
