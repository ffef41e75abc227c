"""A whole job in an object store, or with tables in a catalog, as on a disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from backfill.folders import Folder, folder_at
from backfill.job import Job
from tests.lake import SERVED, hadoop_options
from tests.object_job import life
from tests.objects import SECRET, make_bucket, served

JOB = """
source: {{{source}}}
events: {{key: user, time: at, id: id}}
windows:
  sessions:
    session: {{gap: 30m}}
    aggregates: {{events: count, revenue: sum(amount), pages: count_distinct(page)}}
tables: {{{tables}}}
"""
_DAY_US = 86_400_000_000
_START = 1_768_003_200_000_000  # 2026-01-10


def _write(folder: Folder, path: str, numbers: range) -> None:
    """Events of five users on three days."""
    place = folder / path.rpartition("/")[0]
    place.make()
    times = [_START + (n * 7_919_000_000) % (3 * _DAY_US) for n in numbers]
    columns = {
        "user": pa.array([f"u{n % 5}" for n in numbers]),
        "at": pa.array(times, pa.timestamp("us", "UTC")),
        "id": pa.array([f"e{n}" for n in numbers]),
        "amount": pa.array([n % 17 for n in numbers], pa.int64()),
        "page": pa.array([f"/p{n % 3}" for n in numbers]),
    }
    pq.write_table(pa.table(columns), folder.path(path), filesystem=folder.filesystem)


def _prepare(root: str, home: Path, tables: str = "") -> Path:
    """The job, and its events."""
    folder = folder_at(root)
    _write(folder, "events/a.parquet", range(200))
    _write(folder, "events/b c+d.parquet", range(190, 300))
    _write(folder, "late/x.parquet", range(300, 330))
    home.mkdir()
    return _job(home, "job", _files(root), tables or f"path: {root}/out")


def _files(root: str) -> str:
    return f"path: {root}/events, format: parquet"


def _job(home: Path, name: str, source: str, tables: str) -> Path:
    """A job file, and one with a retention in a folder beside it."""
    path = home / f"{name}.yaml"
    path.write_text(JOB.format(source=source, tables=tables))
    retaining = home / "retaining" / path.name
    retaining.parent.mkdir(exist_ok=True)
    retaining.write_text(f"{path.read_text()}retention: 2d\n")
    return path


def _in_tables(root: str, home: Path, environment: dict[str, str]) -> dict[str, list[str]]:
    """Further jobs, by what to do with them: with events or tables in tables of other kinds."""
    bucket = folder_at(root)
    files = [bucket.path(f"events/{name}.parquet") for name in ("a", "b c+d")]
    events = ds.dataset(files, filesystem=bucket.filesystem).to_table()
    write_deltalake(f"{root}/delta", events, storage_options=dict(bucket.options))
    options = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"{root}/lake"}
    catalog = load_catalog("lake", **options, **{"s3.endpoint": environment["AWS_ENDPOINT_URL"]})
    catalog.create_namespace("raw")
    catalog.create_table("raw.events", events.schema).append(events)
    delta = f"path: {root}/delta, format: delta"
    iceberg = f"catalog: lake, format: iceberg, path: raw.events, options: {options}"

    def lake(schema: str) -> str:
        return f"catalog: lake, schema: {schema}, path: {root}/{schema}, options: {options}"

    glue = {"type": "glue", "glue.endpoint": environment["AWS_ENDPOINT_URL"], "warehouse": root}
    jobs = {
        "life": [_job(home, "lake", _files(root), lake("web"))],
        "youth": [_job(home, "connect", _files(root), f"path: {root}/over_connect")],
        "first": [
            _job(home, "of_delta", delta, f"path: {root}/of_delta"),
            _job(home, "of_iceberg", iceberg, lake("of_iceberg")),
            _job(home, "in_glue", _files(root), f"catalog: glue, schema: web, options: {glue}"),
        ],
    }
    return {name: [str(path) for path in paths] for name, paths in jobs.items()}


@pytest.fixture(scope="module")
def expected(
    spark: SparkSession, interpreted: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the job makes on a disk."""
    folder = tmp_path_factory.mktemp("disk")
    job = _prepare(str(folder / "data"), folder / "home")
    made: dict[str, Any] = json.loads(
        json.dumps(life(Job.load(job), spark, str(folder / "data" / "late")))
    )
    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hadoop", *SERVED])
def test_tables_in_a_catalog(
    spark: SparkSession,
    tmp_path: Path,
    expected: dict[str, Any],
    reach: Callable[[str], None],
    kind: str,
) -> None:
    reach(kind)
    tables = f"catalog: {kind}, schema: {tmp_path.name}"
    if kind == "hadoop":
        tables += f", options: {hadoop_options(tmp_path / 'lake')}"
    job = _prepare(str(tmp_path / "data"), tmp_path / "home", tables)
    report = life(Job.load(job), spark, str(tmp_path / "data" / "late"))
    assert json.loads(json.dumps(report)) == expected


@pytest.mark.slow
def test_in_an_object_store(
    tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        root = make_bucket(environment, "shop")
        home = tmp_path / "remote"
        job = _prepare(root, home)
        jobs = _in_tables(root, home, environment)
        jobs["life"].insert(0, str(job))
        command = [sys.executable, "-m", "tests.object_job", json.dumps(jobs), f"{root}/late"]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        assert done.returncode == 0, done.stderr[-5000:]
        printed = json.loads(done.stdout.splitlines()[-1])
        for report in (*printed["life"], *printed["youth"]):
            for name, value in report.items():
                assert value == expected[name], name
        assert all(report.keys() == expected.keys() for report in printed["life"])
        assert printed["first"] == [expected["first"]] * len(jobs["first"])
        bucket = folder_at(root)
        left = {path: bucket.read(path) for path in bucket.files()}
    pages = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    for folder in ("out/sessions/_delta_log/", "out/_quality/", "web/_quality/", "lake/web"):
        assert any(path.startswith(folder) for path in left), folder
    assert not [path for path in left if "_staging/" in path or "_temporary" in path]
    everything = [done.stdout.encode(), done.stderr.encode(), *left.values(), *pages]
    assert not [content for content in everything if SECRET.encode() in content]
    assert "Ivy" not in done.stderr
