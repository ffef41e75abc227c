"""Spark Connect for the tests: in a process of its own, for classic sessions do not share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent


def session() -> SparkSession:
    """A session over Connect, with a server in this process that listens on loopback only."""
    return (
        SparkSession.builder.config("spark.connect.grpc.binding.address", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .remote("local[2]")
        .getOrCreate()
    )


def last_line(*arguments: str) -> Any:
    """What a Python program prints last, read as JSON."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        # With SPARK_TESTING on a port that is free, instead of the one of all Connect servers.
        env={**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def listening() -> list[str]:
    """The addresses on which this process and those that it started wait for connections."""
    here = psutil.Process()
    found = {
        each.laddr.ip.removeprefix("::ffff:")
        for process in (here, *here.children(recursive=True))
        for each in process.net_connections("inet")
        if each.status == psutil.CONN_LISTEN
    }
    return sorted(found)
