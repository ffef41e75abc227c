"""What the environment says about S3, found as Amazon's own libraries find it."""

from __future__ import annotations

import os


def endpoint() -> str | None:
    """The server, if it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def region() -> str | None:
    """The region of the buckets."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def delta_options() -> dict[str, str]:
    """The options that Delta's library needs to reach an object store."""
    server = endpoint()
    if server is None:
        return {}
    # For a server other than Amazon's, the library by itself takes only keys in the environment.
    options = {} if "AWS_ACCESS_KEY_ID" in os.environ else {"AWS_FORCE_CREDENTIAL_LOAD": "true"}
    return {**options, "allow_http": "true"} if server.startswith("http://") else options
