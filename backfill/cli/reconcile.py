"""`backfill reconcile`: compare a published table with a streaming operator's output."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from backfill.causes import check_acceptable
from backfill.cli.checks import as_documents, print_failed
from backfill.cli.options import JobFile, Json, Remote, Runtime, Settings, Verbose, job_session
from backfill.cli.output import cell, iso_utc, print_json, print_line, print_table, tell
from backfill.errors import JobFileError
from backfill.spec.stream import Stream

if TYPE_CHECKING:
    from backfill.reconciliation.result import Explained, Reconciled
    from backfill.reconciliation.rows import Row

_SHOWN = 10


def _reconcile(
    job: JobFile,
    window: Annotated[str, typer.Argument(metavar="WINDOW", help="The table to compare.")],
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The checkpoint folder of the Spark query, which shows its batches.",
        ),
    ] = None,
    accept: Annotated[
        str, typer.Option(metavar="CAUSES", help="Tolerated causes, such as late,pending.")
    ] = "",
    sample: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Compare only a share of the keys, such as 1%."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write an HTML report with charts.")
    ] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
    **settings: Any,
) -> int:
    """Compare a published table with the stream's output and explain each difference.

    Options override the job file's stream section.
    """
    from backfill.job import Job
    from backfill.windows import JoinWindow

    accepted = [cause.strip() for cause in accept.split(",") if cause.strip()]
    check_acceptable(accepted)
    columns = settings.pop("columns")
    loaded = Job.load(job)
    reconciled = loaded.reconcile(
        window,
        job_session(loaded, spark, remote, runtime, checked=True),
        checkpoint=checkpoint,
        sample=None if sample is None else _share(sample),
        progress=tell,
        columns=dict(_renamed(text) for text in columns) if columns else None,
        **settings,
    )
    ok = reconciled.ok(accepted)
    joins = isinstance(loaded.spec.windows[window].window, JoinWindow)
    rows = "rows" if joins else "windows"
    if html is not None:
        from backfill.reconciliation.report import write_report

        now = dt.datetime.now(dt.timezone.utc)
        write_report(html, reconciled, job=str(job), now=now, time=iso_utc, of=rows)
    if as_json:
        print_json(_document(reconciled, ok), differences=map(_in_full, reconciled.differences))
    else:
        _print(reconciled, rows, ZoneInfo(loaded.spec.timezone))
        print_failed(reconciled.checks)
        if html is not None:
            print_line(f"\nReport: {html}")
    return 0 if ok else 1


def _with_settings(command: Callable[..., int]) -> Callable[..., int]:
    """The command with an option for each setting in the job file's stream section."""
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]
    for name, setting in Stream.model_fields.items():
        kind: Any = list[str] | None if name == "columns" else str | None
        if name in ("caching", "drained", "spurious"):
            kind = bool | None
        option = typer.Option(help=setting.description)
        own = "stream" if name == "path" else name
        annotation = Annotated[kind, option]
        parameters.append(
            inspect.Parameter(
                own, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
        )

    @functools.wraps(command)
    def reconcile(*arguments: Any, **options: Any) -> int:
        return command(*arguments, **options)

    reconcile.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    reconcile.__name__ = "reconcile"
    reconcile.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return reconcile


reconcile = _with_settings(_reconcile)


def _share(text: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise JobFileError(
            "must be a share", field="sample", value=text, way_out="Write it like 1% or 0.01"
        ) from None


def _renamed(text: str) -> tuple[str, str]:
    theirs, separator, ours = text.partition("=")
    if not separator or not theirs or not ours:
        raise JobFileError("is not in the form theirs=ours", field="columns", value=text)
    return theirs, ours


def _document(reconciled: Reconciled, ok: bool) -> dict[str, Any]:
    return {
        "ok": ok,
        "matched": reconciled.matched,
        "differing": len(reconciled.differences),
        "causes": reconciled.causes,
        "possible": reconciled.possible,
        "unexplained": reconciled.unexplained,
        "undecoded": reconciled.undecoded,
        "checks": as_documents(reconciled.checks),
    }


def _in_full(explained: Explained) -> dict[str, Any]:
    return {
        "key": list(explained.key),
        "batch": _windows(explained.difference.batch),
        "stream": _windows(explained.difference.stream),
        "status": explained.difference.status,
        "cause": list(explained.explanation.causes),
        "proved": explained.explanation.proved,
        "evidence": explained.explanation.evidence,
    }


def _windows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {"start": iso_utc(row.start), "end": iso_utc(row.end), "values": dict(row.values)}
        for row in rows
    ]


def _print(reconciled: Reconciled, rows: str, zone: dt.tzinfo) -> None:
    differing = len(reconciled.differences)
    print_line(f"{reconciled.matched:,} {rows} match, {differing:,} differ.\n")
    if reconciled.undecoded:
        print_line(f"{reconciled.undecoded:,} rows of the stream could not be decoded.\n")
    if not differing:
        return
    causes = [
        (cause, f"{count:,}", f"{reconciled.proved.get(cause, 0):,}")
        for cause, count in reconciled.causes.items()
    ]
    print_table(("cause", "differences", "proved"), causes, right=("differences", "proved"))
    print_line()
    shown = [
        (
            ", ".join(cell(value, zone) for value in explained.key),
            _described(explained.difference.batch, zone),
            _described(explained.difference.stream, zone),
            explained.difference.status,
            ", ".join(explained.explanation.causes),
        )
        for explained in reconciled.differences[:_SHOWN]
    ]
    print_table(("key", "batch", "stream", "status", "cause"), shown)
    if differing > _SHOWN:
        print_line(f"\nShowing the first {_SHOWN} of {differing:,}; --json lists all.")
    if not reconciled.ordered:
        print_line(
            "\nThe order in which events arrived is unknown, so causes that depend on it are not "
            "proved: set events.arrival in the job file to a column that every event has, or "
            "give --checkpoint."
        )


def _described(rows: Sequence[Row], zone: dt.tzinfo) -> str:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    return "; ".join(
        cell(epoch + dt.timedelta(microseconds=row.start), zone)
        + ": "
        + ", ".join(f"{name} {cell(value, zone)}" for name, value in row.values.items())
        for row in rows
    )
