"""Each setting of a stream is accepted, and a wrong value refused, wherever it can be given."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from backfill import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEventTime,
    AfterProcessingTime,
    AfterSilence,
    Repeatedly,
)
from backfill.cli.reconcile import reconcile
from backfill.errors import BackfillError, JobFileError
from backfill.reconciliation.output.description import described
from backfill.replay import replay, replay_join
from backfill.spec import JobSpec
from backfill.spec.stream import OF_THE_OUTPUT, Stream
from backfill.spec.triggers import read_trigger
from tests.spec.test_job_file import SMALL

pytestmark = pytest.mark.one_lane

#: A right value, as it is typed, and a wrong one.
VALUES: dict[str, tuple[Any, Any]] = {
    "path": ("written", ""),
    "format": ("kafka-streams", "kafka"),
    "grace": ("10s", "10"),
    "watermark_delay": ("5s", "-5s"),
    "right_watermark_delay": ("1m", "1us"),
    "allowed_lateness": ("1m", "1 day"),
    "early": ("Repeatedly(AfterCount(100))", "Sometimes(100)"),
    "late": ("AfterAny(AfterCount(2), AfterSilence('5s'))", 0),
    "retention": ("1h", "1us"),
    "emit": ("on_close", "sometimes"),
    "api": ("sql", "table"),
    "topic": ("changelog", "input"),
    "key_format": ("struct", "double"),
    "value_format": ("struct", "int"),
    "bytes": ("hex", "octal"),
    "columns": ({"theirs": "n"}, {"one": "n", "other": "n"}),
    "firing": ("delta", "once more"),
    "panes": ("discarding", "once"),
    "caching": (True, "perhaps"),
    "commits": ([[0, 12], [1, 3]], [[0, "x"]]),
    "restarts": ([[0, 1200]], [[0]]),
    "store": ("memory", "rocksdb"),
    "emit_interval": ("1s", "-1s"),
    "drained": (False, "perhaps"),
    "spurious": (True, "perhaps"),
    "wall_clock": ("received_at", ""),
}
#: Settings that describe the output, and the formats that take them.
TAKEN_BY = {"firing": "flink", "panes": "beam"}


def spec_of(folder: Path, stream: str) -> JobSpec:
    (folder / "job.yaml").write_text(SMALL + f"stream: {{{stream}}}\n")
    return JobSpec.load(folder / "job.yaml")


def yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {setting}" for name, setting in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def test_every_setting_has_a_case() -> None:
    assert set(VALUES) == set(Stream.model_fields)


@pytest.mark.parametrize("name", VALUES)
def test_the_job_file_and_arguments_are_read_alike(name: str, tmp_path: Path) -> None:
    right, _ = VALUES[name]
    base = {"path": "written", "format": TAKEN_BY.get(name, "kafka-streams")}
    text = {**base, name: right}
    in_file = spec_of(tmp_path, ", ".join(f"{n}: {yaml(v)}" for n, v in text.items()))
    without = spec_of(tmp_path, ", ".join(f"{n}: {v}" for n, v in base.items()))
    path = str(tmp_path / "written")
    assert described(in_file, path, {}) == described(without, path, {name: right})


@pytest.mark.parametrize("name", VALUES)
def test_a_wrong_value_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    _, wrong = VALUES[name]
    with pytest.raises(JobFileError, match=rf"stream\.{name}"):
        spec_of(tmp_path, f"{name}: {yaml(wrong)}")
    spec = spec_of(tmp_path, "path: written, format: kafka-streams")
    with pytest.raises(JobFileError, match=rf"^stream\.{name}.*got ") as caught:
        described(spec, None, {name: wrong})
    assert caught.value.way_out or name == "columns"


@pytest.mark.parametrize(
    "setting",
    ["commits: 30", "commits: true", "restarts: 30s", "restarts: 30", "restarts: off"],
)
def test_what_is_no_place_is_no_path_of_a_file(setting: str, tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"is not a list of input positions.*Give pairs"):
        spec_of(tmp_path, setting)


def test_places_between_braces_need_quotes(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"stream.*: no such setting. Put the positions in quo"):
        spec_of(tmp_path, "commits: 0:1200,1:900")


@pytest.mark.parametrize(
    ("format", "emit"), [("spark-append", "complete"), ("spark-update", "append")]
)
def test_a_format_names_the_output_mode(format: str, emit: str, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, f"path: written, format: {format}")
    with pytest.raises(JobFileError, match=rf"stream\.emit: .*set the format to spark-{emit}"):
        described(spec, None, {"emit": emit})
    mode = format.removeprefix("spark-")
    assert described(spec, None, {"emit": mode}).settings["emit"] == mode


def test_an_unknown_argument_is_refused(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "path: written, format: kafka-streams")
    with pytest.raises(JobFileError, match=r"graze: there is no such.*mean 'grace'"):
        described(spec, None, {"graze": "10s"})


def test_the_command_line_has_an_option_for_each() -> None:
    options = set(inspect.signature(reconcile).parameters)
    assert {*Stream.model_fields} - {"path"} | {"stream"} <= options


def test_what_the_operator_ran_with_is_named_as_the_replay_has_it() -> None:
    arguments = {
        name
        for function in (replay, replay_join)
        for name in inspect.signature(function).parameters
    }
    # Each event gives the wall clock.
    assert {*Stream.model_fields} - OF_THE_OUTPUT - {"path", "format", "wall_clock"} <= arguments


def test_triggers_are_read_as_python_writes_them() -> None:
    often = Repeatedly(AfterAny(AfterCount(100), AfterProcessingTime("10s")))
    assert read_trigger(often) is often
    text = "Repeatedly( AfterAny(AfterCount(100), AfterProcessingTime('10s')) )"
    assert read_trigger(text) == often
    assert read_trigger("AfterAll(AfterSilence('1m'), AfterEventTime('1h'))") == AfterAll(
        AfterSilence("1m"), AfterEventTime("1h")
    )
    assert read_trigger("12") == read_trigger(12) == 12


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a trigger"),
        ("0", "must be at least 1"),
        (True, "is not a trigger"),
        (1.5, "is not a trigger"),
        ("soon", "is not a trigger"),
        ("AfterCount", "is not a trigger"),
        ("AfterCount()", "is not a trigger"),
        ("AfterCount(100", "is not a trigger"),
        ("AfterCount(count=100)", "is not a trigger"),
        ("AfterCount(__import__('os').getpid())", "is not a trigger"),
        ("AfterCounts(100)", "there is no such trigger.*Did you mean 'AfterCount'"),
        ("AfterCount(0)", "count: "),
        ("AfterSilence('soon')", "delay: "),
        ("AfterAny()", "AfterAny: combines at least one trigger"),
        ("Repeatedly(Repeatedly(AfterCount(1)))", "Repeatedly: is repeated already"),
    ],
)
def test_what_is_no_trigger_is_refused(text: object, problem: str) -> None:
    with pytest.raises(BackfillError, match=problem):
        read_trigger(text)


def test_places_in_a_file_and_in_short(tmp_path: Path) -> None:
    (tmp_path / "commits.json").write_text("[[0, 12], [1, 3]]")
    known = "path: written, format: kafka-streams, caching: true"
    spec = spec_of(tmp_path, f"{known}, commits: commits.json")
    for commits in (None, "0:12,1:3", ((0, 12), (1, 3))):
        given = described(spec, None, {"commits": commits})
        assert given.settings["commits"] == ((0, 12), (1, 3))
    assert described(spec, None, {"commits": "30s"}).settings["commits"] == "30s"
    with pytest.raises(JobFileError, match=r"stream\.commits: must be greater than zero"):
        described(spec, None, {"commits": "0s"})
    (tmp_path / "commits.json").write_text('{"0": 12}')
    with pytest.raises(BackfillError, match=r"stream\.commits: the input positions can't be read"):
        described(spec, None, {})
    (tmp_path / "commits.json").unlink()
    with pytest.raises(
        BackfillError, match=r"stream\.commits: the input positions can.t be read.*No such file"
    ):
        described(spec, None, {})
