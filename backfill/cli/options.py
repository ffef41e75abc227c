"""Options that several commands have, and the Spark session that they ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backfill.errors import SetupError
from backfill.runtimes import RUNTIMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill.job import Job
    from backfill.spec.checks import Checks

JobFile = Annotated[Path, typer.Argument(metavar="JOB", help="The job file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show the stack traces of errors.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="KEY=VALUE", help="Set a Spark property; may be repeated."),
]
Remote = Annotated[
    str | None,
    typer.Option("--remote", metavar="sc://HOST", help="Run on this Spark Connect server."),
]
Runtime = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        metavar="NAME",
        help=f"The runtime in this process: {', '.join(RUNTIMES)}; by default the job file's.",
    ),
]
OlderThan = Annotated[
    str,
    typer.Option(
        metavar="AGE",
        help="Keep newer leftovers of failed runs; give more than the longest run takes.",
    ),
]
Anyway = Annotated[
    str | None,
    typer.Option(
        "--publish-anyway",
        metavar="REASON",
        help="Publish even if checks fail; the reason is kept in the history.",
    ),
]


def spark_session(
    settings: Sequence[str] | None,
    remote: str | None,
    paths: Iterable[str] = (),
    *,
    checks: Checks | None = None,
    runtime: str = "spark",
) -> SparkSession:
    """The session that `--spark`, `--remote` and `--runtime` describe.

    Args:
        settings: the values of `--spark`.
        remote: the value of `--remote`.
        paths: what will be read and written.
        checks: the checks that will be made; what they need is loaded while Spark starts.
        runtime: what a session in this process runs on.

    Raises:
        SetupError: for a setting without `=`, or when Spark can't be started.
    """
    conf: dict[str, str] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise SetupError(
                "is not in the form KEY=VALUE",
                field="--spark",
                value=key,
                way_out="Write it like --spark spark.sql.shuffle.partitions=8",
            )
        conf[key.strip()] = value
    if checks is not None and checks.own:
        from backfill.quality.gx import begin_to_load

        begin_to_load()
    from backfill.spark import session

    return session(remote=remote, conf=conf, paths=paths, runtime=runtime)


def job_session(
    job: Job,
    settings: Sequence[str] | None,
    remote: str | None,
    runtime: str | None,
    *,
    late: str | None = None,
    checked: bool = False,
) -> SparkSession:
    """The session of a command that works on a job.

    Args:
        job: its paths are read and written, and its runtime is used if none is given.
        settings: the values of `--spark`.
        remote: the value of `--remote`.
        runtime: the value of `--runtime`.
        late: a path of late events.
        checked: whether the job's checks are made.

    Raises:
        SetupError: as for `spark_session`.
    """
    return spark_session(
        settings,
        remote,
        job.paths(*([] if late is None else [late])),
        checks=job.spec.checks if checked else None,
        # A server that is named is used instead of what the job file says.
        runtime=runtime or ("spark" if remote else job.spec.runtime),
    )
