"""Explains keys that differ: all of them on the driver, or a part of them in a worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import pyarrow as pa

from backfill.columns import TIME
from backfill.reconciliation.arrow_rows import (
    NUMBER,
    SIDE,
    Key,
    Values,
    by_key,
    events_of,
    in_order,
    windows_of,
)
from backfill.reconciliation.clocks import BEGINNING, END_CLOCK, LATEST_CLOCK, PARTITION, PLACE
from backfill.reconciliation.explaining.case import Case
from backfill.reconciliation.explaining.doubles import Doubles, same_rows
from backfill.reconciliation.explaining.evidence import with_events
from backfill.reconciliation.explaining.explain import explain
from backfill.reconciliation.explaining.matching import Difference, match
from backfill.reconciliation.explaining.operator import Operator
from backfill.reconciliation.explaining.shared_replay import SharedKey, SharedReplay
from backfill.reconciliation.marks import OF_ALL_KEYS, by_arrival
from backfill.reconciliation.packed import in_order_of
from backfill.reconciliation.recount import members
from backfill.reconciliation.result import Explained, Part
from backfill.reconciliation.rows import Row, only
from backfill.reconciliation.same_time import at_their_time, interchangeable, numbered_again
from backfill.replay import Event
from backfill.windows import SessionWindow, is_distinct


@dataclass(frozen=True, kw_only=True)
class KeyExplainer:
    """Explains any key of one comparison; can be pickled.

    Attributes:
        operator: the operator, with the aggregates that have a form in Python.
        batch: what the batch does, as an operator for which nothing is late.
        others: the names of the aggregates that have no such form.
        columns: the fields of the events that the operator's aggregates are over.
        doubles: those of the operator's aggregates that are doubles.
        keys: the columns of the key.
        expired: windows that ended before this time are past the batch's retention, µs.
        latest: when the stream's last window was complete, µs; if the clock had not reached this
            time, the end of the input completed the window. None if the settings say whether it
            did.
        waits: each window is written when it is complete, and not before.
        last: where the stream's last window ends, µs; None if other keys' windows do not show what
            is complete.
        joint: the operator's keys depend on each other, so events of all of them are given.
    """

    operator: Operator
    batch: Operator
    others: tuple[str, ...]
    columns: tuple[str, ...]
    doubles: frozenset[str]
    keys: tuple[str, ...]
    expired: int | None
    latest: int | None
    waits: bool
    last: int | None
    joint: bool = False

    def explained(self, windows: pa.Table, events: pa.Table) -> Part:
        """Matches and explains whole keys.

        Args:
            windows: of both sides: key columns, SIDE, START, END, values by name.
            events: of the same keys, or of all if `joint`, as `received` gives them.
        """
        sides = by_key(windows, self.keys)
        rows = {key: in_order(own) for key, own in by_key(events, self.keys).items()}
        numbers, places = self._in_order(rows)
        own_operator = self._marked(rows, places)
        given = {
            key: events_of(self._seen_key(key), own, self.columns, places[key])
            for key, own in rows.items()
        }
        joint = SharedReplay(own_operator, {key: own for key, (own, _) in given.items()})
        ends = {key: own[0].get(END_CLOCK) for key, own in rows.items()}
        count = matched = 0
        differences: list[Explained] = []
        for key, both in sides.items():
            batch = windows_of([row for row in both if not row[SIDE]])
            stream = windows_of([row for row in both if row[SIDE]])
            count += len(batch)
            operator = replace(
                self._ended(own_operator, ends.get(key)),
                end_clock=ends.get(key),
                among=SharedKey(joint, key) if self.joint else None,
            )
            clocks = [row.get(LATEST_CLOCK) for row in rows.get(key, ())]
            its_own = given.get(key, ([], {}))
            alike, explained = self._key(key, operator, batch, stream, its_own, clocks)
            matched += alike
            at = dict(zip(places.get(key, ()), rows.get(key, ()), strict=True))
            differences += [
                replace(e, explanation=with_events(e.explanation, at)) for e in explained
            ]
        differences.sort(key=in_order_of)
        all_told = members(differences, events, numbers) if self.others else None
        bare = [
            replace(difference, explanation=replace(difference.explanation, rows=()))
            for difference in differences
        ]
        return Part(count, matched, bare, all_told)

    def _in_order(
        self, rows: Mapping[Key, Sequence[Values]]
    ) -> tuple[dict[Key, list[int]], dict[Key, Sequence[int]]]:
        """For each key: row numbers (if joint, of all keys) by arrival / 2, and its arrivals."""
        numbers = {key: [row[NUMBER] for row in own] for key, own in rows.items()}
        if not self.joint:
            return numbers, {key: range(0, 2 * len(own), 2) for key, own in rows.items()}
        together = in_order([row for own in rows.values() for row in own])
        every = [row[NUMBER] for row in together]
        at = {number: 2 * place for place, number in enumerate(every)}
        return dict.fromkeys(rows, every), {
            key: [at[number] for number in own] for key, own in numbers.items()
        }

    def _marked(
        self, rows: Mapping[Key, Sequence[Values]], places: Mapping[Key, Sequence[int]]
    ) -> Operator:
        """The operator, with its commits and restarts among all keys' events."""
        settings = self.operator.settings
        if not self.joint:
            # Their places among the events are unknown if only one key is replayed.
            own = {name: value for name, value in settings.items() if name not in OF_ALL_KEYS}
        else:
            pairs = sorted(
                (
                    (place, row)
                    for key, events in rows.items()
                    for place, row in zip(places[key], events, strict=True)
                ),
                key=itemgetter(0),
            )
            own = by_arrival(settings, [row for _, row in pairs], [place for place, _ in pairs])
            if _arrived_at_once([row for _, row in pairs]):
                return replace(self.operator, settings=own, ordered=False)
        return replace(self.operator, settings=own)

    def _ended(self, operator: Operator, clock: int | None) -> Operator:
        """The operator, drained or not, given where its clock stood at the end of the input."""
        if self.latest is None or clock is None:
            return operator
        return replace(operator, settings={**operator.settings, "drained": self.latest > clock})

    def _complete(self, operator: Operator, stream: Sequence[Row]) -> int | None:
        """The end up to which windows were surely complete; None: all were written."""
        flushed = any(interface.flushes for interface in operator.engine.streaming.values())
        drained = flushed and operator.settings.get("drained", True)
        if drained or not self.waits or interchangeable(operator.window):
            return None
        if self.last is not None:
            return self.last
        return max((row.end for row in stream), default=BEGINNING)

    def _seen_key(self, key: Key) -> Key | None:
        """The key as the operator sees it."""
        null = bool(key) and all(value is None for value in key)
        return None if null and self.operator.drops_null_keys else key

    def _key(
        self,
        key: Key,
        operator: Operator,
        batch: list[Row],
        stream: list[Row],
        given: tuple[list[Event], dict[int, int]],
        clocks: Sequence[int | None],
    ) -> tuple[int, list[Explained]]:
        events, copies = given
        known = operator.aggregates
        sessions = isinstance(operator.window, SessionWindow)
        rules = operator.engine.rules_for(operator.window)
        single = interchangeable(operator.window)

        def doubles_of(events: Sequence[Event]) -> Doubles:
            return Doubles(
                events,
                {name: known[name] for name in self.doubles},
                operator.engine.tick_us,
                "both" if sessions or is_distinct(operator.window) else rules.closed,
                operator.back_us if single else 0,
            )

        doubles = doubles_of([event for event in events if event.arrival not in copies])
        if single:
            batch, stream = numbered_again(batch, known), numbered_again(stream, known)
        matched, differences = match(
            batch, stream, lambda one, other: same_rows(one, other, doubles), sessions=sessions
        )
        if not differences:
            return matched, []
        ordered = operator.ordered and not _hangs_on_order(operator, events, clocks)
        case = Case(
            operator=replace(operator, ordered=ordered),
            events=events,
            stream=[only(row, known) for row in stream],
            differences=[
                Difference(
                    tuple(only(row, known) for row in difference.batch),
                    tuple(only(row, known) for row in difference.stream),
                )
                for difference in differences
            ],
            # The operator may have counted copies, and added them up.
            doubles=doubles_of(events) if copies else doubles,
            copies=copies,
            expired=self.expired,
            batch=self.batch,
            complete=self._complete(operator, stream),
        )
        explanations = explain(case)
        if single:
            differences = [
                Difference(at_their_time(difference.batch), at_their_time(difference.stream))
                for difference in differences
            ]
        return matched, [
            Explained(key, difference, explanation)
            for difference, explanation in zip(differences, explanations, strict=True)
        ]


def _arrived_at_once(rows: Iterable[Values]) -> bool:
    """Whether events of different times came at one place, though no batch read them together."""
    times: dict[tuple[Any, Any], int] = {}
    return any(
        row["_batch"] is None
        and times.setdefault((row[PARTITION], row[PLACE]), row[TIME]) != row[TIME]
        for row in rows
    )


def _hangs_on_order(
    operator: Operator, events: Sequence[Event], clocks: Sequence[int | None]
) -> bool:
    """Whether the order of events that arrived at once may decide what the operator drops.

    Args:
        operator: of one key.
        events: of the key, each with the least clock that it can have met.
        clocks: the latest clock that each can have met; None where it is unknown.
    """
    pairs = list(zip(events, clocks, strict=True))
    if all(clock is None or clock == event.clock for event, clock in pairs):
        return False
    later = [replace(event, clock=clock) for event, clock in pairs]
    early, late = (
        [(row.bounds, row.written) for row in operator.written(operator.replay(variant))]
        for variant in (events, later)
    )
    return early != late
