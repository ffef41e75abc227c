"""`backfill reconcile`: a published table beside what the streaming operator wrote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

import typer

from backfill.cli.checks import as_documents, print_failed
from backfill.cli.options import JobFile, Json, Remote, Settings, Verbose, spark_session
from backfill.cli.output import cell, iso_utc, print_json, print_line, print_table, tell
from backfill.errors import JobFileError

if TYPE_CHECKING:
    from backfill.reconciliation.result import Explained, Reconciled
    from backfill.reconciliation.rows import Row

_SHOWN = 10


def reconcile(
    job: JobFile,
    window: Annotated[str, typer.Argument(metavar="WINDOW", help="The table to compare.")],
    stream: Annotated[
        str | None, typer.Option(metavar="PATH", help="What the operator wrote.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="In which form, such as kafka-streams.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Of a Spark query: tells its batches.")
    ] = None,
    accept: Annotated[
        str, typer.Option(metavar="CAUSES", help="Causes that are well, such as late,pending.")
    ] = "",
    sample: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Look at a share of the keys, such as 1%.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write a page with pictures.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="output or changelog.")] = None,
    bytes: Annotated[str | None, typer.Option(help="hex or base64, in files of text.")] = None,
    key_format: Annotated[str | None, typer.Option(help="Of Kafka's keys.")] = None,
    value_format: Annotated[str | None, typer.Option(help="Of Kafka's values.")] = None,
    firing: Annotated[str | None, typer.Option(help="accumulating or delta.")] = None,
    columns: Annotated[
        list[str] | None, typer.Option(metavar="THEIRS=OURS", help="Renames a column.")
    ] = None,
    grace: Annotated[str | None, typer.Option(metavar="SPAN")] = None,
    watermark_delay: Annotated[str | None, typer.Option(metavar="SPAN")] = None,
    allowed_lateness: Annotated[str | None, typer.Option(metavar="SPAN")] = None,
    retention: Annotated[str | None, typer.Option(metavar="SPAN")] = None,
    emit: Annotated[str | None, typer.Option(metavar="POLICY")] = None,
    api: Annotated[str | None, typer.Option(help="Of Flink: datastream, sql or sql-group.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
) -> int:
    """Compare a published table with the stream's output, and say why each row differs.

    Options override the job file's stream section.
    """
    from backfill.job import Job
    from backfill.reconciliation.causes import check_acceptable

    accepted = [each.strip() for each in accept.split(",") if each.strip()]
    check_acceptable(accepted)
    loaded = Job.load(job)
    found = loaded.reconcile(
        window,
        spark_session(spark, remote, checks=loaded.spec.checks),
        stream=stream,
        checkpoint=checkpoint,
        sample=None if sample is None else _share(sample),
        progress=tell,
        format=format,
        topic=topic,
        bytes=bytes,
        key_format=key_format,
        value_format=value_format,
        firing=firing,
        columns=dict(_renamed(each) for each in columns) if columns else None,
        grace=grace,
        watermark_delay=watermark_delay,
        allowed_lateness=allowed_lateness,
        retention=retention,
        emit=emit,
        api=api,
    )
    ok = found.ok(accepted)
    if html is not None:
        from backfill.reconciliation.report import write_report

        now = dt.datetime.now(dt.timezone.utc)
        write_report(html, found, job=str(job), now=now, time=iso_utc)
    if as_json:
        print_json(_document(found, ok))
    else:
        _print(found, ZoneInfo(loaded.spec.timezone))
        print_failed(found.checks)
        if html is not None:
            print_line(f"\nThe page: {html}")
    return 0 if ok else 1


def _share(text: str) -> float:
    number = text.removesuffix("%")
    try:
        share = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise JobFileError(
            "is no share", field="sample", value=text, way_out="Give, say, 1% or 0.01"
        )
    return share


def _renamed(text: str) -> tuple[str, str]:
    theirs, found, ours = text.partition("=")
    if not found or not theirs or not ours:
        raise JobFileError(
            "is no renaming", field="columns", value=text, way_out="Give theirs=ours"
        )
    return theirs, ours


def _document(found: Reconciled, ok: bool) -> dict[str, Any]:
    return {
        "ok": ok,
        "matched": found.matched,
        "differing": len(found.differences),
        "causes": found.causes,
        "possible": found.possible,
        "unexplained": found.unexplained,
        "undecoded": found.undecoded,
        "differences": [
            {
                "key": list(each.key),
                "batch": _windows(each.difference.batch),
                "stream": _windows(each.difference.stream),
                "status": each.difference.status,
                "cause": list(each.explanation.causes),
                "proved": each.explanation.proved,
                "evidence": each.explanation.evidence,
            }
            for each in found.differences
        ],
        "checks": as_documents(found.checks),
    }


def _windows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {"start": iso_utc(row.start), "end": iso_utc(row.end), "values": dict(row.values)}
        for row in rows
    ]


def _print(found: Reconciled, zone: dt.tzinfo) -> None:
    print_line(f"{found.matched:,} windows are alike, {len(found.differences):,} differ.\n")
    if found.undecoded:
        print_line(f"{found.undecoded:,} rows of the stream could not be decoded.\n")
    if not found.differences:
        return
    rows = [
        (cause, f"{rows:,}", f"{sum(_proved(each, cause) for each in found.differences):,}")
        for cause, rows in found.causes.items()
    ]
    print_table(("cause", "differences", "proved"), rows, right=("differences", "proved"))
    print_line()
    told = [
        (
            ", ".join(cell(value, zone) for value in each.key),
            _told(each.difference.batch, zone),
            _told(each.difference.stream, zone),
            each.difference.status,
            ", ".join(each.explanation.causes),
        )
        for each in found.differences[:_SHOWN]
    ]
    print_table(("key", "batch", "stream", "status", "cause"), told)
    if len(found.differences) > _SHOWN:
        print_line(f"\nThe first {_SHOWN} of {len(found.differences):,}; --json has all.")
    if not found.ordered:
        print_line(
            "\nThe order in which events arrived is not known, so what hangs on it is not proved: "
            "name events.arrival in the job file, or give --checkpoint."
        )


def _proved(each: Explained, cause: str) -> bool:
    return each.explanation.causes[0] == cause and each.explanation.proved


def _told(rows: Sequence[Row], zone: dt.tzinfo) -> str:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    return "; ".join(
        cell(epoch + dt.timedelta(microseconds=row.start), zone)
        + ": "
        + ", ".join(f"{name} {cell(value, zone)}" for name, value in row.values.items())
        for row in rows
    )
