"""What Spark needs for paths in object stores: jars that fit it, and a server's address.

Spark reads and writes S3 with Hadoop's S3A, which is not among pyspark's jars: Spark fetches it
from Maven Central, once. It fetches only those of Amazon's libraries that S3A uses: the bundle
that Hadoop names has all of them, half a gigabyte.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark

from backfill.errors import SetupError
from backfill.folders import endpoint, in_s3, region

_S3A = "spark.hadoop.fs.s3a"
_PACKAGES = "spark.jars.packages"
_NAMING_JARS = ("spark.jars", _PACKAGES, "spark.driver.extraClassPath")
_EXCLUDES = "spark.jars.excludes"
# With Hadoop's own chain, Spark would not find the profiles that everything else here finds.
_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
#: The version of Amazon's libraries that goes with a Spark's version of Hadoop.
AWS_SDK = {"3.4.2": "2.29.52", "3.4.3": "2.35.4", "3.5.0": "2.35.4"}
_AWS_PARTS = ("s3", "s3-transfer-manager", "sts")
# The bundle, and jars that Spark already has or S3A does not need.
_UNUSED = (
    "software.amazon.awssdk:bundle",
    "commons-codec:*",
    "commons-logging:*",
    "io.netty:*",
    "org.apache.httpcomponents:*",
    "org.slf4j:*",
    "org.wildfly.openssl:*",
)


def with_object_stores(conf: Mapping[str, str], paths: Iterable[str]) -> dict[str, str]:
    """Spark settings plus those that paths in S3 need: jars that Spark lacks, and the server.

    Args:
        conf: the user's settings, which stay.
        paths: local paths and URLs.

    Raises:
        SetupError: the jars that fit this Spark are unknown.
    """
    jars = _has_jars(conf)
    if not jars and not any(map(in_s3, paths)):
        return dict(conf)
    settings = {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    }
    # Hadoop's own chain finds keys that are among Spark's settings.
    if f"{_S3A}.access.key" not in conf:
        settings[f"{_S3A}.aws.credentials.provider"] = _CHAIN
    server = endpoint()
    if server is not None:
        settings[f"{_S3A}.endpoint"] = server
        settings[f"{_S3A}.path.style.access"] = "true"
    place = region()
    if place is not None:
        settings[f"{_S3A}.endpoint.region"] = place
    settings |= conf
    if not jars:
        for name, own in ((_PACKAGES, packages(hadoop_version())), (_EXCLUDES, _UNUSED)):
            settings[name] = ",".join([*filter(None, [conf.get(name)]), *own])
    return settings


def packages(hadoop: str) -> list[str]:
    """The Maven coordinates for a version of Hadoop.

    Raises:
        SetupError: those that fit are unknown.
    """
    if hadoop not in AWS_SDK:
        raise SetupError(
            f"it is not known which jars for S3 fit Hadoop {hadoop}",
            field="Spark",
            value=pyspark.__version__,
            way_out=f"Give them: --spark {_PACKAGES}=org.apache.hadoop:hadoop-aws:{hadoop}",
        )
    aws = (f"software.amazon.awssdk:{part}:{AWS_SDK[hadoop]}" for part in _AWS_PARTS)
    return [f"org.apache.hadoop:hadoop-aws:{hadoop}", *aws]


def hadoop_version() -> str:
    """The version of Hadoop in pyspark's jars."""
    versions = [jar.stem.rpartition("-")[2] for jar in _jars("hadoop-client-api-*.jar")]
    return versions[0] if versions else "unknown"


def _has_jars(given: Mapping[str, str]) -> bool:
    named = (given.get(name, "") for name in _NAMING_JARS)
    return any("aws" in jars for jars in named) or bool(_jars("hadoop-aws-*.jar"))


def _jars(pattern: str) -> list[Path]:
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    return sorted(Path(home, "jars").glob(pattern))
