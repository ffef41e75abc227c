"""Delta tables in a folder as external tables of a catalog that Spark is configured for.

The tables stay in the folder, and runs publish there. A table is registered in the catalog only
once, so that others find it by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from backfill.columns import quoted
from backfill.errors import BackfillError, SetupError, TableError
from backfill.folders import Folder, same_scheme
from backfill.ledger.state import QUARANTINE
from backfill.planning.context import Context
from backfill.printable import first_line, shown
from backfill.spec import JobSpec

_UNKNOWN = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND")


def check_entries(spec: JobSpec, spark: SparkSession) -> None:
    """Checks that the job's tables can be registered, before anything is done.

    Args:
        spec: the job.
        spark: the session.

    Raises:
        SetupError: Spark does not have Delta Lake.
        TableError: the catalog has other tables of these names, or fails.
    """
    if spec.entries is None:
        return
    _check_delta(spec, spark)
    for name in _tables(spec):
        if "-" in name:
            raise TableError(
                "can't be the name of a table in a catalog, because it contains -",
                field=f"windows.{name}",
                way_out="Use letters, digits and _",
            )
        with _failures(spec):
            _has_entry(spec, spark, name)


def register(context: Context) -> None:
    """Registers the published tables in the catalog, if the job names one.

    Args:
        context: the context of the run that published them.

    Raises:
        TableError: the catalog fails. What is published stays published.
    """
    spec, spark = context.spec, context.spark
    if spec.entries is None:
        return
    for name in _tables(spec):
        if context.store.open(name) is None:
            continue
        with _failures(spec, f"what was computed is published in {spec.tables}, but "):
            if _has_entry(spec, spark, name):
                continue
            context.progress(f"registering {_shown(spec, name)}")
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {_schema(spec)}")
            try:
                table = f"{_schema(spec)}.{quoted(name)}"
                spark.catalog.createTable(table, (spec.tables / name).uri, "delta")
            except AnalysisException:
                # Another run may have registered it at the same time.
                if not _has_entry(spec, spark, name):
                    raise


def _tables(spec: JobSpec) -> list[str]:
    return [*spec.windows, QUARANTINE]


def _check_delta(spec: JobSpec, spark: SparkSession) -> None:
    """Opens a table that need not exist: without Delta Lake, Spark fails before it looks for it."""
    try:
        _ = spark.read.format("delta").load(spec.tables.uri).schema
    except Exception as error:
        # Classic Spark raises Py4J's own exception, which has no condition. Any other error says
        # nothing about Delta Lake, and will show when a run writes there.
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise SetupError(
                "this Spark does not have Delta Lake, which is needed to register tables",
                field="tables.format",
                value="delta",
                way_out="Start it with the jars, as docs/catalogs.md says, or leave out catalog, "
                "schema and format: the tables in the folder need no jar",
            ) from None


def _has_entry(spec: JobSpec, spark: SparkSession, name: str) -> bool:
    """Whether the catalog has a table, which must be the job's."""
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_schema(spec)}.{quoted(name)}").collect()
    except AnalysisException as error:
        if error.getCondition() in _UNKNOWN:
            return False
        raise
    # The table's columns come first, and can have any name.
    texts = [(row[0], row[1]) for row in rows]
    start = next((n for n, (text, _) in enumerate(texts) if text.startswith("# Detailed")), 0)
    known = dict(texts[start:])
    wanted = spec.tables / name
    if known.get("Provider", "").lower() != "delta":
        raise _other(spec, name, "not a Delta table, but", known.get("Provider"))
    if not _is_at(known.get("Location", ""), wanted):
        raise _other(spec, name, f"not in {wanted}, but in", known.get("Location"))
    return True


def _schema(spec: JobSpec) -> str:
    assert spec.entries is not None
    parts = [spec.entries.catalog, *spec.entries.schema.split(".")]
    return ".".join(map(quoted, parts))


def _shown(spec: JobSpec, name: str) -> str:
    assert spec.entries is not None
    return f"{spec.entries.catalog}.{spec.entries.schema}.{name}"


def _is_at(location: str, folder: Folder) -> bool:
    """Whether a location is the folder; not every catalog shows it escaped as a URL."""
    bare = re.sub("^file:/+", "/", same_scheme(location)).rstrip("/")
    return same_scheme(folder.uri) in (bare, unquote(bare))


def _other(spec: JobSpec, name: str, what: str, location: str | None) -> BackfillError:
    return TableError(
        f"the catalog has a table of this name which is {what} {shown(location or '?')}",
        field=_shown(spec, name),
        way_out="Drop it there, or choose another schema",
    )


@contextmanager
def _failures(spec: JobSpec, before: str = "") -> Iterator[None]:
    """Reports a failure of the catalog in one line."""
    try:
        yield
    except BackfillError:
        raise
    except Exception as error:
        # For errors of a catalog's own libraries, classic Spark raises Py4J's exception.
        assert spec.entries is not None
        raise TableError(
            f"{before}the catalog fails: {shown(first_line(error))}",
            field="tables.catalog",
            value=spec.entries.catalog,
            way_out="Configure it for Spark: spark.sql.catalog.… with --spark",
        ) from error
