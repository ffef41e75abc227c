"""The job file's `stream:`: a streaming operator's output, and the settings that it ran with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationError

from backfill.errors import BackfillError, JobFileError, WindowError, did_you_mean
from backfill.spec.parts import Flag, Part, Text, number, one_of
from backfill.spec.triggers import read_trigger
from backfill.time.durations import Fixed, fixed
from backfill.triggers import AnyTrigger

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
#: How keys and values of Kafka's records are encoded.
KEY_FORMATS = ("string", "long", "json", "struct")
VALUE_FORMATS = ("long", "double", "string", "json", "struct")
#: What a repeated row is; rows that do not repeat need no setting.
FIRINGS = ("accumulating", "delta")
PANES = ("accumulating", "discarding", "retracting")
STORES = ("disk", "memory")


#: A number, a word or a duration, rather than the path of a file.
_NO_PATH = re.compile(r"(?i)-?\d+(\.\d+)?\s*[a-z]*|true|false|yes|no|on|off|p[t\d]+[a-z]")


def lateness(value: object, *, field: str = "") -> Fixed:
    """Reads how late an event may be.

    Args:
        value: a fixed duration, zero or more, of whole milliseconds: Spark's watermark is no
            finer, though its windows are, and the other engines have no finer time at all.
        field: the setting, for the error.

    Raises:
        WindowError, JobFileError: it is not a duration.
    """
    span = fixed(number(value), field=field)
    problem = "must not be negative" if span.us < 0 else "must be whole milliseconds"
    if span.us < 0 or span.us % 1_000:
        raise JobFileError(
            problem, field=field or None, value=str(span), way_out="Use a value such as 10s"
        )
    return span


def _commits(value: object) -> tuple[tuple[int, int], ...] | str | Fixed:
    """As `_places`, or the interval of commits by the wall clock."""
    if isinstance(value, str | Fixed):
        try:
            span = fixed(value, field="")
        except WindowError:
            return _places(value)
        if span.us > 0:
            return span
        raise JobFileError(
            "must be greater than zero", value=str(span), way_out="Use a value such as 30s"
        )
    return _places(value)


def _places(value: object) -> tuple[tuple[int, int], ...] | str:
    """Pairs of partition and offset, or the path of a file with such pairs."""
    if isinstance(value, str):
        if re.fullmatch(r"\d+:\d+(,\d+:\d+)*", value):
            value = [pair.split(":") for pair in value.split(",")]
        elif not _NO_PATH.fullmatch(value):
            return value
    way_out = "Give pairs of partition and offset, such as [[0, 1200], [1, 900]]"
    if not isinstance(value, list | tuple):
        raise JobFileError("is not a list of input positions", value=value, way_out=way_out)
    places = []
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise JobFileError("is not an input position", value=pair, way_out=way_out)
        try:
            partition, offset = (int(str(part)) for part in pair)
        except ValueError:
            raise JobFileError("is not an input position", value=pair, way_out=way_out) from None
        places.append((partition, offset))
    return tuple(places)


def places_of(value: tuple[tuple[int, int], ...] | str, *, field: str) -> Any:
    """The pairs of partition and offset; a path is read as a file of them.

    Raises:
        JobFileError: the file does not exist, or it holds something else.
    """
    if not isinstance(value, str):
        return value
    try:
        return _places(json.loads(Path(value).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        problem = error.problem if isinstance(error, BackfillError) else str(error)
        raise JobFileError(
            f"the input positions can't be read: {problem}",
            field=field,
            value=value,
            way_out="Give a JSON file such as [[0, 1200], [1, 900]], or the list itself",
        ) from None


Places = Annotated[tuple[tuple[int, int], ...] | str, PlainValidator(_places)]
Commits = Annotated[tuple[tuple[int, int], ...] | str | Fixed, PlainValidator(_commits)]


def _renames(value: dict[str, str]) -> dict[str, str]:
    # `names` needs Spark's columns, but a command's help must not need Spark.
    from backfill.spec import names

    names.check_distinct(value.values())
    return value


Lateness = Annotated[Fixed, PlainValidator(lateness)]
Trigger = Annotated[int | AnyTrigger, PlainValidator(read_trigger)]


class Stream(Part):
    """What `stream` and `reconcile` must know about the streaming operator.

    This is the only list of these settings: the job file, the options of `backfill reconcile` and
    the arguments of `Job.reconcile` are all read by it. Settings that describe how the operator ran
    have the same names as in `replay`.

    `backfill reconcile --help` shows a setting's description. The path is absolute in a `JobSpec`,
    or has a URL scheme.
    """

    path: Text | None = Field(default=None, description="The streaming operator's output.")
    format: Annotated[str, one_of("format", STREAM_FORMATS)] | None = Field(
        default=None, description="The format of that output, such as kafka-streams."
    )
    grace: Lateness | None = Field(
        default=None, description="Kafka Streams: how late an event may be, such as 10s."
    )
    watermark_delay: Lateness | None = Field(
        default=None,
        description="How far the watermark lags behind the largest event time, such as 10s.",
    )
    right_watermark_delay: Lateness | None = Field(
        default=None,
        description="Spark, Flink, joins: the same for the right side, if it differs.",
    )
    allowed_lateness: Lateness | None = Field(
        default=None,
        description="Flink, Beam: how long after its end a window still accepts events.",
    )
    early: Trigger | None = Field(
        default=None,
        description="Flink, Beam, Samza: when a window sends panes before it is complete: after "
        "every n events, such as 100, or a trigger such as Repeatedly(AfterCount(100)).",
    )
    late: Trigger | None = Field(
        default=None,
        description="Beam, Samza: when it sends panes of late events; by default for each late "
        "event.",
    )
    retention: Lateness | None = Field(
        default=None, description="Kafka Streams: how long its store keeps windows."
    )
    emit: Annotated[str, one_of("emit policy", _EMITS)] | None = Field(
        default=None, description=f"When the operator emits: {', '.join(_EMITS)}."
    )
    api: Annotated[str, one_of("interface", _APIS)] | None = Field(
        default=None, description=f"Flink: the API that computes the window: {', '.join(_APIS)}."
    )
    topic: Annotated[str, one_of("topic type", ("output", "changelog"))] | None = Field(
        default=None,
        description="Kafka Streams: whether records are from the output topic or the changelog.",
    )
    key_format: Annotated[str, one_of("key encoding", KEY_FORMATS)] | None = Field(
        default=None,
        description=f"How keys of Kafka records are encoded: {', '.join(KEY_FORMATS)}.",
    )
    value_format: Annotated[str, one_of("value encoding", VALUE_FORMATS)] | None = Field(
        default=None,
        description=f"How values of Kafka records are encoded: {', '.join(VALUE_FORMATS)}.",
    )
    bytes: Annotated[str, one_of("byte encoding", ("hex", "base64"))] | None = Field(
        default=None, description="How bytes are encoded in text files: hex, base64."
    )
    columns: Annotated[dict[Text, Text], AfterValidator(_renames)] = Field(
        default_factory=dict, description="Rename a column of the output: theirs=ours."
    )
    firing: Annotated[str, one_of("firing type", FIRINGS)] | None = Field(
        default=None, description="Flink: whether repeated rows are accumulating or deltas."
    )
    panes: Annotated[str, one_of("pane type", PANES)] | None = Field(
        default=None,
        description="Beam, Samza: whether panes are accumulating or discarding; Beam: or "
        "retracting, with is_retraction true in rows that take a pane back.",
    )
    caching: Flag | None = Field(
        default=None,
        description="Kafka Streams: whether a cache wrote only the last value before each commit.",
    )
    commits: Commits | None = Field(
        default=None,
        description="Kafka Streams: after which offsets it committed, 0:1200,1:900 or a JSON file "
        "(a consumer group's offsets point to the next record: subtract one), or how often, such "
        "as 30s.",
    )
    restarts: Places | None = Field(
        default=None, description="Before which offsets it restarted: 0:1200,1:900, or a JSON file."
    )
    store: Annotated[str, one_of("store type", STORES)] | None = Field(
        default=None, description=f"Kafka Streams: where windows are stored: {', '.join(STORES)}."
    )
    emit_interval: Lateness | None = Field(
        default=None,
        description="Kafka Streams: how often it looks for windows to emit on close, or for events "
        "without a partner, such as 1s.",
    )
    spurious: Flag | None = Field(
        default=None,
        description="Kafka Streams, joins: whether an event is written alone before its partner "
        "comes, as before 3.1 and with JoinWindows.of.",
    )
    drained: Flag | None = Field(
        default=None,
        description="Flink, Beam, Samza: whether the end of the input completed the last windows; "
        "if not, the job still runs. By default this is inferred from its output.",
    )
    wall_clock: Text | None = Field(
        default=None,
        description="The column of the source that says when an event was processed, for commits "
        "and emission at intervals; by default the event time.",
    )


#: Settings that describe the output, and not how the operator ran.
OF_THE_OUTPUT = frozenset(
    {"columns", "bytes", "key_format", "value_format", "topic", "firing", "panes"}
)


def overridden(stream: Stream, given: Mapping[str, Any]) -> Stream:
    """The section with some settings replaced.

    Args:
        stream: the job file's section.
        given: settings by name; None for those that are not replaced.

    Raises:
        JobFileError: there is no such setting, or it cannot have this value.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    for name, value in wanted.items():
        if name not in Stream.model_fields:
            raise JobFileError(
                "there is no such stream setting",
                field=name,
                value=value,
                way_out=did_you_mean(name, Stream.model_fields),
            )
    try:
        checked = Stream.model_validate(wanted)
    except ValidationError as error:
        raise _first_problem(error) from None
    return stream.model_copy(update={name: getattr(checked, name) for name in wanted})


def _first_problem(error: ValidationError) -> JobFileError:
    """The first problem, in the form of the job file's own errors."""
    first = error.errors(include_url=False)[0]
    setting = str(first["loc"][0])
    name = f"stream.{setting}"
    problem = first.get("ctx", {}).get("error")
    if isinstance(problem, BackfillError):
        value = problem.value if problem.has_value else first["input"]
        return JobFileError(problem.problem, field=name, value=value, way_out=problem.way_out)
    meant = Stream.model_fields[setting].description
    return JobFileError(first["msg"], field=name, value=first["input"], way_out=meant)
