"""Keys as bytes, by which engines put some things in order."""

from __future__ import annotations

from typing import Any

from backfill.replay.windowed_keys import WindowedKey, encode_windowed_key


def key_bytes(key: Any) -> bytes:
    """What a key is ordered by: text as UTF-8, integers as eight bytes, else its `repr`."""
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, int) and -(1 << 63) <= key < 1 << 63:
        return key.to_bytes(8, "big", signed=True)
    return repr(key).encode()


def session_key_bytes(key: Any, start: int, end: int) -> bytes:
    """A windowed key in a session store."""
    return encode_windowed_key(WindowedKey(key_bytes(key), start, end), "session")


def window_key_bytes(key: Any, start: int) -> bytes:
    """A windowed key in an output topic of time windows."""
    return encode_windowed_key(WindowedKey(key_bytes(key), start), "window")
