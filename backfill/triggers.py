"""When a window sends another pane: Beam's and Samza's triggers, as data.

A trigger looks at what came to a window since its last pane. It fires once; `Repeatedly` makes it
fire again for what comes after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backfill.errors import WindowError
from backfill.time.durations import Fixed, fixed
from backfill.windows.arguments import positive, set_fields, whole_events


@dataclass(frozen=True)
class AfterCount:
    """After `count` events: Beam's `AfterPane.elementCountAtLeast`, Samza's `Triggers.count`.

    Args:
        count: at least 1.

    Raises:
        WindowError: if it is not a whole number, or less than 1.
    """

    count: int

    def __post_init__(self) -> None:
        whole_events(self.count, field="count")


@dataclass(frozen=True, init=False)
class _Delayed:
    delay: Fixed

    def __init__(self, delay: object) -> None:
        set_fields(self, delay=positive(fixed(delay, field="delay"), field="delay"))


class AfterProcessingTime(_Delayed):
    """`delay` after the first event, by the wall clock.

    Beam's `AfterProcessingTime.pastFirstElementInPane`, Samza's `Triggers.timeSinceFirstMessage`.

    Args:
        delay: such as "10s".

    Raises:
        WindowError: if it is not a duration, or not more than zero.
    """


class AfterSilence(_Delayed):
    """When nothing came for `delay` by the wall clock: Samza's `Triggers.timeSinceLastMessage`.

    Args:
        delay: such as "10s".

    Raises:
        WindowError: if it is not a duration, or not more than zero.
    """


class AfterEventTime(_Delayed):
    """When the watermark is `delay` beyond the time of the first event to arrive.

    Args:
        delay: such as "10s".

    Raises:
        WindowError: if it is not a duration, or not more than zero.
    """


@dataclass(frozen=True, init=False)
class _Combined:
    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        if not triggers:
            raise WindowError(
                "combines at least one trigger",
                field=type(self).__name__,
                way_out="Give some, such as AfterCount(100), AfterProcessingTime('10s')",
            )
        set_fields(self, triggers=tuple(_single(type(self), trigger) for trigger in triggers))


class AfterAny(_Combined):
    """When the first of these fires: Beam's `AfterFirst`, Samza's `Triggers.any`.

    Args:
        *triggers: triggers that are not repeated.

    Raises:
        WindowError: if there is none, or one of them is not a trigger or is repeated.
    """


class AfterAll(_Combined):
    """When all of these would fire: Beam's `AfterAll`.

    Args:
        *triggers: triggers that are not repeated.

    Raises:
        WindowError: if there is none, or one of them is not a trigger or is repeated.
    """


@dataclass(frozen=True)
class Repeatedly:
    """Again and again: Beam's `Repeatedly.forever`, Samza's `Triggers.repeat`.

    Args:
        trigger: a trigger that is not repeated itself.

    Raises:
        WindowError: if it is not a trigger, or is repeated.

    Example:
        >>> from backfill import AfterAny, AfterCount, AfterProcessingTime, Repeatedly
        >>> Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime("10s"))).trigger.triggers
        (AfterCount(count=100), AfterProcessingTime(delay=Fixed(us=10000000)))
    """

    trigger: Trigger

    def __post_init__(self) -> None:
        _single(type(self), self.trigger)


Delayed = AfterProcessingTime | AfterSilence | AfterEventTime
#: A trigger that fires once.
Trigger = AfterCount | Delayed | AfterAny | AfterAll
AnyTrigger = Trigger | Repeatedly


def delays_of(trigger: AnyTrigger) -> Iterable[Delayed]:
    """The triggers within a trigger that wait for a time."""
    match trigger:
        case Repeatedly():
            yield from delays_of(trigger.trigger)
        case AfterAny() | AfterAll():
            for part in trigger.triggers:
                yield from delays_of(part)
        case AfterProcessingTime() | AfterSilence() | AfterEventTime():
            yield trigger


def _single(kind: type, value: object) -> Trigger:
    if isinstance(value, Trigger):
        return value
    raise WindowError(
        "is repeated already" if isinstance(value, Repeatedly) else "is not a trigger",
        field=kind.__name__,
        value=value,
        way_out="Let Repeatedly stand outside: Repeatedly(AfterAny(AfterCount(100), ...))",
    )
