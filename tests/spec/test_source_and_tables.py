"""Tables are not written where events are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.errors import JobFileError
from backfill.spec import JobSpec

pytestmark = pytest.mark.one_lane


@pytest.mark.parametrize(
    ("path", "tables", "meets"),
    [
        ("*", "out", True),
        # Hidden files are not read.
        ("*", "_out", False),
        ("*", ".out", False),
        ("out", "out", True),
        ("out/daily", "out", False),
        ("out/sessions/x", "out", True),
        ("file:{}/data", "data/out", True),
        ("{}/[^d]*", "data", False),
    ],
)
def test_tables_beside_their_source(tmp_path: Path, path: str, tables: str, meets: bool) -> None:
    text = f"source: {{path: '{path.replace('{}', str(tmp_path))}', format: json}}\n"
    text += "events: {key: user, time: at}\ntables: {path: TABLES}\n"
    text += "windows: {sessions: {session: {gap: 30m}, aggregates: {n: count}}}\n"
    job = tmp_path / "job.yaml"
    job.write_text(text.replace("TABLES", tables))
    if meets:
        with pytest.raises(JobFileError, match=r"tables.path: the tables would be written into"):
            JobSpec.load(job)
    else:
        assert JobSpec.load(job)
    # The tables of a catalog are in no folder of the job.
    job.write_text(text.replace("path: TABLES", "catalog: lake, schema: web"))
    assert JobSpec.load(job)
