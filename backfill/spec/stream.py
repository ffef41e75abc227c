"""The job file's `stream:`: a streaming operator's output, and the settings that it ran with."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, PlainValidator

from backfill.durations import Fixed, fixed
from backfill.errors import JobFileError
from backfill.spec import names
from backfill.spec.parts import Part, Text, number, one_of

STREAM_FORMATS = (
    "kafka-streams",
    "spark-append",
    "spark-update",
    "spark-complete",
    "flink",
    "beam",
    "storm",
    "samza",
    "table",
)
_EMITS = ("on_update", "on_close", "suppressed", "append", "update", "complete")
_APIS = ("datastream", "sql", "sql-group")
_ENCODINGS = ("string", "long", "double", "json")


def lateness(value: object, *, field: str = "") -> Fixed:
    """Reads how late an event may be.

    Args:
        value: a fixed duration, zero or more, of whole milliseconds: Spark's watermark has no
            finer ones, though its windows have, and the other engines have no finer time at all.
        field: what it is called; named in the error.

    Raises:
        WindowError, JobFileError: it is none.
    """
    span = fixed(number(value), field=field)
    problem = "must not be negative" if span.us < 0 else "must be whole milliseconds"
    if span.us < 0 or span.us % 1_000:
        raise JobFileError(problem, field=field or None, value=str(span), way_out="Give, say, 10s")
    return span


def _renames(value: dict[str, str]) -> dict[str, str]:
    names.check_distinct(value.values())
    return value


Lateness = Annotated[Fixed, PlainValidator(lateness)]
Encoding = Annotated[str, one_of("encoding", _ENCODINGS)]


class Stream(Part):
    """What `stream` and `reconcile` must know of the streaming operator.

    Attributes:
        path: its output; in a `JobSpec` absolute, or with a URL scheme.
        format: in which form that is.
        grace: how late an event may be under Kafka Streams.
        watermark_delay: how far the watermark stays behind the largest event time.
        allowed_lateness: for how long after it closed a window takes events (Flink, Beam).
        retention: for how long a store keeps windows (Kafka Streams).
        emit: when the operator emits.
        api: through which of its interfaces an engine with several computes the window.
        topic: whether Kafka records are of the output topic or of the changelog.
        key_format, value_format: how keys and values of Kafka records are encoded.
        bytes: how bytes are written in text files.
        columns: our names of the output's columns, by theirs.
        firing: whether a row that repeats holds the whole value or what came since the last.
    """

    path: Text | None = None
    format: Annotated[str, one_of("format", STREAM_FORMATS)] | None = None
    grace: Lateness | None = None
    watermark_delay: Lateness | None = None
    allowed_lateness: Lateness | None = None
    retention: Lateness | None = None
    emit: Annotated[str, one_of("policy of emission", _EMITS)] | None = None
    api: Annotated[str, one_of("interface", _APIS)] | None = None
    topic: Annotated[str, one_of("kind of topic", ("output", "changelog"))] | None = None
    key_format: Encoding | None = None
    value_format: Encoding | None = None
    bytes: Annotated[str, one_of("encoding of bytes", ("hex", "base64"))] | None = None
    columns: Annotated[dict[Text, Text], AfterValidator(_renames)] = Field(default_factory=dict)
    firing: Annotated[str, one_of("kind of firing", ("accumulating", "delta"))] | None = None
