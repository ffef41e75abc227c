"""Rolling metrics against plain Python: every step of every window, and as of each event."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, localcontext
from statistics import stdev
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill import Metric, metrics, metrics_at
from backfill import aggregates as agg
from backfill.errors import AggregateError, ColumnError, WindowError
from tests import drawn
from tests.event_frames import from_rows, rows
from tests.on_sail import ON_SAIL, spark_only
from tests.reference_metrics import FOLDS, Payment, as_of, at_step, groups, order, steps_of

COMMON: dict[str, Any] = {"time": "time", "time_format": "epoch_us", "arrival": "arrival"}
SCHEMA = "account string, country string, time bigint, amount bigint, arrival bigint, id string"
pytestmark = pytest.mark.usefixtures("interpreted")
DAY = 86_400_000_000


def frame(spark: SparkSession, payments: Iterable[Payment]) -> DataFrame:
    listed = [(p.account, p.country, p.time, p.amount, p.arrival, p.id) for p in payments]
    return from_rows(spark, listed, SCHEMA)


@functools.cache
def payments(unit: int, most: int) -> st.SearchStrategy[list[Payment]]:
    """Payments around the boundaries of steps of `unit` µs, with ties, in two countries."""
    time = st.builds(
        lambda n, fine: n * unit + fine,
        st.integers(-most, most),
        st.sampled_from([-1, 0, 0, 1]),
    )
    payment = st.tuples(
        st.sampled_from(["a", "a", "b"]),
        st.sampled_from(["x", "y", None]),
        time,
        st.none() | st.integers(-9, 9),
        st.none() | st.integers(0, 3),
    )
    return drawn.few_or_many(payment).map(lambda tuples: [Payment(*one) for one in tuples])


def apart(cases: Sequence[Sequence[Payment]]) -> list[Payment]:
    """The payments of all cases, each account with its case's number in front."""
    return [
        Payment(f"{number}:{p.account}", p.country, p.time, p.amount, p.arrival)
        for number, case in enumerate(cases)
        for p in case
    ]


#: Aggregates that are merged over frames of slices; the others go event by event.
FRAMED = [
    name
    for name, (aggregate, _) in FOLDS.items()
    if aggregate.framed or "distinct" in str(aggregate)
]


def all_of(
    by: Any,
    windows: Sequence[str],
    step: str,
    offset: str = "0s",
    names: Sequence[str] = tuple(FOLDS),
) -> list[Metric]:
    return [
        Metric(name, FOLDS[name][0], by=by, windows=windows, step=step, offset=offset)
        for name in names
    ]


def plain(value: Any) -> Any:
    """A comparable value: exact numbers as they are, doubles rounded."""
    if isinstance(value, list | tuple):
        return tuple(value)
    if isinstance(value, float):
        return round(value, 9)
    return value


SHAPES = [
    (["6us", "30us"], "3us", "1us", 3, 12),
    (["2us", "7us"], "1us", "0s", 1, 20),
    (["1h", "90m"], "30m", "-5m", 1_800_000_000, 9),
    (["1d", "30d"], "24h", "0s", DAY // 2, 90),
]


@pytest.mark.parametrize(
    ("shape", "names", "dense"),
    [
        *((shape, FRAMED, False) for shape in SHAPES),
        (SHAPES[0], FRAMED, True),
        (SHAPES[2], FRAMED, True),
        pytest.param(SHAPES[0], list(FOLDS), False, marks=pytest.mark.slow),
        pytest.param(SHAPES[3], list(FOLDS), False, marks=pytest.mark.slow),
    ],
)
def test_step_functions(
    spark: SparkSession,
    shape: tuple[list[str], str, str, int, int],
    names: list[str],
    dense: bool,
) -> None:
    windows, step, offset, unit, most = shape
    cases = drawn.cases(payments(unit, most), 60)
    given = apart(cases)
    own = all_of([["account"], ["account", "country"]], windows, step, offset, names)
    unusable = Payment(None, None, 5, 1)
    result = metrics(frame(spark, [*given, unusable]), own, dense=dense, **COMMON)
    dimensions = ["by", "account", "country", "window", "step"]
    assert result.columns == [*dimensions, "valid_from", *names]
    steps: dict[Any, list[Any]] = {}
    for by, account, country, window, _, at, *values in rows(result):
        steps.setdefault((by, account, country, window), []).append((at, *map(plain, values)))
    expected: dict[Any, list[Any]] = {}
    for by in own[0].by:
        for key, mine in groups(given, by).items():
            for window in own[0].windows:
                where = (", ".join(by), key[0], key[1] if len(key) > 1 else None, str(window))
                of = steps_of(mine, own, window.us, dense=dense)
                expected[where] = [tuple(map(plain, row)) for row in of]
    drawn.check(
        {place: sorted(of, key=lambda row: row[0]) for place, of in steps.items()},
        {place: of for place, of in expected.items() if of},
        lambda place: cases[drawn.number(place[1])],
    )


@pytest.mark.slow
def test_at_given_instants(spark: SparkSession) -> None:
    cases = drawn.cases(payments(3, 12), 60)
    given = apart(cases)
    own = all_of(["account"], ["6us", "30us"], "3us", "1us")
    instants = [-30, -1, 0, 1, 2, 5, 5, 17, 40, None]
    asked = spark.createDataFrame([(instant,) for instant in instants], "t bigint")
    result = metrics(frame(spark, given), own, at=asked, **COMMON)
    assert result.columns == ["by", "account", "window", "step", "at", *FOLDS]
    by_place = {
        (account, window, at): tuple(map(plain, values))
        for _, account, window, _, at, *values in rows(result)
    }
    nothing = tuple(map(plain, at_step([], own, 0, 0)))
    expected = {}
    for (account,), mine in groups(given, ["account"]).items():
        for window in own[0].windows:
            for at in {instant for instant in instants if instant is not None}:
                step = (at - 1) // 3 * 3 + 1
                values = tuple(map(plain, at_step(mine, own, window.us, step)))
                if values != nothing:
                    expected[account, str(window), at] = values
    drawn.check(by_place, expected, lambda place: cases[drawn.number(place[0])])
    assert len(rows(result)) == len(by_place)


@pytest.mark.parametrize(
    ("labels", "ordered", "before"),
    [
        (False, True, False),
        pytest.param(True, False, True, marks=spark_only),
        *(
            pytest.param(*case, marks=[pytest.mark.slow, *([spark_only] if case[2] else [])])
            for case in (
                (False, True, True),
                (False, False, True),
                (True, True, False),
                (True, False, False),
            )
        ),
    ],
)
def test_as_of_each_event(spark: SparkSession, before: bool, ordered: bool, labels: bool) -> None:
    cases = drawn.cases(payments(2, 10), 60)
    given = apart(cases)
    own = all_of([["account"], ["account", "country"]], ["8us", "3us"], "1us")
    asked = given
    if labels:
        other = [*cases[1:], *cases[:1]]
        asked = apart(other)
    nowhere = Payment(None, None, 5, 1)
    spine = frame(spark, [*asked, nowhere]).select(
        "account", "country", "time", *(["arrival"] if ordered else []), F.col("amount").alias("x")
    )
    events = frame(spark, given)
    if not ordered:
        events = events.drop("arrival")
    common = COMMON if ordered else {**COMMON, "arrival": None}
    if labels:
        result = metrics_at(events, own, at=spine, before=before, **common)
    else:
        events = events.withColumn("x", F.col("amount"))
        result = metrics_at(events, own, before=before, **common)
    names = [
        f"{name}_by_{by}_{window}"
        for name in FOLDS
        for by in ("account", "account_country")
        for window in ("8us", "3us")
    ]
    assert result.columns[-len(names) - 1 :] == [*names, "ties"]
    counts: dict[str, Counter[Any]] = {}
    for row in rows(result.select("account", "country", "time", "x", *names, "ties")):
        counts.setdefault(row[0], Counter())[tuple(map(plain, row[1:]))] += 1
    if labels:
        assert counts.pop(None) == Counter({(None, 5, 1, *[None] * len(names), 0): 1})  # type: ignore[call-overload]
    known = given if ordered else [Payment(p.account, p.country, p.time, p.amount) for p in given]
    by_account, by_both = groups(known, ["account"]), groups(known, ["account", "country"])
    expected: dict[str, Counter[Any]] = {}
    for p in asked:
        mine = [by_account.get((p.account,), []), by_both.get((p.account, p.country), [])]
        inside = [
            as_of(p, of, window, before=before, ordered=ordered) for of in mine for window in (8, 3)
        ]
        values = [plain(FOLDS[name][1](held)) for name in FOLDS for held in inside]
        same = [e for e in mine[0] if e.time == p.time and (not ordered or e.arrival == p.arrival)]
        ties = len(same) - (0 if labels else 1)
        row = (p.country, p.time, p.amount, *values, ties)
        expected.setdefault(str(p.account), Counter())[row] += 1
    drawn.check(counts, expected, lambda key: cases[drawn.number(key)])


@pytest.mark.slow
def test_no_value_changes_when_later_events_are_taken_away(spark: SparkSession) -> None:
    # Each case once as it is and once without its later half, under other keys of the same frame.
    cases = [case for case in drawn.cases(payments(3, 12), 60) if case]
    cuts = [sorted(p.time for p in case)[len(case) // 2] for case in cases]
    early = [[p for p in case if p.time < cut] for case, cut in zip(cases, cuts, strict=True)]
    events = frame(spark, apart([*cases, *early]))
    own = all_of(["account"], ["6us", "30us"], "3us")

    def of(account: str) -> tuple[int, int, str]:
        """Whether it is one of those without later events, its case, and its name there."""
        half, case = divmod(drawn.number(account), len(cases))
        return half, case, account.partition(":")[2]

    steps: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for _, account, window, _, at, *values in rows(metrics(events, own, **COMMON)):
        half, case, name = of(account)
        # At steps that end no later than the cut only earlier events can count.
        if at <= cuts[case]:
            steps[half][case, name, window, at] = tuple(map(plain, values))
    whole, without = steps
    assert len(whole) > 100
    drawn.check(without, whole, lambda place: cases[place[0]])

    for before in (False,) if ON_SAIL else (False, True):
        seen: tuple[dict[Any, Counter[Any]], dict[Any, Counter[Any]]] = ({}, {})
        result = metrics_at(events, own, before=before, **COMMON).drop("id")
        for account, country, time, *values in rows(result):
            half, case, name = of(account)
            if time < cuts[case]:
                row = (country, time, *map(plain, values))
                seen[half].setdefault((case, name), Counter())[row] += 1
        assert len(seen[0]) > 10
        drawn.check(seen[1], seen[0], lambda place: cases[place[0]])


def test_metrics_of_all_events_and_of_several_steps(spark: SparkSession) -> None:
    given = [
        Payment("a", "x", 0, 3, 1, "1"),
        Payment("a", "x", 0, 3, 2, "1"),
        Payment("b", None, 4, 7, 1, "2"),
    ]
    own = [
        Metric("n", "count", by=[], windows=["10us"], step="5us"),
        Metric("large", "sum(amount)", by=[], windows=["10us"], step="5us", where="amount > 5"),
        Metric("by_two", "max(amount) where amount < 9", by=[], windows=["10us"], step="2us"),
    ]
    result = metrics(frame(spark, given), own, id="id", **COMMON)
    assert sorted(rows(result), key=lambda row: row[2:4]) == [
        ("", "10us", "2us", 2, None, None, 3),
        ("", "10us", "2us", 6, None, None, 7),
        ("", "10us", "2us", 16, None, None, None),
        ("", "10us", "5us", 5, 2, 7, None),
        ("", "10us", "5us", 15, 0, None, None),
    ]
    seen = metrics_at(frame(spark, given), own[:2], id="id", **COMMON)
    values = seen.select("account", "arrival", "n_10us", "large_10us", "ties")
    assert sorted(rows(values)) == [
        ("a", 1, 1, None, 0),
        ("a", 2, 1, None, 0),
        ("b", 1, 2, 7, 0),
    ]


def test_nothing_gives_nothing(spark: SparkSession) -> None:
    own = all_of(["account"], ["6us"], "3us")
    empty = frame(spark, [])
    assert rows(metrics(empty, own, **COMMON)) == []
    assert rows(metrics(empty, own, dense=True, **COMMON)) == []
    assert rows(metrics_at(empty, own, **COMMON)) == []


@pytest.mark.spark_only
def test_the_same_values_in_another_order_are_no_change(spark: SparkSession) -> None:
    # When the first event leaves, which has no amount, the others are merged anew.
    given = [(-25, 8), (-10, None), (11, None), (12, 5), (13, 7), (18, -2), (44, None)]
    events = [Payment("a", None, day * DAY, amount, None) for day, amount in given]
    own = Metric("spread", agg.stddev("amount"), by=["account"], windows=["30d"], step="1d")
    result = metrics(frame(spark, events), [own], **COMMON).orderBy("valid_from")
    values = [plain(row.spread) for row in result.collect()]
    assert values == [*(plain(stdev(amounts)) for amounts in ([5, 7], [5, 7, -2], [7, -2])), None]


def test_sums_of_doubles_do_not_drift(spark: SparkSession) -> None:
    """A huge value that has left a window leaves nothing behind."""
    values = [1e300, 1.0, float("inf"), float("nan"), float("-inf"), 1e-300, *([0.1] * 200)]
    events = spark.createDataFrame(list(enumerate(values)), "time bigint, amount double")
    own = [
        Metric("total", agg.sum("amount"), by=[], windows=["10us"], step="1us"),
        Metric("middle", agg.mean("amount"), by=[], windows=["10us"], step="1us"),
    ]
    for row in rows(metrics(events, own, time="time", time_format="epoch_us", dense=True)):
        at, total, middle = row[-3:]
        if 16 <= at <= len(values):
            assert total == pytest.approx(1.0, abs=1e-14)
            assert middle == pytest.approx(0.1, abs=1e-15)
        if at in (4, 5):
            assert str(total) == "nan"
    seen = metrics_at(events, own, time="time", time_format="epoch_us")
    for time, amount, total, *_ in rows(seen):
        if time >= 16:
            assert total == pytest.approx(1.1, abs=1e-14), (time, amount)


LARGEST = (1 << 63) - 1


@pytest.mark.parametrize("before", [False, pytest.param(True, marks=spark_only)])
def test_totals_of_a_key_may_exceed_what_those_of_a_window_may_not(
    spark: SparkSession, before: bool
) -> None:
    """Integers and decimals are exact to the last digit, however much has left a window."""
    nines, less = Decimal("9" * 38), Decimal("-" + "9" * 38)
    values = [LARGEST, -5, None, LARGEST - 1, 1, -LARGEST, 3, -LARGEST]
    amounts = [nines, Decimal(-5), None, nines, Decimal(0), less, Decimal(3), less]
    small = [None if value is None else Decimal(value % 1000) / 8 for value in values]
    times = [number * 10 for number in range(len(values))]
    events = spark.createDataFrame(
        list(zip(times, values, amounts, small, strict=True)),
        "time bigint, whole bigint, widest decimal(38, 0), small decimal(28, 3)",
    )
    summed = {"whole": values, "widest": amounts, "small": small}
    if ON_SAIL:
        del summed["widest"]
    own = [
        Metric(name, f"sum({name})", by=[], windows=["12us", "2us"], step="1us") for name in summed
    ]
    result = metrics_at(events, own, time="time", time_format="epoch_us", before=before)
    for at, _, _, _, *sums in rows(result):
        inside = [
            number
            for number, time in enumerate(times)
            if at - 12 <= time and (time < at if before else time <= at)
        ]
        alone = [number for number in inside if times[number] >= at - 2]

        def total(of: Sequence[Any], numbers: Sequence[int]) -> Any:
            known = [of[number] for number in numbers if of[number] is not None]
            with localcontext(Context(prec=60)):
                return functools.reduce(operator.add, known) if known else None

        assert sums[:-1] == [
            total(of, numbers) for of in summed.values() for numbers in (inside, alone)
        ]


def test_a_window_that_overflows_raises(spark: SparkSession) -> None:
    events = spark.createDataFrame([(0, LARGEST), (5, 1), (60, 1)], "time bigint, amount bigint")

    def totals(window: str) -> DataFrame:
        own = [Metric("total", "sum(amount)", by=[], windows=[window], step="1us")]
        return metrics_at(events, own, time="time", time_format="epoch_us")

    assert [row[2] for row in rows(totals("4us"))] == [LARGEST, 1, 1]
    # Sail's error says which cast failed.
    with pytest.raises((ArithmeticException, SparkRuntimeException), match=r"overflow|Can't cast"):
        rows(totals("5us"))


@pytest.mark.parametrize("before", [False, pytest.param(True, marks=spark_only)])
def test_rows_that_cannot_be_used_change_no_others(spark: SparkSession, before: bool) -> None:
    """They come back without values."""
    given = [(account, time, n) for account in ("a", None) for n, time in enumerate([3, None, 5])]
    events = spark.createDataFrame(given, "account string, time bigint, amount bigint")
    own = all_of(["account"], ["2us", "9us"], "1us")
    common: dict[str, Any] = {"time": "time", "time_format": "epoch_us", "before": before}
    values = [f"{name}_{window}" for name in FOLDS for window in ("2us", "9us")]
    for at, others in ((None, 0), (events, 1)):
        result = metrics_at(events, own, at=at, **common)
        by_event = {(row[0], row[1]): row[3:] for row in rows(result)}
        assert len(by_event) == 6
        known = [Payment("a", None, time, amount) for time, amount in ((3, 0), (5, 2))]
        for (account, time), (*seen, ties) in by_event.items():
            if account is None or time is None:
                assert (seen, ties) == ([None] * len(values), None if time is None else 0)
                continue
            assert ties == others
            asked = Payment("a", None, time, None)
            expected = [
                plain(fold(as_of(asked, known, span, before=before, ordered=False)))
                for _, fold in FOLDS.values()
                for span in (2, 9)
            ]
            assert [plain(value) for value in seen] == expected


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"windows": ["7m"]}, WindowError, r"whole number of steps of 5m \(got '7m'\). Use a step"),
        ({"windows": ["1 day"]}, WindowError, "windows: can't be a calendar span"),
        ({"windows": ["1us"], "step": "1us"}, WindowError, "windows: must be at least 2us"),
        ({"windows": "1h"}, WindowError, "windows: needs a list of durations"),
        ({"step": "0s"}, WindowError, "step: must be greater than zero"),
        ({"by": "account"}, ColumnError, "by: must be a list of columns"),
        ({"by": ["a", ["b"]]}, ColumnError, "by: must be a column's name"),
        ({"by": ["window"]}, ColumnError, "not one of the result's own columns"),
        ({"name": "window"}, AggregateError, "name: the name is reserved"),
        ({"name": "account"}, AggregateError, "name: the name is that of a dimension"),
        ({"name": "Account"}, AggregateError, "name: the name is that of a dimension"),
        ({"name": "Window"}, AggregateError, "name: the name is reserved"),
        ({"by": ["At"]}, ColumnError, "not one of the result's own columns"),
        ({"by": ["user", "User"]}, ColumnError, "by: must be a column's name, given once"),
        ({"aggregate": "total(x)"}, AggregateError, "total"),
    ],
)
def test_what_has_no_meaning_is_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"name": "n", "aggregate": "count", "by": ["account"], "windows": ["1h"], "step": "5m"}
    with pytest.raises(error, match=message):
        Metric(**(given | change))  # type: ignore[arg-type]


def test_what_does_not_fit_the_events_is_refused(spark: SparkSession) -> None:
    events = frame(spark, [])
    n = Metric("n", "count", by=["account"], windows=["1h"], step="5m")
    bad = Metric("m", "sum(country)", by=["acount"], windows=["1h"], step="5m")
    country = Metric("country", "count", by=["account"], windows=["1h"], step="5m")
    again = Metric("N", "count", by=["account"], windows=["1h"], step="5m")
    other = Metric("m", "count", by=["Account"], windows=["1h"], step="5m")
    for more in (again, other):
        with pytest.raises(AggregateError, match="two columns of the result would have this name"):
            metrics(events, [n, more], **COMMON)
    with pytest.raises(AggregateError, match="metrics: is empty"):
        metrics(events, [], **COMMON)
    with pytest.raises(AggregateError, match="two columns of the result would have this name"):
        metrics(events, [n, n], **COMMON)
    with pytest.raises(ColumnError, match=r"by: there is no such column.*Did you mean 'account'"):
        metrics(events, [bad], **COMMON)
    with pytest.raises(WindowError, match="dense: can't be combined with at"):
        metrics(events, [n], dense=True, at=events.select("time"), **COMMON)
    with pytest.raises(ColumnError, match="at: must have one column"):
        metrics(events, [n], at=events, **COMMON)
    with pytest.raises(ColumnError, match=r"at: the rows already have a column.*'n_1h'"):
        metrics_at(events.withColumn("n_1h", F.lit(1)), [n], **COMMON)
    assert "country_1h" in metrics_at(events, [country], **COMMON).columns


def test_a_filter_is_joined_to_that_of_the_aggregate(spark: SparkSession) -> None:
    both = Metric("n", agg.count(where="a OR b"), by=[], windows=["1h"], step="5m", where="c OR d")
    assert str(both) == "n = count where (a OR b) AND (c OR d) over 1h every 5m"
    given = [Payment("a", None, 1, amount) for amount in range(6)]
    column = Metric(
        "n",
        agg.count(where=F.col("amount") > 1),
        by=[],
        windows=["5us"],
        step="5us",
        where="amount < 4",
    )
    assert [row[-1] for row in rows(metrics(frame(spark, given), [column], **COMMON))] == [2, 0]


def test_the_reference_sorts_as_spark_does() -> None:
    assert order(Payment("a", None, 1, None)) < order(Payment("a", None, 1, -5))
