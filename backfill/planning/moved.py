"""What late events cost if they move other events to other windows."""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import TIME, column
from backfill.kinds import kind_of, reach, times_of
from backfill.ledger.state import State
from backfill.planning.context import Context
from backfill.planning.stages import Moved
from backfill.store import FILE
from backfill.windows import JoinWindow, key_of

_FIRST = "_first_late"


def moved(context: Context, state: State, events: DataFrame) -> tuple[Moved, dict[str, int]]:
    """How many events are read again, and how many rows are replaced, for late events.

    Args:
        context: the job's context.
        state: a table of windows by number or by offset, or of pairs by number.
        events: those that begin to count, or no longer do.

    Returns:
        These numbers, and how many rows of each file are replaced, by path.
    """
    spec, window = context.spec, context.definitions[state.name].window
    key = key_of(window, spec.key)
    kind = kind_of(window, spec.engine, spec.timezone)
    theirs = [column(name).alias(f"_late{i}") for i, name in enumerate(key)]
    late = events.groupBy(*theirs).agg(F.min(TIME).alias(_FIRST))
    late = late.where(F.col(_FIRST).isNotNull())
    assert state.table is not None
    same = [column(name).eqNullSafe(F.col(f"_late{i}")) for i, name in enumerate(key)]
    rows = state.table.read(context.spark, with_file=True).join(
        late, reduce(and_, same, F.lit(True))
    )
    behind = reach(window, spec.engine).behind
    replaced = F.lit(True)
    if behind is not None:
        replaced = F.unix_micros(times_of(window)[1]) >= F.col(_FIRST) - behind
    counts = rows.groupBy(FILE).agg(F.count_if(replaced), F.sum(kind.held)).collect()
    files = {path: count for path, count, _ in counts if count}
    held = None if isinstance(window, JoinWindow) else sum(row[2] or 0 for row in counts)
    return Moved(state.name, late.count(), held, sum(files.values())), files
