"""What the verbs do when all is well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backfill.cli.init import TEMPLATE
from backfill.spec import JobSpec
from tests.cli.conftest import HOSTILE, Call

pytestmark = pytest.mark.usefixtures("interpreted")


def test_init_writes_a_valid_file_and_never_over_another(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    assert call("init", path).code == 0
    assert path.read_text() == TEMPLATE.read_text()
    assert "sessions" in JobSpec.load(path).windows
    path.write_text("mine")
    again = call("init", path)
    assert (again.code, path.read_text()) == (2, "mine")
    assert "already exists" in again.err


def test_init_without_a_path(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init", "--json").document == {"ok": True, "path": "job.yaml"}
    assert (tmp_path / "job.yaml").exists()
    assert "No such file" in call("init", tmp_path / "no/job.yaml").err


def test_run_tells_what_it_read_and_published(call: Call, job: Path) -> None:
    answer = call("run", job)
    assert answer.code == 0
    words = [line.split() for line in answer.out.splitlines()]
    assert ["read", "9"] in words
    assert ["accepted", "5"] in words
    assert ["duplicates", "1"] in words
    assert ["quarantined", "3"] in words
    assert ["no_key", "1"] in words
    assert [line[:3] for line in words if line[:1] in (["sessions"], ["daily"])] == [
        ["sessions", "4", "5"],
        ["daily", "4", "5"],
    ]
    assert answer.err != ""


def test_run_as_json(call: Call, job: Path) -> None:
    document = call("run", job, "--json").document
    assert {name: document[name] for name in ("ok", "read", "accepted", "duplicates")} == {
        "ok": True,
        "read": 9,
        "accepted": 5,
        "duplicates": 1,
    }
    assert document["quarantined"] == {"no_key": 1, "no_time": 1, "unreadable_time": 1}
    assert document["horizon"] == "2026-03-29T12:00:00.000000Z"
    assert document["windows"]["sessions"]["rows"] == 4
    assert document["windows"]["sessions"]["table"] == str(job.parent / "out/sessions")


def test_show_as_json(call: Call, job: Path) -> None:
    answer = call("show", job, "sessions", "--key", "1", "--key", "a", "--json")
    assert answer.err == ""
    assert answer.document["more"] is False
    rows = answer.document["rows"]
    assert [row["window_start"] for row in rows] == [
        "2026-03-28T22:30:00.000000Z",
        "2026-03-28T23:30:00.000000Z",
    ]
    assert rows[0]["window_end"] == "2026-03-28T22:40:00.000000Z"
    assert (rows[0]["n"], rows[0]["total"], rows[0]["pages"]) == (2, 3.75, ["/", HOSTILE])
    assert [name for name in rows[0] if name.startswith("_")] == []


def test_hostile_values_are_harmless(call: Call, job: Path) -> None:
    answer = call("show", job, "sessions")
    assert "[red]x[/red]\\x1b[31m\\u202e" in answer.out
    assert answer.out.isascii() or "\u2500" in answer.out
    assert not {"\x1b", "\u202e"} & set(answer.out)
    assert "y" * 50 not in answer.out
    assert all(len(line) < 300 for line in answer.out.splitlines())


def test_times_are_shown_in_the_jobs_zone(call: Call, job: Path) -> None:
    answer = call("show", job, "daily")
    assert "2026-03-29 00:00:00+01:00   2026-03-30 00:00:00+02:00" in answer.out
    assert "times in Europe/Oslo" in answer.out


@pytest.mark.parametrize(
    ("range_", "starts"),
    [
        (["--from", "2026-03-29"], ["28T23:30", "29T12:00", "29T12:00"]),
        (["--to", "2026-03-29"], ["28T22:30"]),
        (["--from", "2026-03-28T23:40", "--to", "2026-03-29T12:00Z"], ["28T22:30", "28T23:30"]),
        (["--from", "2026-03-28T23:40:01+01:00", "--to", "2026-03-29"], []),
        (["--to", "yesterday"], ["28T22:30", "28T23:30", "29T12:00", "29T12:00"]),
        (["--from", "today"], []),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_ranges(call: Call, job: Path, range_: list[str], starts: list[str]) -> None:
    rows = call("show", job, "sessions", "--json", *range_).document["rows"]
    assert [row["window_start"][8:16] for row in rows] == starts


@pytest.mark.parametrize(
    ("option", "starts"),
    [
        (["--at", "2026-03-28T22:35Z"], ["28T22:30"]),
        (["--at", "2026-03-28T22:40:00.000001Z"], []),
        (["--joined-by", "2026-03-28T23:05Z"], ["28T22:30", "28T23:30"]),
        (["--joined-by", "2026-03-28T23:10Z"], ["28T22:30", "28T23:30"]),
        (["--joined-by", "2026-03-28T23:10:00.000001Z"], ["28T23:30"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_by_an_instant(call: Call, job: Path, option: list[str], starts: list[str]) -> None:
    rows = call("show", job, "sessions", "--json", *option).document["rows"]
    assert [row["window_start"][8:16] for row in rows] == starts


def test_what_is_in_the_quarantine(call: Call, job: Path) -> None:
    rows = call("show", job, "quarantine", "--json").document["rows"]
    assert sorted(row["reason"] for row in rows) == ["no_key", "no_time", "unreadable_time"]
    matches = call("show", job, "quarantine", "--key", "no_key", "--json").document["rows"]
    assert matches == [row for row in rows if row["reason"] == "no_key"]
    assert call("show", job, "quarantine", "--limit", "1").out.endswith(
        "\n1 row, times in Europe/Oslo; there are more (--limit 1)\n"
    )


def test_the_largest(call: Call, job: Path) -> None:
    document = call("show", job, "sessions", "--top", "total", "--limit", "2", "--json").document
    assert [row["total"] for row in document["rows"]] == [1e300, 3.75]
    assert document["more"] is True


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sesions"], "Did you mean 'sessions'?"),
        (["sessions", "--key", "1"], "key (--key): 1 given, but the key's columns are: shop, user"),
        (["sessions", "--key", "one", "--key", "a"], "shop: "),
        (["sessions", "--top", "totl"], "Did you mean 'total'?"),
        (["daily", "--joined-by", "2026-03-28"], "only sessions with a gap in time"),
        (
            ["sessions", "--at", "2026-03-28", "--joined-by", "2026-03-28"],
            "--at: can't be combined with --joined-by",
        ),
        (["quarantine", "--joined-by", "2026-03-28"], "--joined-by: applies to windows only"),
        (["sessions", "--from", "31.3.2026"], "--from: not a date or a time"),
        (["sessions", "--from", "2026-02-30"], "--from: not a date or a time"),
        (["sessions", "--from", "2026-03-02", "--to", "2026-03-02"], "--to: must be later"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_questions(call: Call, job: Path, arguments: list[str], expected: str) -> None:
    answer = call("show", job, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert expected in answer.err


def test_nothing_is_published_yet(call: Call, job: Path, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(job.read_text())
    answer = call("show", path, "sessions")
    assert answer.code == 2
    assert f"Run: backfill run {path}" in answer.err


def test_generate(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "events"
    numbers = ["--events", "1_000", "--days", "1", "--keys", "10", "--duplicates", "0.1"]
    written = call("generate", path, *numbers, "--json").document
    assert (written["ok"], written["events"]) == (True, 1000)
    assert written["rows"] > 1000
    assert sorted(path.rglob("*.parquet"))
    again = call("generate", path, *numbers)
    assert (again.code, "already exists" in again.err) == (2, True)


@pytest.mark.one_lane
@pytest.mark.slow
def test_prepare_makes_the_archive_once(call: Call) -> None:
    made = call("prepare", "--json").document
    assert made["ok"]
    path = Path(made["path"])
    assert path.stat().st_size == made["bytes"] > 50_000_000
    before = path.stat().st_mtime_ns
    again = call("prepare")
    assert (again.code, again.out) == (0, f"Nothing to do: {path} exists.\n")
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("setting", ["x", "=x", ""])
def test_settings_for_spark_have_a_form(call: Call, tmp_path: Path, setting: str) -> None:
    numbers = ["--events", "1", "--days", "1", "--keys", "1"]
    answer = call("generate", tmp_path / "x", *numbers, "--spark", setting)
    assert answer.code == 2
    assert "--spark: is not in the form KEY=VALUE" in answer.err


def test_a_setting_without_equals_may_be_a_secret(call: Call, tmp_path: Path) -> None:
    numbers = ["--events", "1", "--days", "1", "--keys", "1", "--json"]
    answer = call("generate", tmp_path / "x", *numbers, "--remote", "sc://127.0.0.1:1")
    assert answer.code == 2
    assert json.loads(answer.out)["error"]["type"] == "SetupError"
