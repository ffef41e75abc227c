"""The output of a JVM while it starts, held back until it is known whether it started."""

from __future__ import annotations

import os
import re
import sys
import threading
from types import TracebackType

# Printed at every start of Spark 4 before any logging, and on Java 25 for a package that is gone;
# no option of Spark turns it off.
_NOISE = re.compile(rb"^WARNING: (Using incubator modules: |package \S+ not in java\.base)")
# From this line on, Ivy says at length how it finds and fetches the jars of packages.
_RESOLVING = re.compile(rb"^:: loading settings ::")
_RESOLVED = re.compile(rb"artifacts copied, ")
#: Our own last line.
_MARK = b"\0end\n"
# Lines of an error that do not say what is wrong, and prefixes of the line that does.
_EMPTY = re.compile(r"^(at |\.\.\. |Error occurred during init|An error occurred while calling|$)")
_FAILURE = re.compile(r'^Exception in thread "main" ')
_HEADING = re.compile(r'^(Exception in thread "\w+" |: )?([\w.$]+(Exception|Error): )?')


def telling_line(text: str) -> str | None:
    """The first line that says what is wrong, in the output of a JVM or pyspark that failed."""
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if _FAILURE.match(line)), 0)
    for line in lines[first:]:
        if not _EMPTY.match(line.strip()):
            return _HEADING.sub("", line.strip())
    return None


class LaunchOutput:
    """Holds back what processes print that are started in a `with` block.

    After a good start, everything but the noise goes to standard error, then and as long as the
    processes live; standard output is for results. After a failed start nothing does, and `text`
    has it.

    It works on the file descriptors, since a JVM knows nothing of `sys.stderr`; pyspark offers no
    other way to get its JVM's output.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._resolving: list[bytes] | None = None
        self._started = False
        self._drained = threading.Event()
        self._lock = threading.Lock()  # guards what is held: the reader is a separate thread

    def __enter__(self) -> LaunchOutput:
        self._flush()
        self._stdout, self._stderr = os.dup(1), os.dup(2)
        read, write = os.pipe()
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.close(write)
        self._reader = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._flush()
        # Everything that was written before the mark is read before it.
        os.write(1, _MARK)
        self._drained.wait(timeout=1)
        os.dup2(self._stdout, 1)
        os.dup2(self._stderr, 2)
        os.close(self._stdout)
        if kind is None:
            with self._lock:
                self._started = True
                self._give_up_resolving()
        else:
            # A process that failed has closed its end; we do not wait for one that lives on.
            self._reader.join(timeout=1)

    @property
    def text(self) -> str:
        """The output that is held."""
        with self._lock:
            return b"".join([*self._held, *(self._resolving or [])]).decode(errors="replace")

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as lines:
            for line in lines:
                own = line.removesuffix(_MARK)
                with self._lock:
                    if own:
                        self._hold(own)
                    self._pass_on()
                if own != line:
                    self._drained.set()
        with self._lock:
            self._give_up_resolving()

    def _give_up_resolving(self) -> None:
        self._held += self._resolving or []
        self._resolving = None
        self._pass_on()

    def _hold(self, line: bytes) -> None:
        if _RESOLVING.match(line):
            self._resolving = []
        if self._resolving is not None:
            self._resolving.append(line)
            if _RESOLVED.search(line):
                self._resolving = None
        elif not _NOISE.match(line):
            self._held.append(line)

    def _pass_on(self) -> None:
        while self._started and self._held:
            os.write(self._stderr, self._held.pop(0))

    @staticmethod
    def _flush() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
