"""State stores as Kafka Streams has them: by key and time, with retention in segments."""

from backfill.replay.stores.segments import segment_interval
from backfill.replay.stores.session_store import Session, SessionStore
from backfill.replay.stores.window_store import WindowStore

__all__ = ["Session", "SessionStore", "WindowStore", "segment_interval"]
