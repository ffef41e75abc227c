"""Windowed keys as Kafka Streams writes them, in topics and in its stores; big-endian.

The layouts are those of Kafka Streams 4.3: `SessionKeySchema`, `WindowKeySchema`, and the prefixed
schemas of the stores ordered by time, with an index by key, that emission on close uses (KIP-825).
"""

from __future__ import annotations

import struct
from typing import Literal, NamedTuple, get_args

from backfill.errors import ReplayError, did_you_mean

Form = Literal[
    "session",
    "session-by-time",
    "session-by-key",
    "window",
    "window-changelog",
    "window-by-time",
    "window-by-key",
]
_FORMS = get_args(Form)
_BY_TIME, _BY_KEY = b"\x00", b"\x01"


class WindowedKey(NamedTuple):
    """A key and its window.

    Attributes:
        key: its bytes.
        start: of the window, µs since the epoch.
        end: of a session, µs; None for a window of time, whose size is not written.
        sequence: of a window of time where copies are kept apart; 0 otherwise.
    """

    key: bytes
    start: int
    end: int | None = None
    sequence: int = 0


def encode_windowed_key(windowed: WindowedKey, form: Form) -> bytes:
    """The bytes of a windowed key.

    Args:
        windowed: what to write; times of whole milliseconds.
        form: `session`: of sessions, in the output topic, the changelog and the store;
            `window`: of windows of time, in the output topic; `window-changelog`: in the changelog
            and the store; `…-by-time`: in a store that is ordered by time; `…-by-key`: in the
            index of one.

    Raises:
        ReplayError: there is no such form, a time is not whole milliseconds, a time or the
            sequence does not fit, or a session has no end.
    """
    _check(form)
    key, start = windowed.key, _millis("start", windowed.start)
    if form.startswith("session"):
        if windowed.end is None:
            raise ReplayError("a session must have an end", field="end", way_out="Give it in µs")
        bounds = _millis("end", windowed.end) + start
        parts = {
            "session": key + bounds,
            "session-by-time": _BY_TIME + bounds + key,
            "session-by-key": _BY_KEY + key + bounds,
        }
        return parts[form]
    if not -(1 << 31) <= windowed.sequence < 1 << 31:
        raise ReplayError(
            "must fit 32 bits",
            field="sequence",
            value=windowed.sequence,
            way_out="Give 0 if copies are not distinguished",
        )
    sequence = struct.pack(">i", windowed.sequence)
    parts = {
        "window": key + start,
        "window-changelog": key + start + sequence,
        "window-by-time": _BY_TIME + start + key + sequence,
        "window-by-key": _BY_KEY + key + start + sequence,
    }
    return parts[form]


def decode_windowed_key(data: bytes, form: Form) -> WindowedKey:
    """What `encode_windowed_key` wrote.

    Raises:
        ReplayError: there is no such form, or these are not the bytes of one.
    """
    _check(form)
    rest = data
    if form.endswith(("-by-time", "-by-key")):
        prefix = _BY_TIME if form.endswith("-by-time") else _BY_KEY
        if rest[:1] != prefix:
            raise _foreign(data, form)
        rest = rest[1:]
    sessions = form.startswith("session")
    times, tail = (2, 0) if sessions else (1, 0 if form == "window" else 4)
    if len(rest) < 8 * times + tail:
        raise _foreign(data, form)
    sequence = struct.unpack(">i", rest[-4:])[0] if tail else 0
    rest = rest[: len(rest) - tail]
    if form.endswith("-by-time"):
        bounds, key = rest[: 8 * times], rest[8 * times :]
    else:
        bounds, key = rest[-8 * times :], rest[: -8 * times]
    instants = [milliseconds * 1_000 for milliseconds in struct.unpack(f">{times}q", bounds)]
    if sessions:
        return WindowedKey(key, instants[1], instants[0])
    return WindowedKey(key, instants[0], None, sequence)


def _check(form: str) -> None:
    if form not in _FORMS:
        way_out = did_you_mean(form, _FORMS)
        raise ReplayError("there is no such form", field="form", value=form, way_out=way_out)


def _millis(field: str, time: int) -> bytes:
    millis, rest = divmod(time, 1_000)
    if rest or not -(1 << 63) <= millis < 1 << 63:
        raise ReplayError(
            "must be whole milliseconds that fit 64 bits",
            field=field,
            value=time,
            way_out="Round it down to 1,000 µs",
        )
    return struct.pack(">q", millis)


def _foreign(data: bytes, form: str) -> ReplayError:
    return ReplayError(
        f"these are not the bytes of a windowed key in the form {form}",
        field="data",
        value=data.hex(),
        way_out="Check which topic or store it comes from",
    )
