"""From events to windows by number of events: the rows of `aggregate` and of a job's table.

Events are numbered. Windows by number of events are then windows of time with the number as the
time, and the same operators merge them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.window import Window as Over

from backfill.aggregates.bound import Bound, Part, running
from backfill.columns import (
    BEGIN,
    END,
    EVENTS,
    FIRST_EVENT,
    INSTANT,
    LAST_EVENT,
    OWN,
    START,
    TIME,
    sortable,
)
from backfill.engines import Engine, Rules
from backfill.operators.aligned import aligned, takes_events
from backfill.operators.counting import NUMBER, Numbering
from backfill.operators.extent import Extent
from backfill.operators.fixed import FixedWindows
from backfill.operators.grids import floor_to
from backfill.operators.sliding import sliding, with_states
from backfill.rows import slices as slicing
from backfill.time.durations import Fixed
from backfill.windows import CountWindow, SlidingWindow

#: The part of a key's events that one task goes through.
_PART = "_part"
#: How many events have come since the window before, if windows advance by time.
_SINCE = "_since"
#: Blocks of as many events as a window has, and the prefixes of a window's parts in two of them.
_BLOCK, _TAIL, _HEAD = "_block", "_tail", "_head"
#: Parts are at least about as long as this, and many times as long as windows reach back.
_PART_EVENTS = 1 << 17
#: Up to this size, Spark's ROWS frame goes through the events of each window: that takes no sort
#: but the one that numbers them. At 16 both are equally fast, at 64 the frame takes 1.3 times as
#: long.
_FRAME_EVENTS = 16


def count_rows(
    events: DataFrame,
    window: CountWindow,
    keys: Sequence[str],
    aggregates: Sequence[Bound],
    *,
    arrival: Sequence[str],
    ties: Sequence[str],
    engine: Engine,
    count: int | None = None,
) -> DataFrame:
    """Computes the rows of count windows.

    Args:
        events: usable events as `aggregates.bound.bind` gives them, each once.
        window: which events make a window.
        keys: the columns of the key; empty for windows over the whole stream.
        aggregates: the aggregates whose states to compute.
        arrival: the columns that give the order of arrival.
        ties: columns that order events of equal times and arrivals, before the aggregates' inputs.
        engine: the engine whose rules apply.
        count: how many events there are; None if that is not known.

    Returns:
        Key; BEGIN, the least event time; START and END, the largest (µs); the numbers of the first
        and last event; the number of events; OWN; merged states. An event's own window is the
        first one that ends with it or after it.

    Raises:
        WindowError: if the engine refuses the window.
    """
    rules = engine.rules_for(window)
    own = [replace(binding, order=(INSTANT, *binding.order[1:])) for binding in aggregates]
    extent = _extent(window, 1 + max((binding.index for binding in own), default=0))
    inputs = dict.fromkeys(binding.input for binding in own if binding.input is not None)
    values = [*ties, *inputs]
    slim = events.select(*dict.fromkeys([*keys, TIME, *arrival, *values]))
    counted = _Counted(window, keys, [*own, *extent.bounds], extent, rules, engine)
    numbering = _numbering(slim, keys, window, values, arrival)
    merged = counted.of(*numbering.divided(slim.withColumn(INSTANT, F.col(TIME)), count), numbering)
    return merged.select(
        *keys,
        extent.least[INSTANT].alias(BEGIN),
        counted.last_instant.alias(START),
        counted.last_instant.alias(END),
        counted.first_number.alias(FIRST_EVENT),
        counted.last_number.alias(LAST_EVENT),
        EVENTS,
        counted.own.alias(OWN),
        *(state for binding in own for state in binding.states()),
    )


def _numbering(
    events: DataFrame,
    keys: Sequence[str],
    window: CountWindow,
    values: Sequence[str],
    arrival: Sequence[str],
) -> Numbering:
    *order, place = (TIME,) if window.order == "time" else arrival
    ties = [name for name in (*arrival, TIME) if name not in (*order, place)]
    types = {field.name: field.dataType for field in events.schema.fields}
    ties += [name for name in values if name not in keys and sortable(types[name])]
    return Numbering(keys, order, place, ties)


def _extent(window: CountWindow, index: int) -> Extent:
    """The times and numbers to aggregate, as far as a window's last event does not show them."""
    least, largest = [INSTANT], []
    if _is_aligned(window) or window.order == "arrival":
        largest.append(INSTANT)
    if _is_aligned(window):
        largest.append(NUMBER)
    if isinstance(window.size, Fixed):
        least.append(NUMBER)
    return Extent(index, least=least, largest=largest)


def _is_aligned(window: CountWindow) -> bool:
    """Whether slices of numbers are merged; otherwise each event has a window at first."""
    size, advance = window.size, window.advance
    return isinstance(size, int) and (size == 1 or (isinstance(advance, int) and advance > 1))


@dataclass(frozen=True)
class _Counted:
    """Merges windows from numbered events, and tells where their numbers and times are then.

    Attributes:
        keys: the columns of the key.
        aggregates: those of the user and of the extent.
    """

    window: CountWindow
    keys: Sequence[str]
    aggregates: Sequence[Bound]
    extent: Extent
    rules: Rules
    engine: Engine

    @property
    def last_instant(self) -> Column:
        """The largest time."""
        return self.extent.largest.get(INSTANT, F.col(INSTANT))

    @property
    def last_number(self) -> Column:
        """The number of the last event: where the window ends.

        A window up to a time also holds later events of that time, after which other windows end.
        """
        return self.extent.largest.get(NUMBER, F.col(NUMBER))

    @property
    def first_number(self) -> Column:
        """The number of the first event."""
        size = self.window.size
        if isinstance(size, Fixed):
            return self.extent.least[NUMBER]
        if size is None:
            return F.lit(1).cast("long")
        end = F.col(END if _is_aligned(self.window) else NUMBER)
        return F.greatest(end - size + 1, F.lit(1))

    @property
    def own(self) -> Column:
        """How many events have come since the window before."""
        advance = self.window.advance
        if isinstance(advance, Fixed):
            return F.col(_SINCE)
        last = self.last_number
        return last - floor_to(last - 1, advance, 0)

    def of(self, few: DataFrame | None, many: DataFrame | None, numbering: Numbering) -> DataFrame:
        """A row for each window, merged.

        Args:
            few: events of keys that one task each can take; they are exchanged once, by key.
            many: events of other keys.
            numbering: the numbering of both.
        """
        parts = []
        if few is not None:
            parts.append((numbering.together(few), False))
        if many is not None:
            parts.append((numbering.in_blocks(many), True))
        if isinstance(self.window.size, int):
            windows = [self._windows(numbered, spread=spread) for numbered, spread in parts]
            return reduce(DataFrame.unionByName, windows)
        return self._windows(reduce(DataFrame.unionByName, [numbered for numbered, _ in parts]))

    def _windows(self, numbered: DataFrame, *, spread: bool = True) -> DataFrame:
        """The windows of numbered events; `spread`: a key may have more than one task can hold."""
        size, advance = self.window.size, self.window.advance
        axis = numbered.withColumn(TIME, F.col(NUMBER))
        if isinstance(size, Fixed):
            # Storm's windows exclude their start.
            behind = self.engine.tick_us if self.rules.closed == "right" else 0
            windows = self._sliding(numbered, Fixed(size.us - behind), self.keys)
        elif size is None:
            # One event per second, so that a slice has 86,400 events.
            seconds = axis.withColumn(TIME, F.col(NUMBER) * 1_000_000)
            windows = self._sliding(seconds, None, self.keys)
        elif _is_aligned(self.window):
            windows = self._aligned(axis, size, 1 if isinstance(advance, Fixed) else advance)
        else:
            windows = self._each(axis, size, spread=spread)
        if isinstance(advance, Fixed):
            shift = self.engine.tick_us if self.rules.closed == "right" else 0
            return self._latest(windows, floor_to(self.last_instant - shift, advance.us, 0))
        if advance == 1 or _is_aligned(self.window):
            return windows
        if size is None and self.rules.counts_rest:
            return self._latest(windows, floor_to(F.col(NUMBER) - 1, advance, 0))
        return windows.where(F.pmod(NUMBER, F.lit(advance)) == 0)

    def _aligned(self, axis: DataFrame, size: int, advance: int) -> DataFrame:
        """Windows (start, start + size] of numbers that end at multiples of the advance."""
        if size <= advance:
            return self._apart(axis, size, advance)
        where = FixedWindows(size, advance, -size % advance, shift=1, clips=False)
        if running(self.aggregates) is not None and takes_events(where, self.aggregates):
            states = [state for binding in self.aggregates for state in binding.lift()]
            slices = slicing.apart(axis, keys=self.keys, states=states, deduplicate=False)
        else:
            slices = slicing.cut(
                axis,
                keys=self.keys,
                cuttings=[where.cutting()],
                aggregates=self.aggregates,
                deduplicate=False,
            )
        windows = aligned(slices, where, self.keys, self.aggregates)
        last, end = self.last_number, F.col(END)
        return windows.where(last > end - advance if self.rules.counts_rest else last == end)

    def _apart(self, axis: DataFrame, size: int, advance: int) -> DataFrame:
        """Windows of which no two have an event in common."""
        number = F.col(NUMBER)
        placed = axis.withColumn(END, -floor_to(-number, advance, 0))
        if size < advance:
            placed = placed.where(number > F.col(END) - size)
        states = [state for binding in self.aggregates for state in binding.partial()]
        windows = placed.groupBy(*self.keys, END).agg(F.count(F.lit(1)).alias(EVENTS), *states)
        return windows if self.rules.counts_rest else windows.where(self.last_number == F.col(END))

    def _each(self, axis: DataFrame, size: int, *, spread: bool) -> DataFrame:
        """For each event, a window of the last `size` events."""
        if not spread:
            return self._last(axis, self.keys, size)
        length = max(_PART_EVENTS, 16 * size)
        place = F.col(NUMBER) - 1
        own = floor_to(place, length, 0)
        reaches = F.pmod(place, F.lit(length)) > length - size
        # An event near the end is in the part after its own as well, for the windows there.
        within = F.when(reaches, F.array(own, own + length)).otherwise(F.array(own))
        parts = axis.withColumn(_PART, F.explode(within))
        windows = self._last(parts, [*self.keys, _PART], size)
        return windows.where(F.col(_PART) == own).drop(_PART)

    def _last(self, rows: DataFrame, group: Sequence[str], size: int) -> DataFrame:
        """For each row, a window of the last `size` rows of its group; numbers have no holes."""
        if size <= _FRAME_EVENTS:
            frame = Over.partitionBy(*group).orderBy(NUMBER).rowsBetween(1 - size, 0)
            return rows.withColumns(self._over(frame))
        # A window is the end of one block of as many events, and the start of the next.
        number, block = F.col(NUMBER), F.col(_BLOCK)
        placed = rows.withColumn(_BLOCK, floor_to(number - 1, size, 0))
        within = Over.partitionBy(*group, _BLOCK)
        until = (Over.unboundedPreceding, Over.currentRow)
        part_rows = placed
        for part, order in ((_TAIL, number.desc()), (_HEAD, number)):
            part_rows = with_states(
                part_rows, part, self._over(within.orderBy(order).rowsBetween(*until))
            )
        columns = [EVENTS, *(name for binding in self.aggregates for name in binding.states())]
        in_order = Over.partitionBy(*group).orderBy(_BLOCK, NUMBER)
        part_rows = part_rows.withColumns(
            {_TAIL + name: F.lag(_TAIL + name, size - 1).over(in_order) for name in columns}
        )
        ended = number - block == size
        left, right = (
            Part(events, {name: F.col(part + name) for name in columns})
            for part, events in (
                # At the end of a block, the head is the whole window.
                (_TAIL, F.when(~ended, F.coalesce(_TAIL + EVENTS, F.lit(0))).otherwise(0)),
                (_HEAD, F.col(_HEAD + EVENTS)),
            )
        )
        states = {EVENTS: left.events + right.events}
        for binding in self.aggregates:
            states |= binding.combine(left, right)
        return part_rows.select(
            *rows.columns, *(state.alias(name) for name, state in states.items())
        )

    def _over(self, frame: WindowSpec) -> dict[str, Column]:
        """The number of events in a frame, and their states."""
        states = {EVENTS: F.count(F.lit(1)).over(frame)}
        for binding in self.aggregates:
            states |= binding.over(F.lit(True), frame)
        return states

    def _sliding(self, events: DataFrame, size: Fixed | None, keys: Sequence[str]) -> DataFrame:
        """For each event, a window of the events whose TIME is up to the size before its own."""
        return sliding(
            events,
            SlidingWindow(size=size),
            keys,
            self.aggregates,
            arrival=(),
            also=[NUMBER, INSTANT],
            tick=1,
            clips=False,
            null_key=self.engine.null_key,
        )

    def _latest(self, windows: DataFrame, group: Column) -> DataFrame:
        """Of the windows in each group, the one with the largest last number."""
        grouped = windows.withColumn("_group", group)
        alike = Over.partitionBy(*self.keys, "_group")
        rank = F.row_number().over(alike.orderBy(self.last_number.desc()))
        since = F.count(F.lit(1)).over(alike)
        return grouped.withColumns({"_rank": rank, _SINCE: since}).where("_rank = 1")
