"""The rows of a job's published tables: read, compared between runs, and looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from backfill.columns import column
from backfill.errors import BackfillError, JobFileError, TableError, did_you_mean
from backfill.ledger import versions
from backfill.ledger.record import late_of
from backfill.ledger.state import QUARANTINE
from backfill.planning.context import Context, Progress, open_context
from backfill.planning.on_runtime import check_job
from backfill.progress import log_progress
from backfill.published.lookups import Instant, KeyValues, Lookup
from backfill.published.window_events import events_in
from backfill.spark import session
from backfill.spec import JobSpec
from backfill.store import Store

if TYPE_CHECKING:
    import pyarrow as pa


class PublishedRows:
    """The methods of `Job` that read published rows.

    Args:
        spec: the contents of the job file.
        store: where the tables are; by default Delta tables in the job file's `tables.path`.
    """

    def __init__(self, spec: JobSpec, store: Store | None = None) -> None:
        self.spec = spec
        self.store: Store = spec.store() if store is None else store

    def table(self, name: str, spark: SparkSession | None = None) -> DataFrame:
        """The published rows of a window, or of the quarantine, without internal columns.

        Args:
            name: a window of the job, or `quarantine`.
            spark: as for `run`.

        Raises:
            JobFileError: if the job has no such window.
            TableError: if nothing has been published yet.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.table("hourly", spark).columns
            ['user', 'window_start', 'window_end', 'events', 'is_open', 'date']
        """
        self._known(name, self._tables())
        table = self.store.open(name)
        if table is None:
            raise TableError(
                "the table does not exist yet", field=name, way_out="`backfill run` publishes it."
            )
        frame = table.read(self._session(spark))
        return frame.select(*(column(each) for each in frame.columns if not each.startswith("_")))

    def changes(
        self, window: str, since: str | None = None, spark: SparkSession | None = None
    ) -> DataFrame:
        """The windows that a run and all later runs changed; by default the last run.

        Args:
            window: the name of the table.
            since: the id of a run, as in `history`.
            spark: as for `run`.

        Returns:
            A row for each difference: `change` (inserted, updated, deleted, merged or split),
            `key`, `old` and `new` (structs of the window's visible columns; NULL where there is
            no such window), and `changed`, the names of the columns that differ.

        Raises:
            JobFileError: an unknown window, or there is no such run.
            TableError: nothing is published, or files of the version before the run are gone.
            ColumnError: the table's key or kind of window has changed.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.changes("hourly", spark=spark).count()
            2
        """
        return versions.changes_since(self._session(spark), self.store, self.spec, window, since)

    def fetch(
        self,
        window: str,
        key: KeyValues = None,
        *,
        start: Instant | None = None,
        end: Instant | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The published windows of a key, without Spark.

        Files and row groups that cannot hold them, by their statistics, are not read.

        Args:
            window: the name of the table.
            key: the key's value, or several in the order of its columns, or by column; None for
                all keys. In a mapping or a sequence, None looks for NULL.
            start: only windows that end after this date or time, in the job's zone.
            end: only windows that start before this date or time.
            limit: at most this many windows, the earliest.

        Returns:
            The columns of the table, in order of time; times in UTC.

        Raises:
            JobFileError: an unknown window, an invalid time, or too many or too few key values.
            ColumnError: a value that is not of its column's type.
            TableError: nothing is published, or the table can't be read.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.fetch("hourly", "a", start="2026-01-10T13:00").column("events").to_pylist()
            [1]
        """
        return Lookup(self.spec, self.store, window).fetch(key, start, end, limit)

    def windows_covering(
        self,
        window: str,
        start: Instant,
        end: Instant | None = None,
        *,
        key: KeyValues = None,
        limit: int | None = None,
    ) -> pa.Table:
        """The published windows that hold all of a span of time, or an instant; without Spark.

        Args:
            window: the name of the table.
            start: the first instant, in the job's zone.
            end: the end of the span, exclusive; None for the instant `start` alone.
            key: as for `fetch`.
            limit: as for `fetch`.

        Returns:
            As `fetch`. A row for a single event counts by the span that it looks over.

        Raises:
            JobFileError, ColumnError, TableError: as for `fetch`.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.windows_covering("hourly", "2026-01-10T12:30").column("events").to_pylist()
            [2]
        """
        return Lookup(self.spec, self.store, window).covering(start, end, key, limit)

    def find_sessions_to_merge(
        self, window: str, key: KeyValues, earliest_end: Instant, latest_start: Instant
    ) -> pa.Table:
        """The published sessions that a new one could merge with (KIP-94), without Spark.

        Args:
            window: the name of a table of sessions.
            key: as for `fetch`.
            earliest_end: the earliest time of a session's last event, inclusive.
            latest_start: the latest time of a session's first event, inclusive.

        Returns:
            As `fetch`.

        Raises:
            JobFileError: as for `fetch`; or the windows are not sessions with a gap in time.
            ColumnError, TableError: as for `fetch`.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.find_sessions_to_merge("hourly", "a", "2026-01-10", "2026-01-11")
            Traceback (most recent call last):
            backfill.errors.JobFileError: ...
        """
        return Lookup(self.spec, self.store, window).to_merge(key, earliest_end, latest_start)

    def events_in(
        self,
        window: str,
        row: Mapping[str, Any],
        spark: SparkSession | None = None,
        *,
        progress: Progress = log_progress,
    ) -> DataFrame:
        """The events of a published window, as the source has them now.

        Args:
            window: the name of the table.
            row: the window, as in `fetch(…).to_pylist()`: its key, and its times or its id.
            spark: as for `run`.
            progress: as for `run`.

        Returns:
            The source's rows, each event once, with all columns, including events that no run has
            counted yet.

        Raises:
            JobFileError: an unknown window, or one whose times do not determine its events: windows
                by number, sessions measured in messages, sliding windows with `before`, joins.
            ColumnError: the row lacks a column.
            SourceError: the source can't be read.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> first = job.fetch("hourly", "a").to_pylist()[0]
            >>> job.events_in("hourly", first, spark).count()
            2
        """
        self._known(window, list(self.spec.windows))
        return events_in(self._context(spark, progress), window, row)

    def _context(
        self, spark: SparkSession | None, progress: Progress, *, late: Sequence[str] = ()
    ) -> Context:
        return open_context(self.spec, self.store, self._session(spark, late), progress, late=late)

    def paths(self, *late: str) -> Iterator[str]:
        """What the job reads and writes, for `backfill.spark.session`: local paths and URLs.

        Paths of late events from earlier runs come last: they are in a table's record, which is
        read only when they are reached.

        Args:
            late: paths of further late events.

        Example:
            >>> job = Job.load(job_file)
            >>> [path.rpartition("/")[2] for path in job.paths("late.csv")]
            ['events.csv', 'out', 'late.csv']
        """
        yield from (*self.spec.paths, *late)
        try:
            table = self.store.open(next(iter(self.spec.windows)))
            record = None if table is None else table.record
        except BackfillError:
            # Whatever uses the table will say what is wrong with it.
            return
        if record is not None:
            yield from late_of(record, self.spec.path.parent)

    def _session(self, spark: SparkSession | None, late: Sequence[str] = ()) -> SparkSession:
        spark_session = spark or session(paths=self.paths(*late), runtime=self.spec.runtime)
        check_job(self.spec, spark_session, self.paths(*late))
        return spark_session

    def _known(self, name: str, known: list[str]) -> None:
        if name not in known:
            raise JobFileError(
                "the job has no such window",
                field="window",
                value=name,
                way_out=did_you_mean(name, known),
            )

    def _tables(self) -> list[str]:
        return [*self.spec.windows, QUARANTINE]
