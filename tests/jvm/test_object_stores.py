"""The jars and settings that paths in S3 need."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from backfill.errors import SetupError
from backfill.jvm import object_stores
from backfill.jvm.object_stores import AWS_SDK, hadoop_version, packages, with_object_stores

_DOCS = Path(__file__).parents[2] / "docs" / "object-stores.md"
_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
PACKAGES, EXCLUDES = "spark.jars.packages", "spark.jars.excludes"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_local_paths_need_nothing() -> None:
    given = {"spark.x": "y"}
    assert with_object_stores(given, ["/data", "s3", "file:/x", "gs://b", ""]) == given


def test_the_jars_that_fit_are_added_to_those_of_the_user() -> None:
    conf = with_object_stores({PACKAGES: "a:b:1", EXCLUDES: "c:*"}, ["/data", "s3://b/x"])
    assert conf[PACKAGES].split(",") == ["a:b:1", *packages(hadoop_version())]
    assert conf[EXCLUDES].split(",")[:2] == ["c:*", "software.amazon.awssdk:bundle"]
    assert "spark.hadoop.fs.s3a.endpoint" not in conf


@pytest.mark.parametrize(
    "given",
    [{"spark.jars": "/x/hadoop-aws-3.5.0.jar"}, {PACKAGES: "org.apache.hadoop:hadoop-aws:3.5.0"}],
)
def test_jars_of_the_user_are_used(given: dict[str, str]) -> None:
    conf = with_object_stores(given, ["/data"])
    assert {name: conf.get(name) for name in (*given, EXCLUDES)} == {**given, EXCLUDES: None}
    assert conf["spark.hadoop.fs.s3.impl"].endswith("S3AFileSystem")


def test_the_server_and_the_region_are_those_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    own = {"spark.hadoop.fs.s3a.path.style.access": "false"}
    conf = with_object_stores(own, ["s3://b"])
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "false"


def test_keys_that_spark_is_given_are_used() -> None:
    provider = "spark.hadoop.fs.s3a.aws.credentials.provider"
    assert provider in with_object_stores({}, ["s3://b"])
    assert provider not in with_object_stores({"spark.hadoop.fs.s3a.access.key": "A"}, ["s3://b"])


def test_of_an_unknown_hadoop_the_jars_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "hadoop_version", lambda: "9.9.9")
    with pytest.raises(SetupError, match=r"fit Hadoop 9\.9\.9 .*hadoop-aws:9\.9\.9"):
        with_object_stores({}, ["s3://b"])


def test_the_documentation_has_the_versions() -> None:
    text = _DOCS.read_text()
    rows = {tuple(line.split(" | ")[-2:]) for line in text.splitlines() if line[:3] == "| 4"}
    assert {(hadoop, f"{sdk} |") for hadoop, sdk in AWS_SDK.items()} >= rows != set()
    minor, hadoop = pyspark.__version__.rpartition(".")[0], hadoop_version()
    if minor in text:
        assert f"| {minor} | {hadoop} | {AWS_SDK[hadoop]} |" in text
