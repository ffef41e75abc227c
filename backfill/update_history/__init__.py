"""The history of updates: what a streaming operator sent, and the table that it made."""

from backfill.update_history.fields import Field, fields_of
from backfill.update_history.table import table_as_of
from backfill.update_history.updating import updates

__all__ = ["Field", "fields_of", "table_as_of", "updates"]
