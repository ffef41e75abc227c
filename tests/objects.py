"""A server on loopback that speaks S3 and Glue; as a program, the server itself."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import boto3

#: A secret to look for in everything that runs leave behind.
SECRET = "hunter2SecretOfTheStore"
#: A bucket that a server can have from the beginning.
MANY = "many"


@contextmanager
def served(files: int = 0) -> Iterator[dict[str, str]]:
    """A server in a process of its own, and the environment that leads Amazon's libraries to it.

    Args:
        files: how many are in the bucket MANY.
    """
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.objects", str(port), str(files)],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "keyOfTheStore",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    """A port on loopback that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def make_bucket(environment: dict[str, str], name: str) -> str:
    """Makes a new bucket; returns its URL."""
    _client(environment).create_bucket(Bucket=name)
    return f"s3://{name}"


def everything_in(environment: dict[str, str], bucket: str) -> list[str]:
    """All objects of a bucket, those that stand for folders among them."""
    pages = _client(environment).get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [entry["Key"] for page in pages for entry in page["Contents"]]


def names(files: int) -> list[str]:
    """The names of the files in MANY."""
    return [f"sessions/date=2024-01-{n % 28 + 1:02}/{n:05}.parquet" for n in range(files)]


def _client(environment: dict[str, str]) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name=environment["AWS_REGION"],
    )


def _wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the server does not start")


def _serve(port: int, files: int) -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    if files:
        store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        store.create_bucket(MANY, "us-east-1")
        for name in names(files):
            store.put_object(MANY, name, b"x")
    _refuse_old_versions()
    ThreadedMotoServer("127.0.0.1", port).start()
    while True:
        time.sleep(60)


def _refuse_old_versions() -> None:
    """Makes Glue refuse to change a table that has changed meanwhile, as Amazon's does.

    Runs that publish at once rely on that: https://docs.aws.amazon.com/glue/latest/
    webapi/API_UpdateTable.html. moto accepts every change, and creates a table twice at a time.
    """
    from moto.core.exceptions import JsonRESTError
    from moto.glue.responses import GlueResponse

    one_at_a_time, create, update = Lock(), GlueResponse.create_table, GlueResponse.update_table

    def create_table(self: GlueResponse) -> Any:
        with one_at_a_time:
            return create(self)

    def update_table(self: GlueResponse) -> Any:
        name, began_from = self.parameters["TableInput"]["Name"], self.parameters.get("VersionId")
        with one_at_a_time:
            table = self.glue_backend.get_table(self.parameters["DatabaseName"], name)
            if began_from not in (None, table.as_dict()["VersionId"]):
                raise JsonRESTError("ConcurrentModificationException", f"{name} has changed")
            return update(self)

    GlueResponse.create_table, GlueResponse.update_table = create_table, update_table


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
