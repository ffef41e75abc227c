"""Window definitions, durations, and what each engine refuses."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from backfill import (
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill.engines import ENGINES, PLAIN, engine
from backfill.errors import BackfillError, JobFileError, WindowError
from backfill.time.durations import Calendar, Duration, Fixed, duration
from backfill.windows import Window

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("500ms", Fixed(500_000)),
        ("1us", Fixed(1)),
        ("30s", Fixed(30_000_000)),
        ("30m", Fixed(HOUR // 2)),
        ("24h", Fixed(24 * HOUR)),
        ("7d", Fixed(7 * 24 * HOUR)),
        ("1h30m", Fixed(HOUR * 3 // 2)),
        ("PT24H", Fixed(24 * HOUR)),
        ("PT1H0.5S", Fixed(HOUR + 500_000)),
        ("30 minutes", Fixed(HOUR // 2)),
        ("-5h", Fixed(-5 * HOUR)),
        (dt.timedelta(days=1), Fixed(24 * HOUR)),
        ("1 day", Calendar(1, "day")),
        ("P1D", Calendar(1, "day")),
        ("2 weeks", Calendar(2, "week")),
        ("1 month", Calendar(1, "month")),
        ("6 local hours", Calendar(6, "hour")),
        ("1  Local  hour", Calendar(1, "hour")),
        ("P1Y", Calendar(12, "month")),
    ],
)
def test_durations(text: object, means: Duration) -> None:
    assert duration(text, field="gap") == means
    assert duration(str(means), field="gap") == means


@pytest.mark.parametrize("text", [30, 1.5, "30", "", "m", "1 parsec", "P1DT1H", None, "1.5h", True])
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(WindowError, match="gap"):
        duration(text, field="gap")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: SessionWindow(gap="0s"), "gap: must be greater than zero"),
        (lambda: SessionWindow(gap="9999999999999d"), "gap: is longer than all dates"),
        (lambda: SessionWindow(gap="-1s"), "gap: must be greater than zero"),
        (lambda: SessionWindow(gap="1 day"), "gap: can't be a calendar span"),
        (lambda: TumblingWindow(size="0 days"), "size: must be greater than zero"),
        (lambda: HoppingWindow(size="1h", advance="1 day"), "advance: must be of the same kind"),
        (lambda: HoppingWindow(size="1 week", advance="1h"), "advance: must be of the same kind"),
        (
            lambda: CumulatingWindow(size="1h", step="25m"),
            "step: the size 1h is not a whole number",
        ),
        (lambda: CumulatingWindow(size="1h", step="2h"), "step"),
        (lambda: TumblingWindow(size="1 year", phase="30d"), "phase: must be a number of months"),
        (lambda: TumblingWindow(size="1 week", phase="1 month"), "phase: is only for windows"),
        (lambda: TumblingWindow(size="1 month", phase="1 month"), "phase: must be less than the 1"),
        (
            lambda: HoppingWindow(size="1 month", advance="1 week", phase="1 month"),
            "phase: is only for windows that start on month boundaries, but these start every",
        ),
        (lambda: CumulatingWindow(size="24h", step="1 day"), "step"),
        (lambda: CumulatingWindow(size="1 day", step="1 month"), "step"),
        (lambda: CumulatingWindow(size="1 day", step="48h"), "step"),
        (lambda: SessionWindow(gap="1m", new_when=5), "new_when: must be names of columns"),
        (lambda: SessionWindow(gap="1m", split=Fixed(24 * HOUR)), "split: must be midnight"),
        (
            lambda: SessionWindow(gap="1m", max_duration="4h", min_duration="5h"),
            "min_duration: is more than max_duration, 4h, so no session would be left",
        ),
        (
            lambda: SessionWindow(
                gap="1m", max_duration="4h", max_duration_on="grid", min_duration="9h"
            ),
            "min_duration: is more than twice max_duration",
        ),
        (lambda: SlidingWindow(size="0s"), "size: must be greater than zero"),
        (lambda: SlidingWindow(size="1 day"), "size: can't be a calendar span"),
        (lambda: SlidingWindow(size=30), "size: a bare number"),
        (lambda: CountWindow(size=0), "size: must be a whole number of events, at least 1"),
        (lambda: CountWindow(size=True), "size: must be a whole number"),
        (lambda: CountWindow(size="5"), "size: must be a whole number"),
        (lambda: CountWindow(size="1 day", order="time"), "size: can't be a calendar span"),
        (lambda: CountWindow(size="0s", order="time"), "size: must be greater than zero"),
        (lambda: CountWindow(size=2, advance=0), "advance: must be a whole number"),
        (lambda: CountWindow(size=2, advance=None), "advance: must be a whole number"),
        (lambda: CountWindow(size=2, per="user"), "per: must be key or stream"),
        (lambda: CountWindow(size=2, order="id"), "order: must be arrival or time"),
        (
            lambda: CountWindow(size="1h", advance="1m", order="time"),
            r"advance: can't be a duration .*HoppingWindow",
        ),
        (lambda: CountWindow(size="1h"), "order: must be time if the size or the advance is a dur"),
    ],
)
def test_windows_that_are_refused(make: object, says: str) -> None:
    with pytest.raises(WindowError, match=says):
        make()  # type: ignore[operator]


def test_windows_are_frozen_and_compare_by_what_they_mean() -> None:
    assert SessionWindow(gap="30m") == SessionWindow(gap=dt.timedelta(minutes=30))
    assert len({TumblingWindow(size="1h"), TumblingWindow(size="60m")}) == 1
    assert CountWindow(size=3) == CountWindow(size=3, advance=1, per="key", order="arrival")
    assert str(SlidingWindow(size=None)) == "sliding(size=unbounded)"
    assert str(CountWindow(size=3)) == "count(size=3, advance=1)"
    assert str(CountWindow(size="1h", order="time")) == "count(size=1h, advance=1, order=time)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        SessionWindow(gap="30m").gap = Fixed(1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        SessionWindow("30m")  # type: ignore[call-arg, misc]


@pytest.mark.parametrize(
    "window", [HoppingWindow(size="1h", advance="2h"), CountWindow(size=1, advance=2)], ids=str
)
@pytest.mark.parametrize("name", ENGINES)
def test_advances_larger_than_the_size(name: str, window: HoppingWindow | CountWindow) -> None:
    if name in ("flink", "beam", "storm"):
        engine(name).rules_for(window)
    else:
        with pytest.raises(WindowError, match=f"advance.*{name} does not allow"):
            engine(name).rules_for(window)


def test_count_windows_of_one_tick_without_their_start() -> None:
    window = CountWindow(size="1ms", advance=1, order="time")
    with pytest.raises(WindowError, match=r"^size: must be at least 2ms under the engine storm"):
        engine("storm").rules_for(window)
    for name in {*ENGINES} - {"storm"}:
        engine(name).rules_for(window)
    engine("storm").rules_for(CountWindow(size="2ms", advance=1, order="time"))


@pytest.mark.parametrize("name", ENGINES)
def test_durations_finer_than_the_tick(name: str) -> None:
    window = SessionWindow(gap="1500us")
    if ENGINES[name].tick_us == 1:
        engine(name).rules_for(window)
    else:
        with pytest.raises(WindowError, match="whole milliseconds"):
            engine(name).rules_for(window)


@pytest.mark.parametrize(
    ("name", "window", "has"),
    [
        ("kafka-streams", TumblingWindow(size="1 day"), False),
        ("kafka-streams", TumblingWindow(size="1h", offset="1m"), False),
        ("kafka-streams", CumulatingWindow(size="1h", step="1m"), False),
        ("kafka-streams", HoppingWindow(size="1h", advance="1m"), True),
        ("spark", TumblingWindow(size="1h", offset="1m"), True),
        ("flink", CumulatingWindow(size="1h", step="1m"), True),
        ("beam", TumblingWindow(size="1 month"), True),
        ("storm", SessionWindow(gap="1h"), False),
        ("storm", TumblingWindow(size="1h"), True),
    ],
    ids=str,
)
def test_what_an_engine_has_not_follows_the_plain_rules(
    name: str, window: Window, has: bool
) -> None:
    system = engine(name)
    assert system.has(window) == has
    assert system.rules_for(window) == (system.rules if has else PLAIN.rules)


def test_an_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(JobFileError, match="kafka-streams"):
        engine("kafka-stream")


def test_errors_keep_their_facts() -> None:
    error = BackfillError("is wrong", field="a", value=3, way_out="Mend it")
    assert (str(error), error.field, error.value) == ("a: is wrong (got 3). Mend it", "a", 3)
    assert str(error.within("b")) == "b.a: is wrong (got 3). Mend it"
