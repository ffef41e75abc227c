"""What goes to the logger `backfill`: progress that no caller takes, and no secrets."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from backfill import Job
from backfill.errors import BackfillError
from backfill.progress import log_progress

JOB = """\
source: {path: missing, format: parquet}
events: {key: user, time: at}
windows: {hourly: {tumbling: {size: 1h}, aggregates: {n: count}}}
tables: {path: out}
"""


def test_nothing_is_printed_by_default() -> None:
    code = (
        "import logging, backfill\n"
        "logger = logging.getLogger('backfill')\n"
        "assert [type(each) for each in logger.handlers] == [logging.NullHandler]\n"
        "logger.info('a'); logger.error('b')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        ("2 events", "2 events"),
        ("a\nb\x1b", "a\\nb\\x1b"),
        ("opening s3a://KEY:sec/ret@lake/events", "opening s3a://***@lake/events"),
        ("opening abfss://box@lake.net/a:b", "opening abfss://box@lake.net/a:b"),
        ("opening 100% of C:\\events", "opening 100% of C:\\events"),
    ],
)
def test_a_message_is_one_line_without_credentials(
    message: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "backfill"):
        log_progress(message)
    (record,) = caplog.records
    assert (record.name, record.levelno, record.getMessage()) == ("backfill", logging.INFO, logged)


def test_progress_is_logged_unless_the_caller_takes_it(
    spark: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    loaded = Job.load(tmp_path / "job.yaml")
    given: list[str] = []
    with caplog.at_level(logging.INFO, "backfill"):
        with pytest.raises(BackfillError):
            loaded.run(progress=given.append)
        assert caplog.messages == []
        with pytest.raises(BackfillError):
            loaded.run()
    assert caplog.messages == given == [f"opening {tmp_path / 'missing'}"]
