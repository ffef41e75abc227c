"""The same events with their times written in other ways, and the cost of reading them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.contenders import Contender, our_sessions
from benchmarks.data import FOLDER, VISITS, Dataset
from benchmarks.scenarios import Rival, Scenario


@dataclass(frozen=True)
class Form:
    """One way to write a time.

    Attributes:
        written: the expression of the instant, in a session whose zone is UTC.
        time_format: as `aggregate` takes it.
        timezone: the same.
    """

    written: str
    time_format: str | None = None
    timezone: str = "UTC"


FORMS: Mapping[str, Form] = {
    "timestamp_ntz": Form("cast(event_time AS timestamp_ntz)"),
    "timestamp_ntz in Berlin": Form(
        "cast(from_utc_timestamp(event_time, 'Europe/Berlin') AS timestamp_ntz)",
        timezone="Europe/Berlin",
    ),
    "epoch_us": Form("unix_micros(event_time)", "epoch_us"),
    "epoch_ms, double": Form("unix_micros(event_time) / 1000D", "epoch_ms"),
    "epoch_s, decimal": Form(
        "cast(unix_micros(event_time) / 1000000BD AS decimal(20, 6))", "epoch_s"
    ),
    "iso": Form("date_format(event_time, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")", "iso"),
    "pattern": Form(
        "date_format(event_time, 'dd/MM/yyyy HH:mm:ss.SSSSSS')", "dd/MM/yyyy HH:mm:ss.SSSSSS"
    ),
}


@dataclass(frozen=True, kw_only=True)
class Written(Dataset):
    """Events whose times are written in a form, in files like those of the others."""

    form: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}-{self.form.replace(' ', '-')}-{self.events}"

    def make(self, spark: SparkSession) -> None:
        if (self.path / "_SUCCESS").exists():
            return
        plain = Dataset(
            name=self.name, events=self.events, keys=self.keys, per_session=self.per_session
        )
        plain.make(spark)
        shutil.rmtree(self.path, ignore_errors=True)
        rows = spark.read.parquet(str(plain.path))
        rows.withColumn("event_time", F.expr(FORMS[self.form].written)).write.parquet(
            str(self.path)
        )


def _rival(name: str, form: Form) -> Rival:
    run = our_sessions(time_format=form.time_format, timezone=form.timezone)
    return Rival(
        contender=Contender(name, run),
        dataset=Written(name=VISITS.name, events=VISITS.events, keys=VISITS.keys, form=name),
    )


#: Ours are instants, so a ratio says how many times as long another form takes.
TIMES = Scenario(
    name="times",
    title="sessions, of times written in other ways",
    dataset=VISITS,
    ours=Contender("backfill, timestamp", our_sessions()),
    rivals=tuple(_rival(name, form) for name, form in FORMS.items()),
)
