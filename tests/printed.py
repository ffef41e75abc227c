"""What `backfill plan` prints."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest

from backfill import Job
from backfill.cli import main


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, dict[str, Any]]:
    """One plan as text and as JSON: making it takes far longer than printing it."""
    made: list[Any] = []
    make = Job.plan

    def once(self: Job, *given: Any, **selected: Any) -> Any:
        if not made:
            made.append(make(self, *given, **selected))
        return made[0]

    capsys.readouterr()
    with patch.object(Job, "plan", once):
        assert main(["plan", *arguments]) == 0
        text = capsys.readouterr().out
        assert main(["plan", *arguments, "--json"]) == 0
    return text, json.loads(capsys.readouterr().out)
