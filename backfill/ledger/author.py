"""Who made a commit."""

from __future__ import annotations

import getpass
import os


def author() -> str:
    """The user's name; in a container whose user has none, the user's number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
