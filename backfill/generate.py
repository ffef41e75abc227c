"""Sample events, the clicks of a web shop; the same arguments give the same events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from backfill.errors import JobFileError, TableError
from backfill.session_conf import session_conf

_EPOCH = date(1970, 1, 1)
_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_DAY = 24 * _HOUR
_MEDIAN_STEP_S = 25.0
_STEP_SIGMA = 1.2
_LATE_MEAN = 12 * _HOUR
_LATE_MOST = 7 * _DAY
#: The upper limit for any number, so that everything computed with them fits a BIGINT.
_MOST = 10**12
# With Spark's default, INT96, files have no statistics of times.
_WRITE_CONF = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What was written.

    Attributes:
        path: the folder.
        events: the number of distinct events.
        rows: the number of rows; more than events if some were delivered twice.
        late: the number of rows that were received an hour or more after their event time.
        days: the days of arrival; each has one file.
    """

    path: str
    events: int
    rows: int
    late: int
    days: int


def generate(
    spark: SparkSession,
    path: str,
    *,
    events: int,
    days: int,
    keys: int,
    late: float = 0.0,
    duplicates: float = 0.0,
    hot_key: float = 0.0,
    per_session: int = 12,
    seed: int = 1,
    start: date = date(2026, 1, 1),
) -> Generated:
    """Writes events as Parquet: `received_date=YYYY-MM-DD/`, a file per day, in order of arrival.

    The same arguments give the same rows on any machine, whatever Spark's settings.

    Args:
        spark: the session that writes.
        path: the folder to make; it must not exist.
        events: how many distinct events.
        days: their event times lie in [start, start + days), UTC.
        keys: how many users they are spread over, evenly.
        late: the share of events that are received 1 hour to 7 days after their event time (the
            delay beyond the hour is exponential with a mean of 12 hours). The others take one
            second, so that without late events the order of arrival is the order of event time.
        duplicates: the share of events that are delivered a second time, up to 50 minutes later.
        hot_key: the share of events that belong to one more user, `u0000000`.
        per_session: the mean number of events in a visit; the numbers are uniform around it, the
            steps between events lognormal with a median of 25 s and a sigma of 1.2.
        seed: another seed gives other events.
        start: the first day of the event times.

    Raises:
        JobFileError: a number makes no sense.
        TableError: the folder exists.
    """
    for name, number in {
        "events": events,
        "days": days,
        "keys": keys,
        "per_session": per_session,
    }.items():
        if not 1 <= number <= _MOST:
            raise JobFileError(f"must be from 1 to {_MOST:,}", field=name, value=number)
    for name, share in {"late": late, "duplicates": duplicates, "hot_key": hot_key}.items():
        if not 0 <= share <= 1:
            raise JobFileError("must be a share from 0 to 1", field=name, value=share)
    chance = _Chance(seed)
    clicks = _clicks(spark, chance, events=events, per_session=per_session, span=days * _DAY)
    users = _users(chance, keys=keys, hot_key=hot_key)
    rows = _deliveries(clicks, chance, users, start=start, late=late, duplicates=duplicates)
    _write(rows, path, most_days=days + _LATE_MOST // _DAY + 1)
    return _look(spark, path, events)


class _Chance:
    """Uniform numbers in [0, 1) that depend on nothing but the seed, a purpose and columns."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, purpose: str, *of: Column) -> Column:
        hashed = F.xxhash64(F.lit(self._seed), F.lit(purpose), *of)
        return F.shiftrightunsigned(hashed, 11) / F.lit(float(1 << 53))

    def hexadecimal(self, purpose: str, *of: Column) -> Column:
        """Sixteen hexadecimal digits."""
        hashed = F.xxhash64(F.lit(self._seed), F.lit(purpose), *of)
        return F.lower(F.lpad(F.hex(hashed), 16, "0"))

    def exponential(self, purpose: str, mean: int, *of: Column) -> Column:
        return -F.log(1 - self(purpose, *of)) * mean


def _clicks(
    spark: SparkSession, chance: _Chance, *, events: int, per_session: int, span: int
) -> DataFrame:
    """One row per event: `event` (its number), `visit`, `at` (µs since the start).

    Visits come in pairs that share 2 * per_session events, so the number of events is exact, and
    each event's number is known without counting the others.
    """
    pair_size = 2 * per_session
    pair = F.col("id")
    cut = 1 + F.floor(chance("cut", pair) * (pair_size - 1))

    def visit(number: Column, first: Column, size: Column) -> Column:
        return F.struct(number.alias("visit"), first.alias("first"), size.alias("size"))

    first = pair * pair_size
    visits = spark.range((events + pair_size - 1) // pair_size).select(
        F.explode(
            F.array(visit(2 * pair, first, cut), visit(2 * pair + 1, first + cut, pair_size - cut))
        ).alias("v")
    )

    def step(number: Column) -> Column:
        # A normal number, by the method of Box and Muller.
        radius = F.sqrt(-2 * F.log(1 - chance("radius", F.col("v.visit"), number)))
        angle = F.lit(6.283185307179586) * chance("angle", F.col("v.visit"), number)
        seconds = _MEDIAN_STEP_S * F.exp(_STEP_SIGMA * radius * F.cos(angle))
        return F.floor(seconds * _SECOND)

    def add(left: Column, right: Column) -> Column:
        return left + right

    steps = visits.select(
        "v", F.transform(F.sequence(F.lit(1), F.col("v.size")), step).alias("steps")
    )
    length = F.aggregate("steps", F.lit(0).cast("bigint"), add)
    begin = F.floor(chance("begin", F.col("v.visit")) * F.greatest(span - length, F.lit(0)))
    offsets = F.transform(
        F.sequence(F.lit(1), F.size("steps")),
        lambda n: F.aggregate(F.slice("steps", 1, n), F.lit(0).cast("bigint"), add),
    )
    placed = steps.select("v", begin.alias("begin"), F.posexplode(offsets).alias("n", "offset"))
    return placed.select(
        (F.col("v.first") + F.col("n")).alias("event"),
        F.col("v.visit").alias("visit"),
        F.least(F.col("begin") + F.col("offset"), F.lit(span - 1)).alias("at"),
    ).where(F.col("event") < events)


def _users(chance: _Chance, *, keys: int, hot_key: float) -> Column:
    ordinary = 1 + F.floor(chance("user", F.col("visit")) * keys)
    hot = chance("hot", F.col("visit")) < hot_key
    number = F.when(hot, F.lit(0).cast("bigint")).otherwise(ordinary)
    # A name of constant width, in a fifth of the time that format_string takes.
    return F.concat(F.lit("u"), F.lpad(number.cast("string"), max(7, len(str(keys))), "0"))


def _deliveries(
    clicks: DataFrame,
    chance: _Chance,
    users: Column,
    *,
    start: date,
    late: float,
    duplicates: float,
) -> DataFrame:
    """One row per delivery of an event, with all columns of the result."""
    event = F.col("event")
    is_late = chance("late", event) < late
    is_twice = chance("twice", event) < duplicates
    lateness = _HOUR + chance.exponential("lateness", _LATE_MEAN, event)
    delay = F.when(is_late, F.least(lateness, F.lit(_LATE_MOST))).otherwise(_SECOND)
    again = delay + _SECOND + chance("again", event) * (_HOUR * 5 // 6)
    deliveries = F.when(is_twice, F.array(delay, again)).otherwise(F.array(delay))
    started = (start - _EPOCH) // timedelta(microseconds=1)
    at = F.col("at") + started
    kind = chance("kind", event)
    received = clicks.select(
        chance.hexadecimal("id", event).alias("event_id"),
        users.alias("user_id"),
        F.timestamp_micros(at).alias("event_time"),
        F.when(kind < 0.8, "view").when(kind < 0.95, "cart").otherwise("buy").alias("event_type"),
        # The square makes the first pages the busiest.
        F.concat(F.lit("/item/"), 1 + F.floor(200 * F.pow(chance("page", event), F.lit(2)))).alias(
            "page"
        ),
        F.round(0.01 + chance.exponential("amount", 25, event), 2).alias("amount"),
        F.explode(F.transform(deliveries, lambda d: at + F.floor(d))).alias("received"),
    )
    # Days are counted from the epoch, because a cast would follow the session's time zone.
    day = F.date_add(F.lit(_EPOCH), F.floor(F.col("received") / _DAY).cast("int"))
    return received.select(
        *(name for name in received.columns if name != "received"),
        F.timestamp_micros("received").alias("received_at"),
        day.alias("received_date"),
    )


def _write(rows: DataFrame, path: str, *, most_days: int) -> None:
    writer = (
        rows.repartition(most_days, "received_date")
        .sortWithinPartitions("received_date", "received_at", "event_id")
        .write.partitionBy("received_date")
        .mode("errorifexists")
    )
    try:
        with session_conf(rows.sparkSession, _WRITE_CONF):
            writer.parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise TableError(
            "already exists", field="path", value=path, way_out="Choose another path or remove it"
        ) from error


def _look(spark: SparkSession, path: str, events: int) -> Generated:
    written = spark.read.parquet(path)
    took = F.unix_micros("received_at") - F.unix_micros("event_time")
    rows, late, days = written.agg(
        F.count("*"), F.count_if(took >= _HOUR), F.count_distinct("received_date")
    ).collect()[0]
    return Generated(path=path, events=events, rows=rows, late=late, days=days)
