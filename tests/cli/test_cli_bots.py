"""A job with rules for bots: what is quarantined, reported, followed by later runs, and refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from backfill.spec import JobSpec
from tests.cli.conftest import Call

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """\
source: {path: events, format: json, schema: "id string, user string, at string, agent string"}
events:
  key: user
  time: at
  time_format: iso
  timezone: Europe/Oslo
  id: id
  bots:
    gap: 30m
    rules:
      - {name: crawler, where: "agent RLIKE '(?i)bot'", remove: day}
      - {name: too_many, events: 3}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count}}
  daily: {tumbling: {size: 1 day}, aggregates: {n: count}}
tables: {path: out}
checks: {builtin: {quarantined_share: 0.2}}
"""


def _event(id: str, user: str | None, at: str, agent: str = "Firefox") -> dict[str, Any]:
    return {"id": id, "user": user, "at": f"2026-03-{at}Z", "agent": agent}


#: In Oslo, where the 29th has 23 hours: a crawler on the 29th, whose session begins on the 28th.
EVENTS = [
    _event("1", "a", "28T22:50:00", "Googlebot"),
    _event("2", "a", "28T23:10:00"),
    _event("3", "a", "29T12:00:00"),
    _event("4", "a", "29T22:10:00"),
    *[_event(str(n), "b", f"29T10:0{n}:00") for n in (1, 2, 3)],
    _event("3", "b", "29T10:03:00"),
    _event("5", None, "29T10:00:00"),
]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    (tmp_path / "job.yaml").write_text(JOB)
    _write(tmp_path / "job.yaml", "0", EVENTS)
    return tmp_path / "job.yaml"


def _write(job: Path, name: str, events: list[dict[str, Any]]) -> None:
    lines = "\n".join(json.dumps(event) for event in events)
    (job.parent / "events" / f"{name}.json").write_text(lines)


def _shown(call: Call, job: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = call("show", job, table, "--json").document["rows"]
    return sorted(tuple(row[column] for column in columns) for row in rows)


def _quarantined(job: Path) -> Counter[tuple[str, str, str]]:
    rows = DeltaTable(job.parent / "out/quarantine").to_pyarrow_table().to_pylist()
    pairs = [(row["reason"], json.loads(row["raw"])) for row in rows]
    return Counter((reason, raw["user"], raw["id"]) for reason, raw in pairs)


@pytest.mark.slow
def test_bots_are_quarantined_by_name_and_come_back(call: Call, job: Path) -> None:
    first = call("run", job, "--json").document
    counts = ("read", "accepted", "duplicates", "quarantined")
    # Three events of one key and two dates, which no window of any kind holds.
    assert [first[name] for name in counts] == [9, 4, 1, {"crawler": 3, "no_key": 1}]
    assert _shown(call, job, "sessions", "user", "n") == [("a", 1), ("b", 3)]
    assert _shown(call, job, "daily", "user", "n") == [("a", 1), ("b", 3)]
    crawled = Counter({("crawler", "a", id): 1 for id in "123"})
    assert _quarantined(job) == crawled + Counter([("no_key", None, "5")])
    assert call("validate", job).code == 0

    # A late event, its fourth one, makes b a bot, and no other key.
    _write(job, "1", [_event("4", "b", "29T10:20:00"), _event("6", "c", "30T10:00:00")])
    second = call("run", job, "--json").document
    assert second["quarantined"] == {"too_many": 5, "crawler": 3, "no_key": 1}
    assert second["read"] == second["accepted"] + second["duplicates"] + 9
    assert _shown(call, job, "daily", "user", "n") == [("a", 1), ("c", 1)]
    changed = call("changes", job, "sessions", "--json").document["counts"]
    # The session of b goes, that of c comes, and that of a is no longer open.
    kinds = {name: n for name, n in changed.items() if n}
    assert kinds == {"deleted": 1, "inserted": 1, "updated": 1}

    # Without the event that made a crawler of a, the events of its days are people's again.
    _write(job, "0", EVENTS[1:])
    call("run", job, "--json")
    assert ("a", 3) in [(row[0], row[1]) for row in _totals(call, job)]
    assert {reason for reason, *_ in _quarantined(job)} == {"too_many", "no_key"}


def _totals(call: Call, job: Path) -> list[tuple[Any, ...]]:
    totals: Counter[str] = Counter()
    for user, n in _shown(call, job, "daily", "user", "n"):
        totals[user] += n
    return sorted(totals.items())


@pytest.mark.slow
def test_late_events_and_dates_by_themselves(call: Call, job: Path) -> None:
    first = call("run", job, "--missing", "--json").document
    assert first["quarantined"] == {"crawler": 3, "no_key": 1}
    # A late event, its fourth one, makes b a bot, and no other key.
    _write(job, "1", [_event("4", "b", "29T10:20:00"), _event("6", "c", "30T10:00:00")])
    plan = call("plan", job, "--recompute", "--json").document["stages"][0]
    # Four rows of b leave, with a copy among them, and one of c comes.
    assert plan["late"][0]["events"] == 5
    assert plan["late"][0]["bots"] == {"late": 1, "became": 4, "ceased": 0}

    second = call("recompute", job, "--json").document
    counts = ("read", "accepted", "duplicates", "quarantined")
    assert [second[name] for name in counts] == [2, 1, 0, {"too_many": 1}]
    crawled = Counter({("crawler", "a", id): 1 for id in "123"})
    many = Counter({("too_many", "b", "3"): 2} | {("too_many", "b", id): 1 for id in "124"})
    assert _quarantined(job) == crawled + many + Counter([("no_key", None, "5")])
    assert _shown(call, job, "daily", "user", "n") == [("a", 1), ("c", 1)]
    changed = call("changes", job, "sessions", "--json").document["counts"]
    kinds = {name: n for name, n in changed.items() if n}
    assert kinds == {"deleted": 1, "inserted": 1, "updated": 1}
    assert call("validate", job).code == 0

    # After midnight in Oslo, so on the next day, in a session that began the day before.
    _write(job, "2", [_event("7", "c", "30T21:50:00"), _event("8", "c", "30T22:10:00", "bot")])
    call("run", job, "--date", "2026-03-30")
    plan = call("plan", job, "--date", "2026-03-31", "--json").document
    assert plan["stages"][0]["judged"] == [{"from": "2026-03-30", "to": "2026-03-31"}]
    third = call("run", job, "--date", "2026-03-31", "--json").document
    assert third["quarantined"]["crawler"] == 3
    assert _shown(call, job, "daily", "user", "n") == [("a", 1)]
    assert _quarantined(job)[("crawler", "c", "7")] == 1


def test_what_a_stream_cannot_judge_is_refused(call: Call, job: Path) -> None:
    first = call("run", job)
    assert first.code == 0, first.out
    for command in (
        ("stream", job, "--to", job.parent / "streamed"),
        ("reconcile", job, "daily", "--stream", job.parent / "streamed", "--format", "table"),
    ):
        answer = call(*command)
        assert answer.code == 2, command
        assert "events.bots: rules for bots look at events that come later" in answer.err
        assert "backfill run JOB" in answer.err


def test_other_rules_make_the_tables_stale(call: Call, job: Path) -> None:
    assert call("run", job).code == 0
    job.write_text(JOB.replace("events: 3", "events: 2"))
    answer = call("validate", job)
    assert answer.code == 2
    assert "events.bots (was gap=30m: crawler(" in answer.err
    assert call("run", job, "--json").document["quarantined"]["too_many"] == 4


def test_a_source_of_bots_only(call: Call, job: Path) -> None:
    _write(job, "0", EVENTS[:2])
    answer = call("run", job)
    assert answer.code == 2
    assert "none of its 2 rows are usable (crawler: 2)" in answer.err


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{name: no_key, events: 3}", "is already a reason for quarantining rows"),
        ("{name: x, events: 0}", "must be a whole number of events"),
        ("{name: x, events: 3, no_pause_longer_than: 2}", "no_pause_longer_than"),
        ("{name: crawler, events: 3}", "is the name of two rules"),
    ],
)
def test_rules_are_checked_with_the_job_file(job: Path, rule: str, problem: str) -> None:
    job.write_text(JOB.replace("{name: too_many, events: 3}", rule))
    with pytest.raises(ValueError, match=problem) as error:
        JobSpec.load(job)
    assert "events.bots" in str(error.value)
