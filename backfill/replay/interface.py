"""Which of an engine's streaming interfaces computes a window, and with which operator."""

from __future__ import annotations

from backfill.engines import Engine
from backfill.errors import ReplayError, WindowError, did_you_mean
from backfill.streaming import Streaming
from backfill.time.durations import Calendar
from backfill.windows import (
    CountWindow,
    CumulatingWindow,
    EventWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    Window,
    durations_of,
)
from backfill.windows.message_gaps import Messages


def choose(
    engine: Engine, window: Window | EventWindow, api: str | None, *, rolling: bool
) -> tuple[Streaming, str]:
    """The interface, and the name of the operator.

    Raises:
        ReplayError: if the engine has no interface of this name.
        WindowError: if no interface of the engine, or not the given one, has the window.
    """
    if api is not None and api not in engine.streaming:
        raise ReplayError(
            f"the engine {engine.name} has no such interface",
            field="api",
            value=api,
            way_out=did_you_mean(api, engine.streaming),
        )
    names = list(engine.streaming) if api is None else [api]
    kind = "rolling" if rolling and isinstance(window, HoppingWindow) else _kind(window)
    for name in names:
        streaming = engine.streaming[name]
        if kind in streaming.operators and _has(engine, streaming, window):
            return streaming, streaming.operators[kind]
    has = [name for name, interface in engine.streaming.items() if kind in interface.operators]
    raise WindowError(
        f"the engine {engine.name} has no such window"
        + (f" in its interface {api}" if api is not None else ""),
        field="window",
        value=str(window),
        way_out=f"{' and '.join(has)} may have it" if api is not None and has else _hint(window),
    )


def _hint(window: Window | EventWindow) -> str | None:
    if isinstance(window, SlidingWindow) and (window.before or window.following is not None):
        return "No engine has windows with before or following; they are computed in batch only"
    if isinstance(window, SlidingWindow):
        return "Kafka Streams has windows with distinct=True and a size, Flink SQL those without"
    if isinstance(window, CountWindow) and window.has_duration:
        return "backfill.aggregate computes count windows with a duration"
    if isinstance(window, CountWindow):
        return (
            "Storm and Flink's datastream have count windows of a size in order of arrival; Flink "
            "SQL has them in order of time with an advance of 1; plain has all"
        )
    if isinstance(window, SessionWindow) and window.has_rules:
        return "No engine has these rules: replay it with a gap only, or compute it in batch"
    return None


def _kind(window: Window | EventWindow) -> str:
    match window:
        case SessionWindow():
            return "session"
        case SlidingWindow():
            return "sliding"
        case CountWindow():
            return "rows" if window.order == "time" else "count"
        case _:
            return "aligned"


def _has(engine: Engine, streaming: Streaming, window: Window | EventWindow) -> bool:
    if isinstance(window, SlidingWindow):
        if window.before or window.following is not None:
            return False
        bounded = window.size is not None or streaming.unbounded
        return bounded and window.distinct == (streaming.operators["sliding"] == "stored_sliding")
    if isinstance(window, CountWindow):
        return streaming.counts(window)
    if isinstance(window, SessionWindow):
        return not isinstance(window.gap, Messages) and not window.has_rules
    calendar = any(isinstance(duration, Calendar) for duration in durations_of(window).values())
    if calendar and not streaming.calendars:
        return False
    if isinstance(window, CumulatingWindow) and not streaming.cumulating:
        return False
    return engine.has(window)
