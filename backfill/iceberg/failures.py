"""What is said where a catalog fails: never with a password or another setting of it in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from backfill.errors import BackfillError, TableError
from backfill.printable import first_line, shown

#: What a REST catalog does not do, for a reason that it gives.
_REFUSALS = (
    BadRequestError,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
)
#: Settings that can be shown.
_HARMLESS = ("type", "warehouse", "py-catalog-impl", "py-io-impl")
#: What a setting is made of, such as the parts of an address.
_PART = re.compile(r"[^\s:/?&=@;,#]+")


@contextmanager
def answering(field: str, catalog: Catalog) -> Iterator[None]:
    """Says that the catalog fails; its library's errors have no type in common.

    Raises:
        TableError: something failed. The error is not chained, for traces show messages, too.
    """
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        raise TableError(f"the catalog fails: {said(error, catalog)}", field=field) from None


def said(error: Exception, catalog: Catalog) -> str:
    """What an error says, without the settings of the catalog."""
    return without(first_line(error), catalog.properties)


def refused(error: Exception) -> bool:
    """Whether a catalog has answered that it does not make a commit, so that none is under way."""
    if isinstance(error, _REFUSALS):
        return True
    # As the errors of Amazon's library have it, which may not be installed.
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return False
    about = answer.get("ResponseMetadata", {})
    # What was sent again may have been done the first time.
    again = int(about.get("RetryAttempts", 0)) > 0
    return 400 <= int(about.get("HTTPStatusCode", 0)) < 500 and not again


def without(text: str, settings: Mapping[str, str]) -> str:
    """The text without what the settings are made of."""
    secret = {
        part
        for name, value in settings.items()
        if name not in _HARMLESS
        for part in (str(value), *_PART.findall(str(value)))
    }
    for each in sorted(filter(None, secret), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(each)}(?!\w)", "…", text)
    return shown(text)
