"""Windows of one size by key and start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sortedcontainers import SortedDict

from backfill.errors import ReplayError
from backfill.replay.clocks import ALWAYS
from backfill.replay.stores.segments import Segments, segment_interval

#: Key, start in µs, content.
Entry = tuple[Any, int, Any]


class WindowStore:
    """Windows that are kept for a while after their start, and found by key and time.

    A window is hidden once its start is not later than the largest start put minus the retention;
    it is deleted with its segment. Putting and fetching take time logarithmic in the number of
    windows.

    Args:
        size: of the windows, in µs.
        grace: how long after its end a window takes late events, in µs.
        retention: in µs; by default just as long as size and grace need.
        interval: the length of a segment in µs; by default as `segment_interval` has it.
        tick: the resolution of time in µs.
        memory: whether it is in memory, and deletes what it hides.
        by_time: whether it is ordered by time before keys, as it is if windows are emitted on
            close. On disk it then hides a window a tick later.
        expired: called for every window that is deleted with its segment.
        refused: called for every window that is not stored, because it is past retention.

    Raises:
        ReplayError: if the retention is shorter than size and grace.
    """

    def __init__(
        self,
        *,
        size: int,
        grace: int = 0,
        retention: int | None = None,
        interval: int | None = None,
        tick: int = 1_000,
        memory: bool = False,
        by_time: bool = False,
        expired: Callable[[Entry], None] | None = None,
        refused: Callable[[Entry], None] | None = None,
    ) -> None:
        least = size + grace
        if retention is not None and retention < least:
            raise ReplayError(
                f"is less than the window's size and grace together, {least} µs",
                field="retention",
                value=f"{retention} µs",
                way_out="Make it longer, or leave it out",
            )
        kept = least if retention is None else retention
        self._windows: Any = SortedDict()  # of (number of the key, start): key, start, value
        self._numbers: dict[Any, int] = {}
        self._on_expired = expired
        self._by_time = by_time
        self._refused = refused
        self._segments: Segments[tuple[int, int]] = Segments(
            retention=kept,
            interval=interval or segment_interval(kept),
            tick=tick,
            memory=memory,
            expired=self._expire,
        )

    @property
    def visible_from(self) -> int:
        """Windows that start earlier are hidden."""
        return self._segments.kept_from if self._by_time else self._segments.visible_from

    def put(self, key: Any, start: int, value: Any) -> bool:
        """Stores a window, over one of the same start; returns whether it is within retention."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
        place = number, start
        segments = self._segments
        # Also for a window that is there already: after a restart it tells how far time had come.
        segments.observe(start)
        if place not in self._windows and not segments.add(start, place):
            if self._refused is not None:
                self._refused((key, start, value))
            return False
        self._windows[place] = key, start, value
        return True

    def see(self, start: int) -> bool:
        """Notes a time with nothing to store; returns whether it is within retention."""
        self._segments.observe(start)
        return start >= self._segments.live_from(start)

    def restart(self) -> None:
        """The store is opened again as it was; how far time had come is lost."""
        self._segments.restart()

    def fetch(self, key: Any, start: int) -> Any:
        """The content of the window that starts there; None if it is hidden or not there."""
        if start < self.visible_from:
            return None
        entry = self._windows.get((self._numbers.get(key), start))
        return None if entry is None else entry[2]

    def fetch_range(
        self, key: Any, low: int, high: int, *, latest_first: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """The key's windows that start in [low, high], as they are now: start and content."""
        number = self._numbers.get(key)
        if number is None:
            return iter(())
        windows = self._windows
        low = max(low, self.visible_from)
        places = windows.irange((number, low), (number, high), reverse=latest_first)
        return iter([windows[place][1:] for place in places])

    def starting(self, low: int, high: int) -> list[Entry]:
        """All windows that start in [low, high], hidden ones too, in no order."""
        return [
            self._windows[place]
            for place in self._segments.between(low, high)
            if low <= place[1] <= high
        ]

    def fetch_all(self, low: int = -ALWAYS, high: int = ALWAYS) -> Iterator[Entry]:
        """The windows of all keys that start in [low, high] as they are now, by start."""
        entries = self.starting(max(low, self.visible_from), high)
        return iter(sorted(entries, key=lambda entry: entry[1]))

    def _expire(self, place: tuple[int, int]) -> None:
        entry = self._windows.pop(place)
        if self._on_expired is not None:
            self._on_expired(entry)
