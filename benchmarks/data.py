"""The events that contenders read, made once and kept."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from backfill.generate import generate

FOLDER = Path(__file__).with_name("data")

#: The campaign that brings a user, with another one every six hours or so.
_CAMPAIGN = "concat('c', pmod(xxhash64(user_id, floor(unix_micros(event_time) / 21600000000)), 5))"


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """What the generator makes with seed 1, with a column `campaign` if wanted."""

    name: str
    events: int
    keys: int
    duplicates: float = 0.0
    hot_key: float = 0.0
    per_session: int = 12
    days: int = 30
    campaign: bool = False

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}-{self.events}"

    def scaled(self, factor: float) -> Dataset:
        """The same number of events per key, with fewer or more of both."""
        events, keys = round(self.events * factor), round(self.keys * factor)
        return replace(self, events=max(1, events), keys=max(1, keys))

    def make(self, spark: SparkSession) -> None:
        if (self.path / "_SUCCESS").exists():
            return
        shutil.rmtree(self.path, ignore_errors=True)
        if self.campaign:
            plain = replace(self, name=f"{self.name}-without", campaign=False)
            plain.make(spark)
            events = spark.read.parquet(str(plain.path)).drop("received_date")
            events.withColumn("campaign", F.expr(_CAMPAIGN)).write.parquet(str(self.path))
            shutil.rmtree(plain.path)
            return
        generate(
            spark,
            str(self.path),
            events=self.events,
            days=self.days,
            keys=self.keys,
            duplicates=self.duplicates,
            hot_key=self.hot_key,
            per_session=self.per_session,
        )


VISITS = Dataset(name="visits", events=20_000_000, keys=165_000)
CAMPAIGNS = replace(VISITS, name="campaigns", campaign=True)
HOT_KEY = replace(VISITS, name="hot-key", hot_key=0.5)
ONE_EVENT = replace(VISITS, name="one-event", keys=5_000_000, per_session=1)
REDELIVERED = replace(VISITS, name="redelivered", duplicates=0.001)
FEW_KEYS = Dataset(name="few-keys-day", events=2_000_000, keys=2_000, per_session=1, days=1)
FEW_KEYS_OF_A_MONTH = replace(FEW_KEYS, name="few-keys", per_session=12, days=30)
# About 900 events per key in 24 hours, and a variant with half of the events on one key.
DENSE = Dataset(name="dense", events=2_000_000, keys=500, per_session=1, days=4)
DENSE_QUARTER = replace(DENSE, name="dense-quarter", events=500_000, keys=125)
DENSE_HOT_KEY = replace(DENSE, name="dense-hot-key", hot_key=0.5)
# Two streams, each with 5,000 events per key in a month; and a tenth of the events on one key.
STREAMS = Dataset(name="streams", events=2_000_000, keys=200, per_session=1)
STREAMS_HOT_KEY = replace(STREAMS, name="streams-hot-key", hot_key=0.1)
# So many that Spark's time to order them and send them to Python matters less than the replay.
ARRIVED = replace(VISITS, name="arrived", events=8_000_000, keys=66_000)
QUARTER = replace(VISITS, name="quarter", events=2_000_000, keys=16_500, days=90)
# The same number of events a day, over a month and over a year.
MONTH = Dataset(name="month", events=1_500_000, keys=12_000)
YEAR = Dataset(name="year", events=18_250_000, keys=12_000, days=365)
