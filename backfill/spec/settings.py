"""The settings of a job file as pydantic models, one class per part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    model_validator,
)

from backfill import engines
from backfill.bot_rules import BotRule, Bots
from backfill.errors import BackfillError, JobFileError, did_you_mean
from backfill.events import REASONS, check_zone
from backfill.runtimes import RUNTIMES
from backfill.spec import names
from backfill.spec.aggregate_text import AggregateText
from backfill.spec.checks import Settings
from backfill.spec.joins import Joins
from backfill.spec.metrics import Metrics
from backfill.spec.parts import (
    Columns,
    FixedSpan,
    Flag,
    Number,
    Part,
    Span,
    Text,
    listed,
    not_negative,
    number,
    one_of,
    positive,
)
from backfill.spec.sources import Source, Sources
from backfill.spec.stream import Stream
from backfill.spec.tables import Tables
from backfill.time.durations import Fixed, fixed
from backfill.windows import (
    AnyWindow,
    CountWindow,
    CumulatingWindow,
    HoppingWindow,
    SessionWindow,
    SlidingWindow,
    TumblingWindow,
)
from backfill.windows.message_gaps import Messages, read_messages

_TIME_FORMATS = ("iso", "epoch_s", "epoch_ms", "epoch_us")


@dataclass(frozen=True)
class Context:
    """What parts of the file must know about other parts while they are validated."""

    engine: engines.Engine
    key: tuple[str, ...]
    id: str | None = None
    arrival: bool = False
    others: bool = False
    sources: tuple[str, ...] = ()


def _zone(value: str) -> str:
    check_zone(value)
    return value


def _time_format(value: str) -> str:
    hint = did_you_mean(value, _TIME_FORMATS)
    near = f"{hint} " if hint.startswith("Did") else ""
    if value not in _TIME_FORMATS and (near or value.isdigit()):
        other = "or a pattern such as yyyy-MM-dd HH:mm:ss"
        allowed = f"{near}Allowed: {', '.join(_TIME_FORMATS)}, {other}"
        raise JobFileError("no such time format", value=value, way_out=allowed)
    return value


def _aggregate_name(value: str, info: ValidationInfo[Context]) -> str:
    return names.check_aggregate(value, info.context.key)


Aggregates = Annotated[
    dict[
        Annotated[str, AfterValidator(_aggregate_name)],
        AggregateText,
    ],
    AfterValidator(names.some("aggregate, such as events: count")),
]


class Bot(Part):
    """The parameters of `BotRule`, which checks them."""

    name: Text
    events: Number | None = None
    per: Text = "session"
    no_pause_longer_than: FixedSpan | None = None
    where: Text | None = None
    remove: Text = "session"

    @model_validator(mode="after")
    def _a_rule(self) -> Bot:
        if BotRule(**dict(self)).name in (*REASONS, "beyond_retention"):
            raise JobFileError(
                "is already a reason for quarantining rows",
                field="name",
                value=self.name,
                way_out="Choose another name",
            )
        return self


class BotSettings(Part):
    """Rules for bots, and the gap of the sessions that they look at."""

    gap: FixedSpan
    rules: tuple[Bot, ...]

    @model_validator(mode="after")
    def _stand_together(self) -> BotSettings:
        _ = self.bots
        return self

    @property
    def bots(self) -> Bots:
        """The rules."""
        return Bots.of(self.gap, [BotRule(**dict(rule)) for rule in self.rules])


class Events(Part):
    """Which columns are an event's key, time, id and arrival, and which events are bots'."""

    key: Annotated[Columns, AfterValidator(names.check_key)]
    time: Text
    time_format: Annotated[Text, AfterValidator(_time_format)] | None = None
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    id: Text | None = None
    arrival: Columns = ()
    max_future: Annotated[FixedSpan, AfterValidator(not_negative)] | None = None
    bots: BotSettings | None = None


def _gap(value: object) -> object:
    """A number of messages, or a duration."""
    return read_messages(value) or fixed(number(value), field="")


def _gap_or_preset(
    value: Fixed | Messages | None, info: ValidationInfo[Context]
) -> Fixed | Messages | None:
    if value is None and not info.data.get("preset"):
        raise JobFileError("is missing", way_out="Give a gap such as 30m, or a preset")
    return value


class Session(Part):
    """The parameters of `SessionWindow`, which itself checks those that are not durations."""

    preset: Text | None = None
    gap: Annotated[
        Annotated[Fixed | Messages, PlainValidator(_gap)] | None, AfterValidator(_gap_or_preset)
    ] = Field(None, validate_default=True)
    max_duration: FixedSpan | None = None
    max_duration_on: Text = "start"
    max_events: Number | None = None
    new_when: Columns = ()
    null_is_change: Flag = False
    start_when: Text | None = None
    end_when: Text | None = None
    split: Text | None = None
    min_events: Number | None = None
    min_duration: FixedSpan | None = None

    @property
    def window(self) -> SessionWindow:
        """The window, by a preset or without one."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "preset"}
        if self.preset is not None:
            return SessionWindow.preset(self.preset, **given)
        return SessionWindow(**given)


class Tumbling(Part):
    """The parameters of `TumblingWindow`."""

    size: Span
    offset: FixedSpan = Fixed(0)
    phase: Span | None = None


class Hopping(Part):
    """The parameters of `HoppingWindow`."""

    size: Span
    advance: Span
    offset: FixedSpan = Fixed(0)
    phase: Span | None = None


class Cumulating(Part):
    """The parameters of `CumulatingWindow`."""

    size: Span
    step: Span
    offset: FixedSpan = Fixed(0)
    phase: Span | None = None


class Sliding(Part):
    """The parameters of `SlidingWindow`."""

    size: FixedSpan | None
    before: Flag = False
    following: FixedSpan | None = None
    distinct: Flag = False


class Count(Part):
    """The parameters of `CountWindow`, which checks them itself."""

    size: Number
    advance: Number = 1
    per: Text = "key"
    order: Text = "arrival"


_KINDS: Mapping[str, Callable[..., AnyWindow]] = {
    "session": SessionWindow,
    "tumbling": TumblingWindow,
    "hopping": HoppingWindow,
    "cumulating": CumulatingWindow,
    "sliding": SlidingWindow,
    "count": CountWindow,
}


class WindowTable(Part):
    """One entry of `windows`: a window of one kind, and what is computed over it."""

    session: Session | None = None
    tumbling: Tumbling | None = None
    hopping: Hopping | None = None
    cumulating: Cumulating | None = None
    sliding: Sliding | None = None
    count: Count | None = None
    aggregates: Aggregates

    @property
    def window(self) -> AnyWindow:
        """The one window that is defined."""
        (kind,) = self._kinds()
        if self.session is not None:
            return self.session.window
        return _KINDS[kind](**dict(getattr(self, kind)))

    @model_validator(mode="after")
    def _one_that_the_engine_allows(self, info: ValidationInfo[Context]) -> WindowTable:
        kinds = self._kinds()
        if len(kinds) != 1:
            problem = "has " + (" and ".join(kinds) or "no window type")
            raise JobFileError(problem, way_out=f"Give one of {', '.join(_KINDS)}")
        try:
            info.context.engine.rules_for(self.window)
        except BackfillError as error:
            raise error.within(kinds[0]) from None
        names.check_arrival(self.window, given=info.context.arrival)
        names.check_numbers(self.window, info.context.key, self.aggregates)
        if kinds == ["sliding"] and self.sliding is not None and not self.sliding.distinct:
            names.check_id(info.context.id, info.context.key, self.aggregates)
        return self

    def _kinds(self) -> list[str]:
        return [kind for kind in _KINDS if getattr(self, kind) is not None]


def _windows(
    value: dict[str, WindowTable], info: ValidationInfo[Context]
) -> dict[str, WindowTable]:
    """A job with metrics or joins needs no windows."""
    return value if info.context.others and not value else names.some("window")(value)


class JobFile(Part):
    """The whole file."""

    source: Source | None = None
    sources: Sources | None = None
    events: Events
    engine: Annotated[engines.Engine, PlainValidator(lambda name: engine(name))] = engines.PLAIN
    windows: Annotated[
        dict[Annotated[str, AfterValidator(names.check_window)], WindowTable],
        AfterValidator(_windows),
    ] = Field(default_factory=dict, validate_default=True)
    metrics: Metrics = Field(default_factory=dict)
    joins: Joins = Field(default_factory=dict)
    tables: Tables
    retention: Annotated[FixedSpan, AfterValidator(positive)] | None = None
    runtime: Annotated[str, one_of("runtime", RUNTIMES)] = "spark"
    stream: Stream = Stream()
    checks: Settings = Field(default_factory=dict)

    @model_validator(mode="after")
    def _from_somewhere(self) -> JobFile:
        if (self.source is None) == (self.sources is None):
            problem = "is missing" if self.source is None else "can't be combined with sources"
            raise JobFileError(problem, field="source", way_out="Give source, or sources by name")
        return self


def engine(name: object) -> engines.Engine:
    """The engine of this name."""
    if not isinstance(name, str):
        raise JobFileError("must be a name", way_out="Allowed: " + ", ".join(engines.ENGINES))
    return engines.engine(name)


def context(value: Mapping[str, Any]) -> Context:
    """The context, as far as the unvalidated file has it; errors in it are reported elsewhere."""
    events = value.get("events")
    key = listed(events.get("key")) if isinstance(events, dict) else None
    columns = [column for column in key if isinstance(column, str)] if isinstance(key, list) else []
    id = events.get("id") if isinstance(events, dict) else None
    arrival = bool(events.get("arrival")) if isinstance(events, dict) else False
    name = value.get("engine")
    known = engines.ENGINES.get(name) if isinstance(name, str) else None
    return Context(
        known or engines.PLAIN,
        tuple(columns),
        id if isinstance(id, str) else None,
        arrival,
        bool(value.get("metrics") or value.get("joins")),
        tuple(map(str, sources)) if isinstance(sources := value.get("sources"), dict) else (),
    )
