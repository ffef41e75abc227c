"""What a job file and a command say of the streaming operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill.errors import JobFileError
from backfill.reconciliation.options import FORMS, StreamOptions
from backfill.spec import JobSpec

_OF_THE_OPERATOR = ("grace", "watermark_delay", "allowed_lateness", "retention", "emit", "api")
_OF_THE_OUTPUT = ("columns", "bytes", "key_format", "value_format", "topic", "firing", "panes")


@dataclass(frozen=True)
class Given:
    """An operator, and its output.

    Attributes:
        options: where the output is, and how it is read.
        settings: of the operator, as `replay` takes them.
    """

    options: StreamOptions
    settings: Mapping[str, Any]


def described(spec: JobSpec, path: str | None, settings: Mapping[str, Any]) -> Given:
    """The job file's `stream` section, overridden by what is given.

    Raises:
        JobFileError: the path or the format is missing.
    """
    known = {name: value for name, value in dict(spec.stream).items() if value is not None}
    known |= {name: value for name, value in settings.items() if value is not None}
    if path is not None:
        known["path"] = path
    for name in ("path", "format"):
        if not known.get(name):
            raise JobFileError(
                "is missing",
                field=f"stream.{name}",
                way_out=f"Set it in the job file, or give --{'stream' if name == 'path' else name}",
            )
    options = StreamOptions(
        path=known["path"],
        format=known["format"],
        **{name: known[name] for name in _OF_THE_OUTPUT if known.get(name)},
    )
    operator = {name: str(known[name]) for name in _OF_THE_OPERATOR if known.get(name) is not None}
    emit = FORMS[options.format].emit
    if emit is not None:
        operator.setdefault("emit", emit)
    if options.deltas:
        operator["accumulation"] = "discarding"
    return Given(options, operator)
