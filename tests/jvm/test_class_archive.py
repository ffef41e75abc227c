"""The archive of Spark's classes: a new session finds its classes in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from backfill.errors import SetupError
from backfill.jvm import class_archive, java
from backfill.jvm.class_archive import archive_for, make_archive, options

pytestmark = pytest.mark.one_lane

_STARTED = """
from backfill import spark
log = {log!r}
spark.session(conf={{"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={{log}}"}}).stop()
"""


@pytest.mark.slow
def test_classes_come_from_the_archive(tmp_path: Path) -> None:
    home = java.needed()
    archive = archive_for(home)
    if not archive.exists():  # `make test` makes it
        assert make_archive(home) == archive
    log = tmp_path / "classes.log"
    program = _STARTED.format(log=str(log))
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    loaded = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    archived = [line for line in loaded if "source: shared objects file (top)" in line]
    from_jars = [line for line in loaded if "source: file:" in line]
    assert len(archived) > 1_000
    assert len(from_jars) < 0.02 * len(archived)


def test_there_is_one_for_each_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_folder", lambda: tmp_path / "with 'spaces'")
    homes = [tmp_path / "17", tmp_path / "21"]
    for home in homes:
        home.mkdir()
        (home / "release").write_text(f'JAVA_VERSION="{home.name}"')
    archives = {archive_for(home) for home in homes}
    assert len(archives) == 2
    assert options(homes[0]) == ""
    archive_for(homes[0]).parent.mkdir()
    archive_for(homes[0]).touch()
    assert str(archive_for(homes[0])).replace("'", "'\"'\"'") in options(homes[0])
    assert options(homes[1]) == ""


def test_it_goes_with_the_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "jars" / "a.jar"
    jar.parent.mkdir()
    jar.write_text("one")
    os.utime(jar, (1_000.7, 1_000.7))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    before = archive_for(tmp_path)
    # As in a layer of an image, which has whole seconds.
    os.utime(jar, (1_000, 1_000))
    assert archive_for(tmp_path) == before
    jar.write_text("another")
    os.utime(jar, (1_000, 1_000))
    assert archive_for(tmp_path) != before


def test_a_new_one_replaces_that_of_other_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, jar = tmp_path / "bin" / "spark-submit", tmp_path / "jars" / "a.jar"
    for path in (submit, jar):
        path.parent.mkdir()
    submit.write_text(
        "#!/bin/sh\n"
        "for each in $SPARK_SUBMIT_OPTS; do case $each in\n"
        '-XX:ArchiveClassesAtExit=*) echo classes > "${each#*=}";; esac; done\n'
    )
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(class_archive, "_folder", lambda: tmp_path / "kept")
    homes = [tmp_path / "17", tmp_path / "21"]
    for home in homes:
        home.mkdir()
        (home / "release").write_text(home.name)
    old, other = map(make_archive, homes)
    jar.touch()
    new = make_archive(homes[0])
    assert new.read_text() == "classes\n"
    assert set((tmp_path / "kept").iterdir()) == {new, other}
    assert old != new


def test_without_a_spark_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="this pyspark does not include Spark"):
        make_archive(tmp_path)


def test_what_went_wrong_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text("#!/bin/sh\necho one >&2\necho the reason >&2\nexit 1\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setattr(class_archive, "_folder", lambda: tmp_path / "kept")
    with pytest.raises(SetupError, match=r"left no archive of its classes: the reason$"):
        make_archive(tmp_path)
    assert list((tmp_path / "kept").iterdir()) == []
    submit.write_text("#!/bin/sh\necho why the JVM left none\necho one >&2\n")
    with pytest.raises(SetupError, match="classes: why the JVM left none"):
        make_archive(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_one_that_cannot_be_read_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "_folder", lambda: tmp_path / "kept")
    archive = archive_for(tmp_path)
    archive.parent.mkdir()
    archive.touch()
    archive.parent.chmod(0)
    assert options(tmp_path) == ""
    archive.parent.chmod(0o700)


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "file").touch()
    monkeypatch.setattr(class_archive, "_folder", lambda: tmp_path / "file" / "folder")
    with pytest.raises(SetupError, match="can't be written: Not a directory"):
        make_archive(tmp_path)
