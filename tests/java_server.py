"""A JVM of its own for a server that is written in Java; the test says what to start."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, JVMView, launch_gateway

from backfill.jvm import java

#: The jars that come with pyspark.
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
# Like those of the tests' Spark, but for a server that does little.
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")


@contextmanager
def jvm(classpath: Sequence[Path | str], *options: str) -> Iterator[JVMView]:
    """What can be called in a JVM, which ends with the block."""
    port, token, process = launch_gateway(
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        classpath=os.pathsep.join(map(str, classpath)),
        javaopts=[*_OPTIONS, *options],
        java_path=str(java.needed() / "bin" / "java"),
        redirect_stderr=subprocess.DEVNULL,
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.close()
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
