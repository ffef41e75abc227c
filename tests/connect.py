"""Spark Connect for the tests: in a process of its own, since classic sessions do not share one.

One process serves all tests of a run, since a Spark that has just started is slow: it runs one
program after another, each with the same server.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
import traceback
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from tests.interpreted import SETTINGS

ROOT = Path(__file__).parent.parent


def session(zone: str) -> SparkSession:
    """A session over Connect, with a server in this process that listens on loopback only."""
    spark = (
        SparkSession.builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .remote("local[2]")
        .getOrCreate()
    )
    # Each program runs its plans once, on few rows.
    for name, value in {**SETTINGS, "spark.sql.session.timeZone": zone}.items():
        spark.conf.set(name, value)
    return spark


class Programs:
    """Runs Python programs over Spark Connect."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.connect"],
            cwd=ROOT,
            # With SPARK_TESTING the server takes a free port, not the one of all Connect servers.
            # No result may depend on the zone of the machine.
            env={
                **os.environ,
                "SPARK_TESTING": "1",
                "PYSPARK_PYTHON": sys.executable,
                "TZ": "Asia/Kathmandu",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def last_line(self, *arguments: str) -> Any:
        """What a program prints last, read as JSON.

        Args:
            arguments: as Python takes them: `-c` and a text or `-m` and a module, then its own.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(arguments), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the process has ended"
        printed, failure = json.loads(answer)
        assert failure is None, failure[-3000:]
        return json.loads(printed.splitlines()[-1])

    def close(self) -> None:
        """Ends the process, and its server."""
        self._process.communicate()


def listening() -> list[str]:
    """The addresses on which this process and those that it started wait for connections."""
    here, addresses = psutil.Process(), set[str]()
    for process in (here, *here.children(recursive=True)):
        # A process that has ended meanwhile waits for nothing.
        with suppress(psutil.NoSuchProcess):
            addresses |= {
                connection.laddr.ip.removeprefix("::ffff:")
                for connection in process.net_connections("inet")
                if connection.status == psutil.CONN_LISTEN
            }
    return sorted(addresses)


def _run(kind: str, program: str, *arguments: str) -> None:
    sys.argv = ["-c" if kind == "-c" else program, *arguments]
    if kind == "-c":
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


def _serve() -> None:
    answers = sys.stdout
    for line in sys.stdin:
        failure = None
        with redirect_stdout(io.StringIO()) as printed:
            try:
                _run(*json.loads(line))
            except BaseException:
                failure = traceback.format_exc()
        print(json.dumps([printed.getvalue(), failure]), file=answers, flush=True)
    session("UTC").stop()


if __name__ == "__main__":
    _serve()
