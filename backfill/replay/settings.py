"""The arguments of a replay: an engine's defaults, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from backfill.engines import Engine
from backfill.errors import ReplayError, did_you_mean
from backfill.streaming import Streaming
from backfill.time.durations import Fixed, fixed
from backfill.triggers import AnyTrigger, delays_of
from backfill.windows.arguments import flag, positive

_DURATIONS = (
    "grace",
    "retention",
    "segment_interval",
    "watermark_delay",
    "allowed_lateness",
    "timer_interval",
    "early_after",
    "emit_interval",
)
#: Of these durations, those that must not be zero.
_POSITIVE = ("segment_interval", "timer_interval")
_COUNTS = {"segments": 2, "watermark_every": 1, "batch_size": 1, "early": 1, "late": 1}
#: Of these counts, those for which a trigger can be given instead.
_TRIGGERS = ("early", "late")
_CHOICES = {
    "past_retention": ("drop", "forward"),
    "accumulation": ("accumulating", "discarding", "retracting"),
    "store": ("disk", "memory"),
}
#: Two that can't be given together, and why.
_APART = (
    ("segments", "segment_interval", "each gives the length of a segment"),
    ("past_retention", "grace", "KIP-94's drafts had no grace"),
    ("early", "early_after", "a window has one early trigger"),
)
_PLACES = ("commits", "restarts")
_OF_SEGMENTS = ("segments", "segment_interval")
_FLAGS = (
    "caching",
    "restored",
    "early_once",
    "idle_batches",
    "allow_multiple",
    "rolling",
    "drained",
)
#: Settings that mean nothing without another one, or without one of several others.
_NEEDS = {
    "commits": ("caching",),
    "restored": ("restarts",),
    "early_once": ("early", "early_after"),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A replay's settings as `replay` describes them; durations in µs, None where not set."""

    emit: str
    grace: int = 0
    retention: int | None = None
    segment_interval: int | None = None
    segments: int | None = None
    past_retention: Literal["drop", "forward"] | None = None
    caching: bool = False
    commits: int | Fixed | Collection[Any] | None = None
    restarts: Collection[Any] = ()
    restored: bool = False
    store: Literal["disk", "memory"] = "disk"
    emit_interval: int = 0
    watermark_delay: int = 0
    watermark_every: int = 1
    allowed_lateness: int = 0
    early: int | AnyTrigger | None = None
    early_after: int | None = None
    early_once: bool = False
    late: int | AnyTrigger = 1
    accumulation: Literal["accumulating", "discarding", "retracting"] = "accumulating"
    batch_size: int | None = None
    idle_batches: bool = False
    allow_multiple: bool = True
    timer_interval: int | None = None
    rolling: bool = False
    drained: bool = True


def resolve(
    given: Mapping[str, Any], engine: Engine, streaming: Streaming, takes: Collection[str]
) -> Settings:
    """The settings of a replay.

    Args:
        given: the arguments; None for those that were not given.
        engine: the engine.
        streaming: its interface.
        takes: the settings that the operator takes.

    Raises:
        ReplayError: if the engine does not have a setting, or not for this window, or if two
            settings exclude each other.
        WindowError: if a duration is not valid, or a flag is neither true nor false.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    allowed = {name for name in streaming.settings if name in takes}
    for name, value in wanted.items():
        if name != "emit" and name not in allowed:
            raise ReplayError(
                f"the engine {engine.name} has no such setting for this window",
                field=name,
                value=value,
                way_out="Leave it out; it has " + (", ".join(sorted(allowed)) or "none"),
            )
    for one, other, why in _APART:
        if one in wanted and other in wanted:
            raise ReplayError(
                f"can't be given together with {other}: {why}",
                field=one,
                value=wanted[one],
                way_out="Leave one of them out",
            )
    for name in _OF_SEGMENTS:
        if name in wanted and wanted.get("store") == "memory":
            raise ReplayError(
                "can't be given together with store='memory', which has no segments",
                field=name,
                value=wanted[name],
                way_out="Leave one of them out",
            )
    emit = wanted.pop("emit", streaming.emits[0])
    if emit not in streaming.emits:
        raise ReplayError(
            f"the engine {engine.name} has no such emit policy",
            field="emit",
            value=emit,
            way_out=did_you_mean(str(emit), streaming.emits),
        )
    if wanted.get("caching") and emit == "on_close":
        raise ReplayError(
            "windows emitted on close do not go through the cache",
            field="caching",
            value=True,
            way_out="Leave it out, or emit on_update or suppressed",
        )
    for name, others in _NEEDS.items():
        if wanted.get(name) and not any(wanted.get(need) for need in others):
            raise ReplayError(
                f"has no meaning without {' or '.join(others)}",
                field=name,
                value=str(wanted[name]),
                way_out=f"Give {others[0]} too, or leave it out",
            )
    if "emit_interval" in wanted and emit != "on_close":
        raise ReplayError(
            "only windows that are emitted on close are looked for at intervals",
            field="emit_interval",
            value=str(wanted["emit_interval"]),
            way_out="Leave it out, or give emit='on_close'",
        )
    _check_triggers(wanted, engine, streaming, emit)
    values = {name: streaming.settings[name] for name in allowed} | wanted
    return Settings(emit=emit, **{n: _checked(n, v, engine) for n, v in values.items()})


def _check_triggers(
    wanted: Mapping[str, Any], engine: Engine, streaming: Streaming, emit: str
) -> None:
    for name in ("early", "early_after"):
        if name in wanted and emit == "on_update":
            raise ReplayError(
                "can't be given together with emit='on_update', which sends a pane after each "
                "event",
                field=name,
                value=str(wanted[name]),
                way_out="Leave one of them out",
            )
    if wanted.get("accumulation") == "retracting" and not streaming.retracts:
        raise ReplayError(
            f"the engine {engine.name} does not retract panes",
            field="accumulation",
            value="retracting",
            way_out="Use accumulating or discarding; Beam's model, and Flink's api='sql-group', "
            "have retractions",
        )
    if isinstance(wanted.get("early"), AnyTrigger) and wanted.get("early_once"):
        raise ReplayError(
            "a trigger fires only once anyway, unless it is Repeatedly",
            field="early_once",
            value=True,
            way_out="Leave it out",
        )


def _checked(name: str, value: Any, engine: Engine) -> Any:
    if value is None:
        return None
    if name in _DURATIONS:
        span = fixed(value, field=name)
        if span.us < 0 or span.us % engine.tick_us:
            raise ReplayError(
                "must be whole milliseconds, and not negative"
                if engine.tick_us > 1
                else "must not be negative",
                field=name,
                value=str(value),
                way_out="Use a value such as 10s",
            )
        return positive(span, field=name).us if name in _POSITIVE else span.us
    if name == "commits" and isinstance(value, str | Fixed):
        span = fixed(value, field=name)
        if span.us <= 0:
            raise ReplayError(
                "must be greater than zero",
                field=name,
                value=str(value),
                way_out="Use a value such as 30s",
            )
        return span
    if name in _PLACES and not isinstance(value, list | tuple | Set):
        counts = name == "commits"
        if not (counts and type(value) is int and value > 0):
            raise ReplayError(
                "must be "
                + ("a number of events, at least 1, a duration or " if counts else "")
                + "a list of arrivals",
                field=name,
                value=value,
                way_out="Give arrivals of events, such as [3, 8]"
                + (", or 10 for a commit after every ten events, or 30s" if counts else ""),
            )
    if name in _FLAGS:
        return flag(value, field=name)
    if name in _TRIGGERS and isinstance(value, AnyTrigger):
        return _checked_trigger(name, value, engine)
    if name in _COUNTS and (type(value) is not int or value < _COUNTS[name]):
        raise ReplayError(
            f"must be a whole number, at least {_COUNTS[name]}",
            field=name,
            value=value,
            way_out="Use a value such as 10"
            + (", or a trigger such as AfterCount(10)" if name in _TRIGGERS else ""),
        )
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ReplayError(
            "no such choice",
            field=name,
            value=value,
            way_out=did_you_mean(str(value), _CHOICES[name]),
        )
    return value


def _checked_trigger(name: str, trigger: AnyTrigger, engine: Engine) -> AnyTrigger:
    for delayed in delays_of(trigger):
        if delayed.delay.us % engine.tick_us:
            raise ReplayError(
                "must be whole milliseconds",
                field=f"{name}.{type(delayed).__name__}.delay",
                value=str(delayed.delay),
                way_out="Use a value such as 10s",
            )
    return trigger
