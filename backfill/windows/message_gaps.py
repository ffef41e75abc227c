"""Gaps counted in messages rather than in time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backfill.errors import WindowError

_TEXT = re.compile(r"(\d+) messages?")


@dataclass(frozen=True)
class Messages:
    """A number of messages of a partition, as `messages` makes it."""

    count: int

    @property
    def us(self) -> int:
        """Raises a WindowError: it is read wherever a gap must be a duration."""
        raise WindowError(
            "is a number of messages, which only `aggregate` and jobs take as a gap",
            field="gap",
            value=str(self),
            way_out="Use a duration such as 30m",
        )

    def __str__(self) -> str:
        return f"{self.count} message{'s' if self.count > 1 else ''}"


def messages(count: int) -> Messages:
    """A gap of this many messages: `SessionWindow(gap=messages(5))`.

    Args:
        count: at least 1.

    Raises:
        WindowError: if it is not a whole number, or less than 1.

    Example:
        >>> print(messages(5))
        5 messages
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise WindowError(
            "must be a whole number of messages, at least 1",
            field="gap",
            value=count,
            way_out="Use a value such as 5",
        )
    return Messages(count)


def read_messages(value: object) -> Messages | None:
    """Messages, or text such as "5 messages"; None for anything else."""
    if isinstance(value, Messages):
        return value
    match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    return messages(int(match[1])) if match else None
