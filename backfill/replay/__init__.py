"""The streaming operators in plain Python, event by event, under an engine's rules."""

from backfill.replay.event import Event
from backfill.replay.folding import Aggregated
from backfill.replay.join_run import JoinReplayed, Paired
from backfill.replay.joins import replay_join
from backfill.replay.replaying import replay
from backfill.replay.result import Dropped, DroppedWindow, Emission, Replayed, Window
from backfill.replay.stores import Session, SessionStore, WindowStore, segment_interval

__all__ = [
    "Aggregated",
    "Dropped",
    "DroppedWindow",
    "Emission",
    "Event",
    "JoinReplayed",
    "Paired",
    "Replayed",
    "Session",
    "SessionStore",
    "Window",
    "WindowStore",
    "replay",
    "replay_join",
    "segment_interval",
]
