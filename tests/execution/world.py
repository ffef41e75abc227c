"""The events of a job, which of them were counted, and the windows they make; without Spark."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import json
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from backfill import CountWindow, Job, SessionWindow
from backfill.execution.run_result import RunResult
from backfill.folders import Folder, folder_at
from backfill.ledger.record import Record
from backfill.spec import JobSpec
from backfill.store import DeltaStore, Store
from backfill.store.iceberg.store import IcebergStore
from backfill.time.dates import ALL, Dates, date_of
from tests import reference, reference_bots, reference_rules
from tests.execution import joined
from tests.execution.joined import JOINS
from tests.memory_store import MemoryStore
from tests.reference import Event
from tests.reference_counts import ended, held, in_order, message_sessions
from tests.reference_rules import Visit

MINUTE = 60_000_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
GAP = 30 * MINUTE
FIRST_DAY = dt.date(2026, 1, 1)
START = reference.micros(dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc))
#: The rules of `ruled`, for the reference.
RULES = SessionWindow(
    gap="30m",
    max_duration="40m",
    max_events=4,
    new_when="campaign",
    split="midnight",
    start_when="login",
    end_when="logout",
    min_events=2,
)
#: All days that tests can refer to.
EVERY = range(-400, 400)

#: Some of the job's windows; `exact` has an aggregate that needs all events of a window.
WINDOWS = ("sessions", "exact", "hopping", "ruled")
#: Windows around single events.
SLIDING = ("moving", "earlier", "around", "growing", "shared")
#: Windows by number of events or of messages; offsets are in one partition.
COUNTS = ("latest", "fours", "pairs", "periods", "together", "chats")
COUNTED: Mapping[str, CountWindow] = {
    "latest": CountWindow(size=3, order="time"),
    "fours": CountWindow(size=4, advance=4, order="time"),
    "pairs": CountWindow(size=3, advance=2),
    "periods": CountWindow(size=4, advance="6h", order="time"),
    "together": CountWindow(size=7, advance=5, order="time", per="stream"),
}
#: The gap of `chats`.
MESSAGES = 3
#: Tables of metrics: dimensions, windows, step and offset in µs.
METRICS: Mapping[str, tuple[tuple[str, ...], tuple[int, ...], int, int]] = {
    "users": (("user",), (2 * HOUR, 30 * HOUR), HOUR, 0),
    "values": (("value",), (2 * HOUR, 30 * HOUR), HOUR, 0),
    "best": ((), (90 * MINUTE, 12 * HOUR), GAP, 10 * MINUTE),
    "kinds": (("user", "value"), (DAY,), 8 * HOUR, 0),
}
#: Windows with a row for each event: [back, ahead] in µs, and whether the event is left out.
SURROUNDING: Mapping[str, tuple[int | None, int, bool]] = {
    "moving": (90 * MINUTE, 0, False),
    "earlier": (25 * HOUR, 0, True),
    "around": (GAP, 2 * GAP, False),
    "growing": (None, 0, False),
}
JOB = """
source: {path: src, format: parquet}
events: {key: user, time: at%s%s%s}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count, total: sum(value), average: mean(value),
             first: first(value), values: collect_set(value), different: count_distinct(value),
             way: "path(value, 3)", steps: "funnel([value = 1, value = 3, value = 0])",
             seconds: duration, single: bounce where value > 0}}
  exact: {session: {gap: 30m}, aggregates: {median: "quantile(value, 0.5, exact=true)"}}
  hopping: {hopping: {size: 3h, advance: 1h}, aggregates: {n: count, largest: max(value)}}
  moving: {sliding: {size: 90m},
           aggregates: {n: count, largest: max(value), different: count_distinct(value)}}
  earlier: {sliding: {size: 25h, before: true}, aggregates: {n: count, largest: max(value)}}
  around: {sliding: {size: 30m, following: 1h}, aggregates: {n: count, largest: max(value)}}
  growing: {sliding: {size: null}, aggregates: {n: count, largest: max(value)}}
  shared: {sliding: {size: 1h, distinct: true}, aggregates: {n: count, largest: max(value)}}
  latest: {count: {size: 3, order: time}, aggregates: {n: count, largest: max(value)}}
  fours: {count: {size: 4, advance: 4, order: time}, aggregates: {n: count, largest: max(value)}}
  pairs: {count: {size: 3, advance: 2}, aggregates: {n: count, largest: max(value)}}
  periods: {count: {size: 4, advance: 6h, order: time}, aggregates: {n: count, largest: max(value)}}
  together: {count: {size: 7, advance: 5, order: time, per: stream},
             aggregates: {n: count, largest: max(value)}}
  chats: {session: {gap: 3 messages}, aggregates: {n: count, largest: max(value)}}
  ruled: {session: {gap: 30m, max_duration: 40m, max_events: 4, new_when: id, split: midnight,
          start_when: value = -3, end_when: value = 3, min_events: 2},
          aggregates: {n: count, total: sum(value)}}
metrics:
  users: {by: [user], value: count, windows: [2h, 30h], step: 1h, keep_slices: true}
  values: {by: [value], value: count, windows: [2h, 30h], step: 1h}
  best: {by: [], value: max(value), windows: [90m, 12h], step: 30m, offset: 10m, keep_slices: true}
  kinds: {by: [user, value], value: count_distinct(id), windows: [1d], step: 8h, keep_slices: true}
JOINS
tables: {path: out}
checks: {builtin: %s}
%s
"""


def day(number: int) -> dt.date:
    return FIRST_DAY + dt.timedelta(days=number)


def day_of(event: Event) -> int:
    assert event.time is not None
    return (event.time - START) // DAY


def at(day: int, hours: float = 0, minutes: float = 0) -> int:
    return START + day * DAY + round(hours * HOUR + minutes * MINUTE)


@dataclass
class World:
    """A job in a folder, and what its tables should hold.

    Attributes:
        gate: whether runs must pass the built-in checks before they publish, which takes as long
            as another window.
        texts: whether times are text, so that only reading a file tells which it has.
        bots: rules for bots as in a job file; `where` is `value = -3`.
        store: the tables' store; None: Delta's, at the root.
        root: the folder or URL that the source and the tables are in; None: the folder.
        files: the source's events by file.
        counted: for each file, the days whose events in it are in the windows.
        old: days on which windows still hold what replaced files held.
    """

    folder: Path
    spark: SparkSession
    with_id: bool = False
    windows: tuple[str, ...] = ("sessions", "hopping")
    retention: str | None = None
    gate: bool = False
    texts: bool = False
    bots: str | None = None
    store: Store | None = None
    root: str | None = None
    files: dict[str, list[Event]] = field(default_factory=dict)
    counted: dict[str, set[int]] | None = None
    old: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.place("src").make()
        self.write_job()

    def place(self, inside: str) -> Folder:
        """A folder at the root."""
        return folder_at(self.root or self.folder) / inside

    def copied(self, folder: Path) -> World:
        """A copy in another folder, without running anything again."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        made = copy.copy(self)
        made.folder = folder
        made.files, made.old = dict(self.files), set(self.old)
        made.counted = self.counted and {name: set(days) for name, days in self.counted.items()}
        made.write_job()
        return made

    def write_job(self) -> None:
        """Writes the job file, and loads it."""
        text = JOB % (
            ", id: id" if self.with_id else "",
            (", arrival: offset" if self.placed else "")
            + (", time_format: iso" if self.texts else ""),
            f", bots: {self.bots}" if self.bots else "",
            "{quarantined_share: off}" if self.gate else "off",
            f"retention: {self.retention}" if self.retention else "",
        )
        for name in {*WINDOWS, "ruled", *SLIDING, *COUNTS} - set(self.windows):
            text = re.sub(rf"  {name}: .*?\}}\}}\n", "", text, flags=re.DOTALL)
        unwanted = tuple(f"  {name}: {{by" for name in METRICS if name not in self.windows)
        lines = [line for line in text.splitlines() if not line.startswith(unwanted)]
        if not self.metrics:
            lines.remove("metrics:")
        joins = [window for window in self.windows if window in JOINS]
        if len(self.metrics) + len(joins) == len(self.windows):
            lines.remove("windows:")
        text = "\n".join(lines).replace("JOINS", joined.text_of(joins))
        if self.root is not None:
            text = re.sub(r"path: (src|out)\b", rf"path: {self.root}/\1", text)
        (self.folder / "job.yaml").write_text(text)
        spec = JobSpec.load(self.folder / "job.yaml")
        self.job = Job(spec, self.store or DeltaStore(spec.tables.uri))

    def write(self, name: str, events: list[Event]) -> None:
        """Puts a file into the source, or replaces it."""
        if self.files.get(name) != events:
            self._forget(name)
        self.files[name] = events
        place = self.place("src")
        table = self._table_of(events)
        pq.write_table(table, place.path(f"{name}.parquet"), filesystem=place.filesystem)

    def remove(self, name: str) -> None:
        """Takes a file out of the source."""
        self._forget(name)
        del self.files[name]
        self.place("src").delete([f"{name}.parquet"])

    def _forget(self, name: str) -> None:
        if self.counted is not None and name in self.counted:
            days = [day_of(e) for e in self.files[name] if e.time is not None]
            if self.texts:
                # What a file held is known only from the bounds of all files.
                days = [(bound - START) // DAY for bound in self._counted_between()]
            held = set(range(min(days), max(days) + 1)) if days else set()
            self.old |= self.counted.pop(name) & held

    def _counted_between(self) -> tuple[int, int]:
        """The bounds of the event times that the tables say they have counted."""
        records = [self._record(name) for name in self.windows]
        bounds = [record.bounds for record in records if record.bounds is not None]
        assert len(bounds) == len(records)
        return min(low for low, _ in bounds), max(high for _, high in bounds)

    def write_to(self, path: Path, events: list[Event]) -> None:
        """Writes a file of events to the disk."""
        pq.write_table(self._table_of(events), path)

    def write_alike(self, name: str, events: list[Event]) -> None:
        """Writes a file in which copies of events are alike, also copies of those in other files.

        If two copies differ, the one counted first stays until a full run.
        """
        known: dict[tuple[str | None, int | None, str | None], Event] = {}
        for e in [*itertools.chain(*self.files.values()), *events]:
            known.setdefault((e.key, e.time, e.id), e)
        self.write(name, [e if e.id is None else known[e.key, e.time, e.id] for e in events])

    def run(self, low: int, high: int, chunk: int | None = None) -> set[int]:
        """Runs the dates from one day's number to another's.

        Returns:
            The days that were run: those with events or windows, or on which a replaced file may
            have had events, except chunks that the same run of the same source committed before.
        """
        days = {d for d in range(low, high) if self.published and day(d) in self._covered_by_all()}
        days |= {d for e in self.usable() if low <= (d := day_of(e)) < high}
        days |= self.old & set(range(low, high))
        if self.metrics:
            days |= self._with_rows(days) & set(range(low, high))
        result = self.job.run(self.spark, start=day(low), end=day(high), chunk=chunk)
        for skipped in result.skipped:
            if skipped.why.startswith("committed"):
                days -= {d for d in days if skipped.dates[0] <= day(d) < skipped.dates[1]}
        assert not result.failures, result.failures
        assert bool(result.chunks) == bool(days)
        if days and self.counted is None:
            self._count_all()
        elif self.counted is not None:
            for name in self.files:
                self.counted[name] = self.counted.get(name, set()) | days
            self.old -= days
        return days

    @property
    def metrics(self) -> list[str]:
        """The tables of metrics."""
        return [name for name in self.windows if name in METRICS]

    def _with_rows(self, days: set[int]) -> set[int]:
        """Days on which values of metrics can change, without events of their own or with some."""
        reach = max(max(METRICS[name][1]) + METRICS[name][2] for name in self.metrics)
        covered = {d for d in EVERY if day(d) in self._covered_by_all()} if self.published else {}
        # Values also fall in a range whose own dates have no events, if dates before it have some.
        own = {*map(day_of, self.usable())}
        last, known = max(own), {*days, *covered, *own}
        return {d + more for d in known for more in range(reach // DAY + 3) if d + more <= last}

    @property
    def published(self) -> bool:
        """Whether there is something to merge into."""
        return self.counted is not None

    @property
    def placed(self) -> bool:
        """Whether events have offsets."""
        return bool(set(COUNTS) & set(self.windows))

    def usable(self) -> list[Event]:
        """The events of the source."""
        return reference.usable(e for own in self.files.values() for e in own)

    def run_all(self) -> None:
        self.job.run(self.spark)
        self._count_all()

    def recompute(self, late: Path | None = None) -> RunResult | None:
        result = self.job.recompute(self.spark, late=late)
        self._count_all()
        return result

    def _count_all(self) -> None:
        self.counted = {name: set(EVERY) for name in self.files}
        self.old = set()

    def _covered_by_all(self) -> Dates:
        dates = ALL
        for name in self.windows:
            dates &= self.covered(name)
        return dates

    def covered(self, name: str = "sessions") -> Dates:
        return self._record(name).covered

    def _record(self, name: str) -> Record:
        table = self.job.store.open(name)
        assert table is not None
        assert table.record is not None
        return Record.from_json(table.record, self.folder)

    def counting(self, days: set[int]) -> list[Event]:
        """The events that count, each once: those on their file's counted days or on these days."""
        events = [
            e
            for name, own in self.files.items()
            for e in reference.usable(own)
            if day_of(e) in (self.counted or {}).get(name, set()) | days
        ]
        events = [e for e, name in self.judged(events) if name is None]
        if not self.with_id:
            return events
        placed = [replace(e, arrival=offset_of(e)) for e in events] if self.placed else events
        return reference.distinct(placed)

    def judged(self, events: list[Event]) -> list[tuple[Event, str | None]]:
        """Each event with the name of the rule by which it is a bot's, or None."""
        bots = self.job.spec.bots
        if bots is None:
            return [(e, None) for e in events]
        own = (lambda v: v.campaign) if self.with_id else None
        visits = [Visit(e.key, e.time, campaign=e.id, login=e.value == -3) for e in events]
        names = reference_bots.names(bots.rules, visits, bots.gap.us, "UTC", own)
        return list(zip(events, names, strict=True))

    def check(self) -> None:
        """Checks that every table is what its counted events make, on its covered dates."""
        expected = self.expected(self.counting(set()))
        for name in self.windows:
            wanted = self.on_covered(name, expected[name])
            assert sorted(self.rows(name), key=repr) == sorted(wanted, key=repr), name
        if self.bots:
            assert self.quarantined_bots() == self.expected_bots()

    def expected_bots(self) -> Counter[tuple[str, ...]]:
        """The bots among the events that count, on covered dates: reason, file, and the event."""
        rows = [
            (name, e)
            for name, own in self.files.items()
            for e in reference.usable(own)
            if day_of(e) in (self.counted or {}).get(name, set())
        ]
        judged = self.judged([e for _, e in rows])
        covered = Dates.union(map(self.covered, self.windows))
        return Counter(
            (rule, name, str(e.key), str(e.time), str(e.value), str(e.id))
            for (name, _), (e, rule) in zip(rows, judged, strict=True)
            if rule is not None and date_of(e.time or 0, "UTC") in covered
        )

    def quarantined_bots(self) -> Counter[tuple[str, ...]]:
        """The bots in the quarantine, in the same form."""
        assert self.job.spec.bots is not None
        names = {rule.name for rule in self.job.spec.bots.rules}
        counts: Counter[tuple[str, ...]] = Counter()
        for row in self._table("quarantine").to_pylist():
            raw = json.loads(row["raw"])
            if row["reason"] in names:
                time = reference.micros(dt.datetime.fromisoformat(raw["at"].replace("Z", "+00:00")))
                values = (raw["user"], time, raw.get("value"), raw.get("id"))
                counts[(row["reason"], Path(row["source"]).stem, *map(str, values))] += 1
        return counts

    def quarantined(self) -> list[tuple[str, str]]:
        """The quarantine's rows: reason and key, which is empty if there is none."""
        rows = self._table("quarantine").to_pylist()
        return sorted((row["reason"], json.loads(row["raw"]).get("user") or "") for row in rows)

    def on_covered(self, name: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The rows of windows that start on a date that the table covers."""
        covered = self.covered(name)
        at = {"together": 1}.get(name, 2 if name in COUNTED else 1)
        if name in METRICS:
            at = len(METRICS[name][0])
        return [row for row in rows if date_of(row[at], "UTC") in covered]

    def expected(self, events: list[Event]) -> dict[str, list[tuple[Any, ...]]]:
        """The rows that events make, by table of the job."""
        horizon = max(e.time for e in self.usable())
        if self.placed:
            events = [replace(e, arrival=offset_of(e)) for e in events]
        return {name: self._expected(name, events, horizon) for name in self.windows}

    def _expected(self, name: str, events: list[Event], horizon: int) -> list[tuple[Any, ...]]:
        if name in SURROUNDING:
            return self._rows(events, name, horizon)
        if name in COUNTED:
            return self._counted(events, name, horizon)
        if name in METRICS:
            return self._stepped(events, name, horizon)
        if name in JOINS:
            return joined.rows_of(name, events, horizon, with_id=self.with_id)
        if name == "chats":
            return self._chats(events)
        if name == "shared":
            return [
                (key, end - HOUR, end, len(own), _largest(own), end >= horizon)
                for (key, end), own in reference.distinct_windows(events, HOUR).items()
            ]
        if name == "hopping":
            return [
                (key, start, end, len(own), _largest(own), end > horizon)
                for (key, start, end), own in reference.grouped(
                    events, reference.hopping(3 * HOUR, HOUR)
                ).items()
            ]
        if name == "ruled":
            return [
                (e[0].key, e[0].time, e[-1].time, len(e), _total(e), _open(e, closed, horizon))
                for e, closed in reference_rules.sessions(RULES, map(_visit, events))
            ]
        return [
            (
                e[0].key,
                e[0].time,
                e[-1].time,
                *(_values(e) if name == "sessions" else [_median(e)]),
                e[-1].time >= horizon - GAP,
            )
            for e in reference.sessions(events, GAP)
        ]

    def _rows(self, events: list[Event], name: str, horizon: int) -> list[tuple[Any, ...]]:
        """A row for each event: key, time, [id,] values, whether it is open."""
        back, ahead, before = SURROUNDING[name]
        return [
            (
                e.key,
                e.time,
                *([e.id] if self.with_id else []),
                len(own),
                _largest(own),
                *([len({o.value for o in own} - {None})] if name == "moving" else []),
                not before and e.time + ahead >= horizon,
            )
            for e, own in reference.surrounding(events, back, ahead, before=before)
        ]

    def _counted(self, events: list[Event], name: str, horizon: int) -> list[tuple[Any, ...]]:
        """The rows of count windows: [key,] bounds, numbers, values, whether it is open."""
        window = COUNTED[name]
        groups: dict[tuple[str | None, ...], list[Event]] = {}
        for e in events:
            key = () if window.per == "stream" else (e.key,)
            groups.setdefault(key, []).append(replace(e, arrival=offset_of(e)))
        count_rows = []
        for key, group in groups.items():
            own = in_order(group, window.order, with_id=self.with_id)
            for places in held(own, window):
                inside, last = [own[i] for i in places], places[-1] + 1
                start, end = min(e.time for e in inside), max(e.time for e in inside)
                values = (places[0] + 1, last, len(inside), _largest(inside))
                is_open = not ended(window, last, end, horizon)
                count_rows.append((*key, start, end, *values, is_open))
        return count_rows

    def _stepped(self, events: list[Event], name: str, horizon: int) -> list[tuple[Any, ...]]:
        """The rows of a metric: dimensions, step, values, whether it is open."""
        by, windows, step, offset = METRICS[name]
        groups: dict[tuple[Any, ...], list[Event]] = {}
        for e in events:
            key = tuple({"user": e.key, "value": e.value}[dimension] for dimension in by)
            if not by or any(part is not None for part in key):
                groups.setdefault(key, []).append(e)
        folds = {"best": _largest, "kinds": lambda own: len({e.id for e in own} - {None})}
        fold = folds.get(name, len)
        step_rows = []
        for key, own in groups.items():
            begins = {(e.time - offset) // step * step + step + offset for e in own}
            before = [fold([]) for _ in windows]
            for at in sorted(begins | {start + window for start in begins for window in windows}):
                values = [
                    fold([e for e in own if at - window <= e.time < at]) for window in windows
                ]
                if values != before:
                    step_rows.append((*key, at, *values, at > horizon))
                before = values
        return step_rows

    def _chats(self, events: list[Event]) -> list[tuple[Any, ...]]:
        placed = [replace(e, arrival=offset_of(e)) for e in events]
        sessions = message_sessions(placed, MESSAGES)
        last = {own[0].key: own for own in sessions}
        return [
            (
                own[0].key,
                min(e.time for e in own),
                max(e.time for e in own),
                len(own),
                _largest(own),
                own is last[own[0].key],
            )
            for own in sessions
        ]

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """What a table holds, as `check` expects it; without a Spark job, since many are read."""
        table = self._table(name)
        hidden = {"session_id", "date"} | {
            column for column in table.column_names if column[0] == "_"
        }
        columns = [_plain(table[column]) for column in table.column_names if column not in hidden]
        return list(zip(*columns, strict=True))

    def _table_of(self, events: list[Event]) -> pa.Table:
        times = pa.array([e.time for e in events], pa.timestamp("us", "UTC"))
        return pa.table(
            {
                "user": pa.array([e.key for e in events], pa.string()),
                "at": pc.strftime(times, "%Y-%m-%dT%H:%M:%SZ") if self.texts else times,
                "value": pa.array([e.value for e in events], pa.int64()),
                "id": pa.array([e.id for e in events], pa.string()),
                "offset": pa.array([offset_of(e) for e in events], pa.int64()),
            }
        )

    def _table(self, name: str) -> pa.Table:
        if self.store is None:
            place = self.place("out") / name
            return DeltaTable(place.uri, storage_options=dict(place.options)).to_pyarrow_table()
        if isinstance(self.store, IcebergStore):
            table = self.store.catalog.load_table((*self.store.namespace, name))
            return table.scan().to_arrow()
        assert isinstance(self.store, MemoryStore)
        table = self.store.open(name)
        assert table is not None
        parts = [file.rows for file in table.contents.values()]
        return (
            pa.concat_tables(parts)
            if parts
            else pa.table({column: [] for column in table.schema.names})
        )


def offset_of(event: Event) -> int:
    """The event's place in its partition: the same for equal events, and for some others."""
    known = (event.key, event.time, event.value, event.id)
    return event.arrival or zlib.crc32(repr(known).encode()) % 97


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """Times as µs, lists as tuples."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
    return [tuple(value) if isinstance(value, list) else value for value in column.to_pylist()]


def _values(events: list[Event]) -> tuple[Any, ...]:
    values = [e.value for e in events if e.value is not None]
    total = sum(values) if values else None
    average = total / len(values) if total is not None else None
    # Events of one time are in order of arrival, which is 0 in jobs without one.
    in_order = sorted(events, key=lambda e: (e.time, e.arrival, e.value is not None, e.value or 0))
    first = (in_order[0].value,)
    different = tuple(sorted(set(values)))
    way = tuple(e.value for e in in_order if e.value is not None)[:3]
    reached, steps = 0, (1, 3, 0)
    # In a funnel, events at the same place are ordered by the steps that they are.
    for e in sorted(events, key=lambda e: (e.time, e.arrival, [e.value == s for s in steps])):
        reached += reached < 3 and e.value == steps[reached]
    seconds = (in_order[-1].time - in_order[0].time) / 1_000_000
    above = sum(value > 0 for value in values)
    single = above == 1 if above else None
    counts = (len(events), total, average, *first, different, len(different))
    return (*counts, way, reached, seconds, single)


def _visit(event: Event) -> Visit:
    ends = {"login": event.value == -3, "logout": event.value == 3}
    own = {"arrival": event.arrival, "campaign": event.id, "value": event.value}
    return Visit(event.key, event.time, **own, **ends)


def _total(visits: list[Visit]) -> int | None:
    values = [v.value for v in visits if v.value is not None]
    return sum(values) if values else None


def _open(visits: list[Visit], closed: bool, horizon: int) -> bool:
    """Whether an event at the horizon could join the session."""
    start, last = visits[0].time, visits[-1].time
    assert start is not None
    assert last is not None
    in_time = horizon - last <= GAP and horizon <= reference_rules.limit(RULES, start)
    return in_time and not closed and len(visits) < 4 and start // DAY == horizon // DAY


def _median(events: list[Event]) -> float | None:
    values = sorted(e.value for e in events if e.value is not None)
    if not values:
        return None
    place = (len(values) - 1) / 2
    below, above = values[int(place)], values[-(-int(2 * place) // 2)]
    return (below + above) / 2


def _largest(events: list[Event]) -> int | None:
    return max((e.value for e in events if e.value is not None), default=None)
