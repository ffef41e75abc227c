"""What a decoder is asked for, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import END, EVENT_TIME, REASON, START, key_name
from backfill.engines import Engine, Rules
from backfill.errors import ColumnError, did_you_mean
from backfill.events.model import CORRUPT, SOURCE
from backfill.operators.session import last_event
from backfill.reconciliation.output.decoders.values import Read, failing, instant
from backfill.reconciliation.output.files import Once, Value, Written
from backfill.reconciliation.same_time import interchangeable
from backfill.rows.compute import Key
from backfill.time.durations import Fixed
from backfill.windows import (
    CountWindow,
    EventWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
    Window,
)

GONE = "_gone"
ORDER = "_order"
RAW = "_raw"

MAX_LONG = (1 << 63) - 1


@dataclass(frozen=True)
class Wanted:
    """What a job makes of its events, and the stream therefore should have written.

    Attributes:
        window: one window of the job.
        key: the job's.
        aggregates: the types of the results, by name.
        engine: whose bounds the stream's rows follow.
        zone: of times without one.
    """

    window: Window | EventWindow
    key: Key
    aggregates: Mapping[str, T.DataType]
    engine: Engine
    zone: str

    @property
    def rules(self) -> Rules:
        """The engine's rules for the window."""
        return self.engine.rules_for(self.window)

    @property
    def size_us(self) -> int | None:
        """The length that all windows have; None if their lengths differ."""
        if isinstance(self.window, TumblingWindow | HoppingWindow):
            size = self.window.size
            return size.us if isinstance(size, Fixed) else None
        if isinstance(self.window, SlidingWindow) and self.window.distinct:
            return self.window.reach_us
        return None


@dataclass(frozen=True)
class Decoding:
    """What one row says, as columns.

    Attributes:
        frame: the rows as written, with what the columns here are made of.
        key: the values of the key columns.
        start: µs.
        end: µs, as the engine reports it.
        values: the aggregates, by name.
        gone: the row takes its window back.
        order: sorts the rows of a window: a bigint, or a struct whose fields are compared one by
            one; not NULL where all `problems` are NULL.
        evidence: gives text that says where a row is, from its order.
        problems: texts, of which the first that is not NULL says why the row can't be decoded.
    """

    frame: DataFrame
    key: Sequence[Column]
    start: Column
    end: Column
    values: Mapping[str, Column]
    gone: Column
    order: Column
    evidence: Callable[[Column], Column]
    problems: Sequence[Column]

    def rows(self, written: Written, wanted: Wanted) -> DataFrame:
        """The rows: key, bounds (of sessions first and last event), values, and what was wrong."""
        end, window = self.end, wanted.window
        ordered = failing(self.end < self.start, "the window ends before it begins")
        if isinstance(window, SessionWindow):
            end = last_event(end, window, wanted.rules)
        unparsed = failing(F.col(CORRUPT).isNotNull(), f"the line is not {written.kind.upper()}")
        # Without the id, which is never negative, Spark would push a condition on this down, and
        # copy it on the way.
        reason = F.coalesce(unparsed, *self.problems, ordered)
        return self.frame.select(
            *(value.alias(key_name(i)) for i, value in enumerate(self.key)),
            self.start.alias(START),
            end.alias(END),
            *(value.alias(name) for name, value in self.values.items()),
            self.gone.alias(GONE),
            self.order.alias(ORDER),
            F.when(F.monotonically_increasing_id() >= 0, reason).alias(REASON),
            written.raw.alias(RAW),
            SOURCE,
        )


def find(values: Mapping[str, Value], name: str) -> Value:
    """The column of this name.

    Raises:
        ColumnError: there is none.
    """
    if name not in values:
        near = did_you_mean(name, values)
        raise ColumnError(
            "the stream has no such column",
            field=name,
            way_out=f"Name it with columns: theirs=ours. {near}",
        )
    return values[name]


def window_bounds(values: Mapping[str, Value], wanted: Wanted, once: Once) -> tuple[Read, Read]:
    """The start and the end in `window_start` and `window_end`, µs.

    Where all windows have one length, one of the two is enough. A row of a single event has its
    time in `event_time`; that of a count window can be in `window_end` as well.
    """
    if interchangeable(wanted.window):
        counted = isinstance(wanted.window, CountWindow) and "window_end" in values
        name = "window_end" if counted else EVENT_TIME
        at = instant(find(values, name), name, wanted.zone, once)
        return at, at
    size = wanted.size_us
    if size is None or {"window_start", "window_end"} <= values.keys():
        return tuple(  # type: ignore[return-value]
            instant(find(values, name), name, wanted.zone, once)
            for name in ("window_start", "window_end")
        )
    if "window_end" in values:
        end = instant(values["window_end"], "window_end", wanted.zone, once)
        return Read(once(end.value - size), end.problem), end
    start = instant(find(values, "window_start"), "window_start", wanted.zone, once)
    return start, Read(once(end_of(start.value, size)), start.problem)


def end_of(start: Column, size: int) -> Column:
    """The end of a window of this length, cut at the largest long."""
    end = F.try_add(start, F.lit(size).cast("bigint"))
    return F.when(start.isNotNull(), F.coalesce(end, F.lit(MAX_LONG)))
