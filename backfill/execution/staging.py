"""What a run has written but not published: deleted at its end, unless it is kept as evidence."""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce
from operator import and_
from types import TracebackType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.events import quarantine_rows
from backfill.execution.date_edges import with_edges_apart
from backfill.kinds import row_order
from backfill.ledger.state import QUARANTINE
from backfill.planning.context import Context
from backfill.runtimes.differences import kept
from backfill.store import Staged

# The columns that identify a row of the quarantine.
_PLACE = ("reason", "raw", "source")
_QUARANTINE = T.StructType([T.StructField(name, T.StringType()) for name in (*_PLACE, "run_id")])


class Staging:
    """The files of one run. Leaving the `with` block discards what was not published.

    Args:
        context: the run's context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stack = ExitStack()
        self._evidence = False

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def keep(self) -> None:
        """Keeps what was written, unpublished, as evidence of why it was not published."""
        self._evidence = True

    def persisted(self, frame: DataFrame) -> DataFrame:
        """The frame, with its rows computed once and kept until the end of the run."""
        held, release = kept(frame)
        self._stack.callback(release)
        return held

    def windows(self, name: str, rows: DataFrame, *, task_bytes: int | None = None) -> Staged:
        """Writes rows of a window's table; each task takes about `task_bytes`."""
        spec = self._context.spec
        window = spec.windows[name].window
        order = row_order(window, spec.key)
        marked = with_edges_apart(rows, window, spec.engine, spec.timezone)
        return self._stage(name, marked, ("date",), order, task_bytes)

    def quarantine(
        self,
        rows: DataFrame | None,
        *,
        known: DataFrame | None = None,
        kept: DataFrame | None = None,
    ) -> Staged:
        """Writes the normalised rows that have a reason.

        Args:
            rows: normalised; None: no rows.
            known: rows of the quarantine that must not be added again.
            kept: rows of the quarantine to write as well.
        """
        if rows is None:
            return self._stage(QUARANTINE, _QUARANTINE if kept is None else kept, (), ("source",))
        quarantined = quarantine_rows(rows).withColumn("run_id", F.lit(self._context.run_id))
        if known is not None:
            again = known.select(*(F.col(name).alias(f"_known_{name}") for name in _PLACE))
            same = [F.col(name).eqNullSafe(F.col(f"_known_{name}")) for name in _PLACE]
            quarantined = quarantined.join(again, reduce(and_, same), "left_anti")
        if kept is not None:
            quarantined = quarantined.unionByName(kept)
        return self._stage(QUARANTINE, quarantined, (), ("source",))

    def _stage(
        self,
        name: str,
        frame: DataFrame | T.StructType,
        partition_by: tuple[str, ...],
        sort_by: tuple[str, ...],
        task_bytes: int | None = None,
    ) -> Staged:
        staged = self._context.store.stage(
            name,
            frame,
            run_id=self._context.run_id,
            partition_by=partition_by,
            sort_by=sort_by,
            task_bytes=task_bytes,
        )
        self._stack.callback(self._discard, staged)
        return staged

    def _discard(self, staged: Staged) -> None:
        if not self._evidence:
            self._context.store.discard(staged)
