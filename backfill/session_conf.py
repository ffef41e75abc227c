"""Temporary settings of a Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

# Above 32 paths, Spark lists them in a job with a task for each, which takes seconds; the driver
# alone takes a fraction of a second.
_LISTING_CONF = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000"}


def local_listing(spark: SparkSession) -> AbstractContextManager[None]:
    """For paths on the local disk: the driver itself lists them when a frame is made."""
    return session_conf(spark, _LISTING_CONF)


@contextmanager
def session_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, which are restored afterwards, even after a failure.

    The settings are the session's: other threads that use it meanwhile have them too.
    """
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
