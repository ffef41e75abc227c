"""What a table's windows were made from: the record that goes with each of its commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from backfill.history.dates import ALL, NONE, Dates

_FORM = 1


@dataclass(frozen=True)
class Input:
    """A file of the source as it was counted, or the rows of a table that arrived in a span.

    Attributes:
        size: bytes; of a span the number of its rows.
        modified_ms: its last change, ms since the epoch.
        digest: of its content; None where the file system is not local.
        bounds: its least and largest event time, µs, where they are known.
        counted: the dates whose events in this file are in the windows.
        arrived: of a span, (after, up to] as whole numbers; None for a file.
    """

    size: int
    modified_ms: int
    digest: str | None
    bounds: tuple[int, int] | None
    counted: Dates = ALL
    arrived: tuple[int | None, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one published table holds.

    The table is what a full rebuild gives from the events that are counted (each input's, on its
    counted dates), restricted to the windows that start on covered dates.

    Attributes:
        settings: of the job file, those that decide about the windows; by name, as text.
        covered: dates that a run computed.
        inputs: files by path.
        late: paths that `recompute --late` was given: inputs ever since.
        horizon: the largest event time of all inputs, µs; None before the first event.
        schema: DDL of the source.
        version: of a Delta source.
        expired: windows that ended before this instant (µs) are not held any more.
    """

    settings: Mapping[str, str]
    covered: Dates = NONE
    inputs: Mapping[str, Input] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    horizon: int | None = None
    schema: str = ""
    version: int | None = None
    expired: int | None = None

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
            "schema": self.schema,
            "version": self.version,
            "expired": self.expired,
            "inputs": {
                _near(path, home): [
                    each.size,
                    each.modified_ms,
                    each.digest,
                    each.bounds,
                    each.counted.json(),
                    each.arrived,
                ]
                for path, each in self.inputs.items()
            },
        }

    @staticmethod
    def from_json(value: Mapping[str, Any], home: Path) -> Record:
        """What `json` gave, in the folder where the job file is now."""
        return Record(
            settings=value["settings"],
            covered=Dates.from_json(value["covered"]),
            late=late_of(value, home),
            horizon=value["horizon"],
            schema=value["schema"],
            version=value["version"],
            expired=value.get("expired"),
            inputs={
                _far(path, home): Input(
                    size,
                    modified_ms,
                    digest,
                    None if bounds is None else tuple(bounds),
                    Dates.from_json(counted),
                    None if arrived is None else tuple(arrived),
                )
                for path, (
                    size,
                    modified_ms,
                    digest,
                    bounds,
                    counted,
                    arrived,
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
        schema: str,
        version: int | None,
        settings: Mapping[str, str],
        expired: int | None,
    ) -> Record:
        """This record after a run that counted these inputs on these dates.

        Applied anew to the newest record where another run has published in between; so it says
        only what this run did. Inputs that are gone, and have no counted date besides, are left
        out.
        """
        seen = {
            path: replace(each, counted=on | self._counted(path)) for path, each in inputs.items()
        }
        gone = {
            path: replace(each, counted=each.counted - on)
            for path, each in self.inputs.items()
            if path not in inputs
        }
        return replace(
            self,
            covered=self.covered | covered,
            inputs={**{path: each for path, each in gone.items() if each.counted}, **seen},
            late=tuple(dict.fromkeys([*self.late, *late])),
            horizon=horizon,
            schema=schema,
            version=version,
            settings=settings,
            expired=max(
                (each for each in (self.expired, expired) if each is not None), default=None
            ),
        )

    def _counted(self, path: str) -> Dates:
        return self.inputs[path].counted if path in self.inputs else Dates()


def late_of(value: Mapping[str, Any], home: Path) -> tuple[str, ...]:
    """The late inputs of what `Record.json` gave; none in what others recorded."""
    return tuple(_far(path, home) for path in value.get("late", ()))


def _near(path: str, home: Path) -> str:
    below = f"{home}/"
    return f"./{path.removeprefix(below)}" if path.startswith(below) else path


def _far(path: str, home: Path) -> str:
    return f"{home}/{path.removeprefix('./')}" if path.startswith("./") else path
