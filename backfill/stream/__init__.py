"""The same job as a real streaming operator: Spark Structured Streaming."""

from backfill.stream.queries import Streamed, stream

__all__ = ["Streamed", "stream"]
