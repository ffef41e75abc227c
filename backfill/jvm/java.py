"""Finding a Java that Spark can run on; nothing is installed here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from backfill.errors import SetupError

MINIMUM = 17
WAY_OUT = (
    f"Install Java {MINIMUM} or newer (Debian: apt-get install openjdk-17-jre-headless) "
    "or set JAVA_HOME to one"
)


def find() -> Path | None:
    """The home of the first Java that is new enough, or None.

    The places are, in this order: `JAVA_HOME`, the path, and the folder `.java` next to the virtual
    environment, where `make` puts one.
    """
    for command in _candidates():
        version, home = _ask(command)
        if version >= MINIMUM:
            return home
    return None


def needed() -> Path:
    """The home of the first Java that is new enough.

    Raises:
        SetupError: there is none.
    """
    home = find()
    if home is None:
        raise SetupError(f"Spark needs Java {MINIMUM} or newer", way_out=WAY_OUT)
    return home


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    yield from sorted(own_folder().glob("**/bin/java"), reverse=True)


def own_folder() -> Path:
    """The folder next to the virtual environment where `make` puts a Java."""
    return Path(sys.prefix).parent / ".java"


def _ask(command: Path) -> tuple[int, Path]:
    """The version and the home that this Java reports; version 0 if it cannot run.

    The command is run, because its path says little: it is often a link or a shim.
    """
    try:
        output = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, command
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    home = re.search(r"java\.home = (.+)", output)
    if not version or not home:
        return 0, command
    return int(version[1]), Path(home[1].strip())
