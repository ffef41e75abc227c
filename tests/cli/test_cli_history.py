"""What runs changed, which runs there were, going back, and cleaning: as typed and as printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill.ledger.changes import KINDS
from tests.cli.conftest import HOSTILE, Call
from tests.published_job import Published

pytestmark = pytest.mark.usefixtures("interpreted")

SESSIONS = [
    ("a", 28, "22:30", "22:40", 2),
    ("a", 28, "23:30", "23:30", 1),
    (HOSTILE, 28, "12:00", "12:00", 1),
]
LATE = [("a", 28, "22:15", "23:30", 4), (HOSTILE, 28, "12:00", "12:00", 2)]
FACTS = {"kind": "recompute", "user": "me", "read": 9_000, "late": 2, "rows": 2, "changed": 3}


@pytest.fixture(scope="module")
def published(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Published:
    job = Published(tmp_path_factory.mktemp("history"), spark)
    job.run("r1", SESSIONS, kind="run", user="me")
    job.run("r1", SESSIONS, name="daily", kind="run", user="me")
    job.run("r2", LATE, days=[28], **{**FACTS, "from": "2026-03-28", "to": "2026-03-29"})
    return job


def test_changes_as_json(call: Call, published: Published) -> None:
    answer = call("changes", published.path, "sessions", "--json")
    assert (answer.code, answer.err) == (0, "")
    document = answer.document
    assert document["window"] == "sessions"
    assert document["counts"] == {**dict.fromkeys(KINDS, 0), "merged": 2, "updated": 1}
    assert document["more"] is False
    hostile, first, second = document["changes"]
    assert hostile["key"] == {"user": HOSTILE}
    assert hostile["changed"] == ["n", "pages"]
    assert first == {
        "change": "merged",
        "key": {"user": "a"},
        "old": {
            "session_id": "a 28 22:30",
            "window_start": "2026-03-28T22:30:00.000000Z",
            "window_end": "2026-03-28T22:40:00.000000Z",
            "n": 2,
            "pages": ["/", "/"],
            "is_open": False,
        },
        "new": {
            "session_id": "a 28 22:15",
            "window_start": "2026-03-28T22:15:00.000000Z",
            "window_end": "2026-03-28T23:30:00.000000Z",
            "n": 4,
            "pages": ["/"] * 4,
            "is_open": False,
        },
        "changed": ["session_id", "window_start", "window_end", "n", "pages"],
    }
    assert second["old"]["session_id"] == "a 28 23:30"


def test_changes_for_people(call: Call, published: Published) -> None:
    answer = call("changes", published.path, "sessions")
    assert answer.code == 0
    assert answer.out.split()[:9] == [
        *("change", "user", "session_id", "window_start", "window_end"),
        *("n", "pages", "is_open", answer.out.split()[8]),
    ]
    assert "2026-03-28 23:30:00+01:00 -> 2026-03-28 23:15:00+01:00" in answer.out
    assert "2 -> 4" in answer.out
    assert "1 updated, 2 merged; times in Europe/Oslo\n" in answer.out
    assert not {"\x1b", "\u202e"} & set(answer.out)
    short = call("changes", published.path, "sessions", "--limit", "1").out
    assert "1 updated, 2 merged; times in Europe/Oslo; there are more (--limit 1)" in short
    assert "-> 4" not in short


def test_changes_since_a_run(call: Call, published: Published) -> None:
    arguments = ("changes", published.path, "sessions", "--since")
    all_of_it = call(*arguments, "r1", "--json").document
    assert all_of_it["counts"] == {**dict.fromkeys(KINDS, 0), "inserted": 2}
    assert [row["old"] for row in all_of_it["changes"]] == [None, None]
    people = call(*arguments, "r1").out
    assert " -> " not in people
    unknown = call(*arguments, "r22")
    assert (unknown.code, unknown.out) == (2, "")
    assert "run: no run with this id" in unknown.err
    assert "Did you mean" in unknown.err
    assert "Did you mean 'sessions'?" in call("changes", published.path, "session").err


def test_history(call: Call, published: Published) -> None:
    answer = call("history", published.path, "--json")
    assert (answer.code, answer.err) == (0, "")
    last, first = answer.document["runs"]
    assert (last["run_id"], first["run_id"]) == ("r2", "r1")
    assert (last["from"], last["read"], last["duplicates"]) == ("2026-03-28", 9000, None)
    assert last["tables"] == {"sessions": {"version": 1, "rows": 2, "changed": 3}}
    assert last["time"].endswith("Z")
    assert len(last["time"]) == len("2026-03-28T22:30:00.000000Z")
    people = call("history", published.path).out
    [row] = [line.split("  ") for line in people.splitlines() if "recompute" in line]
    cells = [text.strip() for text in row if text.strip()]
    assert cells[1:] == [
        *("me", "r2", "-", "recompute", "2026-03-28 to 2026-03-29", "sessions 1"),
        *("2", "9,000", "2", "-", "-", "3"),
    ]
    assert "sessions 0, daily 0" in people
    assert "\n2 runs, times in Europe/Oslo\n" in people


def test_nothing_is_published_yet(call: Call, published: Published, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(published.path.read_text())
    assert call("history", path, "--json").document == {"ok": True, "runs": []}
    assert f"Run: backfill run {path}" in call("history", path).out
    for verb in (["changes", path, "sessions"], ["restore", path, "--run", "r1"]):
        answer = call(*verb)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
    tables = call("clean", path, "--json").document["tables"]
    assert tables["sessions"] == {
        **{"staged": 0, "files": 0, "records": 0, "size": 0},
        "compacted": None,
    }


def test_going_back_and_cleaning(call: Call, spark: SparkSession, tmp_path: Path) -> None:
    job = Published(tmp_path, spark)
    job.run("r1", SESSIONS)
    job.run("r2", [("c", 28, "10:00", "10:00", 1)], days=[])
    done = call("restore", job.path, "--run", "r1", "--json").document
    assert done["tables"] == {"sessions": {"restored": 0, "version": 2}}
    assert (done["run"], done["untouched"]) == ("r1", ["daily", "quarantine"])
    [run, *_] = call("history", job.path, "--json").document["runs"]
    assert (run["run_id"], run["kind"]) == (done["run_id"], "restore")
    people = call("restore", job.path, "--run", "r2")
    assert people.code == 0
    assert ["sessions", "1", "3"] in [line.split() for line in people.out.splitlines()]
    assert "published nothing to daily, quarantine: left unchanged" in people.err
    cleaned = call("clean", job.path, "--older-than", "1h")
    assert cleaned.code == 0
    assert [*("sessions", "0", "0", "0", "0"), *("in", "version", "4")] in [
        line.split() for line in cleaned.out.splitlines()
    ]
    assert "\n1 inserted; times in" in call("changes", job.path, "sessions").out
    job.run("r3", [], days=[])
    assert call("changes", job.path, "sessions").out == "Nothing changed; times in Europe/Oslo\n"
    wrong = call("clean", job.path, "--older-than", "24")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "not a duration" in wrong.err
