"""What a job file and a command say about the streaming operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill.errors import JobFileError
from backfill.reconciliation.marks import PLACES
from backfill.reconciliation.output.options import FORMS, StreamOptions
from backfill.spec import JobSpec
from backfill.spec.stream import OF_THE_OUTPUT, overridden, places_of
from backfill.time.durations import Fixed


@dataclass(frozen=True)
class StreamDescription:
    """An operator, and its output.

    Attributes:
        options: where the output is, and how it is read.
        settings: of the operator, as `replay` takes them, except that commits and restarts are by
            partition and offset, and `wall_clock` is a column of the source.
    """

    options: StreamOptions
    settings: Mapping[str, Any]


def described(spec: JobSpec, path: str | None, settings: Mapping[str, Any]) -> StreamDescription:
    """The job file's `stream` section, overridden by what is given.

    Raises:
        JobFileError: the path or the format is missing, or there is no such setting or value.
    """
    stream = overridden(spec.stream, settings if path is None else {**settings, "path": path})
    known = {name: value for name, value in dict(stream).items() if value is not None}
    for name in ("path", "format"):
        if not known.get(name):
            raise JobFileError(
                "is missing",
                field=f"stream.{name}",
                way_out=f"Set it in the job file, or give --{'stream' if name == 'path' else name}",
            )
    output = {name: known[name] for name in OF_THE_OUTPUT if known.get(name)}
    options = StreamOptions(path=known.pop("path"), format=known.pop("format"), **output)
    operator: dict[str, Any] = {
        name: str(value) if isinstance(value, Fixed) else value
        for name, value in known.items()
        if name not in OF_THE_OUTPUT
    }
    for name in PLACES:
        if name in operator and not isinstance(known[name], Fixed):
            operator[name] = places_of(operator[name], field=f"stream.{name}")
    emit = FORMS[options.format].emit
    if options.form.engine == "spark":
        _check_mode(options.format, operator.get("emit"))
    if emit is not None:
        operator.setdefault("emit", emit)
    if options.deltas:
        operator["accumulation"] = "discarding"
    elif options.retracting:
        operator["accumulation"] = "retracting"
    return StreamDescription(options, operator)


def _check_mode(format: str, emit: str | None) -> None:
    """The format of a Spark query's output names its output mode."""
    mode = format.removeprefix("spark-")
    if emit not in (None, mode):
        raise JobFileError(
            f"differs from the output mode of the format {format}",
            field="stream.emit",
            value=emit,
            way_out=f"Leave it out, or set the format to spark-{emit}",
        )
