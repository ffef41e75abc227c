"""What a record keeps of inputs, and who made a commit; no Spark."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill.errors import TableError
from backfill.ledger.author import author
from backfill.ledger.record import Input, Record, counted_beyond
from backfill.ledger.state import QUARANTINE
from backfill.planning.late import unseen_inputs
from backfill.time.dates import ALL, NONE, Dates

pytestmark = pytest.mark.one_lane

DAY_US = 86_400_000_000
FIRST = dt.date(1970, 1, 1)


def days(low: int, high: int) -> Dates:
    return Dates.between(FIRST + dt.timedelta(days=low), FIRST + dt.timedelta(days=high))


def file(low: int, high: int, counted: Dates = ALL, digest: str = "a") -> Input:
    """An input with events from one day to another."""
    return Input(1, 0, digest, (low * DAY_US, high * DAY_US), counted)


def after(newest: Record, known: Record | None, inputs: dict[str, Input], **run: Any) -> Record:
    given: dict[str, Any] = {"on": ALL, "covered": NONE, **run}
    return newest.with_counted(
        inputs,
        late=(),
        horizon=0,
        bounds=None,
        schema="",
        version=None,
        settings={},
        expired=None,
        bots=None,
        zone="UTC",
        known=known,
        **given,
    )


def test_a_form_that_is_not_known_is_refused(tmp_path: Path) -> None:
    written = Record(settings={}, inputs={"/a": file(0, 1)}).json(tmp_path)
    assert Record.from_json(written, tmp_path).inputs == {"/a": file(0, 1)}
    for other in ({**written, "form": 2}, {}):
        with pytest.raises(TableError, match="is recorded in another form"):
            Record.from_json(other, tmp_path)


def test_only_inputs_that_a_run_knew_can_be_gone() -> None:
    known = Record(settings={}, inputs={"/a": file(0, 1), "/b": file(0, 1)})
    newest = Record(settings={}, inputs={**known.inputs, "/x": file(3, 3)})
    record = after(newest, known, {"/a": file(0, 1), "/late": file(0, 0)})
    assert record.inputs == {"/a": file(0, 1), "/late": file(0, 0), "/x": file(3, 3)}


def test_what_counts_beyond_covered_dates() -> None:
    before = Record(settings={}, inputs={"/a": file(0, 9, days(0, 5))})
    more = {
        "/a": file(0, 9, days(0, 6)),
        "/new": file(4, 5),
        "/within": file(4, 4),
        "/changed/": file(5, 9),
    }
    later = Record(settings={}, inputs=more)
    assert counted_beyond(later, before, days(0, 5), "UTC") == ["/a", "/new"]
    assert counted_beyond(later, before, days(0, 6), "UTC") == []
    other = Record(settings={}, inputs={"/a": file(0, 9, days(0, 5), "b")})
    assert counted_beyond(other, before, days(0, 4), "UTC") == ["/a"]
    assert counted_beyond(other, before, days(0, 5), "UTC") == []


def test_who_has_no_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert author() == str(2**31 - 7)


def test_a_file_without_a_digest_that_was_written_again_is_not_seen() -> None:
    """As with files of an object store, which are then searched for unusable rows again."""
    old, new = (Input(size, size, None, None) for size in (100, 250))
    state = SimpleNamespace(record=Record(settings={}, inputs={"s3://b/a": old, "s3://b/b": old}))
    context: Any = SimpleNamespace(
        tables={QUARANTINE: state}, inputs={"s3://b/a": new, "s3://b/b": old, "s3://b/c": new}
    )
    assert unseen_inputs(context) == ("s3://b/a", "s3://b/c")
