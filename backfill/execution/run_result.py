"""The result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from backfill.quality.checks import Outcome
from backfill.time.dates import Range


@dataclass(frozen=True)
class Dropped:
    """Sessions that a run computed but did not publish: a rule says that they are too short.

    Attributes:
        sessions: how many.
        events: the sum of their numbers of events.
    """

    sessions: int
    events: int

    def __add__(self, other: Dropped) -> Dropped:
        return Dropped(self.sessions + other.sessions, self.events + other.events)


@dataclass(frozen=True)
class WindowResult:
    """What a run published of one window.

    Attributes:
        rows: windows that the run computed.
        events: the sum of their numbers of events.
        version: of the table.
        dropped: sessions that it computed and dropped; None if no rule drops sessions.
    """

    rows: int
    events: int
    version: int
    dropped: Dropped | None = None


@dataclass(frozen=True)
class Failure:
    """A range whose run failed; unless the error says otherwise, nothing of it was published."""

    dates: Range
    error: Exception


@dataclass(frozen=True)
class Skipped:
    """A range that was not run, and why."""

    dates: Range
    why: str


@dataclass(frozen=True)
class RunResult:
    """What a run did: read = accepted + duplicates + the sum of quarantined.

    Attributes:
        quarantined: rows by reason.
        windows: what was published, by window.
        horizon_us: the largest event time, µs since the epoch.
        chunks: the runs that this one was split into, if any.
        failures: chunks that failed, and why.
        skipped: ranges that were not run, and why.
        checks: the outcome of each check of what was published.
    """

    run_id: str
    read: int
    accepted: int
    duplicates: int
    quarantined: Mapping[str, int]
    windows: Mapping[str, WindowResult]
    horizon_us: int | None
    seconds: float
    chunks: tuple[RunResult, ...] = ()
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    checks: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class Past:
    """Events beyond retention.

    Attributes:
        frame: their rows, normalised, with the reason.
        rows: the number of these rows, including copies of an event.
        events: the number of events.
        held: for each window, how many events are in the windows that are not kept.
    """

    frame: DataFrame
    rows: int
    events: int
    held: Mapping[str, int]
