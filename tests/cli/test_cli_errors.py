"""Every error has an exit code and one line or one document; a stack trace only if asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from backfill.errors import ConservationError
from tests.cli.conftest import Call

CASES = [
    (["show"], "Missing argument 'JOB'"),
    (["shwo"], "No such command 'shwo'"),
    (["run", "missing.yaml"], "missing.yaml: the file does not exist"),
    (["run", "missing.yaml", "--spark", "x"], "missing.yaml: the file does not exist"),
    (["show", "missing.yaml", "sessions"], "missing.yaml: the file does not exist"),
    (["show", "missing.yaml", "sessions", "--limit", "0"], "'--limit'"),
    (["generate", "x", "--events", "many", "--days", "1", "--keys", "1"], "'--events'"),
    (["generate", ".", "--events", "1", "--days", "1", "--keys", "1"], "already exists"),
    (["generate", "/dev/null/x", "--events", "1", "--days", "1", "--keys", "1"], "can't be made"),
]


@pytest.mark.parametrize(("arguments", "expected"), CASES, ids=lambda value: " ".join(value))
def test_errors_are_one_line_or_one_document(
    call: Call, arguments: list[str], expected: str
) -> None:
    plain = call(*arguments)
    assert (plain.code, plain.out) == (2, "")
    assert expected in plain.err
    assert plain.err.count("\n") == 1
    answer = call(*arguments, "--json")
    assert (answer.code, answer.err) == (2, "")
    assert answer.document["ok"] is False
    assert expected in answer.document["error"]["message"]


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr("backfill.spec.JobSpec.load", fail)


def test_unexpected_errors(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(RuntimeError("first\n  at org.apache.spark\n"), monkeypatch)
    short = call("show", "job.yaml", "sessions")
    assert short.code == 2
    assert short.err.startswith("unexpected RuntimeError: first (run again with --verbose")
    assert short.err.count("\n") == 1
    full = call("show", "job.yaml", "sessions", "--verbose")
    assert "Traceback (most recent call last)" in full.err
    assert full.err.endswith("unexpected RuntimeError: first\n")


def test_an_error_that_is_a_result_has_its_own_code(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(ConservationError("lost"), monkeypatch)
    assert call("show", "job.yaml", "sessions").code == 1


def test_interrupted(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    answer = call("show", "job.yaml", "sessions")
    assert (answer.code, answer.out, answer.err) == (130, "", "interrupted\n")
    assert call("show", "job.yaml", "sessions", "--json").document["ok"] is False


def test_all_problems_of_a_job_file_are_shown(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("sauce: {}\nevents: {}\n")
    answer = call("run", path)
    assert answer.code == 2
    assert f"{path}:1: sauce: no such setting. Did you mean 'source'?\n" in answer.err
    assert f"{path}:2: events.key: is missing\n" in answer.err


def test_help_is_quick_since_it_leaves_spark_alone() -> None:
    code = (
        "import sys; from backfill.cli import main; main(['--help']); main(['run', '--help']);"
        "sys.exit(any(name.startswith(('pyspark', 'pyarrow', 'pandas')) for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert [verb in done.stdout for verb in ("init", "run", "show", "generate")] == [True] * 4


def test_a_reader_that_leaves_early_is_no_error(job: Path) -> None:
    code = "import sys; from backfill.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "show", str(job), "sessions"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
