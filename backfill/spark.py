"""The Spark session that backfill's own commands run on."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from backfill.errors import SetupError, did_you_mean
from backfill.jvm import class_archive, java
from backfill.jvm.launch import LaunchOutput, telling_line
from backfill.jvm.object_stores import with_object_stores
from backfill.runtimes import RUNTIMES, memory, sail
from backfill.runtimes.differences import is_of_this_process, of_connect

_LOGGING = Path(__file__).with_name("log4j2.properties")
_JVM_OPTIONS = "spark.driver.extraJavaOptions"
_CONNECT_PORT = 15002

# A run ends before compiling most of Spark's code with C2 pays off, and C2 competes with the tasks
# for cores: so the thresholds are three times the default.
_COMPILING = " ".join(
    f"-XX:Tier4{name}Threshold={3 * usual}"
    for name, usual in {
        "Invocation": 5_000,
        "MinInvocation": 600,
        "Compile": 15_000,
        "BackEdge": 40_000,
    }.items()
)
# Spark's launcher is a separate JVM, which lives for a second.
_LAUNCHING = "-XX:TieredStopAtLevel=1"

# The maximum on one machine: a heap keeps what it has taken, and the rest is for others.
_HEAP = 16 << 30

# Settings of every session that backfill starts, wherever it runs.
_EVERYWHERE = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # With Spark's default, INT96, files have no statistics of times.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Cached rows are held for seconds only: compressing them costs more than it saves.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # At every step of building a query, Spark records its own stack for error messages, which we
    # write in our own words.
    "spark.sql.dataFrameQueryContext.enabled": "false",
}
# Settings that can only be made as Spark starts: a running server refuses them with a warning.
_AT_START = {
    # pyspark records the caller's line at every such step, which takes longer than the step.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


def session(
    *,
    remote: str | None = None,
    conf: Mapping[str, str] = MappingProxyType({}),
    paths: Iterable[str] = (),
    runtime: str = "spark",
) -> SparkSession:
    """Returns the active Spark session, or starts one.

    An active session keeps its settings, except those in `conf`. A new one runs in this process
    with all cores and half of the memory, or, under spark-submit, wherever that runs it.

    Args:
        remote: the address of a Spark Connect server to use, `sc://host[:port]`.
        conf: Spark settings by name; they override the defaults of backfill.
        paths: what will be read and written; for URLs of S3 a session in this process is started
            with the jars and settings that Spark needs, unless `conf` has them.
        runtime: what a new session runs on in this process: spark, or sail, which needs no Java
            and starts in a second, but lacks some of what Spark has.

    Raises:
        SetupError: there is no Java that is new enough, the server does not answer, or Spark
            refuses a setting; or the runtime is not installed, or is named together with a server.
    """
    if runtime not in RUNTIMES:
        raise SetupError(
            "there is no such runtime",
            field="runtime",
            value=runtime,
            way_out=did_you_mean(runtime, RUNTIMES),
        )
    if runtime != "spark" and remote is not None:
        raise SetupError(
            "is for a session in this process, but a server has its own runtime",
            field="runtime",
            value=runtime,
            way_out="Leave out the runtime, or the address of the server (remote)",
        )
    active = SparkSession.getActiveSession()
    if active is not None and remote is None and of_connect(active):
        return _with_settings(active, conf)
    if runtime == "sail" and active is None:
        started = _start({**_EVERYWHERE, **_AT_START, **conf, "spark.remote": sail.address()})
        sail.settle(started)
        is_of_this_process(started)
        return started
    if remote is not None:
        _check_reachable(remote)
        settings = {**_EVERYWHERE, **conf, "spark.remote": remote}
    elif active is not None:
        settings = dict(conf)
    elif "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started the JVM, and us
        settings = {**_EVERYWHERE, **_AT_START, **conf}
    else:
        home = _use_java()
        # Workers use the Python that runs this: it has the packages that they need.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = with_object_stores(conf, paths)
        options = {_JVM_OPTIONS: _jvm_options(home, conf)}
        settings = {**_EVERYWHERE, **_AT_START, **_in_this_process(), **conf, **options}
    return _start(settings)


def _start(settings: Mapping[str, str]) -> SparkSession:
    output = LaunchOutput()
    try:
        with output:
            builder = SparkSession.builder.appName("backfill").config(map=dict(settings))
            started = builder.getOrCreate()
            # Spark reads its SQL settings only when one is asked for, and refuses bad ones then.
            started.conf.get("spark.sql.ansi.enabled")
            _silence_pyspark()
            return started
    except ImportError as error:
        way_out = "Install them: pip install 'backfill[connect]'"
        raise SetupError(
            f"packages for Spark Connect are missing: {error}", way_out=way_out
        ) from error
    # pyspark raises errors of all types here, from three libraries.
    except Exception as error:
        reason = telling_line(output.text) or telling_line(str(error)) or type(error).__name__
        raise SetupError(f"Spark does not start: {reason}") from error


def _with_settings(active: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """Sets up a Spark Connect session, which a builder would find again only by its address."""
    for name, value in conf.items():
        try:
            active.conf.set(name, value)
        except PySparkException as error:
            reason = telling_line(str(error)) or type(error).__name__
            raise SetupError(f"a setting is refused: {reason}", field=name) from error
    return active


def _silence_pyspark() -> None:
    """Keeps pyspark from printing each of its errors, caught or not, before it raises it."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _use_java() -> Path:
    home = java.needed()
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHING)
    return home


def _jvm_options(home: Path, conf: Mapping[str, str]) -> str:
    quiet = f"-Dlog4j2.configurationFile={shlex.quote(_LOGGING.as_uri())}"
    # The user's options come last, so they win.
    options = [quiet, _COMPILING, class_archive.options(home), conf.get(_JVM_OPTIONS, "")]
    return " ".join(filter(None, options))


def _in_this_process() -> dict[str, str]:
    # For tables saved without a path, in a catalog that ends with the process.
    warehouse = tempfile.mkdtemp(prefix="backfill-warehouse-")
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    return {
        "spark.master": "local[*]",
        "spark.driver.memory": f"{min(memory.limit() // 2, _HEAP) >> 20}m",
        # No other machine needs to reach us, and so a host name that does not resolve does no harm.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # For each query, a description is kept for the UI; in full it would take long to write.
        "spark.sql.ui.explainMode": "simple",
        # AQE merges small partitions; it cannot split one that is too large to sort in memory.
        "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": warehouse,
    }


def _check_reachable(remote: str) -> None:
    """Fails at once where pyspark would retry for ten minutes."""
    try:
        address = urlsplit(remote)
        host, port = address.hostname, address.port or _CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if not remote.startswith("sc://") or not host:
        raise SetupError(
            "not a Spark Connect address",
            field="remote",
            value=remote,
            way_out=f"Write sc://host or sc://host:port (without a port: {_CONNECT_PORT})",
        )
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        raise SetupError(
            f"no Spark Connect server answers: {error.strerror or error}",
            field="remote",
            value=remote,
        ) from error
