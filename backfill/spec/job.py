"""From a job file to a validated job, or to every problem in it."""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from backfill.aggregates import Aggregate
from backfill.bot_rules import Bots
from backfill.engines import Engine
from backfill.errors import BackfillError, JobFileError, did_you_mean
from backfill.events import NAMED, EventRules, SourceOptions
from backfill.folders import Folder, LocalFolder, folder_at, is_url
from backfill.quality.checks import Check
from backfill.quality.store import PAGES
from backfill.spec.checked_columns import check_columns, check_order
from backfill.spec.checks import Checks, Suite, collected
from backfill.spec.document import Document, Place, read
from backfill.spec.joins import join_windows
from backfill.spec.metrics import metric_tables
from backfill.spec.settings import JobFile, context
from backfill.spec.sources import FileSource, Source
from backfill.spec.stream import Stream
from backfill.spec.tables import CatalogEntries, CatalogTables, Tables
from backfill.store import DeltaStore, Store, iceberg_store
from backfill.windows import AnyWindow

# Passwords can be here, so no value from here is ever shown.
_SECRET = {("source", "options"), ("sources", "*", "options"), ("tables", "options")}


@dataclass(frozen=True)
class WindowSpec:
    """One entry of `windows`: the window, and its aggregates by the names of their columns.

    It can also be one grouping of an entry of `metrics`, with the same aggregate for each window,
    or an entry of `joins`, which has no aggregates.
    """

    window: AnyWindow
    aggregates: Mapping[str, Aggregate]


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A validated job file.

    Attributes:
        path: the job file, absolute.
        source: where the events are; a relative path in the file is made absolute. Several
            sources are its parts.
        key: the key's columns; () for one group.
        time, time_format, timezone, id, arrival: as in the file.
        max_future_us: events later than the time of the run by more than this are quarantined; µs.
        bots: the rules for bots, whose events are quarantined.
        engine: the engine whose conventions the windows follow.
        retention_us: windows that ended longer than this before the horizon are not kept; µs.
        windows: by name, in the file's order; then the groupings of metrics, then joins.
        tables: the folder of the tables, or, if these are Iceberg tables, of the outcomes of
            checks.
        lake: the tables' catalog; None for tables in the folder.
        entries: where tables in the folder are registered; None for nowhere.
        properties: the tables' properties, as their format names them.
        sort_by: columns by which rows are sorted within a file, before the key and the time, in
            tables that have them.
        runtime: what a session that is started for the job runs on.
        stream: the streaming operator's output and settings; its path is made absolute.
        checks: what is checked before anything is published.
    """

    path: Path
    source: SourceOptions
    key: tuple[str, ...]
    time: str
    time_format: str | None
    timezone: str
    id: str | None
    arrival: tuple[str, ...]
    max_future_us: int | None
    bots: Bots | None
    engine: Engine
    retention_us: int | None
    windows: Mapping[str, WindowSpec]
    tables: Folder
    lake: CatalogTables | None
    entries: CatalogEntries | None
    properties: Mapping[str, str]
    sort_by: tuple[str, ...]
    runtime: str
    stream: Stream
    checks: Checks

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> JobSpec:
        """Reads and validates a job file; needs no Spark session.

        Raises:
            JobFileError: with one line for every problem: file and line, setting, value, and
                what is allowed.
        """
        document = read(Path(path))
        if not isinstance(document.value, dict):
            way_out = "Start with source: (backfill init writes an example)"
            raise JobFileError("must be a mapping", field=document.where(()), way_out=way_out)
        try:
            file = JobFile.model_validate(document.value, context=context(document.value))
        except ValidationError as error:
            raise _problems(error.errors(include_url=False), document) from None
        spec = _spec(Path(os.path.abspath(path)), file, document)
        try:
            own = ((entry.window, entry.aggregates) for entry in spec.windows.values())
            check_order(spec.sort_by, spec.key, own)
        except JobFileError as error:
            raise error.within(document.where(("tables", "sort_by"))) from None
        for folder in spec.table_folders():
            if spec.source.meets(folder):
                raise JobFileError(
                    "the tables would be written into the folder that events are read from: "
                    f"{folder}",
                    field=document.where(("tables", "path")),
                    value=file.tables.path,
                    way_out="Choose a folder outside the source",
                )
        return spec

    def table_folders(self) -> list[Folder]:
        """Where the tables are, unless they are in a catalog."""
        if self.lake is not None:
            return []
        return [self.tables / name for name in (*self.windows, "quarantine")]

    def store(self) -> Store:
        """The tables.

        Raises:
            TableError: the tables cannot be where the job file says.
        """
        if self.lake is None:
            return DeltaStore(self.tables.uri, self.properties, self.sort_by)
        lake = self.lake
        return iceberg_store(lake.catalog, lake.schema, lake.options, self.properties, self.sort_by)

    def table_name(self, name: str) -> str:
        """A table's location for display: its folder, or its name in the catalog."""
        if self.lake is None:
            return str(self.tables / name)
        return f"{self.lake.catalog}.{self.lake.schema}.{name}"

    @property
    def paths(self) -> tuple[str, ...]:
        """What is read and written, as far as the file says: local paths and URLs."""
        sources = [part.path for part in self.source.parts.values() or (self.source,)]
        catalogs = [self.source.options, {} if self.lake is None else self.lake.options]
        warehouses = [options["warehouse"] for options in catalogs if "warehouse" in options]
        streams = [self.stream.path] if self.stream.path else []
        return (*sources, self.tables.uri, *streams, *warehouses)

    @property
    def pages(self) -> Path:
        """Where pages with the outcomes of checks are built, always on this machine."""
        if isinstance(self.tables, LocalFolder):
            return self.tables.local / PAGES
        return self.path.with_name(f"{self.path.stem}-checks") / PAGES

    def event_rules(self, engine: Engine, arrival: tuple[str, ...], now_us: int) -> EventRules:
        """The rules for what is an event under an engine.

        Args:
            engine: the job's own, or that of a streaming operator.
            arrival: the source's own columns for the order of arrival, if the job names none.
            now_us: µs since the epoch.
        """
        return EventRules(
            key=self.key,
            time=self.time,
            time_format=self.time_format,
            timezone=self.timezone,
            id=self.id,
            arrival=self.arrival or arrival,
            max_future_us=self.max_future_us,
            now_us=now_us,
            date_column=self.source.date_column,
            tick_us=engine.tick_us,
            null_key=engine.null_key,
            before_epoch=engine.before_epoch,
        )


def _spec(path: Path, file: JobFile, document: Document) -> JobSpec:
    events = file.events
    windows = {
        name: WindowSpec(table.window, types.MappingProxyType(table.aggregates))
        for name, table in file.windows.items()
    }
    for name, (window, aggregates) in metric_tables(file.metrics).items():
        windows[name] = WindowSpec(window, types.MappingProxyType(aggregates))
    for name, join in join_windows(file.joins, file.sources or ()).items():
        windows[name] = WindowSpec(join, types.MappingProxyType({}))
    return JobSpec(
        path=path,
        source=_source(path, file),
        key=events.key,
        time=events.time,
        time_format=events.time_format,
        timezone=events.timezone,
        id=events.id,
        arrival=events.arrival,
        max_future_us=events.max_future.us if events.max_future else None,
        bots=events.bots.bots if events.bots else None,
        engine=file.engine,
        retention_us=file.retention.us if file.retention else None,
        windows=types.MappingProxyType(windows),
        tables=_tables(path, file.tables),
        lake=file.tables.lake,
        entries=file.tables.entries,
        properties=types.MappingProxyType(file.tables.properties),
        sort_by=file.tables.sort_by,
        runtime=file.runtime,
        stream=_located(path, file.stream),
        checks=_checks(path, file, document, windows),
    )


def _tables(file: Path, tables: Tables) -> Folder:
    path = tables.path or f"{file.stem}-checks"
    return folder_at(path) if is_url(path) else LocalFolder(Path(_absolute(file, path)))


def _source(path: Path, file: JobFile) -> SourceOptions:
    if file.source is not None:
        return _one_source(path, file.source, file.source.date_column, file.events.timezone)
    parts = {
        name: _one_source(path, source, None, file.events.timezone)
        for name, source in (file.sources or {}).items()
    }
    paths = ", ".join(part.path for part in parts.values())
    return SourceOptions(format="several", path=paths, parts=types.MappingProxyType(parts))


def _one_source(
    path: Path, source: Source | FileSource, date_column: str | None, timezone: str
) -> SourceOptions:
    named = source.format in NAMED or is_url(source.path)
    return SourceOptions(
        format=source.format,
        path=source.path if named else _absolute(path, source.path),
        schema=source.ddl,
        options=types.MappingProxyType(source.options),
        date_column=date_column,
        timezone=timezone,
        catalog=source.catalog if isinstance(source, Source) else None,
        topic=source.topic if isinstance(source, Source) else None,
    )


def _checks(
    path: Path, file: JobFile, document: Document, windows: Mapping[str, WindowSpec]
) -> Checks:
    suites: dict[str, list[Check]] = {}
    try:
        for name, listed in file.checks.items():
            for entry in listed:
                if isinstance(entry, Suite):
                    from backfill.quality.suites import suite_checks

                    expectations = suite_checks(Path(_absolute(path, entry.path)), entry.severity)
                    suites.setdefault(name, []).extend(expectations)
        checks = collected(file.checks, windows, suites)
        for name, own in checks.own.items():
            if name in windows:
                check_columns(name, windows[name].window, own)
        return checks
    except JobFileError as error:
        raise error.within(document.where(("checks",))) from None


def _located(file: Path, stream: Stream) -> Stream:
    paths = {name: getattr(stream, name) for name in ("path", "commits", "restarts")}
    local = {
        name: _absolute(file, location)
        for name, location in paths.items()
        if isinstance(location, str) and not is_url(location)
    }
    return stream.model_copy(update=local)


def _absolute(file: Path, path: str) -> str:
    return os.path.normpath(file.parent / path)


def _problems(errors: list[ErrorDetails], document: Document) -> JobFileError:
    problems = sorted(
        (_problem(error, document) for error in errors), key=lambda problem: problem[0]
    )
    listed = [problem for _, problem in problems]
    return (
        listed[0]
        if len(listed) == 1
        else JobFileError("\n".join(str(problem) for problem in listed))
    )


def _problem(error: ErrorDetails, document: Document) -> tuple[int, JobFileError]:
    """The line of an error, and the problem in our words."""
    place: Place = tuple(part for part in error["loc"] if part != "[key]")
    cause = error.get("ctx", {}).get("error")
    facts: dict[str, Any] = {}
    if isinstance(cause, BackfillError):
        problem = cause.problem
        facts["way_out"] = cause.way_out
        if cause.has_value:
            facts["value"] = cause.value
        if cause.field and place[-1:] != (cause.field,):
            place = (*place, *map(_part, cause.field.split(".")))
    elif error["type"] == "extra_forbidden":
        problem, facts["way_out"] = _unknown(place)
    else:
        problem = _wanted(error)
        if isinstance(error["input"], str) and error["type"] != "string_too_short":
            facts["value"] = error["input"]
    # A mapping's text may hold an address with a password in it.
    if _is_secret(place) or error["type"].endswith("_type"):
        facts.pop("value", None)
    return document.line(place), JobFileError(problem, field=document.where(place), **facts)


def _is_secret(place: Place) -> bool:
    of_several = (*place[:1], "*", *place[2:3])
    return place[:2] in _SECRET or of_several in _SECRET


def _part(text: str) -> str | int:
    """A part of a place: `[2]` is a position in a list."""
    return int(text[1:-1]) if re.fullmatch(r"\[\d+\]", text) else text


def _unknown(place: Place) -> tuple[str, str | None]:
    name = str(place[-1])
    if re.fullmatch(r"\d+:\d+", name):
        # In {commits: 0:1200,1:900}, YAML ends the value at the comma.
        return (
            "no such setting",
            "Put the positions in quotes: between { and } a comma ends a value",
        )
    homes = [section for section in _settings(()) if name in _settings((section,))]
    if homes:
        return "no such setting", f"It belongs under {' or '.join(homes)}"
    if name in _settings(()):
        return "no such setting", "It belongs at the top level of the file, like source"
    return "no such setting", did_you_mean(name, _settings(place[:-1]))


def _wanted(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["input"] is None or error["type"] == "string_too_short":
        return "is empty"
    wanted = {
        "string_type": "text",
        "tuple_type": "a column name or a list of names",
        "dict_type": "a mapping",
        "model_type": "a mapping",
    }
    return f"must be {wanted.get(error['type'], 'something else: ' + error['msg'])}"


def _settings(place: Place) -> list[str]:
    """The settings that a mapping at this place can have; none if it has no fixed ones."""
    kind: Any = JobFile
    for part in place:
        if typing.get_origin(kind) is dict:
            kind = typing.get_args(kind)[1]
        else:
            field = _fields(kind).get(str(part))
            kind = None if field is None else _plain(field.annotation)
    return list(_fields(kind))


def _plain(kind: Any) -> Any:
    """The type of an optional setting, without the checks of its value."""
    if type(None) in (inner := typing.get_args(kind)):
        kind = inner[0]
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind


def _fields(kind: Any) -> dict[str, FieldInfo]:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    return {field.alias or name: field for name, field in kind.model_fields.items()}
