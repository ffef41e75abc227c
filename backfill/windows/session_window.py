"""The definition of session windows: the gap, and rules that cut or drop sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from backfill.errors import WindowError, did_you_mean
from backfill.time.durations import DAY_US, Fixed, fixed
from backfill.windows.arguments import (
    choice,
    flag,
    positive,
    predicate_text,
    set_fields,
    whole_events,
)
from backfill.windows.message_gaps import Messages, read_messages

_CHECKS = ("start", "grid")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_MINUTE = 60_000_000
_CAMPAIGN = ("utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "gclid")

#: The arguments that a preset stands for. What they copy, and from where, is in docs/presets.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "ga4": {"gap": "30m"},
        "universal-analytics": {"gap": "30m", "split": "midnight", "new_when": _CAMPAIGN},
        "mixpanel": {"gap": "30m", "split": "midnight"},
        "amplitude": {"gap": "30m"},
        "snowplow": {"gap": "30m"},
    }
)


@dataclass(frozen=True, kw_only=True)
class SessionWindow:
    """Windows of one key's activity, ended by a gap without events (KIP-94), and by rules.

    A gap always ends a session. Rules cut what lies between two gaps further, or drop it, in this
    order, whatever the order of the arguments:

    1. `split`, `new_when`, `start_when`, `end_when`: each looks at single events only.
    2. `max_duration`, `max_events`: counted anew from the start of each session, so also from a cut
       of the rules before.
    3. `min_events`, `min_duration`: sessions that are shorter after all cuts are dropped.

    Events of a key are ordered by time and arrival, and for a window's rules then by the values
    of `new_when`, of `start_when` and of `end_when`.

    Args:
        gap: the inactivity gap, such as "30m": a fixed duration greater than zero; or a number of
            messages, `messages(5)` or "5 messages": a session ends when five other messages of the
            partition have followed its last event (only for `aggregate` and jobs, over events with
            offsets, and without rules).
        max_duration: an event that is later than the session's start by more than this begins a
            new session. A fixed duration greater than zero.
        max_duration_on: "start" measures from the session's start, exactly. "grid" checks at
            multiples of `max_duration` since 1970 only, as Azure Stream Analytics does: the
            session ends at the first of them at which it has lasted longer than `max_duration`, so
            it may last up to twice as long.
        max_events: a session holds no more events than this; the next one begins a new session.
        new_when: columns; an event begins a new session if its value of one of them differs from
            the one before it.
        null_is_change: by default an event whose value is NULL continues its session, and a value
            is compared with the last one that was not NULL since the last gap. If true, NULL is a
            value like any other, compared with the event directly before.
        start_when: a predicate in Spark SQL; an event for which it holds begins a new session.
        end_when: a predicate in Spark SQL; an event for which it holds is the last of its session.
        split: "midnight", or a time of day such as "06:00": sessions end there, in the job's time
            zone. A local time that occurs twice means the earlier one; one that does not exist
            moves forward.
        min_events: sessions with fewer events are dropped.
        min_duration: sessions whose last event is less than this after their first one are dropped.

    Raises:
        WindowError: if a duration is not positive, is a calendar span, or is not a duration; if a
            number of events is less than 1; if a rule has another form; if an argument depends on
            one that is not given.

    Example:
        >>> print(SessionWindow(gap="90m"))
        session(gap=90m)
        >>> print(SessionWindow(gap="30m", max_duration="4h", new_when=["campaign"]))
        session(gap=30m, max_duration=4h, new_when=[campaign])
    """

    gap: Fixed | Messages
    max_duration: Fixed | None
    max_duration_on: Literal["start", "grid"]
    max_events: int | None
    new_when: tuple[str, ...]
    null_is_change: bool
    start_when: str | None
    end_when: str | None
    split: Fixed | None
    min_events: int | None
    min_duration: Fixed | None

    def __init__(
        self,
        *,
        gap: object,
        max_duration: object = None,
        max_duration_on: object = "start",
        max_events: object = None,
        new_when: str | Iterable[str] = (),
        null_is_change: object = False,
        start_when: object = None,
        end_when: object = None,
        split: object = None,
        min_events: object = None,
        min_duration: object = None,
    ) -> None:
        counted = read_messages(gap)
        set_fields(
            self,
            gap=counted or positive(fixed(gap, field="gap"), field="gap"),
            max_duration=_span(max_duration, "max_duration"),
            max_duration_on=choice(max_duration_on, _CHECKS, field="max_duration_on"),
            max_events=_count(max_events, "max_events"),
            new_when=_columns(new_when),
            null_is_change=flag(null_is_change, field="null_is_change"),
            start_when=_predicate(start_when, "start_when"),
            end_when=_predicate(end_when, "end_when"),
            split=_time_of_day(split),
            min_events=_count(min_events, "min_events"),
            min_duration=_span(min_duration, "min_duration"),
        )
        if counted is not None and self.has_rules:
            raise WindowError(
                "in messages can't be combined with rules",
                field="gap",
                value=str(counted),
                way_out="Use a duration such as 30m, or leave the rules out",
            )
        _needs(self, "max_duration_on", "max_duration", given=self.max_duration_on != "start")
        _needs(self, "null_is_change", "new_when", given=self.null_is_change)
        if self.max_events and self.min_events and self.min_events > self.max_events:
            raise WindowError(
                f"is more than max_events, {self.max_events}, so no session would be left",
                field="min_events",
                value=self.min_events,
                way_out="Make it no more than max_events",
            )
        longest, shortest = self.longest_us, self.min_duration
        if longest is not None and shortest is not None and shortest.us > longest:
            twice = " twice" if self.max_duration_on == "grid" else ""
            raise WindowError(
                f"is more than{twice} max_duration, {self.max_duration}, so no session would be "
                "left",
                field="min_duration",
                value=str(shortest),
                way_out=f"Make it no more than{twice} max_duration",
            )

    @classmethod
    def preset(cls, name: str, **rules: Any) -> SessionWindow:
        """The sessions of a known product, as far as events tell; see docs/presets.

        Args:
            name: ga4, universal-analytics, mixpanel, amplitude or snowplow.
            rules: arguments of `SessionWindow` that replace or complement those of the preset.

        Raises:
            WindowError: if there is no such preset, or as for `SessionWindow`.

        Example:
            >>> print(SessionWindow.preset("mixpanel"))
            session(gap=30m, split=midnight)
            >>> print(SessionWindow.preset("amplitude", gap="5m"))
            session(gap=5m)
        """
        if name not in PRESETS:
            raise WindowError(
                "no such preset",
                field="preset",
                value=name,
                way_out=did_you_mean(str(name), PRESETS),
            )
        return cls(**{**PRESETS[name], **rules})

    @property
    def has_rules(self) -> bool:
        """Whether a rule can cut or drop a session."""
        return self.cuts or self.drops

    @property
    def cuts(self) -> bool:
        """Whether a rule can cut a session."""
        named = (self.new_when, self.start_when, self.end_when)
        limits = (self.max_duration, self.max_events, self.split)
        return any(named) or any(limit is not None for limit in limits)

    @property
    def drops(self) -> bool:
        """Whether sessions can be dropped."""
        return self.min_events is not None or self.min_duration is not None

    @property
    def longest_us(self) -> int | None:
        """The longest a session can be, from first to last event, µs; None without a limit."""
        if self.max_duration is None:
            return None
        return self.max_duration.us * (2 if self.max_duration_on == "grid" else 1)

    def __str__(self) -> str:
        given = [f"gap={self.gap}"]
        for name in (field.name for field in fields(self)[1:]):
            value = getattr(self, name)
            if name == "split" and value is not None:
                given.append(f"split={_shown_time(value)}")
            elif name == "new_when" and value:
                given.append(f"new_when=[{', '.join(value)}]")
            elif value is True:
                given.append(name)
            elif value and value != "start":
                given.append(f"{name}={value}")
        return f"session({', '.join(given)})"


def _needs(window: SessionWindow, name: str, other: str, *, given: bool) -> None:
    if given and not getattr(window, other):
        raise WindowError(
            f"has no meaning without {other}",
            field=name,
            value=getattr(window, name),
            way_out=f"Give {other}, or leave it out",
        )


def _span(value: object, field: str) -> Fixed | None:
    return None if value is None else positive(fixed(value, field=field), field=field)


def _count(value: object, field: str) -> int | None:
    return None if value is None else whole_events(value, field=field)


def _columns(value: str | Iterable[str]) -> tuple[str, ...]:
    several = isinstance(value, Iterable) and not isinstance(value, str)
    names: tuple[Any, ...] = tuple(value) if several else (value,)
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name:
            problem = "must be names of columns"
        elif name in names[:place]:
            problem = "is listed twice"
        else:
            continue
        raise WindowError(
            problem, field="new_when", value=name, way_out="Write it like [campaign, referrer]"
        )
    return names


def _predicate(value: object, field: str) -> str | None:
    return predicate_text(value, field=field, example="page = '/login'")


def _time_of_day(value: object) -> Fixed | None:
    if value is None or (isinstance(value, Fixed) and 0 <= value.us < DAY_US):
        return value
    if value == "midnight":
        return Fixed(0)
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise WindowError(
            "must be midnight or a time of day",
            field="split",
            value=str(value),
            way_out='Write "midnight" or a time such as "06:00"',
        )
    return Fixed((int(match[1]) * 60 + int(match[2])) * _MINUTE)


def _shown_time(at: Fixed) -> str:
    hours, minutes = divmod(at.us // _MINUTE, 60)
    return f"{hours:02}:{minutes:02}" if at.us else "midnight"
