from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest

from backfill import spark
from backfill.errors import SetupError
from backfill.jvm import java
from backfill.jvm.launch import LaunchOutput, telling_line


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own: one process has one JVM."""
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def wait_for_readers(before: list[threading.Thread]) -> None:
    """Waits until the threads that pass output on are done: they end with the processes they read.

    Only then is it safe to look at what pytest has captured. Looking empties its file, and what is
    written at that moment is lost.
    """
    for thread in set(threading.enumerate()) - set(before):
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.mark.slow
def test_a_new_session_is_quiet_and_set_up() -> None:
    done = run(
        "from backfill import spark\n"
        "session = spark.session(conf={'spark.sql.shuffle.partitions': '3'})\n"
        "for name in ('ansi.enabled', 'session.timeZone', 'parquet.outputTimestampType',\n"
        "             'ui.explainMode', 'shuffle.partitions'):\n"
        "    print(session.conf.get('spark.sql.' + name))\n"
        "print(session.range(5).count())\n"
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.split() == ["true", "UTC", "TIMESTAMP_MICROS", "simple", "3", "5"]


@pytest.mark.slow
def test_a_collector_that_the_environment_names_is_no_obstacle() -> None:
    ours = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    program = "from backfill import spark; print(spark.session().range(5).count())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment | {"JAVA_TOOL_OPTIONS": "-XX:+UseParallelGC"},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr


def test_the_users_options_of_the_jvm_come_last() -> None:
    given = "-XX:Tier4InvocationThreshold=7"
    options = spark._jvm_options(java.needed(), {"spark.driver.extraJavaOptions": given})
    assert "-XX:Tier4InvocationThreshold=15000" in options
    assert options.endswith(given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("spark.driver.memory", "99999g", "Could not reserve enough space"),
        ("spark.master", "nowhere", "Master must"),
        ("spark.sql.ansi.enabled", "perhaps", "'perhaps'"),
    ],
)
def test_a_setting_that_spark_refuses_is_one_line(setting: str, value: str, said: str) -> None:
    done = run(
        "from backfill import spark, errors\n"
        "try:\n"
        f"    spark.session(conf={{{setting!r}: {value!r}}})\n"
        "except errors.SetupError as error:\n"
        "    print(error)\n"
    )
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert said in line


def test_without_java_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find", lambda: None)
    monkeypatch.setattr(spark.SparkSession, "getActiveSession", lambda: None)
    with pytest.raises(SetupError, match="apt-get install openjdk-17-jre-headless"):
        spark.session()


def test_java_is_found_behind_a_broken_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    home = java.find()
    assert home is not None
    assert (home / "bin" / "java").exists()


def test_a_server_that_does_not_answer_is_told_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(SetupError, match="no Spark Connect server answers"):
        spark.session(remote=f"sc://127.0.0.1:{port}")


@pytest.mark.parametrize("address", ["http://host", "sc://", "sc://host:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(SetupError, match="not a Spark Connect address"):
        spark.session(remote=address)


def test_what_ivy_says_of_jars_is_shown_only_of_a_failure(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = threading.enumerate()
    resolved = "echo :: loading settings :: x; echo found a; echo ' 3 artifacts copied, 0'; echo on"
    with LaunchOutput():
        subprocess.run(["sh", "-c", resolved], check=True)
    wait_for_readers(before)
    assert capfd.readouterr().err == "on\n"
    with LaunchOutput():
        subprocess.run(["sh", "-c", "echo :: loading settings :: x; echo odd"], check=True)
    wait_for_readers(before)
    assert capfd.readouterr().err == ":: loading settings :: x\nodd\n"
    output = LaunchOutput()
    failing = "echo :: loading settings :: x; echo no jar; exit 1"
    with pytest.raises(subprocess.CalledProcessError), output:
        subprocess.run(["sh", "-c", failing], check=True)
    assert output.text == ":: loading settings :: x\nno jar\n"


def test_what_a_jvm_prints_goes_to_stderr_without_the_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = threading.enumerate()
    with LaunchOutput():
        noise = (
            "echo WARNING: Using incubator modules: x; echo WARNING: package a.b not in java.base"
        )
        script = f"{noise}; echo one; sleep 0.3; echo two >&2"
        process = subprocess.Popen(["sh", "-c", script])
    process.wait()
    wait_for_readers(before)
    assert capfd.readouterr() == ("", "one\ntwo\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("\n  at a.B.c(B.java:1)\n", None),
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            "Too small maximum heap",
        ),
        ('Exception in thread "main" org.apache.spark.SparkException: Bad\n\tat x\n', "Bad"),
        (':: loading settings ::\nException in thread "main" a.B: [no jar]\n', "a.B: [no jar]"),
        ("An error occurred while calling None.X.\n: java.net.BindException: No: y\n", "No: y"),
    ],
)
def test_the_telling_line_of_a_failure(text: str, line: str | None) -> None:
    assert telling_line(text) == line
