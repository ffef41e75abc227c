"""What the environment says of S3, as Amazon's own libraries find it."""

from __future__ import annotations

import os


def endpoint() -> str | None:
    """The server, where it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def region() -> str | None:
    """The region of the buckets."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def delta_options() -> dict[str, str]:
    """What Delta's library has to be told to reach an object store."""
    server = endpoint()
    if server is None:
        return {}
    # For another server than Amazon's it takes only keys from the environment by itself.
    found = {} if "AWS_ACCESS_KEY_ID" in os.environ else {"AWS_FORCE_CREDENTIAL_LOAD": "true"}
    return {**found, "allow_http": "true"} if server.startswith("http://") else found
