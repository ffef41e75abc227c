"""Windowed keys of Kafka Streams, as bytes."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.errors import ReplayError
from backfill.replay.windowed_keys import (
    Form,
    WindowedKey,
    decode_windowed_key,
    encode_windowed_key,
)
from backfill.windows import SessionWindow
from tests.engines.test_recorded_kafka import BROKER

FORMS = get_args(Form)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1).map(lambda ms: ms * 1_000)


@pytest.mark.parametrize("form", FORMS)
@given(st.binary(max_size=20), TIMES, TIMES, st.integers(-(1 << 31), (1 << 31) - 1))
def test_what_is_written_is_read(
    form: Form, key: bytes, start: int, end: int, sequence: int
) -> None:
    sessions, counted = form.startswith("session"), form != "window"
    windowed = (
        WindowedKey(key, start, end)
        if sessions
        else WindowedKey(key, start, None, sequence if counted else 0)
    )
    assert decode_windowed_key(encode_windowed_key(windowed, form), form) == windowed


#: By hand, from the layouts: key "k", start 1 ms, end 2 ms, sequence 3.
KNOWN = {
    "session": "6b" + "0000000000000002" + "0000000000000001",
    "session-by-time": "00" + "0000000000000002" + "0000000000000001" + "6b",
    "session-by-key": "01" + "6b" + "0000000000000002" + "0000000000000001",
    "window": "6b" + "0000000000000001",
    "window-changelog": "6b" + "0000000000000001" + "00000003",
    "window-by-time": "00" + "0000000000000001" + "6b" + "00000003",
    "window-by-key": "01" + "6b" + "0000000000000001" + "00000003",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_layouts(form: Form) -> None:
    windowed = WindowedKey(b"k", 1_000, 2_000 if form.startswith("session") else None, 3)
    assert encode_windowed_key(windowed, form).hex() == KNOWN[form]
    for cut in (0, 5):
        with pytest.raises(ReplayError, match="not the bytes of a windowed key"):
            decode_windowed_key(bytes.fromhex(KNOWN[form])[:cut], form)


@pytest.mark.parametrize("recording", BROKER, ids=lambda recording: recording.name)
def test_what_the_broker_wrote(recording) -> None:
    sessions = isinstance(recording.window, SessionWindow)
    forms: dict[str, Form] = {
        "output": "session" if sessions else "window",
        "changelog": "session" if sessions else "window-changelog",
    }
    keys = {row["key"].encode() for row in recording.input() if row["key"] is not None}
    for file, form in forms.items():
        rows = recording.rows(file)
        assert rows
        for row in rows:
            data = bytes.fromhex(row["key"])
            windowed = decode_windowed_key(data, form)
            assert windowed.key in keys
            assert windowed.start % 1_000 == 0
            assert encode_windowed_key(windowed, form) == data


def test_what_cannot_be_written() -> None:
    with pytest.raises(ReplayError, match=r"start: must be whole milliseconds.*got 1500"):
        encode_windowed_key(WindowedKey(b"", 1_500), "window")
    with pytest.raises(ReplayError, match=r"sequence: must fit 32 bits \(got 2147483648"):
        encode_windowed_key(WindowedKey(b"", 0, None, 1 << 31), "window-changelog")
    with pytest.raises(ReplayError, match="end: a session must have an end"):
        encode_windowed_key(WindowedKey(b"", 0), "session")
    with pytest.raises(ReplayError, match="Did you mean 'session'"):
        decode_windowed_key(b"", "sessions")  # type: ignore[arg-type]
