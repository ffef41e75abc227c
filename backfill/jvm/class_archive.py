"""An archive of the classes that Spark loads, which makes its JVM start faster (JEP 350).

Starting Spark and running a first job spends seconds of CPU time on finding, parsing and verifying
some twenty thousand classes. A JVM can write them to an archive as it exits, and later JVMs map it
into memory.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from backfill.errors import SetupError

# The archive holds what Spark loads while these run.
_PROGRAM = """\
import sys
from pathlib import Path

from backfill.cli import main

Path("job.yaml").write_text(\"\"\"\\
source: {path: events, format: parquet}
events: {key: user_id, time: event_time, id: event_id, arrival: received_at}
windows:
  sessions:
    session: {gap: 30m}
    aggregates: {events: count, revenue: sum(amount), pages: count_distinct(page)}
  hourly: {tumbling: {size: 1h}, aggregates: {events: count}}
  trailing: {hopping: {size: 24h, advance: 1h}, aggregates: {events: count}}
tables: {path: out}
\"\"\")
few = ["--events", "5_000", "--days", "3", "--keys", "100", "--late", "0.01"]
dates = ["--from", "2026-01-02", "--to", "2026-01-03"]
for line in (
    ["generate", "events", *few],
    ["run", "job.yaml"],
    ["run", "job.yaml", *dates],
    ["plan", "job.yaml", *dates],
    ["recompute", "job.yaml"],
    ["validate", "job.yaml"],
):
    if main(line) == 2:
        sys.exit(2)
"""
_CONF = ("spark.ui.enabled=false", "spark.log.level=ERROR", "spark.sql.shuffle.partitions=2")
# A JVM that an archive does not fit starts without it, and would otherwise print why.
_QUIET = "-Xlog:cds*=off"
# Variables that would make the jobs run elsewhere, or with another Python.
_MISLEADING = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON_OPTS")


def archive_for(home: Path) -> Path:
    """The path of the archive for this environment's Spark and a Java.

    Args:
        home: the home of the Java.
    """
    release, jars = home / "release", _spark_home() / "jars"
    about = release.read_bytes() if release.exists() else str(home).encode()
    # It only fits the jars that it was made from. Images keep only whole seconds of their times.
    facts = [(jar.name, jar.stat()) for jar in sorted(jars.glob("*.jar"))]
    made = [(name, file.st_size, int(file.st_mtime)) for name, file in facts]
    parts = [pyspark.__version__, _hash(about + str(jars).encode()), _hash(repr(made).encode())]
    return _folder() / f"spark-{'-'.join(parts)}.jsa"


def options(home: Path) -> str:
    """The options of a JVM that uses the archive; empty if none can be read."""
    archive = archive_for(home)
    if not os.access(archive, os.R_OK):
        return ""
    return f"-XX:SharedArchiveFile={shlex.quote(str(archive))} {_QUIET}"


def make_archive(home: Path) -> Path:
    """Runs jobs over a few events on a separate Spark, whose JVM writes the archive as it exits.

    Archives for the same Java and earlier jars are removed. It takes about a minute.

    Args:
        home: the home of the Java.

    Returns:
        Where the archive is.

    Raises:
        SetupError: the archive can't be written, or pyspark has no Spark.
    """
    submit = _spark_home() / "bin" / "spark-submit"
    if not submit.exists():
        raise SetupError(
            "this pyspark does not include Spark",
            field="pyspark",
            value=str(submit),
            way_out="Install pyspark, not pyspark-client",
        )
    archive = archive_for(home)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, so that the rename is atomic.
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            made = Path(folder) / archive.name
            _run(submit, made, home)
            made.replace(archive)
        for old in archive.parent.glob(f"{archive.stem.rpartition('-')[0]}-*.jsa"):
            if old != archive:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(
            f"can't be written: {error.strerror or error}",
            field=str(archive),
            way_out="Run this as the owner of the Python environment",
        ) from error
    return archive


def _run(submit: Path, archive: Path, home: Path) -> None:
    program = archive.with_suffix(".py")
    program.write_text(_PROGRAM)
    # Under spark-submit, the process that is waited for is the JVM.
    done = subprocess.run(
        [submit, "--master=local[2]", *(f"--conf={setting}" for setting in _CONF), program],
        cwd=archive.parent,
        env={
            **{name: value for name, value in os.environ.items() if name not in _MISLEADING},
            "JAVA_HOME": str(home),
            "SPARK_HOME": str(_spark_home()),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={shlex.quote(str(archive))} "
            "-Xlog:cds*=error",
        },
        capture_output=True,
        text=True,
    )
    if done.returncode != 0 or not archive.exists():
        # The JVM says on standard output why it wrote no archive.
        output = done.stderr if done.returncode else done.stdout
        lines = output.strip().splitlines() or ["it printed nothing"]
        raise SetupError(f"Spark left no archive of its classes: {lines[-1]}")


def _hash(about: bytes) -> str:
    return hashlib.sha256(about).hexdigest()[:8]


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def _folder() -> Path:
    """A folder in the environment, so that the archive is deleted together with its Spark."""
    return Path(sys.prefix) / "share" / "backfill"
