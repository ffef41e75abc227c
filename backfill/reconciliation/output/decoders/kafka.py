"""Kafka's records: a windowed key and a value, in bytes (KIP-94, KIP-450 and Kafka's serdes).

| where | bytes of the key |
|---|---|
| sessions, output topic and changelog | key, end (8), start (8) |
| windows of time, output topic | key, start (8) |
| windows of time, changelog | key, start (8), sequence number (4) |

Times are ms since the epoch. The length of windows of time is not stored, so it is the job's. A
record without a value, a tombstone, takes the window back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.errors import ColumnError, JobFileError
from backfill.reconciliation.output.decoders.base import (
    Decoding,
    Wanted,
    end_of,
    find,
    window_bounds,
)
from backfill.reconciliation.output.decoders.binary import (
    all_but,
    double,
    from_base64,
    from_hex,
    long_at,
    utf8,
)
from backfill.reconciliation.output.decoders.values import (
    Read,
    converted,
    failing,
    json_fields,
    json_scalar,
    milliseconds,
)
from backfill.reconciliation.output.files import Steps, Value, Written, fields_of
from backfill.reconciliation.output.options import StreamOptions
from backfill.runtimes.differences import needs_spark
from backfill.windows import SessionWindow

# Partition and offset are compared as one number, which Spark aggregates without sorting.
_OFFSET_BITS = 48
_MOST_OFFSETS = (1 << _OFFSET_BITS) - 1
_MOST_PARTITIONS = (1 << 15) - 1


def decode_records(written: Written, options: StreamOptions, wanted: Wanted) -> Decoding:
    """The decoding of Kafka's records.

    Raises:
        ColumnError: a column is missing or has a type that cannot serve.
        JobFileError: the formats can't hold this key or these aggregates.
        WindowError: the length of the windows is not stored, and the job's have several.
    """
    values, steps = written.values, Steps(written.frame)
    key, value = find(values, "key"), find(values, "value")
    places = [
        converted(find(values, name), T.LongType(), name, wanted.zone, steps)
        for name in options.form.order
    ]
    partition, offset = (place.value for place in places)
    placed = partition.between(0, _MOST_PARTITIONS) & offset.between(0, _MOST_OFFSETS)
    unplaced = failing(
        ~F.coalesce(placed, F.lit(False)), "partition or offset is NULL or out of range"
    )
    if options.key_format == "struct":
        inner = {**values, **fields_of(key), **_only(wanted.key.names, key)}
        start, end = window_bounds(_with_window(inner), wanted, steps.once)
        keys, problems = _decoded(inner, wanted.key.names, wanted.key.types, wanted.zone, steps)
    else:
        data = steps.once(_bytes(key, "key", options))
        start, end, inner_key, problem = _windowed(data, options, wanted, steps)
        fields, problems = _inner_key(inner_key, options, wanted, steps)
        keys, more = _decoded(fields, wanted.key.names, wanted.key.types, wanted.zone, steps)
        problems = [problem, *problems, *more]
    gone = value.column.isNull()
    results, wrong = _values(value, options, wanted, steps)
    return Decoding(
        frame=steps.frame,
        key=keys,
        start=start.value,
        end=end.value,
        values=results,
        gone=gone,
        order=F.shiftleft(partition, _OFFSET_BITS) + offset,
        evidence=_evidence,
        problems=[
            *(place.problem for place in places),
            unplaced,
            failing(key.column.isNull(), "the key is NULL"),
            *problems,
            start.problem,
            end.problem,
            *(F.when(~gone, reason) for reason in wrong),
        ],
    )


def _evidence(order: Column) -> Column:
    partition = F.shiftright(order, _OFFSET_BITS)
    offset = order.bitwiseAND(F.lit(_MOST_OFFSETS))
    return F.concat(F.lit("partition "), partition, F.lit(", offset "), offset)


def _windowed(
    data: Column, options: StreamOptions, wanted: Wanted, steps: Steps
) -> tuple[Read, Read, Column, Column]:
    """Start, end, the bytes of the key alone, and what is wrong with the whole."""
    session, none = isinstance(wanted.window, SessionWindow), F.lit(None).cast("string")
    changelog = options.topic == "changelog" and not session
    tail = 16 if session else 12 if changelog else 8
    size = wanted.size_us
    start = milliseconds(long_at(data, 12 if changelog else 8, steps.runtime), steps.once)
    if session:
        end = milliseconds(long_at(data, 16, steps.runtime), steps.once)
    else:
        assert size is not None, "Kafka's windows of time have one length"
        end = steps.once(end_of(start, size))
    hint = "" if session else f"; is it from the {options.topic} (topic)?"
    problem = F.coalesce(
        failing(data.isNull(), f"the key is not bytes in {options.bytes} (bytes)"),
        failing(F.length(data) < tail, f"the key is shorter than a window's {tail} bytes{hint}"),
        failing(
            long_at(data, 4, steps.runtime, 4) != 0,
            f"the key does not end in sequence number 0{hint}",
        )
        if changelog
        else none,
        failing(start.isNull() | end.isNull(), f"the window is not in the years 1 to 9999{hint}"),
    )
    inner = steps.once(all_but(data, tail, steps.runtime))
    return Read(start, none), Read(end, none), inner, problem


def _inner_key(
    inner: Column, options: StreamOptions, wanted: Wanted, steps: Steps
) -> tuple[dict[str, Value], list[Column]]:
    """The key's columns as they stand in the bytes, and what is wrong with these."""
    names, kind = wanted.key.names, options.key_format
    if not names:
        return {}, []
    if kind == "json":
        fields, problem = _json(steps.once(utf8(inner, steps.runtime)), names, "key", steps)
        return fields, [problem]
    if len(names) > 1:
        raise JobFileError(
            f"a single {kind} can't be a key of {len(names)} columns: {', '.join(names)}",
            field="stream.key_format",
            value=kind,
            way_out="Allowed: json (an object with these fields), struct",
        )
    if kind == "long":
        number = F.when(F.length(inner) == 8, long_at(inner, 8, steps.runtime))
        given = Value(steps.once(number), T.LongType())
    else:
        given = Value(steps.once(utf8(inner, steps.runtime)), T.StringType())
    what = "is not 8 bytes" if kind == "long" else "is not UTF-8"
    return {names[0]: given}, [failing(given.column.isNull(), f"the key {what} (key_format)")]


def _values(
    value: Value, options: StreamOptions, wanted: Wanted, steps: Steps
) -> tuple[dict[str, Column], list[Column]]:
    """The aggregates, and what is wrong with them where there is a value."""
    names, kind = list(wanted.aggregates), options.value_format
    types = list(wanted.aggregates.values())
    problems: list[Column] = []
    if isinstance(value.type, T.StructType):
        fields = fields_of(value)
    elif kind == "json":
        fields, problem = _json(
            steps.once(_json_text(value, options, steps)), names, "value", steps
        )
        problems.append(problem)
    elif len(names) != 1:
        raise JobFileError(
            "a single value can hold one aggregate, but this window has "
            f"{len(names)}: {', '.join(names)}",
            field="stream.value_format",
            value=kind,
            way_out="Allowed: json (an object with these fields), struct",
        )
    elif kind == "struct":
        fields = {names[0]: value}
    else:
        fields = {names[0]: _single(value, options, steps)}
        what = "not UTF-8" if kind == "string" else f"not a {kind} of 8 bytes"
        reason = f"the value is {what} (value_format, bytes)"
        problems.append(failing(fields[names[0]].column.isNull(), reason))
    columns, more = _decoded(fields, names, types, wanted.zone, steps)
    return dict(zip(names, columns, strict=True)), [*problems, *more]


def _single(value: Value, options: StreamOptions, steps: Steps) -> Value:
    kind = options.value_format
    if kind == "string":
        return Value(steps.once(_text(value, options, steps)), T.StringType())
    data = steps.once(_bytes(value, "value", options))
    bits = steps.once(F.when(F.length(data) == 8, long_at(data, 8, steps.runtime)))
    if kind == "long":
        return Value(bits, T.LongType())
    return Value(steps.once(double(bits, steps.once)), T.DoubleType())


def _json(
    text: Column, names: Sequence[str], what: str, steps: Steps
) -> tuple[dict[str, Value], Column]:
    """The fields of an object; a single field may also come without the object around it."""
    needs_spark(steps.frame, "JSON is decoded", field=f"stream.{what}_format")
    fields = json_fields(text, names, steps.once)
    conditions = [field.column.isNotNull() for field in fields.values()]
    # A field can be there and be NULL.
    there = F.arrays_overlap(F.json_object_keys(text), F.array(*map(F.lit, names)))
    there = F.coalesce(there, F.lit(False))
    none = ~reduce(Column.__or__, conditions, there)
    if len(names) == 1:
        alone = F.when(~F.ltrim(text).startswith("{"), json_scalar(text))
        value = steps.once(F.coalesce(fields[names[0]].column, alone))
        fields, none = {names[0]: Value(value, T.StringType())}, value.isNull() & ~there
    known = ", ".join(names)
    reason = f"the {what} is not JSON with a field of {known} ({what}_format, bytes)"
    return fields, failing(none, reason)


def _json_text(value: Value, options: StreamOptions, steps: Steps) -> Column:
    """JSON as it is in a text file (no bytes look like that), or in bytes."""
    if isinstance(value.type, T.StringType) and options.bytes != "raw":
        plain = F.when(F.ltrim(value.column).rlike(r'^[{\["]'), value.column)
        return F.coalesce(plain, _text(value, options, steps))
    return _text(value, options, steps)


def _text(value: Value, options: StreamOptions, steps: Steps) -> Column:
    if isinstance(value.type, T.StringType) and options.bytes == "raw":
        return value.column
    return utf8(_bytes(value, "value", options), steps.runtime)


def _bytes(given: Value, name: str, options: StreamOptions) -> Column:
    notation = options.bytes
    if isinstance(given.type, T.BinaryType) and notation == "raw":
        return given.column
    if isinstance(given.type, T.StringType | T.NullType) and notation != "raw":
        text = given.column.cast("string")
        return from_hex(text) if notation == "hex" else from_base64(text)
    way_out = {
        T.BinaryType: "Leave bytes out: these are bytes",
        T.StringType: "Set bytes: hex or base64; or use struct if it is decoded already",
    }
    raise ColumnError(
        f"is {given.type.simpleString()}, which can't hold bytes in {notation}",
        field=name,
        way_out=way_out.get(
            type(given.type), f"Use {name}_format: struct if it is decoded already"
        ),
    )


def _decoded(
    fields: dict[str, Value],
    names: Sequence[str],
    types: Sequence[T.DataType],
    zone: str,
    steps: Steps,
) -> tuple[list[Column], list[Column]]:
    reads = [
        converted(find(fields, name), type_, name, zone, steps)
        for name, type_ in zip(names, types, strict=True)
    ]
    return [read.value for read in reads], [read.problem for read in reads]


def _only(names: Sequence[str], key: Value) -> dict[str, Value]:
    """A decoded key of one column, without a struct around it."""
    return {names[0]: key} if len(names) == 1 and not fields_of(key) else {}


def _with_window(values: dict[str, Value]) -> dict[str, Value]:
    """The same, with the bounds of a struct `window` in a decoded key."""
    return {**(fields_of(values["window"], "window_") if "window" in values else {}), **values}
