"""Progress goes to the logger `backfill` if the caller gives no function."""

from __future__ import annotations

import logging
import re

from backfill.printable import KEYS, printable

_LOGGER = logging.getLogger("backfill")
_CREDENTIALS = re.compile(rf"://{KEYS}@")


def log_progress(message: str) -> None:
    """Logs a message at level INFO, on one line and without credentials."""
    if _LOGGER.isEnabledFor(logging.INFO):
        _LOGGER.info("%s", _CREDENTIALS.sub("://***@", printable(message)))
