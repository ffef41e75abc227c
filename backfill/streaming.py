"""How each engine's operators take events as they come, as data for `backfill.replay`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from backfill.windows import CountWindow

Unusable = Literal["drop", "group", "refuse"]


@dataclass(frozen=True, kw_only=True)
class Streaming:
    """One streaming interface of an engine.

    Attributes:
        operators: the operator for each kind of window (session, aligned, sliding; count and rows:
            count windows in order of arrival and of time); the interface lacks kinds that are
            absent.
        feed: how an operator is fed: all events one by one, in micro-batches, in bundles, or each
            partition to its own instance.
        clock: where it gets the current stream time from.
        lag_ticks: how much a derived watermark stays behind the largest event time, besides the
            delay.
        clock_start: where the clock begins, in µs; None for before everything.
        clock_grain: the derived watermark is floored to this many µs.
        complete_ticks: a window is complete when the clock has reached its end plus this.
        timer_ticks: a trigger by the wall clock fires this many ticks after its time.
        late: lateness is judged by the window after merging, or by the event's own window before
            merging; or nothing is late.
        flushes: the end of the input completes all windows, unless the operator is not `drained`.
        null_key: what happens to events without a key: they are dropped, they are an ordinary
            group, or the operator fails.
        null_time: the same for events without a time.
        gaps: the session gap can differ from event to event.
        filters_gaps: with a gap of zero or less, the event is left out, and the operator does not
            fail.
        unbounded: sliding windows without a length.
        endless_counts: count windows in order of arrival without a size.
        strides: count windows that advance by more than one event.
        calendars, cumulating: whether the interface has these aligned windows, if the engine does.
        changelog: updates are a retraction and a new row (-U, +U) rather than the new value.
        empty_panes: a window fires on time even if its panes are deltas and nothing came since the
            last one.
        keeps_fired: triggers within a combined one that have fired count as firing from then on:
            the combined one, once it has fired in a window, fires at each event.
        retracts: panes can also be retracted, besides repeating everything or being deltas.
        stamps: output records carry a time.
        emits: the policies of emission, the default one first.
        not_of_sessions: settings that it does not take for sessions.
        settings: the arguments of `replay` that it takes, with their defaults.
    """

    operators: Mapping[str, str]
    feed: Literal["events", "batches", "bundles", "partitions"] = "events"
    clock: Literal["none", "stream_time", "batches", "watermark", "processing_time"]
    lag_ticks: int = 0
    clock_start: int | None = None
    clock_grain: int = 1
    complete_ticks: int = 0
    timer_ticks: int = 0
    late: Literal["merged", "own", "never"] = "merged"
    flushes: bool = False
    null_key: Unusable = "drop"
    null_time: Unusable = "drop"
    gaps: bool = False
    filters_gaps: bool = False
    unbounded: bool = True
    endless_counts: bool = False
    strides: bool = True
    calendars: bool = True
    cumulating: bool = True
    changelog: bool = False
    empty_panes: bool = False
    keeps_fired: bool = False
    retracts: bool = False
    stamps: bool = True
    emits: tuple[str, ...] = ("on_close",)
    not_of_sessions: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def counts(self, window: CountWindow) -> bool:
        """Whether the interface has this count window."""
        if window.has_duration:
            return False
        by_time = window.order == "time"
        if ("rows" if by_time else "count") not in self.operators:
            return False
        if window.size is None and not by_time and not self.endless_counts:
            return False
        return window.advance == 1 or self.strides

    @property
    def shares_its_clock(self) -> bool:
        """Whether events of all keys move the clock."""
        return self.clock in ("stream_time", "watermark", "batches")


_DELAY = {"watermark_delay": "0s", "watermark_every": 1}

_FLINK_SQL = Streaming(
    operators={"session": "merging", "aligned": "aligned"},
    clock="watermark",
    complete_ticks=-1,
    flushes=True,
    null_key="group",
    strides=False,
    settings={**_DELAY, "restarts": (), "drained": True},
)

#: The interfaces of each engine, by name; the first one that has a window computes it.
STREAMING: Mapping[str, Mapping[str, Streaming]] = MappingProxyType(
    {
        "plain": {
            "batch": Streaming(
                operators={
                    "session": "merging",
                    "aligned": "aligned",
                    "sliding": "range",
                    "count": "counted",
                    "rows": "rows",
                },
                endless_counts=True,
                clock="none",
                late="never",
                flushes=True,
                stamps=False,
            )
        },
        "kafka-streams": {
            "dsl": Streaming(
                operators={
                    "session": "stored_sessions",
                    "aligned": "stored_windows",
                    "sliding": "stored_sliding",
                },
                feed="partitions",
                clock="stream_time",
                unbounded=False,
                emits=("on_update", "on_close", "suppressed"),
                settings={
                    "grace": "0s",
                    "retention": None,
                    "segment_interval": None,
                    "segments": None,
                    "past_retention": None,
                    "caching": False,
                    "commits": None,
                    "restarts": (),
                    "restored": False,
                    "store": "disk",
                    "emit_interval": "0s",
                },
            )
        },
        "spark": {
            "structured": Streaming(
                operators={"session": "batched_sessions", "aligned": "batched_windows"},
                feed="batches",
                clock="batches",
                clock_start=0,
                clock_grain=1_000,
                late="own",
                null_key="group",
                gaps=True,
                filters_gaps=True,
                emits=("append", "update", "complete"),
                settings={
                    "watermark_delay": "0s",
                    "batch_size": None,
                    "idle_batches": False,
                    "allow_multiple": True,
                },
            )
        },
        "flink": {
            "datastream": replace(
                _FLINK_SQL,
                operators={"session": "merging", "aligned": "aligned", "count": "counted"},
                lag_ticks=1,
                strides=True,
                null_key="refuse",
                null_time="refuse",
                gaps=True,
                calendars=False,
                cumulating=False,
                emits=("on_close", "on_update"),
                settings={
                    **_FLINK_SQL.settings,
                    "allowed_lateness": "0s",
                    "early": None,
                    "accumulation": "accumulating",
                },
            ),
            "sql": replace(
                _FLINK_SQL, operators={**_FLINK_SQL.operators, "sliding": "range", "rows": "rows"}
            ),
            "sql-group": replace(
                _FLINK_SQL,
                cumulating=False,
                changelog=True,
                not_of_sessions=frozenset({"allowed_lateness", "early"}),
                settings={**_FLINK_SQL.settings, "allowed_lateness": "0s", "early": None},
            ),
        },
        "beam": {
            "panes": Streaming(
                operators={"session": "merging", "aligned": "aligned"},
                feed="bundles",
                clock="watermark",
                timer_ticks=1,
                late="own",
                flushes=True,
                null_key="group",
                null_time="refuse",
                gaps=True,
                empty_panes=True,
                keeps_fired=True,
                retracts=True,
                emits=("on_close", "on_update"),
                settings={
                    **_DELAY,
                    "allowed_lateness": "0s",
                    "early": None,
                    "late": 1,
                    "accumulation": "discarding",
                    "batch_size": None,
                    "drained": True,
                },
            )
        },
        "storm": {
            "windowed-bolt": Streaming(
                operators={"aligned": "queued", "count": "counted", "rolling": "rolling"},
                clock="watermark",
                clock_start=0,
                null_key="group",
                null_time="refuse",
                stamps=False,
                settings={**_DELAY, "rolling": False},
            )
        },
        # Samza's windows are in processing time.
        "samza": {
            "high-level": Streaming(
                operators={"session": "open_sessions", "aligned": "aligned"},
                clock="processing_time",
                late="never",
                flushes=True,
                stamps=False,
                null_key="group",
                null_time="refuse",
                emits=("on_close", "on_update"),
                settings={
                    "timer_interval": None,
                    "early": None,
                    "early_after": None,
                    "early_once": False,
                    "late": 1,
                    "accumulation": "accumulating",
                    "drained": True,
                },
            )
        },
    }
)
