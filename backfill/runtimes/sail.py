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

#: The version of the client that it understands.
_CLIENT = "4.1"
#: Sorts and groups use memory up to a limit, and temporary files beyond it.
_POOL = "SAIL_RUNTIME__MEMORY_POOL__"


def address() -> str:
    """The address of this process's server, which is started if there is none.

    Raises:
        SetupError: the package is missing, or does not understand this version of pyspark.
    """
    return f"sc://127.0.0.1:{_server()[1]}"


def settle(spark: SparkSession) -> None:
    """Makes a session of this process's server interruptible; the server must have answered.

    The server would end on SIGINT, which is meant for what runs on it: a command, or a cell of a
    notebook. And if it does not answer, the ten minutes of retries would not bring it back.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)  # Replaces the server's handler.
    spark.client.set_retry_policies([DefaultPolicy(max_retries=3)])


@cache
def _server() -> tuple[Any, int]:
    if not pyspark.__version__.startswith(f"{_CLIENT}."):
        raise SetupError(
            f"the runtime sail needs pyspark {_CLIENT}, but this is {pyspark.__version__}",
            field="runtime",
            value="sail",
            way_out="Install that version in a separate environment: pip install 'backfill[sail]'",
        )
    # Sail reads these when it is imported; without the first one it prints what it does.
    os.environ.setdefault("RUST_LOG", "error")
    if f"{_POOL}TYPE" not in os.environ:
        # By default it takes all the memory it can get, until it is killed.
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
