"""Keys as bytes, for what the engines order by them."""

from __future__ import annotations

from typing import Any


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
    """A windowed key in a session store: key, end, start, in milliseconds."""
    return key_bytes(key) + _millis(end) + _millis(start)


def window_key_bytes(key: Any, start: int) -> bytes:
    """A windowed key in an output topic of time windows: key, start, in milliseconds."""
    return key_bytes(key) + _millis(start)


def _millis(us: int) -> bytes:
    return (us // 1_000).to_bytes(8, "big", signed=True)
