"""The published tables of a job: their checks, history and upkeep."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill.errors import JobFileError, TableError
from backfill.execution.clean import Kept, age, clean
from backfill.execution.erase import Erased, erase
from backfill.execution.expire import Expired, expire
from backfill.execution.validate import validate
from backfill.kinds import row_order
from backfill.ledger import versions
from backfill.ledger.author import author
from backfill.ledger.record import late_of
from backfill.ledger.state import QUARANTINE
from backfill.planning.context import Progress, new_run_id
from backfill.planning.selection import selected
from backfill.progress import log_progress
from backfill.published.lookups import KeyValues, key_values
from backfill.published.rows import PublishedRows
from backfill.quality.checks import Outcome
from backfill.quality.store import kept
from backfill.time.dates import Dates


class PublishedTables(PublishedRows):
    """The methods of `Job` for tables that are published already.

    Args:
        spec: the contents of the job file.
        store: where the tables are; by default Delta tables in the job file's `tables.path`.
    """

    def validate(
        self,
        window: str | None = None,
        spark: SparkSession | None = None,
        *,
        start: str | dt.date | None = None,
        end: str | dt.date | None = None,
        progress: Progress = log_progress,
    ) -> tuple[Outcome, ...]:
        """Runs the job's checks on the published tables; changes nothing.

        Without a range, the events are read again and checked as well.

        Args:
            window: only this table; by default all of them.
            spark: as for `run`.
            start: only windows that start on this date or later.
            end: the date after the last one (exclusive).
            progress: as for `run`.

        Returns:
            The outcome of each check.

        Raises:
            JobFileError: an unknown window, or invalid dates.
            TableError: nothing is published, or a table is stale.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> all(outcome.success for outcome in job.validate("hourly", spark))
            True
        """
        if window is not None:
            self._known(window, list(self.spec.windows))
        chosen = selected(self.spec.timezone, start, end).dates
        dates = None if chosen is None else Dates.between(*chosen)
        names = [window] if window else list(self.spec.windows)
        return validate(self._context(spark, progress), names, dates)

    def docs(self) -> Path:
        """Builds HTML pages with the outcomes of all runs' checks.

        Returns:
            The path of the index page.

        Raises:
            TableError: no run has been checked yet.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.docs().name
            'index.html'
        """
        outcomes = kept(self.spec.tables)
        if not outcomes:
            way_out = f"Run: backfill run {self.spec.path}"
            raise TableError("no run has been checked yet", field="docs", way_out=way_out)
        # Imported only here, because it takes seconds.
        from backfill.quality.docs import build_docs

        return build_docs(outcomes, self.spec.pages, title=self.spec.path.stem)

    def history(self) -> list[dict[str, Any]]:
        """The runs that published data, newest first.

        Returns:
            For each run a mapping: `run_id`, `time` (UTC, of its last commit), `kind`, `user`,
            `from`, `to`, `chunk_of`, `published_anyway` (the reason), the counts `read`, `late`,
            `accepted`, `duplicates` and `quarantined`, and `tables`: by name `version`, `rows`
            and `changed`, and, if a rule drops sessions, `dropped_sessions` and
            `dropped_events`. None means unknown.

        Raises:
            TableError: the log of a table can't be read.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> [run["kind"] for run in job.history()]
            ['run']
        """
        return versions.runs(self.store, self._tables())

    def restore(self, run: str) -> versions.Restored:
        """Restores the tables to what a run published, with the record of counted inputs.

        Args:
            run: the id of a run, as in `history`.

        Returns:
            `tables`: by name the version that was `restored`, and the newest `version` now;
            `untouched`: tables in which the run published nothing; `forgotten`: paths of late
            events that were added since and are no longer inputs of the job.

        Raises:
            JobFileError: there is no such run.
            TableError: what the run published in a table is not known any more, its files are
                gone, or the table can't go back to it; then nothing is restored. Or another run
                published meanwhile.

        Example:
            >>> job = Job.load(job_file)
            >>> first, second = job.run(spark), job.run(spark)
            >>> job.restore(first.run_id).tables["hourly"]
            RestoredTable(restored=0, version=2)
        """
        run_id = new_run_id()
        metadata = {"kind": "restore", "user": author(), "run_id": run_id}
        try:
            given = self._late()
        except TableError:  # a damaged record may be the reason to go back
            given = []
        tables = self._tables()
        done = versions.restore(self.store, tables, run, run_id=run_id, metadata=metadata)
        known = self._late()
        return replace(done, forgotten=tuple(path for path in given if path not in known))

    def expire(self, spark: SparkSession | None = None) -> dict[str, Expired]:
        """Drops published windows that are past the job's retention.

        Args:
            spark: as for `run`.

        Returns:
            By table, the number of `rows` that were dropped, the instant `before` which their
            windows had ended (µs), and the `version` of the commit; None if none was dropped.

        Raises:
            JobFileError: the job file sets no retention.

        Example:
            >>> Job.load(job_file).expire(spark)
            Traceback (most recent call last):
            backfill.errors.JobFileError: ...
        """
        run_id, session = new_run_id(), self._session(spark)
        metadata = {"kind": "expire", "user": author(), "run_id": run_id}
        return expire(session, self.store, self.spec, run_id=run_id, metadata=metadata)

    def forget(
        self,
        key: KeyValues,
        spark: SparkSession | None = None,
        *,
        older_than: str = "24h",
        progress: Progress = log_progress,
    ) -> dict[str, Erased]:
        """Deletes the rows of a key from the job's published tables and the quarantine.

        Also deleted are what failed and killed runs have left, of any key, and what checks show of
        the key. Slices lose it from their distinct values; other tables without the key's columns,
        such as metrics by other dimensions, stay as they are. The source is not changed: a later
        run of its dates brings back what it still has of the key.

        Args:
            key: its value, or the values of its columns in order or by name.
            spark: as for `run`.
            older_than: a duration; newer leftovers of runs are kept, because they may belong to a
                run that is under way.
            progress: as for `run`.

        Returns:
            By table, the number of `rows` deleted or changed, the `version` of the commit (None
            if there were no rows), what was `removed` of runs that did not publish, and `older`,
            the first and the last older version that can still hold the key.

        Raises:
            JobFileError: no key is given, or more or fewer values than it has columns.
            ColumnError: a value is not of its column's type.
            WindowError: `older_than` is not a duration of fixed length.
            TableError: a table can't be read, or another run published meanwhile.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.forget("a", spark)["hourly"].rows
            2
        """
        if key is None or not self.spec.key:
            raise JobFileError(
                "is missing" if self.spec.key else "the job's events have none",
                field="key (--key)",
            )
        run_id, session = new_run_id(), self._session(spark)
        return erase(
            session,
            self.store,
            self.spec,
            key_values(key, self.spec.key),
            older_than_s=age(older_than).us / 1_000_000,
            run_id=run_id,
            metadata={"kind": "forget", "user": author(), "run_id": run_id},
            progress=progress,
        )

    def clean(self, older_than: str = "24h", spark: SparkSession | None = None) -> dict[str, Kept]:
        """Deletes the files that killed runs left behind, and compacts small files.

        Args:
            older_than: a duration; newer files are kept. Give more than the longest run takes.
            spark: as for `run`.

        Returns:
            By table, what was `removed`, and `compacted`, the version in which small files were
            compacted; None if there was nothing to compact.

        Raises:
            WindowError: `older_than` is not a duration of fixed length.
            JobFileError: it is negative.
            TableError: a table can't be read, or another run published meanwhile.

        Example:
            >>> job = Job.load(job_file)
            >>> result = job.run(spark)
            >>> job.clean(spark=spark)["hourly"].removed.files
            0
        """
        key, windows = self.spec.key, self.spec.windows
        orders = {name: row_order(entry.window, key) for name, entry in windows.items()}
        tables = {**orders, QUARANTINE: ("source",)}
        return clean(
            self._session(spark),
            self.store,
            tables,
            older_than=older_than,
            run_id=new_run_id(),
        )

    def _late(self) -> list[str]:
        """The paths of late events that are inputs of the job."""
        home = self.spec.path.parent
        tables = (self.store.open(name) for name in self._tables())
        records = (table.record for table in tables if table is not None)
        return list(
            dict.fromkeys(path for record in records if record for path in late_of(record, home))
        )
