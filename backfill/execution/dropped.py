"""Sessions that are too short to be published: counted, so that no event vanishes."""

from __future__ import annotations

from pyspark.sql import functions as F

from backfill.columns import EVENTS
from backfill.execution.run_result import Dropped
from backfill.operators.session_rules import long_enough
from backfill.rows.compute import Built
from backfill.windows import SessionWindow


def dropped_of(built: Built) -> Dropped | None:
    """The sessions that a rule drops, of windows that have been computed; None without a rule."""
    window = built.definition.window
    if not isinstance(window, SessionWindow) or not built.definition.drops:
        return None
    short = built.frame.where(~long_enough(window))
    sessions, events = short.agg(F.count(F.lit(1)), F.sum(EVENTS)).collect()[0]
    return Dropped(sessions, events or 0)
