"""Sail: a runtime in Rust, in this process, that speaks Spark Connect. It needs no Java."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from functools import cache
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from backfill.errors import SetupError
from backfill.runtimes import memory

#: Of which a client is understood.
_CLIENT = "4.1"
#: What it sorts and groups is in memory up to a limit, and otherwise in temporary files.
_POOL = "SAIL_RUNTIME__MEMORY_POOL__"


def address() -> str:
    """The address of the server of this process, which is started if there is none.

    Raises:
        SetupError: the package is missing, or it does not understand this version of pyspark.
    """
    return f"sc://127.0.0.1:{_server()[1]}"


def settle(spark: SparkSession) -> None:
    """Makes a session of this process's server, which has answered, one that can be interrupted.

    The server would end on SIGINT, which is for what runs on it: a command, or a cell of a
    notebook. And where it does not answer, it does not come back within ten minutes.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # In the place of the server's.
    spark.client.set_retry_policies([DefaultPolicy(max_retries=3)])


@cache
def _server() -> tuple[Any, int]:
    if not pyspark.__version__.startswith(f"{_CLIENT}."):
        raise SetupError(
            f"the runtime sail understands pyspark {_CLIENT}, and this is {pyspark.__version__}",
            field="runtime",
            value="sail",
            way_out="Install the other in an environment of its own: pip install 'backfill[sail]'",
        )
    # It reads these when it is imported, and prints what it does otherwise.
    os.environ.setdefault("RUST_LOG", "error")
    if f"{_POOL}TYPE" not in os.environ:
        # By default it takes what it can, and is killed where there is no more.
        os.environ[f"{_POOL}TYPE"] = "fair"
        os.environ[f"{_POOL}FAIR__MAX_SIZE"] = str(memory.limit() // 2)
    try:
        from pysail.spark import SparkConnectServer  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise SetupError(
            f"the runtime sail is not installed: {error}",
            field="runtime",
            value="sail",
            way_out="Install it: pip install 'backfill[sail]'",
        ) from error
    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    atexit.register(server.stop)
    return server, int(server.listening_address[1])
