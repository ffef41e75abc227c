"""Reads what the engines wrote, and their input as events of the replay."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
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
#: The fixed selection of random cases, a file for each engine.
RANDOM = FOLDER / "random"
MS = 1_000

#: Fixtures that the replay does not reproduce, and why.
NOT_MODELLED = {
    **dict.fromkeys(
        ("beam/before-epoch-hopping", "beam/before-epoch-tumbling"),
        "Beam cuts aligned windows with a remainder that is negative before the epoch, so events "
        "more than an advance before it are in windows that begin after them",
    ),
}


Row = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """What an engine made of some events: one fixture, or a random case.

    Attributes:
        name: of its folder; for a random case, the engine's name and a number.
        settings: what it ran with.
        files: the rows of each file.
        failed: what the engine said if it failed.
    """

    name: str
    settings: Mapping[str, Any]
    files: Mapping[str, list[Row]]
    failed: str | None = None

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
                    size=fields["size"], distinct=self.settings["engine"] == "kafka-streams"
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

    @property
    def restarts(self) -> list[int]:
        """The first arrival after each restart."""
        given = self.settings.get("restart_before_arrival", [])
        return given if isinstance(given, list) else [given]

    def us(self, setting: str) -> int:
        """A duration; `fixed` takes a fraction of a second only in the form of ISO 8601."""
        text = self.settings[setting]
        return fixed(f"PT{text.upper()}" if "." in text else text, field=setting).us

    def rows(self, file: str) -> list[Row]:
        return self.files[file]

    def has(self, file: str) -> bool:
        return file in self.files

    def input(self) -> Sequence[Mapping[str, Any]]:
        """The events as rows, in order of arrival."""
        events = self.settings["events"]
        return _input(events) if isinstance(events, str) else events

    def events(self) -> list[Event]:
        """The input by arrival, all of one partition."""
        return [event(row, arrival=row["arrival"]) for row in self.input()]


def event(row: Mapping[str, Any], **more: Any) -> Event:
    value = None if row.get("empty") else {"amount": row["amount"]}
    return Event(key=row["key"], time=row["time"] * MS, value=value, **more)


class _Folder(Mapping[str, list[Row]]):
    """The files of a folder, read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._paths = {
            path.name.removesuffix(".jsonl.gz"): path for path in folder.glob("*.jsonl.gz")
        }

    def __getitem__(self, file: str) -> list[Row]:
        with gzip.open(self._paths[file], "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def __contains__(self, file: object) -> bool:
        return file in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def all_recordings() -> list[Recording]:
    return [
        Recording(
            f"{folder.parent.name}/{folder.name}",
            json.loads((folder / "settings.json").read_text(encoding="utf-8")),
            _Folder(folder),
        )
        for folder in sorted(path.parent for path in FOLDER.glob("*/*/settings.json"))
    ]


def recordings(runner: str) -> list[Recording]:
    """The fixtures of one `runner` in settings.json, without those that are not modelled."""
    return [
        recording
        for recording in all_recordings()
        if recording.settings["runner"] == runner and recording.name not in NOT_MODELLED
    ]


def random_recordings(file: Path) -> list[Recording]:
    """What an engine made of random cases, one on each line."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    engine = file.name.removesuffix(".jsonl.gz")
    return [
        Recording(f"{engine} {place}", case["settings"], case.get("files", {}), case.get("failed"))
        for place, case in enumerate(cases)
    ]


@cache
def _input(file: str) -> tuple[Mapping[str, Any], ...]:
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)
