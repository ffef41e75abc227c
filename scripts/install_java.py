"""Print the Java home that Spark will use, installing a Java first if there is none.

The Makefile runs it with the environment's Python. As root with apt-get it installs Debian's
package, otherwise a JRE in the project's own `.java/`. It is not part of the package: a library
does not install Java.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from backfill.jvm.java import MINIMUM, WAY_OUT, find, own_folder

_DEBIAN_PACKAGE = "openjdk-17-jre-headless"


def _install() -> None:
    """Put a Java in place, in the first way that this machine allows."""
    if _is_root() and shutil.which("apt-get"):
        _say(f"Java {MINIMUM} is missing: installing {_DEBIAN_PACKAGE}")
        _run("apt-get", "update", "-qq")
        _run("apt-get", "install", "-qq", "-y", "--no-install-recommends", _DEBIAN_PACKAGE)
        return
    # Untried: the host that install-jdk fetches from could not be reached where this was written.
    folder = own_folder()
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
    """Print the Java home, installing a Java first if there is none."""
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
