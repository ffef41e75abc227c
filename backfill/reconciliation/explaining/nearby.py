"""The part of a key that a fault of the events about a difference can change.

Windows of a key depend on each other only through the events that they share and through the
operator's clock. If each event brings the clock, or nothing is late, far events matter no more than
those of another key, which a replay of a key alone does without. So faults are tried one after the
other on a few events, not on all events of a key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace

from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.outcome import Outcome
from backfill.time.durations import DAY_US, Fixed
from backfill.windows import (
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)

#: No time zone's clocks are set back or forward by more than this, µs.
_CLOCKS = DAY_US


def nearby(case: Case, hull: tuple[int, int], base: Outcome) -> tuple[Case, Outcome]:
    """A key with only those events that can share a window with one in a span, or meet the span.

    Args:
        case: the key.
        hull: the span of a difference, µs.
        base: what the operator makes of the key.

    Returns:
        The case with fewer events, and what the operator makes of them; both unchanged if the key
        can't be divided, or if most of its events are near.
    """
    span = _span(case, hull)
    if span is None or not is_apart(case, base):
        return case, base
    times, places = case.timed
    near = places[bisect_left(times, span[0]) : bisect_right(times, span[1])]
    if 2 * len(near) > len(case.events):
        return case, base
    own = replace(case, events=[case.events[place] for place in sorted(near)])
    made = Outcome(own.operator, own.events)
    # Far events should have no part in these windows; if they have, all events are replayed.
    ours, theirs = (
        sorted(
            (row.bounds, row.written) for row in outcome.rows.about(*hull) if case.meets(row, hull)
        )
        for outcome in (made, base)
    )
    return (own, made) if ours == theirs else (case, base)


def is_apart(case: Case, base: Outcome) -> bool:
    """Whether what becomes of an event does not depend on the key's far events."""
    if case.operator.among is not None:
        return False
    if isinstance(case.operator.window, SlidingWindow) and base.made.dropped:
        # Flink judges lateness of these rows by the key's last row, not by the clock.
        return False
    # Without a clock nothing is late; in processing time, an event's own time is the clock.
    own = ("none", "processing_time")
    if all(interface.clock in own for interface in case.operator.engine.streaming.values()):
        return True
    return case.once("clocked", lambda: all(event.clock is not None for event in case.events))


def _span(case: Case, hull: tuple[int, int]) -> tuple[int, int] | None:
    """From the first to the last event that such windows may depend on, µs; None: on any event."""
    window, (low, high) = case.operator.window, hull
    tick = case.operator.engine.tick_us
    match window:
        case SessionWindow(gap=Fixed(us=gap)):
            reach = gap + tick
            firsts, lasts = case.once("chains", lambda: _chains(case.timed[0], reach))
            own = slice(bisect_left(lasts, low - reach), bisect_right(firsts, high + reach))
            return min([low, *firsts[own]]), max([high, *lasts[own]])
        case TumblingWindow() | HoppingWindow() | CumulatingWindow():
            size = window.size
            reach = size.us if isinstance(size, Fixed) else size.longest_us + _CLOCKS
        case SlidingWindow(size=Fixed(us=back), distinct=False):
            reach = back + tick + (0 if window.following is None else window.following.us)
        case _:
            return None
    return low - reach, high + reach


def _chains(times: Sequence[int], reach: int) -> tuple[list[int], list[int]]:
    """The starts and the ends of chains of events that follow each other within a reach.

    Args:
        times: in order.
        reach: no session holds two consecutive events that are further apart.
    """
    breaks = [at for at in range(1, len(times)) if times[at] - times[at - 1] > reach]
    firsts = [times[at] for at in (0, *breaks)] if times else []
    lasts = [times[at - 1] for at in (*breaks, len(times))] if times else []
    return firsts, lasts
