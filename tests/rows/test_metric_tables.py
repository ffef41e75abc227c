"""The rows of metrics' tables against plain Python, and against what `metrics` gives."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import Metric, metrics
from backfill import aggregates as agg
from backfill.columns import END, EVENTS, OWN
from backfill.conservation import assigned_to
from backfill.engines import PLAIN
from backfill.errors import ColumnError
from backfill.events import EventRules, normalise
from backfill.frames.cutting import slice_events
from backfill.operators.rolling_steps import STATES
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.runtimes.differences import computed_once
from backfill.windows import MetricSlices, RollingWindow
from tests import drawn
from tests.event_frames import rows
from tests.frames.test_metrics import COMMON, DAY, FRAMED, SHAPES, apart, frame, payments, plain
from tests.reference_metrics import FOLDS, Payment, groups, wide

pytestmark = pytest.mark.usefixtures("interpreted")


def definition(metric: Metric, by: tuple[str, ...]) -> Definition:
    window = RollingWindow(by=by, windows=metric.windows, step=metric.step, offset=metric.offset)
    names = [f"{metric.name}_{size}" for size in metric.windows]
    return Definition(window, dict.fromkeys(names, metric.aggregate))


def sliced(events: DataFrame, definitions: list[Definition]) -> Sliced:
    rules = EventRules(key=(), time="time", time_format="epoch_us", arrival=("arrival",))
    return slice_events(
        normalise(events, rules),
        definitions,
        key=[],
        engine=PLAIN,
        zone="UTC",
        id=None,
        arrival=["arrival"],
        keep=computed_once,
    )


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (SHAPES[0], ["distinct", "last"]),
        pytest.param(SHAPES[1], ["median"], marks=pytest.mark.spark_only),
        (SHAPES[2], ["total"]),
    ],
)
def test_every_step(
    spark: SparkSession, shape: tuple[list[str], str, str, int, int], names: list[str]
) -> None:
    windows, step, offset, unit, most = shape
    cases = drawn.cases(payments(unit, most), 60)
    given = apart(cases)
    own = [
        Metric(name, FOLDS[name][0], by=by, windows=windows, step=step, offset=offset)
        for name in names
        for by in (["account"], ["account", "country"])[: 3 - len(names)]
    ]
    definitions = [definition(own_metric, by) for own_metric in own for by in own_metric.by]
    nowhere = Payment(None, None, 5, 1)
    cut = sliced(frame(spark, [*given, nowhere]), definitions)
    for place, rolling in enumerate(definitions):
        built = cut.build(rolling)
        every = computed_once(built.frame)
        by, metric = rolling.window.by, own[place]  # type: ignore[union-attr]
        # Each event is placed once, whether or not a value changes there.
        held = every.agg(F.sum(built.kind.held)).collect()[0][0]
        assert held == assigned_to(cut, rolling) == len(given)
        by_key: dict[Any, list[Any]] = {}
        for row in rows(built.result().select(*by, F.unix_micros("at"), *rolling.aggregates)):
            key = row[: len(by)]
            by_key.setdefault(key, []).append(tuple(map(plain, row[len(by) :])))
        expected = {
            key: [tuple(map(plain, row)) for row in wide(mine, metric)]
            for key, mine in groups(given, by).items()
        }
        drawn.check(
            {key: sorted(of, key=lambda row: row[0]) for key, of in by_key.items()},
            {key: of for key, of in expected.items() if of},
            lambda key: cases[drawn.number(key[0])],
        )


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        (SHAPES[0], "distinct"),
        pytest.param(SHAPES[1], "last", marks=pytest.mark.slow),
        pytest.param(SHAPES[2], "median", marks=[pytest.mark.slow, pytest.mark.spark_only]),
    ],
)
def test_rows_of_a_span(
    spark: SparkSession, shape: tuple[list[str], str, str, int, int], name: str
) -> None:
    """They stay the same when events are merged that no row of the span tells apart."""
    windows, step, offset, unit, most = shape
    cases = drawn.cases(payments(unit, most), 60)
    given = apart(cases)
    by = ("account",)
    metric = Metric(name, FOLDS[name][0], by=by, windows=windows, step=step, offset=offset)
    rolling = definition(metric, by)
    cut = sliced(frame(spark, given), [rolling])
    whole = {key: wide(mine, metric) for key, mine in groups(given, by).items()}
    steps = sorted({row[0] for of in whole.values() for row in of})
    middle = steps[len(steps) // 2]
    spans = [
        (middle, middle + 1),
        (middle - 9 * unit + 1, middle - unit),
        (steps[0] - 9 * unit, middle),
        (steps[-1], steps[-1] + 9 * unit),
    ]
    for low, high in spans:
        built = cut.build(rolling, (low, high))
        assert built.frame.agg(F.sum(built.kind.held)).collect()[0][0] == len(given)
        by_key: dict[Any, list[Any]] = {}
        for row in rows(built.result().select(*by, F.unix_micros("at"), *rolling.aggregates)):
            by_key.setdefault(row[:1], []).append(tuple(map(plain, row[1:])))
        inside = {
            key: [tuple(map(plain, row)) for row in of if low <= row[0] < high]
            for key, of in whole.items()
        }
        drawn.check(
            {key: sorted(of, key=lambda row: row[0]) for key, of in by_key.items()},
            {key: of for key, of in inside.items() if of},
            lambda key: (low, high, cases[drawn.number(key[0])]),  # noqa: B023
        )


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        (SHAPES[0], ["distinct", "total", "last"]),
        pytest.param(SHAPES[1], list(FRAMED), marks=pytest.mark.slow),
        (SHAPES[2], ["distinct", "total"]),
    ],
)
def test_rows_from_slices(
    spark: SparkSession, shape: tuple[list[str], str, str, int, int], names: list[str]
) -> None:
    """Rows are the same if the events of some steps are only there as slices."""
    windows, step, offset, unit, most = shape
    cases = drawn.cases(payments(unit, most), 60)
    given = apart(cases)
    by = ("account",)
    for name in names:
        metric = Metric(name, FOLDS[name][0], by=by, windows=windows, step=step, offset=offset)
        rolling = definition(metric, by)
        slices = MetricSlices(
            by=by, windows=(metric.step,), step=metric.step, offset=metric.offset, metric=name
        )
        table = Definition(slices, {name: metric.aggregate})
        times = sorted(payment.time for payment in given)
        low = times[len(times) // 3]
        # At the edge of a step, as a run takes them.
        low -= (low - metric.offset.us) % metric.step.us
        old, new = ([e for e in given if (e.time < low) == before] for before in (True, False))
        before = sliced(frame(spark, old), [rolling, table]).build(table)
        assert before.frame.agg(F.sum(OWN), F.sum(EVENTS)).collect()[0][:] == (len(old),) * 2
        assert before.frame.count() == before.frame.select("_key0", END).distinct().count()
        kept = before.frame.select("_key0", END, F.col(name).alias(STATES))
        built = sliced(frame(spark, new), [rolling, table]).build(rolling, (low, low + DAY), kept)
        assert built.frame.agg(F.sum(built.kind.held)).collect()[0][0] == len(given)
        by_key: dict[Any, list[Any]] = {}
        for row in rows(built.result().select(*by, F.unix_micros("at"), *rolling.aggregates)):
            by_key.setdefault(row[:1], []).append(tuple(map(plain, row[1:])))
        expected = {
            key: [tuple(map(plain, row)) for row in wide(mine, metric) if low <= row[0] < low + DAY]
            for key, mine in groups(given, by).items()
        }
        drawn.check(
            {key: sorted(of, key=lambda row: row[0]) for key, of in by_key.items()},
            {key: of for key, of in expected.items() if of},
            lambda key: (name, low, cases[drawn.number(key[0])]),  # noqa: B023
        )


def test_fewer_rows_for_a_day(spark: SparkSession) -> None:
    """Of a year of hours, a day's rows need only those that come or go on that day."""
    hour = 3_600_000_000
    given = [Payment("a", None, hour * number, 1) for number in range(365 * 24)]
    metric = Metric("n", agg.count(), by=["account"], windows=["1d", "300d"], step="1h")
    rolling = definition(metric, ("account",))
    cut = sliced(frame(spark, given), [rolling])
    built = cut.build(rolling, (360 * DAY, 361 * DAY))
    assert built.result().count() == 0
    # Events of the day, of the day before, of the day that leaves the longer window, and those in
    # between, each of which comes and goes twice.
    assert built.frame.count() <= 3 * (3 * 24 + 4)
    [row] = cut.build(rolling, (300 * DAY, 300 * DAY + 1)).result().collect()
    assert (row.n_1d, row.n_300d) == (24, 7200)


def test_the_values_are_those_of_metrics(spark: SparkSession) -> None:
    given = frame(spark, apart(drawn.cases(payments(3, 12), 60)))
    metric = Metric("n", agg.count(), by=["country"], windows=["6us", "30us"], step="3us")
    rolling = definition(metric, ("country",))
    table = sliced(given, [rolling]).build(rolling).result()
    long = metrics(given, [metric], **COMMON)
    # The table has a row where any value changes; the long form has those of each window.
    kept = {(row.country, row.window, row.valid_from, row.n) for row in long.collect()}
    there = {
        (row.country, window, row.at, row[f"n_{window}"])
        for row in table.collect()
        for window in ("6us", "30us")
    }
    assert kept <= there
    assert {place[:3] for place in kept} | {place[:3] for place in there} == {
        (country, window, at) for country, _, at, _ in there for window in ("6us", "30us")
    }
    assert not table.where("country IS NULL").count()


def test_no_events_and_all_together(spark: SparkSession) -> None:
    rolling = definition(Metric("n", agg.count(), by=[], windows=["6us"], step="3us"), ())
    given = [Payment(None, None, time, 1) for time in (4, 5, -1)]
    steps = rows(sliced(frame(spark, given), [rolling]).build(rolling).result())
    assert sorted(steps) == [(0, 1), (6, 2), (12, 0)]
    assert not rows(sliced(frame(spark, []), [rolling]).build(rolling).result())


def test_dimensions_that_do_not_fit(spark: SparkSession) -> None:
    events = frame(spark, []).withColumn("tags", F.map_from_arrays(F.array(), F.array()))
    for name, problem in (("acount", "Did you mean 'account'"), ("tags", "cannot serve as by")):
        metric = Metric("n", agg.count(), by=[name], windows=["6us"], step="3us")
        with pytest.raises(ColumnError, match=problem):
            sliced(events, [definition(metric, (name,))])
