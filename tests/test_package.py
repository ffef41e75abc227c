"""What the repository and its package have: files, a version, a log, a sentence per option."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import typer
from hatchling import build

import backfill
from backfill.cli import main
from backfill.cli.app import app

pytestmark = pytest.mark.one_lane

ROOT = Path(__file__).parent.parent

SENTENCE = re.compile(r"[A-Z].+\.$", re.MULTILINE | re.DOTALL)


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
    assert {"backfill/quality/pages/page.j2", "backfill/reconciliation/report.html.j2"} <= held
    info = tmp_path / "unpacked" / f"backfill-{backfill.__version__}.dist-info"
    assert {path.name for path in info.parent.iterdir()} == {"backfill", info.name}
    assert "backfill = backfill.cli:main" in (info / "entry_points.txt").read_text()
    metadata = message_from_string((info / "METADATA").read_text(encoding="utf-8"))
    assert (metadata["Name"], metadata["Version"]) == ("backfill", backfill.__version__)
    assert str(metadata.get_payload()).startswith("# backfill")

    def printed(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "backfill", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "unpacked")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert printed("--version") == f"backfill {backfill.__version__}\n"
    assert "Usage: backfill" in printed("--help")
    printed("init", "first.yaml")
    written = (tmp_path / "first.yaml").read_text()
    assert written == (ROOT / "backfill" / "cli" / "job.yaml").read_text()


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
    root = typer.main.get_command(app)
    commands = {"backfill": root, **root.commands}
    assert len(commands) > 10
    for name, command in commands.items():
        assert SENTENCE.match(command.help or ""), name
        for parameter in command.params:
            assert SENTENCE.match(parameter.help or ""), f"{name} {parameter.name}"
