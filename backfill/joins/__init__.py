"""Joins of two streams' events by key and time."""

from backfill.joins.as_of_join import as_of
from backfill.joins.joining import join
from backfill.joins.session_joining import session_join

__all__ = ["as_of", "join", "session_join"]
