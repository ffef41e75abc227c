"""Window definitions: frozen, keyword-only, validated when they are made.

They say which windows are computed. Gap edges, end conventions and alignment are set by the
engine (`backfill.engines`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from backfill.errors import WindowError
from backfill.time.durations import Calendar, Duration, Fixed, duration, fixed
from backfill.windows.arguments import choice, events_or_span, flag, positive, set_fields
from backfill.windows.join_window import JoinWindow
from backfill.windows.message_gaps import Messages
from backfill.windows.rolling_window import MetricSlices, RollingWindow
from backfill.windows.session_window import SessionWindow

__all__ = [
    "Aligned",
    "AnyWindow",
    "CountWindow",
    "CumulatingWindow",
    "EventWindow",
    "HoppingWindow",
    "JoinWindow",
    "MetricSlices",
    "RollingWindow",
    "SessionWindow",
    "SlidingWindow",
    "TableWindow",
    "TumblingWindow",
    "Window",
    "by_place",
    "durations_of",
    "is_distinct",
    "key_of",
]


@dataclass(frozen=True, kw_only=True)
class TumblingWindow:
    """Consecutive windows of one size; every event is in exactly one of them.

    Args:
        size: "1h", or a calendar span such as "1 day", which follows the time zone.
        offset: shifts the alignment; may be negative. For calendar sizes it shifts the local time.
        phase: for sizes of months or years: how many months after January the windows start, such
            as "3 months" for years from April (with offset="5d" from April 6).

    Raises:
        WindowError: if the size is not positive, or an argument is not a duration.

    Example:
        >>> print(TumblingWindow(size="1 day", offset="6h"))
        tumbling(size=1 day, offset=6h)
    """

    size: Duration
    offset: Fixed
    phase: Calendar | None

    def __init__(self, *, size: object, offset: object = Fixed(0), phase: object = None) -> None:
        set_fields(
            self,
            size=positive(duration(size, field="size"), field="size"),
            offset=fixed(offset, field="offset"),
        )
        set_fields(self, phase=_phase(phase, self.size))

    def __str__(self) -> str:
        return f"tumbling(size={self.size}{_shifted(self.offset, self.phase)})"


@dataclass(frozen=True, kw_only=True)
class HoppingWindow:
    """Windows of one size that start every `advance`; an event is in each one that covers its time.

    Args:
        size: such as "24h", or a calendar span.
        advance: such as "1h"; a calendar span if and only if the size is one. Some engines allow
            an advance larger than the size; events in between are then in no window.
        offset, phase: as for `TumblingWindow`.

    Raises:
        WindowError: if size or advance is not positive, or only one of them is a calendar span.

    Example:
        >>> print(HoppingWindow(size="24h", advance="1h"))
        hopping(size=1d, advance=1h)
    """

    size: Duration
    advance: Duration
    offset: Fixed
    phase: Calendar | None

    def __init__(
        self,
        *,
        size: object,
        advance: object,
        offset: object = Fixed(0),
        phase: object = None,
    ) -> None:
        set_fields(
            self,
            size=positive(duration(size, field="size"), field="size"),
            advance=positive(duration(advance, field="advance"), field="advance"),
            offset=fixed(offset, field="offset"),
        )
        set_fields(self, phase=_phase(phase, self.advance))
        if isinstance(self.size, Calendar) != isinstance(self.advance, Calendar):
            raise WindowError(
                f"must be of the same kind as the size {self.size}",
                field="advance",
                value=str(self.advance),
                way_out="Give both as fixed spans (24h, 1h) or both as calendar spans (1 week, "
                "1 day)",
            )

    def __str__(self) -> str:
        shift = _shifted(self.offset, self.phase)
        return f"hopping(size={self.size}, advance={self.advance}{shift})"


@dataclass(frozen=True, kw_only=True)
class CumulatingWindow:
    """Windows that share a start and grow by `step` up to `size` (Flink SQL's CUMULATE).

    Args:
        size: such as "24h", or a calendar span such as "1 day".
        step: must divide a fixed size evenly. With a calendar size, steps count from the local
            start, and the last one is cut off at the end.
        offset, phase: as for `TumblingWindow`.

    Raises:
        WindowError: if the step is not positive, is larger than the size, does not divide a fixed
            size, or is a calendar span with a fixed size.

    Example:
        >>> print(CumulatingWindow(size="1 day", step="1h"))
        cumulating(size=1 day, step=1h)
    """

    size: Duration
    step: Duration
    offset: Fixed
    phase: Calendar | None

    def __init__(
        self, *, size: object, step: object, offset: object = Fixed(0), phase: object = None
    ) -> None:
        set_fields(
            self,
            size=positive(duration(size, field="size"), field="size"),
            step=positive(duration(step, field="step"), field="step"),
            offset=fixed(offset, field="offset"),
        )
        set_fields(self, phase=_phase(phase, self.size))
        if not _steps_fit(self.size, self.step):
            raise WindowError(
                f"the size {self.size} is not a whole number of steps",
                field="step",
                value=str(self.step),
                way_out="Choose a step that divides the size",
            )

    def __str__(self) -> str:
        shift = _shifted(self.offset, self.phase)
        return f"cumulating(size={self.size}, step={self.step}{shift})"


@dataclass(frozen=True, kw_only=True)
class SlidingWindow:
    """A window for each event, over the events of its key around it (SQL's OVER ... RANGE).

    Args:
        size: how far back a window reaches, both ends included: the window of an event at t is
            [t - size, t], with all events at t. A fixed duration, or None for all earlier events
            (SQL's UNBOUNDED PRECEDING).
        before: only events that came before the event, in order of time and arrival; so neither
            the event itself nor events with equal time and arrival.
        following: how far the window also reaches ahead: [t - size, t + following].
        distinct: the windows [t - size, t] and [t + 1 tick, t + 1 tick + size] around each event
            that hold different sets of events, instead of one for each event (KIP-450).

    Raises:
        WindowError: if a duration is not positive, is a calendar span, or is not a duration; if
            `before`, `following` and `distinct` are combined, or `distinct` has no size.

    Example:
        >>> print(SlidingWindow(size="24h"))
        sliding(size=1d)
        >>> print(SlidingWindow(size="24h", before=True))
        sliding(size=1d, before)
    """

    size: Fixed | None
    before: bool
    following: Fixed | None
    distinct: bool

    def __init__(
        self,
        *,
        size: object,
        before: bool = False,
        following: object = None,
        distinct: bool = False,
    ) -> None:
        set_fields(
            self,
            size=None if size is None else positive(fixed(size, field="size"), field="size"),
            before=flag(before, field="before"),
            following=None
            if following is None
            else positive(fixed(following, field="following"), field="following"),
            distinct=flag(distinct, field="distinct"),
        )
        given = [name for name in ("before", "following", "distinct") if getattr(self, name)]
        if len(given) > 1:
            raise WindowError(
                f"can't be combined with {given[0]}", field=given[1], way_out="Leave one out"
            )
        if self.distinct and self.size is None:
            raise WindowError(
                "distinct windows need a size", field="size", way_out='Use a value such as "1h"'
            )

    @property
    def reach_us(self) -> int | None:
        """From the start of a window to its end, both included, µs; None without a start."""
        if self.size is None:
            return None
        return self.size.us + (0 if self.following is None else self.following.us)

    def __str__(self) -> str:
        more = [f"following={self.following}"] if self.following else []
        more += [name for name in ("before", "distinct") if getattr(self, name)]
        parts = [f"size={self.size or 'unbounded'}", *more]
        return f"sliding({', '.join(parts)})"


@dataclass(frozen=True, kw_only=True)
class CountWindow:
    """Windows of the last `size` events, one after every `advance` events.

    Events are numbered from 1, and windows end at the numbers `advance`, 2 `advance`, and so on.
    If the advance is smaller than the size, the first windows hold fewer events.

    Args:
        size: the number of events, at least 1; None for all events so far (SQL's ROWS UNBOUNDED
            PRECEDING); or a fixed duration, such as "1h": the events in the hour up to the window's
            last one, both ends included (Storm: without the start).
        advance: the number of events from one window to the next, at least 1: 1 for a window for
            each event, `size` for windows that do not overlap. Some engines allow it to be larger
            than the size; events in between are then in no window. Or a fixed duration, such as
            "1m": a window at the end of each minute in which there are events (Storm repeats it
            after minutes without).
        per: "key": the events of each key are numbered; "stream": all events together, whatever
            their keys, and the windows have no key.
        order: "arrival", or "time", where events of equal times are ordered by arrival.

    Raises:
        WindowError: if size or advance is neither a number of events of at least 1 nor a fixed
            duration, if both are durations, if one is and the order is not "time", or if `per` or
            `order` is something else.

    Example:
        >>> print(CountWindow(size=100, advance=10))
        count(size=100, advance=10)
        >>> print(CountWindow(size=100, advance=100, per="stream", order="time"))
        count(size=100, advance=100, per=stream, order=time)
    """

    size: int | Fixed | None
    advance: int | Fixed
    per: Literal["key", "stream"]
    order: Literal["arrival", "time"]

    def __init__(
        self,
        *,
        size: object,
        advance: object = 1,
        per: str = "key",
        order: str = "arrival",
    ) -> None:
        set_fields(
            self,
            size=None if size is None else events_or_span(size, field="size"),
            advance=events_or_span(advance, field="advance"),
            per=choice(per, ("key", "stream"), field="per"),
            order=choice(order, ("arrival", "time"), field="order"),
        )
        if not self.has_duration:
            return
        if isinstance(self.size, Fixed) and isinstance(self.advance, Fixed):
            raise WindowError(
                "can't be a duration if the size is one",
                field="advance",
                value=str(self.advance),
                way_out="Use HoppingWindow, or count events in one of them",
            )
        if self.order != "time":
            raise WindowError(
                "must be time if the size or the advance is a duration",
                field="order",
                value=self.order,
                way_out='Use order="time"',
            )

    @property
    def has_duration(self) -> bool:
        """Whether the size or the advance is a duration rather than a number of events."""
        return isinstance(self.size, Fixed) or isinstance(self.advance, Fixed)

    def __str__(self) -> str:
        more = [f"per={self.per}"] if self.per != "key" else []
        more += [f"order={self.order}"] if self.order != "arrival" else []
        parts = [f"size={self.size or 'unbounded'}", f"advance={self.advance}", *more]
        return f"count({', '.join(parts)})"


Aligned = TumblingWindow | HoppingWindow | CumulatingWindow
Window = SessionWindow | Aligned
#: Windows of single events rather than of spans of time.
EventWindow = SlidingWindow | CountWindow
#: Rows of tables that only jobs have: of metrics and of joins.
TableWindow = RollingWindow | JoinWindow
AnyWindow = Window | EventWindow | TableWindow


def is_distinct(window: AnyWindow) -> bool:
    """Whether windows hold different sets of events, which several events can share (KIP-450)."""
    return isinstance(window, SlidingWindow) and window.distinct


def by_place(window: AnyWindow) -> bool:
    """Whether an event's number or offset, not its time, says which windows or pairs it is in.

    One more event then moves others to other windows, wherever in time these are.
    """
    if isinstance(window, SessionWindow):
        return isinstance(window.gap, Messages)
    if isinstance(window, JoinWindow):
        return isinstance(window.within, Messages)
    return isinstance(window, CountWindow)


def key_of(window: AnyWindow, key: tuple[str, ...]) -> tuple[str, ...]:
    """The key's columns in the window's result.

    Count windows over the whole stream have none; those of a metric are its dimensions.
    """
    if isinstance(window, RollingWindow):
        return window.by
    return () if isinstance(window, CountWindow) and window.per == "stream" else key


def durations_of(window: AnyWindow) -> dict[str, Duration]:
    """The window's durations by name."""
    values = {field.name: getattr(window, field.name) for field in fields(window)}
    return {name: value for name, value in values.items() if isinstance(value, Duration)}


def _steps_fit(size: Duration, step: Duration) -> bool:
    match size, step:
        case Fixed(), Fixed():
            return size.us % step.us == 0
        case Calendar(), Fixed():
            return step.us <= size.longest_us
        case Calendar(), Calendar():
            return step.longest_us <= size.shortest_us
        case _:
            return False


def _phase(value: object, every: Duration) -> Calendar | None:
    if value is None:
        return None
    phase = duration(value, field="phase")
    if not isinstance(phase, Calendar) or phase.unit != "month":
        problem, way_out = "must be a number of months", "Use a value such as 3 months"
    elif not isinstance(every, Calendar) or every.unit != "month":
        problem = (
            f"is only for windows that start on month boundaries, but these start every {every}"
        )
        way_out = "Leave it out, or use offset"
    elif not 0 < phase.count < every.count:
        problem = f"must be less than the {every.count} months from one window to the next"
        way_out = "Give the months from January to the first one"
    else:
        return phase
    raise WindowError(problem, field="phase", value=str(value), way_out=way_out)


def _shifted(offset: Fixed, phase: Calendar | None) -> str:
    shift = f", offset={offset}" if offset.us else ""
    return f"{shift}, phase={phase}" if phase else shift
