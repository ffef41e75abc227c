"""Sessions that rules cut further than a gap does, computed from single events.

Whether a gap, a changed attribute, a predicate or a time of day cuts is seen from an event and the
one before it: one sort of each key's events, and running aggregates over it. Where `max_duration`
cuts depends on the cut before. Only stretches between the other cuts that are longer than the limit
need this: the times of such a stretch are put into an array, 8 bytes each, and folded once from
left to right into the few places where it is cut. So a task holds the times of the longest such
stretch, and nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over
from pyspark.sql.window import WindowSpec

from backfill.aggregates.bound import Bound
from backfill.columns import CLOSED, END, EVENTS, FIRST, ORDINAL, START, column
from backfill.engines import PLAIN, Rules
from backfill.operators.aligned import layout
from backfill.operators.session import breaks, session_is_open
from backfill.time.durations import Calendar
from backfill.windows import SessionWindow, TumblingWindow

#: What the rules look at: the values of `new_when` by position, and whether the predicates hold.
VALUE, STARTS, ENDS = "_value", "_starts", "_ends"
#: The number of an event's session, and of the event itself, within its key, from 1.
SESSION, ROW = "_session", "_row"

_GAP, _CUT, _STRETCH, _FROM = "_gap", "_cut", "_stretch", "_from"
_PLACE, _NEW, _LIMIT, _BEFORE, _FRESH = "_place", "_new", "_limit", "_before", "_fresh"
_EARLIER, _ENDED, _KNOWN, _KNOWN_VALUES = "_earlier", "_ended", "_known", "_known_values"
_FORGOTTEN = "_forgotten"


def rule_columns(window: SessionWindow) -> list[str]:
    """The columns of an event that the rules of a window use, in the order that breaks ties."""
    names = [f"{VALUE}{i}" for i in range(len(window.new_when))]
    names += [STARTS] if window.start_when else []
    return [*names, ENDS] if window.end_when else names


@dataclass(frozen=True)
class Cutter:
    """Where the sessions of one window begin.

    Attributes:
        window: a window with rules.
        rules: the engine's rules.
        keys: the key columns.
        zone: the time zone of `split`.
        order: the columns that order events of equal time, including those of the rules.
    """

    window: SessionWindow
    rules: Rules
    keys: Sequence[str]
    zone: str
    order: Sequence[Column]

    def numbered(self, events: DataFrame) -> DataFrame:
        """The events with their sessions.

        Args:
            events: key, FIRST (µs), the columns of `order`, and others, which are kept.

        Returns:
            The events with ROW, SESSION, START of their session, ORDINAL, the number of earlier
            sessions of the key with the same start, and CLOSED: the event is the last of its
            session, and no later event can join the session.
        """
        cut = self._limited(self._cut(events))
        in_order = self._in_order
        if self.window.max_duration is not None:
            # The join sorted the rows anew: events that are alike must not change places.
            in_order = Over.partitionBy(*self.keys).orderBy(ROW)
        so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
        session, new = F.col(SESSION), F.col(_NEW)
        after = F.lead(_NEW).over(in_order)
        goes_on = F.coalesce(~F.lead(_GAP).over(in_order), F.lit(False))
        ends = F.coalesce(F.col(ENDS), F.lit(False)) if self.window.end_when else F.lit(False)
        ordinal = session - F.col(_FRESH)
        own = map(column, events.columns)
        return (
            cut.withColumns(
                {
                    SESSION: F.sum(new.cast("long")).over(so_far),
                    START: F.max(F.when(new, F.col(FIRST))).over(so_far),
                    CLOSED: F.coalesce(after, F.lit(True)) & (goes_on | ends),
                }
            )
            .withColumn(_BEFORE, F.lag(START).over(in_order))
            .withColumn(
                _FRESH,
                F.max(F.when(new & ~F.col(_BEFORE).eqNullSafe(F.col(START)), session)).over(so_far),
            )
            .select(*own, ROW, SESSION, START, CLOSED, ordinal.alias(ORDINAL))
        )

    @cached_property
    def _in_order(self) -> WindowSpec:
        return Over.partitionBy(*self.keys).orderBy(FIRST, *self.order)

    @cached_property
    def _so_far(self) -> WindowSpec:
        return self._in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)

    def earlier(self, in_order: WindowSpec) -> dict[str, Column]:
        """What the rules on single events need from the rows before one.

        Args:
            in_order: the rows of a key, in order; each has FIRST and the columns of the rules.

        Returns:
            The columns that `cuts` needs.
        """
        window, before = self.window, in_order.rowsBetween(Over.unboundedPreceding, -1)
        columns = {}
        if window.split is not None:
            columns[_EARLIER] = F.lag(FIRST).over(in_order)
        if window.end_when:
            columns[_ENDED] = F.lag(ENDS).over(in_order)
        for i in range(len(window.new_when)):
            value = F.col(f"{VALUE}{i}")
            if window.null_is_change:
                columns[f"{_KNOWN}{i}"] = F.lag(value).over(in_order)
            else:
                columns[f"{_KNOWN}{i}"] = F.last(value, ignorenulls=True).over(before)
                columns[f"{_KNOWN_VALUES}{i}"] = F.count(value).over(before)
        return columns

    def at_gaps(self, in_order: WindowSpec, gap: str) -> dict[str, Column]:
        """What `cuts` needs from the last row that follows a gap.

        Args:
            in_order: the rows of a key, in order, with the columns of `earlier`.
            gap: a column that says whether a gap is before the row.
        """
        so_far = in_order.rowsBetween(Over.unboundedPreceding, Over.currentRow)
        return {
            f"{_FORGOTTEN}{i}": F.max(F.when(F.col(gap), F.col(f"{_KNOWN_VALUES}{i}"))).over(so_far)
            for i in range(len(self.window.new_when))
            if not self.window.null_is_change
        }

    def cuts(self) -> Column:
        """Whether a row begins a session by a rule on single events.

        It has no meaning for a row after a gap, which begins a session anyway.
        """
        window, at = self.window, F.col(FIRST)
        conditions = []
        if window.split is not None:
            day = day_number(window, self.zone)
            conditions.append(day(at) != day(F.col(_EARLIER)))
        for i in range(len(window.new_when)):
            value, known = F.col(f"{VALUE}{i}"), F.col(f"{_KNOWN}{i}")
            if window.null_is_change:
                conditions.append(~value.eqNullSafe(known))
            else:
                # A value is compared with the last one since the last gap, if there was one.
                since_gap = F.col(f"{_KNOWN_VALUES}{i}") > F.col(f"{_FORGOTTEN}{i}")
                conditions.append((known != value) & since_gap)
        if window.start_when:
            conditions.append(F.col(STARTS))
        if window.end_when:
            conditions.append(F.col(_ENDED))
        return reduce(
            or_, (F.coalesce(condition, F.lit(False)) for condition in conditions), F.lit(False)
        )

    def _cut(self, events: DataFrame) -> DataFrame:
        """The events, with the cuts that do not depend on other cuts."""
        before = F.lag(FIRST).over(self._in_order)
        gap = breaks(F.col(FIRST), before, self.window.gap.us, self.rules)
        placed = events.withColumns(
            {_GAP: gap, ROW: F.row_number().over(self._in_order), **self.earlier(self._in_order)}
        )
        forgotten = self.at_gaps(self._in_order, _GAP)
        # Spark Connect takes no empty set of columns.
        placed = placed.withColumns(forgotten) if forgotten else placed
        return placed.withColumn(_CUT, F.col(_GAP) | self.cuts())

    def _limited(self, events: DataFrame) -> DataFrame:
        """The events, with every cut."""
        window, cut = self.window, F.col(_CUT)
        if window.max_duration is None and window.max_events is None:
            return events.withColumn(_NEW, cut)
        stretched = events.withColumns(
            {
                _STRETCH: F.sum(cut.cast("long")).over(self._so_far),
                _PLACE: F.col(ROW) - F.max(F.when(cut, F.col(ROW))).over(self._so_far),
                _FROM: F.max(F.when(cut, F.col(FIRST))).over(self._so_far),
            }
        )
        if window.max_duration is None:
            full = F.pmod(F.col(_PLACE), F.lit(window.max_events)) == 0
            return stretched.withColumn(_NEW, full)
        cut_places = self._cuts(stretched)
        other = [F.col(f"{_LIMIT}{name}") for name in (*self.keys, _STRETCH, _PLACE)]
        own = [F.col(name) for name in (*self.keys, _STRETCH, _PLACE)]
        same = reduce(and_, (a.eqNullSafe(b) for a, b in zip(own, other, strict=True)))
        new = (cut | other[-1].isNotNull()).alias(_NEW)
        return stretched.join(cut_places, same, "left").select(*map(column, stretched.columns), new)

    def _cuts(self, stretched: DataFrame) -> DataFrame:
        """Where stretches that are longer than the limits are cut: key, stretch, place."""
        beyond = F.col(FIRST) > limit(self.window, F.col(_FROM))
        if self.window.max_events is not None:
            beyond |= F.col(_PLACE) >= self.window.max_events
        long = (
            stretched.groupBy(*self.keys, _STRETCH)
            .agg(F.bool_or(beyond).alias(_NEW), F.collect_list(FIRST).alias(FIRST))
            .where(_NEW)
        )
        cut_places = long.select(
            *(F.col(name).alias(f"{_LIMIT}{name}") for name in (*self.keys, _STRETCH)),
            F.explode(self._folded(F.sort_array(FIRST))).alias(f"{_LIMIT}{_PLACE}"),
        )
        return cut_places

    def _folded(self, times: Column) -> Column:
        """The places, from 0, at which a stretch with these event times is cut by limits."""
        none = F.array().cast("array<int>")
        start = F.struct(
            F.get(times, F.lit(0)).alias("start"),
            F.lit(0).alias("from"),
            F.lit(0).alias("at"),
            none.alias("cuts"),
        )

        def step(state: Column, time: Column) -> Column:
            over = time > limit(self.window, state["start"])
            if self.window.max_events is not None:
                over |= state["at"] - state["from"] >= self.window.max_events
            return F.struct(
                F.when(over, time).otherwise(state["start"]).alias("start"),
                F.when(over, state["at"]).otherwise(state["from"]).alias("from"),
                (state["at"] + 1).alias("at"),
                F.when(over, F.array_append(state["cuts"], state["at"]))
                .otherwise(state["cuts"])
                .alias("cuts"),
            )

        return F.aggregate(times, start, step, lambda state: state["cuts"])


def ruled_sessions(
    events: DataFrame, cutter: Cutter, aggregates: Sequence[Bound], since: str | None = None
) -> DataFrame:
    """Aggregates over sessions with rules.

    Args:
        events: one row per event, as `Cutter.numbered` takes them, with the aggregates' inputs.
        cutter: where sessions begin.
        aggregates: the aggregates whose states to make.
        since: a column of the events (µs); sessions that start before it are left out.

    Returns:
        One row per session, dropped ones as well: key, START and END (µs), the number of events,
        CLOSED, ORDINAL, merged states.
    """
    also = [since] if since else []
    grouped = cutter.numbered(events).groupBy(*cutter.keys, SESSION)
    sessions = grouped.agg(
        F.min(FIRST).alias(START),
        F.max(FIRST).alias(END),
        F.count(F.lit(1)).alias(EVENTS),
        F.bool_or(CLOSED).alias(CLOSED),
        F.first(ORDINAL).alias(ORDINAL),
        *(state for binding in aggregates for state in binding.partial()),
        *(F.first(name).alias(name) for name in also),
    )
    for name in also:
        sessions = sessions.where(F.col(START) >= F.col(name))
    return sessions.drop(SESSION, *also)


def limit(window: SessionWindow, start: Column) -> Column:
    """The last instant at which an event belongs to a session that starts there, µs."""
    assert window.max_duration is not None
    most = window.max_duration.us
    if window.max_duration_on == "start":
        return start + most
    return start - F.pmod(start, F.lit(most)) + 2 * most


def long_enough(window: SessionWindow) -> Column:
    """Whether a session is not dropped, by its start, end and number of events."""
    kept = F.lit(True)
    if window.min_events is not None:
        kept &= F.col(EVENTS) >= window.min_events
    if window.min_duration is not None:
        kept &= F.col(END) - F.col(START) >= window.min_duration.us
    return kept


def ruled_session_is_open(window: SessionWindow, rules: Rules, zone: str, horizon: int) -> Column:
    """Whether an event at the horizon could join a session, judged by the row in its table."""
    at, start = F.lit(horizon).cast("bigint"), F.col(START)
    joins = session_is_open(F.col(END), window, rules, horizon) & ~F.col(CLOSED)
    if window.max_duration is not None:
        joins &= at <= limit(window, start)
    if window.max_events is not None:
        joins &= F.col(EVENTS) < window.max_events
    if window.split is not None:
        day = day_number(window, zone)
        joins &= day(at) == day(start)
    return joins


def day_number(window: SessionWindow, zone: str) -> Callable[[Column], Column]:
    """A function from an instant to the number of the day, as `split` divides days."""
    assert window.split is not None
    days = TumblingWindow(size=Calendar(1, "day"), offset=window.split)
    return layout(days, PLAIN, zone).cutting().cut
