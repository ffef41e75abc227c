"""How far apart the two events of a pair may be."""

from __future__ import annotations

from dataclasses import dataclass

from backfill.errors import WindowError
from backfill.time.durations import Fixed, fixed
from backfill.windows.message_gaps import Messages, read_messages

#: No two times that can be read, of the years 2 to 9998, are further apart.
_FURTHEST = 10_000 * 366 * 86_400_000_000
_WAY_OUT = 'Write ("5m", "30m"), one duration such as "10m" for both sides, or messages(5)'


@dataclass(frozen=True)
class Reach:
    """How much later than the left event the right one may be, from `low` to `high`, included."""

    low: int
    high: int

    @property
    def length(self) -> int:
        """The distance from one end to the other."""
        return self.high - self.low

    def reversed(self) -> Reach:
        """How much later than the right event the left one may be."""
        return Reach(-self.high, -self.low)


def read_within(value: object) -> Reach | Messages:
    """Reads `within`.

    Args:
        value: (before, after); one duration for both; or a number of messages.

    Raises:
        WindowError: if it is none of these, or a duration is negative or a calendar span.
    """
    try:
        counted = read_messages(value)
    except WindowError as error:
        raise WindowError(
            error.problem, field="within", value=str(value), way_out=error.way_out
        ) from None
    if counted is not None:
        return counted
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise WindowError(
                "must be two durations, before and after",
                field="within",
                value=value,
                way_out=_WAY_OUT,
            )
        before, after = value
    else:
        before = after = value
    return Reach(-_span(before, "before"), _span(after, "after"))


def _span(value: object, side: str) -> int:
    span: Fixed = fixed(value, field="within")
    if span.us < 0:
        raise WindowError(
            f"the time {side} the left event can't be negative",
            field="within",
            value=str(value),
            way_out=f"{_WAY_OUT}; pairs that must be some time apart need a condition in where",
        )
    return min(span.us, _FURTHEST)
