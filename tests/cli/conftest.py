"""A small job, run once, for what the verbs show of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill.cli import main
from backfill.quality.gx import load

HOSTILE = "[red]x[/red]\x1b[31m\u202e[/]" + "y" * 100

JOB = """\
source: {path: events.json, format: json}
events: {key: [shop, user], time: at, time_format: iso, timezone: Europe/Oslo, id: id}
windows:
  sessions:
    session: {gap: 30m}
    aggregates: {n: count, total: sum(amount), pages: collect_list(page), top: max(amount)}
  daily: {tumbling: {size: 1 day}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: {quarantined_share: off}}
"""


def event(number: int, user: str | None, at: str | None, **other: Any) -> dict[str, Any]:
    shop = other.pop("shop", 1)
    return {"id": str(number), "shop": shop, "user": user, "at": at, "amount": 1.5, **other}


EVENTS = [
    event(1, "a", "2026-03-28T22:30:00Z", page="/"),
    event(1, "a", "2026-03-28T22:30:00Z", page="/"),
    event(2, "a", "2026-03-28T22:40:00Z", page=HOSTILE, amount=2.25),
    event(3, "a", "2026-03-28T23:30:00Z", page="/end"),
    event(4, HOSTILE, "2026-03-29T12:00:00Z", page=None, amount=1e300),
    event(5, "a", "2026-03-29T12:00:00Z", shop=2),
    event(6, None, "2026-03-29T12:00:00Z", shop=None),
    event(7, "a", None),
    event(8, "a", "soon"),
]


@dataclass(frozen=True)
class Answer:
    """The result of a command line."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        content: dict[str, Any] = json.loads(self.out)
        assert next(iter(content)) == "ok"
        return content


Call = Callable[..., Answer]


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """Loads Great Expectations, which a command would load beside pytest's warning filters."""
    load()


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job file whose tables are published."""
    folder = tmp_path_factory.mktemp("cli")
    lines = (json.dumps(visit) for visit in EVENTS)
    (folder / "events.json").write_text("\n".join(lines), encoding="utf-8")
    path = folder / "job.yaml"
    path.write_text(JOB)
    assert main(["run", str(path)]) == 0
    return path
