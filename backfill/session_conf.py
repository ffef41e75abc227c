"""Settings of a Spark session that hold for a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

# Above 32 paths Spark lists them by a job with a task for each, which takes seconds; the driver
# alone does it in a fraction of one.
_LISTING_CONF = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000"}


def local_listing(spark: SparkSession) -> AbstractContextManager[None]:
    """For paths on the local disk: the driver looks at them by itself when a frame is made."""
    return session_conf(spark, _LISTING_CONF)


@contextmanager
def session_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, which are afterwards as they were, also after a failure.

    The settings are the session's: what other threads do with it meanwhile has them too.
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
