"""No event vanishes, whatever its time: it is in a window, dropped with a reason, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill import CumulatingWindow, HoppingWindow, SessionWindow, TumblingWindow
from backfill import aggregates as agg
from backfill.engines import ENGINES
from backfill.errors import ReplayError, WindowError
from backfill.replay import Event, replay
from backfill.windows import CountWindow, SlidingWindow

LEAST, MOST = -(1 << 63), (1 << 63) - 1
WINDOWS = {
    "sessions": SessionWindow(gap="10s"),
    "tumbling": TumblingWindow(size="1m"),
    "hopping": HoppingWindow(size="1m", advance="20s"),
    "cumulating": CumulatingWindow(size="1m", step="20s"),
    "days": TumblingWindow(size="1 day"),
    "sliding": SlidingWindow(size="10s"),
    "distinct": SlidingWindow(size="10s", distinct=True),
    "count": CountWindow(size=2, advance=1),
}
TIMES = st.one_of(
    st.integers(LEAST, MOST),
    st.integers(MOST - 10**8, MOST),
    st.integers(LEAST, LEAST + 10**8),
    st.sampled_from([MOST, LEAST, MOST // 1000 * 1000, 1 << 62, -(1 << 62), (1 << 62) + 10**8]),
    st.integers(-(10**8), 10**8),
)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60)
@given(data=st.data())
def test_every_event_is_accounted_for(engine: str, name: str, data: st.DataObject) -> None:
    interfaces = ENGINES[engine].streaming
    api = data.draw(st.sampled_from(sorted(interfaces)))
    interface = interfaces[api]
    keys = ["k", "l"] if interface.null_key == "refuse" else ["k", "l", None]
    times = TIMES if interface.null_time == "refuse" else TIMES | st.none()
    placed = data.draw(st.lists(st.tuples(st.sampled_from(keys), times), min_size=1, max_size=8))
    if interface.clock == "processing_time":
        placed.sort(key=lambda place: place[1])  # the wall clock does not go back
    events = [Event(key=key, time=t, arrival=i) for i, (key, t) in enumerate(placed)]
    refused: ReplayError | None = None
    try:
        result = replay(
            events,
            WINDOWS[name],
            engine=engine,
            api=api,
            emit=data.draw(st.sampled_from(interface.emits)),
            aggregates={"n": agg.count()},
            keep_events=True,
        )
    except WindowError:
        return  # the interface does not have such windows
    except ReplayError as error:
        refused = error
    if refused is not None:
        if "is outside the range of a calendar" in str(refused):
            assert name == "days"
        else:
            assert "sessions can't be emitted this way" in str(refused)
        return
    windows = [
        *(result.final, result.pending, result.lost, result.refused, result.superseded),
    ]
    inside = {arrival for some in windows for window in some for arrival in window.events or ()}
    inside |= {arrival for emission in result.emissions for arrival in emission.events or ()}
    dropped = {drop.arrival for drop in result.dropped}
    assert not inside & dropped
    assert inside | dropped == set(range(len(events)))


@pytest.mark.parametrize("time", [1 << 63, LEAST - 1, 10**30])
def test_what_is_no_instant_of_64_bits_is_refused(time: int) -> None:
    with pytest.raises(ReplayError, match=r"time: is outside the range of 64 bits \(got"):
        replay([Event(key="k", time=time, arrival=0)], WINDOWS["tumbling"])


def test_the_last_whole_millisecond_is_in_a_window() -> None:
    time = 2**63 // 1000 * 1000
    for engine in ("plain", "kafka-streams", "flink"):
        event = Event(key="k", time=time, arrival=0)
        result: Any = replay([event], WINDOWS["tumbling"], engine=engine)
        (window,) = [*result.final, *result.pending]
        assert window.start <= time < window.end
