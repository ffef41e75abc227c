"""Events of a source by date and input: those of each file on the dates on which it counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from backfill.columns import END, REASON, START, TIME, column
from backfill.events import EventRules, Source, normalise, time_condition
from backfill.ledger.arrival_ranges import ArrivalRange, among
from backfill.rows.compute import Key
from backfill.time.dates import ALL, Dates
from backfill.time.spans import EVERYTHING, Span, inside_span


@dataclass(frozen=True)
class Reader:
    """Reads usable events.

    Attributes:
        source: the opened source.
        rules: what is an event.
        zone: the job's time zone.
        bounds: the least and largest event time of each input, µs, if known.
        arrival_ranges: for a table whose inputs are spans of arrivals, these spans.
        arrival: the column of arrival.
    """

    source: Source
    rules: EventRules
    zone: str
    bounds: Mapping[str, tuple[int, int] | None]
    arrival_ranges: Mapping[str, ArrivalRange]
    arrival: tuple[str, ...]

    def events(self, counted: Mapping[str, Dates], span: Span = EVERYTHING) -> DataFrame:
        """The usable events of a span of time, from each input those on its counted dates.

        Args:
            counted: dates by path; a catalog's table has its name as the path.
            span: [low, high), µs; None for no bound.

        Returns:
            Normalised events.
        """
        by_dates: dict[Dates, list[str]] = {}
        for path, dates in counted.items():
            by_dates.setdefault(dates, []).append(path)
        parts = [
            self._of_files(paths, spans)
            for dates, all_paths in by_dates.items()
            if (spans := self._spans(dates, span))
            and (
                paths := [file_path for file_path in all_paths if self._overlaps(file_path, spans)]
            )
        ]
        if not parts:
            return normalise(self.source.frame, self.rules).where(F.lit(False))
        return reduce(DataFrame.unionByName, parts)

    def unusable(self, paths: list[str]) -> DataFrame:
        """The unusable rows of these inputs, normalised."""
        return self.rows(paths).where(F.col(REASON).isNotNull())

    def rows(self, paths: Collection[str], where: Column | None = None) -> DataFrame:
        """All rows of these inputs for which a condition holds, normalised."""
        own: Collection[str] = paths if self.source.snapshot.inputs else ()
        if self.arrival_ranges:
            arrival_ranges = [
                self.arrival_ranges[path] for path in paths if path in self.arrival_ranges
            ]
            arrived = among(self.source, self.arrival, arrival_ranges)
            where = arrived if where is None else where & arrived
        return normalise(self.source.only(own, where), self.rules)

    def horizon(self, paths: list[str], known: int | None) -> int | None:
        """The largest event time of these inputs, or `known` if that is larger; µs.

        Only what could lie beyond `known` is read, beginning with the files that reach furthest.
        """
        beyond = {file_path: self._latest(file_path) for file_path in paths}
        while True:
            left = [
                p for p, last in beyond.items() if last is None or known is None or last > known
            ]
            if not left:
                return known
            furthest = max((last for p in left if (last := beyond[p]) is not None), default=None)
            first = [p for p in left if beyond[p] is None or beyond[p] == furthest]
            for path in first:
                del beyond[path]
            where = time_condition(self.source.frame.schema, self.rules, known, None)
            rows = self.rows(first, where)
            latest = rows.where(F.col(REASON).isNull()).agg(F.max(TIME)).collect()[0][0]
            known = max((time for time in (known, latest) if time is not None), default=None)

    def limits(self, paths: list[str]) -> Span:
        """The least and the largest event time of these inputs, µs; None if not known."""
        pairs = [self.bounds.get(path) for path in paths]
        known = [pair for pair in pairs if pair is not None]
        if len(known) < len(pairs) or not known:
            return EVERYTHING
        return min(low for low, _ in known), max(high for _, high in known)

    def may_hold(self, path: str, span: Span) -> bool:
        """Whether an input can hold an event of a span, as far as its bounds tell."""
        return self._overlaps(path, [span])

    def _of_files(self, paths: list[str], spans: list[Span]) -> DataFrame:
        low, high = spans[0][0], spans[-1][1]
        where = time_condition(self.source.frame.schema, self.rules, low, high)
        return self.rows(paths, where).where(
            F.col(REASON).isNull() & reduce(or_, [inside_span(F.col(TIME), span) for span in spans])
        )

    def _spans(self, dates: Dates, span: Span) -> list[Span]:
        low, high = span
        spans: list[Span] = [span] if dates == ALL else list(dates.spans(self.zone))
        met = [(_later(low, start), _earlier(high, end)) for start, end in spans]
        return [(a, b) for a, b in met if a is None or b is None or a < b]

    def _overlaps(self, path: str, spans: list[Span]) -> bool:
        bounds = self.bounds.get(path)
        if bounds is None:
            return True
        first, last = bounds
        return any((a is None or last >= a) and (b is None or first < b) for a, b in spans)

    def _latest(self, path: str) -> int | None:
        bounds = self.bounds.get(path)
        return None if bounds is None else bounds[1]


def events_of(
    events: DataFrame, key: Key, wanted: DataFrame, condition: Column | None = None
) -> DataFrame:
    """The events of some keys.

    Args:
        events: normalised.
        key: the events' key.
        wanted: the inner key columns, with or without start and end.
        condition: a further condition, on the event and `_wanted` columns.
    """
    others = wanted.select(*(F.col(name).alias(f"_wanted{name}") for name in wanted.columns))
    same = [
        column(name).eqNullSafe(F.col(f"_wanted{inner}"))
        for name, inner in zip(key.names, key.inner, strict=True)
    ]
    conditions = same if condition is None else [*same, condition]
    return events.join(others, reduce(and_, conditions, F.lit(True)), "left_semi")


def events_within(events: DataFrame, key: Key, windows: DataFrame) -> DataFrame:
    """The events from the start to the end of some windows, both inclusive.

    Args:
        events: normalised.
        key: the events' key.
        windows: the inner key columns, start and end.
    """
    inside = (F.col(TIME) >= F.col(f"_wanted{START}")) & (F.col(TIME) <= F.col(f"_wanted{END}"))
    return events_of(events, key, windows, inside)


def _later(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)
