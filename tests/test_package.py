"""What a repository and its package have: files, a version, a log, a sentence for each option."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import typer
from hatchling import build

import backfill
from backfill.cli import main
from backfill.cli.app import app

ROOT = Path(__file__).parent.parent


def sources() -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "backfill").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_all_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wheel = tmp_path / build.build_wheel(str(tmp_path))
    assert wheel.name == f"backfill-{backfill.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("backfill/")}
        archive.extractall(tmp_path / "unpacked")
    assert held == sources()
    assert {"backfill/py.typed", "backfill/log4j2.properties", "backfill/cli/job.yaml"} <= held
    done = subprocess.run(
        [sys.executable, "-c", "from backfill.cli import main; main(['--version'])"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"backfill {backfill.__version__}\n"


def test_the_source_distribution_holds_what_is_built_and_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / build.build_sdist(str(tmp_path))
    with tarfile.open(path) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert sources() <= held
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt"} <= held
    assert "tests/test_package.py" in held


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"backfill {backfill.__version__}\n"


def test_every_option_has_a_sentence() -> None:
    commands = typer.main.get_command(app).commands
    assert len(commands) > 10
    for name, command in commands.items():
        assert command.help, name
        for parameter in command.params:
            assert (parameter.help or "").strip(), f"{name} {parameter.name}"
