"""Looking up windows by key and time in published tables, with statistics and without Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from backfill.engines import Rules
from backfill.errors import JobFileError, did_you_mean
from backfill.kinds import of_each_event, reach
from backfill.spec import JobSpec
from backfill.store import Bounds, Store, look_up
from backfill.time.durations import Fixed
from backfill.time.instants import instant_us
from backfill.windows import (
    AnyWindow,
    EventWindow,
    JoinWindow,
    RollingWindow,
    SessionWindow,
    TableWindow,
    by_place,
    key_of,
)

#: A key's values: a single value, several in the order of the key's columns, or by column.
KeyValues = Mapping[str, Any] | Sequence[Any] | str | int | float | dt.date | None
Instant = str | dt.date


@dataclass(frozen=True)
class Lookup:
    """One published table of a job.

    Attributes:
        spec: the job.
        store: where its tables are.
        name: the window's name.
    """

    spec: JobSpec
    store: Store
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in self.spec.windows:
            raise JobFileError(
                "the job has no such window",
                field="window",
                value=self.name,
                way_out=did_you_mean(self.name, self.spec.windows),
            )

    def fetch(
        self, key: KeyValues, start: Instant | None, end: Instant | None, limit: int | None
    ) -> pa.Table:
        """Windows of a key that overlap [start, end)."""
        first, last = self._us(start, "start"), self._us(end, "end")
        if first is not None and last is not None and last <= first:
            raise JobFileError("must be later than start", field="end", value=str(end))
        return self.found(
            key,
            start_us=first,
            end_us=last,
            end_inclusive=self.end_inclusive,
            limit=limit,
        )

    def covering(
        self, start: Instant, end: Instant | None, key: KeyValues, limit: int | None
    ) -> pa.Table:
        """Windows that hold all of [start, end), or the instant `start`."""
        first = instant_us(start, self.zone, option="start")
        last = first if end is None else instant_us(end, self.zone, option="end") - 1
        if last < first:
            raise JobFileError("must be later than start", field="end", value=str(end))
        return self.found(key, **self.holding(first, last), limit=limit)

    def holding(self, first: int, last: int) -> dict[str, Bounds]:
        """Bounds for the start and end of windows that hold these two instants, µs."""
        if isinstance(self.window, JoinWindow) and by_place(self.window):
            raise JobFileError(
                "which pairs an instant is near depends on the events between, not on time",
                field="window",
                value=self.name,
                way_out="Look rows up by key and the time of their left event, with fetch "
                "(show --key --from --to)",
            )
        if of_each_event(self.window) or isinstance(self.window, JoinWindow):
            reached = reach(self.window, self.spec.engine)
            latest = None if reached.ahead is None else first + reached.ahead
            own = (None if reached.behind is None else last - reached.behind, latest)
            return {"starts": own}
        if isinstance(self.window, RollingWindow):
            # [at - window, at) must hold both.
            return {"starts": (last + 1, first + self.window.longest_us)}
        if not self.closed_right:
            return {"starts": (None, first), "ends": (last + (not self.end_inclusive), None)}
        return {"starts": (None, first - 1), "ends": (last, None)}

    def to_merge(self, key: KeyValues, earliest_end: Instant, latest_start: Instant) -> pa.Table:
        """Sessions of a key by the times of their last and first events."""
        end = instant_us(earliest_end, self.zone, option="earliest_end") + self._end_shift()
        start = instant_us(latest_start, self.zone, option="latest_start")
        return self.found(key, starts=(None, start), ends=(end, None))

    def joined_by(self, at: int) -> dict[str, Bounds]:
        """Bounds for the start and end of sessions that an event at this instant would join, µs."""
        session = self._sessions()
        apart = session.gap.us - (not self.rules.gap_inclusive)
        return {"starts": (None, at + apart), "ends": (at - apart + self._end_shift(), None)}

    def found(self, key: KeyValues, *, limit: int | None = None, **conditions: Any) -> pa.Table:
        """What `look_up` finds for the key."""
        if limit is not None and (type(limit) is not int or limit < 1):
            raise JobFileError("must be a whole number, at least 1", field="limit", value=limit)
        rows = self.store.dataset(self.name)
        return look_up(rows, key=key_values(key, self.key), limit=limit, **conditions)

    @property
    def window(self) -> AnyWindow:
        """The window's definition."""
        return self.spec.windows[self.name].window

    @property
    def rules(self) -> Rules:
        """The engine's rules for the window."""
        return self.spec.engine.rules_for(self.window)

    @property
    def zone(self) -> ZoneInfo:
        """The job's time zone."""
        return ZoneInfo(self.spec.timezone)

    @property
    def key(self) -> tuple[str, ...]:
        """The key's columns in the table."""
        return key_of(self.window, self.spec.key)

    @property
    def closed_right(self) -> bool:
        """Whether windows are (start, end]."""
        single = isinstance(self.window, EventWindow | SessionWindow | TableWindow)
        return not single and self.rules.closed == "right"

    @property
    def end_inclusive(self) -> bool:
        """Whether the end that a window reports belongs to it, by the engine's rules."""
        window = self.window
        if isinstance(window, EventWindow | TableWindow) or by_place(window):
            return True
        if isinstance(window, SessionWindow):
            return self.rules.session_end == "last_event"
        return self.closed_right

    def _us(self, given: Instant | None, option: str) -> int | None:
        return None if given is None else instant_us(given, self.zone, option=option)

    def _sessions(self) -> SessionWindow:
        window = self.window
        if not isinstance(window, SessionWindow) or not isinstance(window.gap, Fixed):
            raise JobFileError(
                "only sessions with a gap in time are merged by their times",
                field="window",
                value=self.name,
                way_out="Look windows up with fetch or windows_covering (show --at)",
            )
        return window

    def _end_shift(self) -> int:
        """How much later than its last event a session's end is, µs."""
        gap = self._sessions().gap.us
        return 0 if self.rules.session_end == "last_event" else gap


def key_values(key: KeyValues, columns: Sequence[str]) -> dict[str, Any]:
    """The key's values by column; empty for all keys.

    Raises:
        JobFileError: the values are more, fewer or others than the key's columns.
    """
    if key is None:
        return {}
    if isinstance(key, Mapping):
        if set(key) == set(columns):
            return dict(key)
        problem = ", ".join(map(str, key)) or "nothing"
    else:
        values: Sequence[Any] = (
            key if isinstance(key, Sequence) and not isinstance(key, str | bytes) else (key,)
        )
        if len(values) == len(columns):
            return dict(zip(columns, values, strict=True))
        problem = str(len(values))
    raise JobFileError(
        f"{problem} given, but the key's columns are: {', '.join(columns) or 'none'}",
        field="key (--key)",
        way_out="Give a value for each, in this order" if columns else None,
    )
