"""What a table's windows were made from: the record that goes with each of its commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from backfill.errors import TableError
from backfill.time.dates import ALL, DAY, NONE, Dates, date_of

_FORM = 1
# No file's path ends like this.
_FORMER = "/"


@dataclass(frozen=True)
class Input:
    """A file of the source as it was counted, or the rows of a table that arrived in a span.

    Attributes:
        size: bytes; for a span, the number of its rows.
        modified_ms: its last change, ms since the epoch.
        digest: a hash of its content; None if the file system is not local.
        bounds: its least and largest event time, µs, if they are known.
        counted: the dates whose events in this file are in the windows.
        arrived: for a span, (after, up to] as whole numbers; None for a file.
        deletions: as in InputFile.
    """

    size: int
    modified_ms: int
    digest: str | None
    bounds: tuple[int, int] | None
    counted: Dates = ALL
    arrived: tuple[int | None, int] | None = None
    deletions: str | None = None

    def same_content(self, other: Input) -> bool:
        """Whether another look at this path found the content that was counted.

        Without a digest (the file is not local), a file that was written again has changed. So has
        a file if the deletions of its rows are not the same as before.
        """
        if self.deletions != other.deletions:
            return False
        if self.digest is None or other.digest is None:
            return (self.size, self.modified_ms) == (other.size, other.modified_ms)
        return (self.size, self.digest) == (other.size, other.digest)

    def held(self, zone: str) -> Dates:
        """The counted dates on which it can have events."""
        if self.bounds is None:
            return self.counted
        low, high = (date_of(bound, zone) for bound in self.bounds)
        return self.counted & Dates.between(low, high + DAY)


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one published table holds.

    The table is what a full rebuild gives from the events that are counted (each input's, on its
    counted dates), restricted to the windows that start on covered dates. An input that is gone
    stays recorded with the dates on which its events are still in windows; so does the old content
    of a file that has changed since (under `former`). Windows that a later run wrote and that reach
    such dates hold what the source had there at that run.

    Attributes:
        settings: the settings of the job file that decide about the windows; by name, as text.
        covered: dates that a run computed.
        inputs: files by path.
        late: paths that `recompute --late` was given; they have been inputs ever since.
        horizon: the largest event time of all inputs, µs; None before the first event.
        bounds: the least and the largest event time that was ever counted, µs; None if they are
            not known.
        schema: DDL of the source.
        version: the version of a Delta or an Iceberg source.
        expired: windows that ended before this instant (µs) are no longer held.
        bots: for the quarantine, a mark of the counted events that its bots are from; else None.
    """

    settings: Mapping[str, str]
    covered: Dates = NONE
    inputs: Mapping[str, Input] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    horizon: int | None = None
    bounds: tuple[int, int] | None = None
    schema: str = ""
    version: int | None = None
    expired: int | None = None
    bots: str | None = None

    def json(self, home: Path) -> dict[str, Any]:
        """As a JSON document.

        Args:
            home: the job file's folder; inputs below it are written relative to it, so that a
                project that moves keeps what it has counted.
        """
        return {
            "form": _FORM,
            "settings": dict(self.settings),
            "covered": self.covered.json(),
            "late": [_near(path, home) for path in self.late],
            "horizon": self.horizon,
            "bounds": self.bounds,
            "schema": self.schema,
            "version": self.version,
            "expired": self.expired,
            **({} if self.bots is None else {"bots": self.bots}),
            "inputs": {
                _near(path, home): [
                    file.size,
                    file.modified_ms,
                    file.digest,
                    file.bounds,
                    file.counted.json(),
                    file.arrived,
                    *([] if file.deletions is None else [file.deletions]),
                ]
                for path, file in self.inputs.items()
            },
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], home: Path) -> Record:
        """The record from what `json` gave; `home` is the folder where the job file is now.

        Raises:
            TableError: another version of this library wrote it, in an unknown form.
        """
        if value.get("form") != _FORM:
            raise TableError(
                "what the table has counted is recorded in another form",
                field="form",
                value=value.get("form"),
                way_out="Use the version of backfill that published the table, or a newer one",
            )
        return Record(
            settings=value["settings"],
            covered=Dates.from_json(value["covered"]),
            late=late_of(value, home),
            horizon=value["horizon"],
            bounds=_pair(value.get("bounds")),
            schema=value["schema"],
            version=value["version"],
            expired=value.get("expired"),
            bots=value.get("bots"),
            inputs={
                _far(path, home): Input(
                    size,
                    modified_ms,
                    digest,
                    _pair(bounds),
                    Dates.from_json(counted),
                    _pair(arrived),
                    *deletions,
                )
                for path, (
                    size,
                    modified_ms,
                    digest,
                    bounds,
                    counted,
                    arrived,
                    *deletions,
                ) in value["inputs"].items()
            },
        )

    def with_counted(
        self,
        inputs: Mapping[str, Input],
        *,
        on: Dates,
        covered: Dates,
        late: tuple[str, ...],
        horizon: int | None,
        bounds: tuple[int, int] | None,
        schema: str,
        version: int | None,
        settings: Mapping[str, str],
        expired: int | None,
        bots: str | None,
        zone: str,
        known: Record | None,
    ) -> Record:
        """This record after a run that counted these inputs on these dates.

        If another run has published in between, this is applied again to the newest record; so the
        arguments say only what this run did. An input that is gone is left out once no date is
        left on which its events are still in windows.

        Args:
            inputs: the inputs of the source as the run found it.
            on: the dates on which they are counted.
            covered: the dates that the run computed.
            late: as in Record, and so are the following.
            horizon: the largest event time, µs.
            bounds: as in Record.
            schema: DDL.
            version: the version of the source.
            settings: those of the job file.
            expired: µs.
            bots: for the quarantine.
            zone: the job's time zone.
            known: the record that the run began from, None if there was none: inputs that others
                have recorded since are not gone.
        """
        seen: dict[str, Input] = {}
        absent = {path: file for path, file in self.inputs.items() if path not in inputs}
        before_it = {} if known is None else known.inputs
        others = {path: file for path, file in absent.items() if path not in before_it}
        gone = {path: file for path, file in absent.items() if path in before_it}
        for path, file in inputs.items():
            before = self.inputs.get(path)
            if before is None or before.same_content(file):
                seen[path] = replace(file, counted=on | self._counted(path))
                continue
            seen[path] = replace(file, counted=on)
            gone[former(path)] = _both(before, gone.get(former(path)), zone)
        gone = {path: replace(file, counted=file.counted - on) for path, file in gone.items()}
        return replace(
            self,
            covered=self.covered | covered,
            inputs={
                **others,
                **{path: file for path, file in gone.items() if self.held(file, zone)},
                **seen,
            },
            late=tuple(dict.fromkeys([*self.late, *late])),
            horizon=horizon,
            bounds=bounds,
            schema=schema,
            version=version,
            settings=settings,
            expired=max(
                (time for time in (self.expired, expired) if time is not None), default=None
            ),
            bots=bots,
        )

    def held(self, input: Input, zone: str) -> Dates:
        """The counted dates on which one of the inputs can have events.

        If its own bounds are not known, those of all inputs apply: nothing was counted beyond them.
        """
        return replace(input, bounds=input.bounds or self.bounds).held(zone)

    def _counted(self, path: str) -> Dates:
        return self.inputs[path].counted if path in self.inputs else Dates()


def _pair(value: list[Any] | None) -> tuple[Any, Any] | None:
    return None if value is None else (value[0], value[1])


def unlike(inputs: Mapping[str, Input], others: Mapping[str, Input]) -> list[str]:
    """The files among inputs that others lack, or have with other content."""
    return [
        path
        for path, file in inputs.items()
        if path == known_as(path) and not (path in others and file.same_content(others[path]))
    ]


def counted_beyond(after: Record, before: Record, covered: Dates, zone: str) -> list[str]:
    """The files with events that count only now, on dates other than the covered ones."""
    paths = []
    for path, file in after.inputs.items():
        known = before.inputs.get(path)
        counted = known.counted if known is not None and known.same_content(file) else NONE
        if path == known_as(path) and file.held(zone) - counted - covered:
            paths.append(path)
    return paths


def former(path: str) -> str:
    """The name under which a record has the old content of a file that has changed since."""
    return f"{path}{_FORMER}"


def known_as(path: str) -> str:
    """The path of the file that a record's path is about."""
    return path.removesuffix(_FORMER)


def _both(one: Input, other: Input | None, zone: str) -> Input:
    """What a file held at two times, as one input."""
    if other is None:
        return one
    return replace(one, bounds=bounds_of([one, other]), counted=one.held(zone) | other.held(zone))


def between(times: Iterable[int | None]) -> tuple[int, int] | None:
    """The least and the largest of some times; None if none is known."""
    known = [time for time in times if time is not None]
    return (min(known), max(known)) if known else None


def bounds_of(inputs: Collection[Input]) -> tuple[int, int] | None:
    """The least and the largest event time of some inputs; None if those of one are not known."""
    known = [file.bounds for file in inputs if file.bounds is not None]
    return between(chain(*known)) if len(known) == len(inputs) else None


def late_of(value: Mapping[str, Any], home: Path) -> tuple[str, ...]:
    """The late inputs in what `Record.json` gave; what others recorded has none."""
    return tuple(_far(path, home) for path in value.get("late", ()))


def _near(path: str, home: Path) -> str:
    below = f"{home}/"
    return f"./{path.removeprefix(below)}" if path.startswith(below) else path


def _far(path: str, home: Path) -> str:
    return f"{home}/{path.removeprefix('./')}" if path.startswith("./") else path
