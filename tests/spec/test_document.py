"""YAML as the job file takes it: text, lines, and files that are not YAML at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill.errors import JobFileError
from backfill.spec import JobSpec
from backfill.spec.document import read

pytestmark = pytest.mark.one_lane


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "job.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_text_stays_text(tmp_path: Path) -> None:
    text = "no: off\n1: 30:00\n2024-01-01: 2024-01-01\na: 1e3\nb: 0o17\nc: 'null'\nd: ~\ne: !!str 5"
    assert read(write(tmp_path, text)).value == {
        "no": "off",
        "1": "30:00",
        "2024-01-01": "2024-01-01",
        "a": "1e3",
        "b": "0o17",
        "c": "null",
        "d": None,
        "e": "5",
    }


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    assert read(write(tmp_path, b"\xef\xbb\xbfa: 1")).value == {"a": "1"}


def test_places_have_lines(tmp_path: Path) -> None:
    document = read(write(tmp_path, "a:\n  - x\n  - {b: 1,\n     c: 2}\n"))
    name = document.name
    assert document.where(("a", 1, "c")) == f"{name}:4: a[1].c"
    assert document.where(("a", 1, "d")) == f"{name}:3: a[1].d"
    assert document.where(()) == f"{name}:1"


BAD = {
    "": "job.yaml: is empty. Write one to start from: backfill init",
    "# nothing\n": "job.yaml: is empty. Write one to start from: backfill init",
    "- a\n- b\n": "job.yaml:1: must be a mapping. ",
    "text": "job.yaml:1: must be a mapping. ",
    "a: 1\n\tb: 2\n": "job.yaml:2: not YAML: ",
    "a: [1\nb: 2\n": "job.yaml:2: not YAML: ",
    "a: b: c\n": "job.yaml:1: not YAML: mapping values are not allowed here",
    "a: *b\n": "job.yaml:1: not YAML: found undefined alias",
    "a: 1\n---\nb: 2\n": "job.yaml:2: not YAML: expected a single document",
    "a: 1\nb: {c: 1,\n c: 2}\n": "job.yaml:3: b.c: is already defined on line 2. ",
    "a: 1\n? [x]\n: 2\n": "job.yaml:2: a mapping key must be text",
    "a: 1\nb: \x07\n": "job.yaml:2: a character that YAML does not allow",
    b"a: 1\nb: \xff\n": "job.yaml:2: is not UTF-8 text",
    "a: 1\n".encode("utf-16"): "job.yaml:1: is not UTF-8 text",
    "a: &a [*a]\n": "job.yaml:1: is too large",
    "[" * 5000: "job.yaml: is nested too deeply",
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(
        f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ): "job.yaml:1: is too large",
}


@pytest.mark.parametrize(("content", "expected"), BAD.items(), ids=lambda value: repr(value)[:30])
def test_what_is_no_job_file(tmp_path: Path, content: str | bytes, expected: str) -> None:
    with pytest.raises(JobFileError) as caught:
        JobSpec.load(write(tmp_path, content))
    message = str(caught.value).removeprefix(f"{tmp_path}/")
    assert message.startswith(expected)
    assert "\n" not in message


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match=r"missing\.yaml: the file does not exist"):
        JobSpec.load(tmp_path / "missing.yaml")
    with pytest.raises(JobFileError, match="can't be read: Is a directory"):
        JobSpec.load(tmp_path)
