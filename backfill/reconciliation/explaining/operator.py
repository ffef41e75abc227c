"""The streaming operator as its user describes it, and what it makes of one key's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from backfill.engines import ENGINES, PLAIN, Engine
from backfill.kinds.reach import reach_of
from backfill.reconciliation.rows import Row
from backfill.reconciliation.same_time import interchangeable, numbered_rows
from backfill.replay import Aggregated, Event, Replayed, replay
from backfill.replay import Window as Made
from backfill.windows import EventWindow, SessionWindow, Window, is_distinct

#: With these settings of a store nothing is late, whatever the order of arrival.
ENDLESS: Mapping[str, Any] = {"grace": "36500d"}


class Among(Protocol):
    """A key among others that it depends on: it is replayed with them."""

    @property
    def tries(self) -> int:
        """How many more replays may be made to look for faults."""

    def replay(self, operator: Operator, events: Sequence[Event]) -> Replayed:
        """The key's part of a replay of all keys, with these events of the key."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What replays a key.

    Attributes:
        window: what it computes.
        engine: the engine whose rules hold.
        aggregates: by name, over plain fields.
        timezone: of calendar windows.
        settings: arguments of `replay`: grace, retention, emit, restarts, and so on.
        ordered: the order in which events arrived is known.
        end_clock: where the clock stood when the input ended, µs; None where it is not known.
        among: the key, if it depends on other keys; None if it is replayed alone.
    """

    window: Window | EventWindow
    engine: Engine
    aggregates: Mapping[str, Aggregated]
    timezone: str = "UTC"
    settings: Mapping[str, Any] = field(default_factory=dict)
    ordered: bool = True
    end_clock: int | None = None
    among: Among | None = field(default=None, compare=False)

    @property
    def takes(self) -> frozenset[str]:
        """The settings that the engine has, in any of its interfaces."""
        return frozenset(
            n for interface in self.engine.streaming.values() for n in interface.settings
        )

    @property
    def back_us(self) -> int | None:
        """How far the row of an event looks back, µs; None without a bound."""
        assert isinstance(self.window, EventWindow)
        return reach_of(self.window, self.engine.tick_us).ahead

    @property
    def stores(self) -> bool:
        """Whether its windows are in a store, which hides and deletes them by retention."""
        return "retention" in self.takes

    @property
    def drops(self) -> bool:
        """Whether the engine drops late events at all."""
        return any(interface.late != "never" for interface in self.engine.streaming.values())

    @property
    def drops_null_keys(self) -> bool:
        """Whether events without a key do not reach it."""
        return any(interface.null_key == "drop" for interface in self.engine.streaming.values())

    def replay(self, events: Sequence[Event]) -> Replayed:
        """What it makes of these events of a key."""
        if self.among is not None:
            return self.among.replay(replace(self, among=None), events)
        clocked = bool(events) and all(event.clock is not None for event in events)
        return replay(
            events,
            self.window,
            engine=self.engine,
            aggregates=self.aggregates,
            timezone=self.timezone,
            keep_events=True,
            end_clock=self.end_clock if clocked else None,
            **self.settings,
        )

    def written(self, made: Replayed) -> list[Row]:
        """What is in its output when everything that it wrote has been read.

        A store's sessions that were merged into others are in it, if nothing took them back. For
        panes, a reader sees from their bounds that they are in another one, if that has been
        written.
        """
        left = made.superseded if self.stores else _by_themselves(made)
        return self.rows([*made.final, *left])

    def rows(self, windows: Iterable[Made]) -> list[Row]:
        """Windows as they are compared on both sides: sessions from first to last event."""
        back = 0
        if isinstance(self.window, SessionWindow):
            ends_later = self.engine.rules.session_end == "last_event_plus_gap"
            back = self.window.gap.us if ends_later else 0
        rows = [Row(made.start, made.end - back, made.values, made.events) for made in windows]
        return numbered_rows(rows) if interchangeable(self.window) else rows

    def with_window(self, window: Window | EventWindow) -> Operator:
        """The same with another window."""
        return replace(self, window=window)


def _by_themselves(made: Replayed) -> list[Made]:
    """Sessions that were merged into others, but lie within none that has been written."""
    if not made.superseded:
        return []
    sessions: list[Made] = []
    furthest = None
    written = [
        *((session, False) for session in made.final),
        *((session, True) for session in made.superseded),
    ]
    # Of sessions that begin together, the longest comes first; all are of one key.
    for session, merged in sorted(written, key=lambda pair: (pair[0].start, -pair[0].end)):
        if furthest is None or session.end > furthest:
            furthest = session.end
            if merged:
                sessions.append(session)
    return sessions


def without_loss(engine: Engine, window: Window | EventWindow) -> Engine:
    """An engine that cuts windows as a batch under this one does: nothing is late or pending.

    For distinct windows, it needs the settings `ENDLESS`.
    """
    base = PLAIN
    if is_distinct(window):
        # No other engine has such windows.
        base = ENGINES["kafka-streams"]
    return replace(
        base,
        rules=engine.rules_for(window),
        tick_us=engine.tick_us,
        before_epoch=engine.before_epoch,
    )
