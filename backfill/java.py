"""Find a Java that Spark can run on and, run as a script, put one in place.

`python -I backfill/java.py` prints the Java home that Spark will use. Where none is good enough it
installs one first: Debian's package as root, otherwise a JDK in the project's own `.java/`.
Nothing but the standard library is imported, so that it works before anything else does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINIMUM = 17
WAY_OUT = (
    f"Install Java {MINIMUM} or newer (Debian: apt-get install openjdk-17-jre-headless) "
    "or set JAVA_HOME to one"
)
_DEBIAN_PACKAGE = "openjdk-17-jre-headless"


def find() -> Path | None:
    """The home of the first Java that is new enough, or None.

    Looked at in this order: `JAVA_HOME`, the path, and the folder `.java` beside the virtual
    environment, where `make` puts one.
    """
    for command in _candidates():
        version, home = _ask(command)
        if version >= MINIMUM:
            return home
    return None


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    yield from sorted(_own_folder().glob("**/bin/java"), reverse=True)


def _own_folder() -> Path:
    return Path(sys.prefix).parent / ".java"


def _ask(command: Path) -> tuple[int, Path]:
    """The version and the home that this Java tells of itself; version 0 if it cannot run.

    It is asked, and its path is not looked at, because the command is often a link or a shim.
    """
    try:
        told = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, command
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", told)
    home = re.search(r"java\.home = (.+)", told)
    if not version or not home:
        return 0, command
    return int(version[1]), Path(home[1].strip())


def _install() -> None:
    """Put a Java in place, by the first way that this machine allows."""
    if _is_root() and shutil.which("apt-get"):
        _say(f"Java {MINIMUM} is missing: installing {_DEBIAN_PACKAGE}")
        _run("apt-get", "update", "-qq")
        _run("apt-get", "install", "-qq", "-y", "--no-install-recommends", _DEBIAN_PACKAGE)
        return
    # Untried: the host that install-jdk fetches from could not be reached where this was written.
    folder = _own_folder()
    _say(f"Java {MINIMUM} is missing: fetching one into {folder}")
    _run(sys.executable, "-m", "pip", "install", "--quiet", "install-jdk==1.1.0")
    fetch = f"import jdk; jdk.install('{MINIMUM}', jre=True, path={str(folder)!r})"
    _run(sys.executable, "-c", fetch)


def _run(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(command, env=environment, check=True, capture_output=True, text=True)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main() -> int:
    """Print the Java home, installing a Java first where there is none."""
    home = find()
    if home is None:
        try:
            _install()
        except subprocess.CalledProcessError as error:
            _say(f"That failed: {(error.stderr.strip() or str(error)).splitlines()[-1]}")
        home = find()
    if home is None:
        _say(f"No Java. {WAY_OUT}.")
        return 2
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
