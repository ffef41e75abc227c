"""`backfill stream`, from the command line to the files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Call

pytestmark = pytest.mark.usefixtures("interpreted")

JOB = """\
source: {path: events.json, format: json}
events: {key: [], time: at, time_format: iso}
windows:
  sessions: {session: {gap: 30m}, aggregates: {n: count, last: last(page)}}
tables: {path: out}
"""


@pytest.mark.slow
def test_stream_and_go_on(call: Call, tmp_path: Path) -> None:
    """A stream of one file, without a key; then again, with nothing new."""
    (tmp_path / "job.yaml").write_text(JOB)
    seen = [("10:00", "/a"), ("10:30", "/b"), ("12:00", "/c")]
    lines = [json.dumps({"at": f"2026-03-01T{at}:00Z", "page": page}) for at, page in seen]
    (tmp_path / "events.json").write_text("\n".join([*lines, "{"]))
    to = tmp_path / "stream"
    command = ["stream", tmp_path / "job.yaml", "--to", to, "--watermark-delay", "10m"]
    answer = call(*command, "--json")
    assert answer.code == 0, answer.err
    assert answer.document == {
        "ok": True,
        "windows": {
            "sessions": {
                "read": 4,
                "unusable": 1,
                "rows": 1,
                "batches": 2,
                "watermark": "2026-03-01T11:50:00.000000Z",
                "path": str(to / "sessions"),
            }
        },
    }
    assert "sessions: batch 1: 0 rows read, 1 windows written" in answer.err
    [row] = pq.read_table(to / "sessions").to_pylist()
    assert list(row) == ["window_start", "window_end", "n", "last"]
    assert row["window_start"].isoformat() == "2026-03-01T10:00:00+00:00"
    assert row["window_end"].isoformat() == "2026-03-01T11:00:00+00:00"
    assert (row["n"], row["last"]) == (2, "/b")

    again = call(*command)
    assert again.code == 0
    words = again.out.split()
    assert words[words.index("sessions") :][:7] == ["sessions", "0", "0", "0", "0", "no", "batch"]
    changed = call(*command[:-1], "1h", "--json")
    assert changed.code == 2
    assert "stream.watermark_delay (was 10m)" in changed.document["error"]["message"]


def test_what_can_not_be_streamed(call: Call, job: Path, tmp_path: Path) -> None:
    answer = call("stream", job, "--to", tmp_path / "stream")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(
        "windows.daily: Structured Streaming does not support calendar windows"
    )
    assert "Missing option '--to'" in call("stream", job).err
