"""Instants as whole microseconds since the epoch, exactly, before 1970 as well."""

from __future__ import annotations

import datetime as dt

MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def micros_of(moment: dt.datetime) -> int:
    """The microseconds from the epoch to a moment; a moment without a zone is in UTC."""
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.timezone.utc)
    return (moment - _EPOCH) // MICROSECOND


def moment_of(us: int) -> dt.datetime:
    """The moment this many microseconds from the epoch, in UTC.

    Raises:
        OverflowError: if it is not in the years 1 to 9999.
    """
    return _EPOCH + us * MICROSECOND
