"""Error messages for failing catalogs; they never contain a password or other settings."""

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

#: Errors by which a REST catalog refuses a request, with a reason.
_REFUSALS = (
    BadRequestError,
    ForbiddenError,
    NoSuchTableError,
    TooManyRequestsError,
    UnauthorizedError,
)
#: Settings that may be shown.
_HARMLESS = ("type", "warehouse", "py-catalog-impl", "py-io-impl")
#: The parts of a setting, such as those of an address.
_PART = re.compile(r"[^\s:/?&=@;,#]+")


@contextmanager
def answering(field: str, catalog: Catalog) -> Iterator[None]:
    """Turns any error into one that says that the catalog fails; they have no type in common.

    Raises:
        TableError: something failed. It is not chained, because stack traces show messages, too.
    """
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        raise TableError(f"the catalog fails: {said(error, catalog)}", field=field) from None


def said(error: Exception, catalog: Catalog) -> str:
    """An error's message, without the settings of the catalog."""
    return without(first_line(error), catalog.properties)


def refused(error: Exception) -> bool:
    """Whether a catalog has answered that it refuses a commit, so that none is under way."""
    if isinstance(error, _REFUSALS):
        return True
    # An attribute of the errors of Amazon's library, which may not be installed.
    answer = getattr(error, "response", None)
    if not isinstance(answer, dict):
        return False
    about = answer.get("ResponseMetadata", {})
    # A request that was sent again may have been carried out the first time.
    again = int(about.get("RetryAttempts", 0)) > 0
    return 400 <= int(about.get("HTTPStatusCode", 0)) < 500 and not again


def without(text: str, settings: Mapping[str, str]) -> str:
    """The text without the parts of the settings."""
    secret = {
        part
        for name, value in settings.items()
        if name not in _HARMLESS
        for part in (str(value), *_PART.findall(str(value)))
    }
    for word in sorted(filter(None, secret), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "…", text)
    return shown(text)
