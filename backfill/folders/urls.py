"""Paths of object stores."""

from __future__ import annotations

import re

from backfill.errors import TableError
from backfill.printable import shown

#: The schemes of object stores, as Spark has them.
SCHEMES = ("s3", "s3a", "gs", "abfss")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def is_url(path: str) -> bool:
    """Whether the path begins with a scheme, such as `s3://`."""
    return _URL.match(path) is not None


def in_s3(path: str) -> bool:
    """Whether the path is in S3, or in a store that speaks its protocol."""
    return path.startswith(("s3:", "s3a:"))


def same_scheme(path: str) -> str:
    """The path with a single scheme for all schemes of the same store."""
    return re.sub("^s3[an]:", "s3:", path)


def check_no_keys(path: str, field: str) -> None:
    """Refuses keys and passwords in a URL of an object store, which would be shown everywhere.

    Raises:
        TableError: the URL has some.
    """
    scheme, _, rest = path.partition("://")
    before, at, _ = rest.rpartition("@")
    # In abfss, the container comes before the account.
    if at and scheme in SCHEMES and (scheme != "abfss" or set(before) & set(":/@")):
        raise TableError(
            "contains a key or a password",
            field=field,
            value=shown(path),
            way_out="Set it in the environment instead, as in AWS_ACCESS_KEY_ID",
        )
