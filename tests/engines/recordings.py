"""Reads what the engines wrote, and their input as events of the replay."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from backfill import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill.replay import Event
from backfill.time.durations import fixed
from backfill.windows import EventWindow, Window

FOLDER = Path(__file__).parent / "recorded"
MS = 1_000

#: Fixtures that the replay does not give, and why.
NOT_MODELLED = {
    **dict.fromkeys(
        ("beam/before-epoch-hopping", "beam/before-epoch-tumbling"),
        "Beam cuts aligned windows with a remainder that is negative before the epoch, so events "
        "more than an advance before it are in windows that begin after them",
    ),
}


@dataclass(frozen=True)
class Recording:
    """One fixture."""

    folder: Path
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def window(self) -> Window | EventWindow:
        ((kind, fields),) = self.settings["window"].items()
        match kind:
            case "session":
                return SessionWindow(**fields)
            case "tumbling":
                return TumblingWindow(**fields)
            case "hopping":
                return HoppingWindow(**fields)
            case "cumulating":
                return CumulatingWindow(**fields)
            case "sliding":
                return SlidingWindow(
                    size=fields["size"], distinct=self.folder.parent.name.startswith("kafka")
                )
            case "last":
                return CountWindow(size=fields["rows"], order="time")
            case "count":
                return CountWindow(**fields)
        raise AssertionError(kind)

    @property
    def restart(self) -> int | None:
        """The first arrival after the restart."""
        return self.settings.get("restart_before_arrival")

    def us(self, setting: str) -> int:
        """A duration."""
        return fixed(self.settings[setting], field=setting).us

    def rows(self, file: str) -> list[dict[str, Any]]:
        with gzip.open(self.folder / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def has(self, file: str) -> bool:
        return (self.folder / f"{file}.jsonl.gz").exists()

    def input(self) -> tuple[Mapping[str, Any], ...]:
        return _input(self.settings["events"])

    def events(self) -> list[Event]:
        """The input by arrival, all of one partition."""
        return [event(row, arrival=row["arrival"]) for row in self.input()]


def event(row: Mapping[str, Any], **more: Any) -> Event:
    value = {"amount": row["amount"]}
    return Event(key=row["key"], time=row["time"] * MS, value=value, **more)


def all_recordings() -> list[Recording]:
    return [
        Recording(file.parent, json.loads(file.read_text(encoding="utf-8")))
        for file in sorted(FOLDER.glob("*/*/settings.json"))
    ]


def recordings(runner: str) -> list[Recording]:
    """The fixtures of one `runner` in settings.json, without those that are not modelled."""
    return [
        each
        for each in all_recordings()
        if each.settings["runner"] == runner and each.name not in NOT_MODELLED
    ]


@cache
def _input(file: str) -> tuple[Mapping[str, Any], ...]:
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)
