"""A key is erased from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Call

pytestmark = pytest.mark.usefixtures("interpreted", "spark")

JOB = """\
source: {path: events.json, format: json}
events: {key: user, time: at, time_format: iso}
windows: {daily: {tumbling: {size: 1 day}, aggregates: {n: count}}}
metrics: {visits: {by: [page], value: count, windows: [1d], step: 1d}}
tables: {path: out}
checks: {builtin: off}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    given = [(HOSTILE, "2026-01-01"), (HOSTILE, "2026-01-02"), ("b", "2026-01-02"), ("b", "soon")]
    lines = (json.dumps({"user": user, "at": at, "page": "/"}) for user, at in given)
    (tmp_path / "events.json").write_text("\n".join(lines))
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


def test_as_text_and_as_json(call: Call, job: Path) -> None:
    before = call("forget", job, "--key", "b")
    assert (before.code, before.out) == (0, "Nothing has been published yet.\n")
    assert call("run", job).code == 0

    answer = call("forget", job, "--key", HOSTILE)
    assert answer.code == 0, answer.err
    assert answer.err.splitlines() == [
        "daily: 2 rows deleted or changed",
        "quarantine: 0 rows deleted or changed",
    ]
    lines = answer.out.splitlines()
    [daily] = [line for line in lines if line.startswith("daily")]
    assert daily.split() == ["daily", "2", "in", "version", "1", "0", "0", "to", "0"]
    [quarantine] = [line for line in lines if line.startswith("quarantine")]
    assert quarantine.split() == ["quarantine", "0", "nothing", "to", "delete", "0"]
    assert "Unchanged, without the key's columns: visits" in lines
    assert "VACUUM" in answer.out
    assert "The source is unchanged" in answer.out

    document = call("forget", job, "--key", "b", "--json").document
    removed = {"staged": 0, "files": 0, "records": 0, "size": 0}
    assert document["tables"] == {
        "daily": {"rows": 1, "version": 2, "removed": removed, "older": [0, 1]},
        "quarantine": {"rows": 1, "version": 1, "removed": removed, "older": [0, 0]},
    }
    assert document["unchanged"] == ["visits"]
    assert "VACUUM" in document["older_versions"]
    assert call("show", job, "daily", "--json").document["rows"] == []
    [latest, *_] = call("history", job, "--json").document["runs"]
    assert latest["kind"] == "forget"
    changed = call("changes", job, "daily", "--json").document["counts"]
    assert changed["deleted"] == 1


def test_what_is_refused(call: Call, job: Path) -> None:
    none = call("forget", job)
    assert none.code == 2
    assert "--key" in none.err
    two = call("forget", job, "--key", "a", "--key", "b", "--json")
    assert two.code == 2
    assert two.document["error"]["message"].startswith(
        "key (--key): 2 given, but the key's columns are: user"
    )
