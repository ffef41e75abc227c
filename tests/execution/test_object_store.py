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
from tests.lake import SERVED
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
    folder = folder_at(root)
    _write(folder, "events/a.parquet", range(200))
    _write(folder, "events/b c+d.parquet", range(190, 300))
    _write(folder, "late/x.parquet", range(300, 330))
    home.mkdir()
    source = f"path: {root}/events, format: parquet"
    job = JOB.format(source=source, tables=tables or f"path: {root}/out")
    (home / "job.yaml").write_text(job)
    (home / "retaining.yaml").write_text(f"{job}retention: 2d\n")
    return home / "job.yaml"


def _in_tables(root: str, home: Path, environment: dict[str, str]) -> list[Path]:
    """Jobs whose events are those of the first run.

    They are in a Delta and in an Iceberg table; and in files, with tables in Glue.
    """
    bucket = folder_at(root)
    files = [bucket.path(f"events/{each}.parquet") for each in ("a", "b c+d")]
    events = ds.dataset(files, filesystem=bucket.filesystem).to_table()
    write_deltalake(f"{root}/delta", events, storage_options=dict(bucket.options))
    options = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"{root}/lake"}
    catalog = load_catalog("lake", **options, **{"s3.endpoint": environment["AWS_ENDPOINT_URL"]})
    catalog.create_namespace("raw")
    catalog.create_table("raw.events", events.schema).append(events)
    sources = {
        "delta": f"path: {root}/delta, format: delta",
        "iceberg": f"catalog: lake, format: iceberg, path: raw.events, options: {options}",
    }
    jobs = []
    for name, source in sources.items():
        path = home / f"{name}.yaml"
        path.write_text(JOB.format(source=source, tables=f"path: {root}/of_{name}"))
        jobs.append(path)
    glue = {"type": "glue", "glue.endpoint": environment["AWS_ENDPOINT_URL"], "warehouse": root}
    path = home / "glue.yaml"
    tables = f"catalog: lake, schema: web, options: {glue}"
    path.write_text(JOB.format(source=f"path: {root}/events, format: parquet", tables=tables))
    return [*jobs, path]


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
@pytest.mark.parametrize("kind", SERVED)
def test_tables_in_a_catalog(
    spark: SparkSession,
    tmp_path: Path,
    expected: dict[str, Any],
    reach: Callable[[str], None],
    kind: str,
) -> None:
    reach(kind)
    tables = f"catalog: {kind}, schema: {tmp_path.name}"
    job = _prepare(str(tmp_path / "data"), tmp_path / "home", tables)
    found = life(Job.load(job), spark, str(tmp_path / "data" / "late"))
    assert json.loads(json.dumps(found)) == expected


@pytest.mark.slow
def test_in_an_object_store(
    tmp_path: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        root = make_bucket(environment, "shop")
        job = _prepare(root, tmp_path / "remote")
        others = _in_tables(root, job.parent, environment)
        arguments = [job, f"{root}/late", *others]
        command = [sys.executable, "-m", "tests.object_job", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
        assert done.returncode == 0, done.stderr[-5000:]
        found = json.loads(done.stdout.splitlines()[-1])
        for name, value in expected.items():
            assert found[name] == value, name
        assert found["others"] == [found["first"]] * len(others)
        bucket = folder_at(root)
        left = {each: bucket.read(each) for each in bucket.files()}
    pages = [each.read_bytes() for each in job.parent.rglob("*") if each.is_file()]
    assert any(each.startswith("out/sessions/_delta_log/") for each in left)
    assert any(each.startswith("out/_quality/") for each in left)
    assert not [each for each in left if "_staging/" in each or "_temporary" in each]
    everything = [done.stdout.encode(), done.stderr.encode(), *left.values(), *pages]
    assert not [each for each in everything if SECRET.encode() in each]
    assert "Ivy" not in done.stderr
