"""An event as an operator receives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


# Not frozen: creating a frozen instance takes three times as long.
@dataclass(kw_only=True, slots=True)
class Event:
    """One event, in the place where it arrived. Replays never change it.

    Attributes:
        key: what the event is grouped by, hashable; None if it has no key.
        time: the event time, in µs since the epoch; None if it has none.
        arrival: its place in the order of arrival: a number, or a tuple such as (partition,
            offset). Unique.
        value: its fields by name; None for a record without a value, whose fields are all null.
        partition: the partition, stream or input that it came through.
        batch: the number of the micro-batch, or Beam's bundle, that read it; a number that is
            left out is a batch that ran without data.
        watermark: the watermark in µs right after it, for engines that have one.
        gap: the session gap in µs that it brings, for engines whose gaps can differ.
        clock: where the operator's clock stood when the event came, in µs: stream time or the
            watermark before the event, or the watermark that its batch judges lateness by. Either
            all events have it or none. If they do, nothing else moves the clock, so keys can be
            replayed separately.
        wall_clock: the wall clock in µs when the event was processed, for what goes by it; None:
            the event's own time.
        passes: whether it only moves the clocks, to `clock` and `wall_clock`, because it is of a
            key that is replayed elsewhere.
    """

    key: Any
    time: int | None
    arrival: Any
    value: Mapping[str, Any] | None = field(default_factory=dict)
    partition: Any = 0
    batch: int | None = None
    watermark: int | None = None
    gap: int | None = None
    clock: int | None = None
    wall_clock: int | None = None
    passes: bool = False
