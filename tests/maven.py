"""Jars that tests run and pyspark does not have: fetched from Maven Central once, then kept."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from urllib.request import urlopen

import pytest

_CENTRAL = "https://repo1.maven.org/maven2"
_KEPT = Path.home() / ".cache" / "backfill" / "jars"


def jars(*names: str) -> list[Path]:
    """The jars, each named `group:artifact:version`, or with a classifier after these.

    If one cannot be fetched, the test is skipped, or fails if CI is set.
    """
    problem = _fetch(names)
    if problem is not None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(problem)
    return [_place(name) for name in names]


@cache
def _fetch(names: tuple[str, ...]) -> str | None:
    """Why some of them are missing: asked only once, since it can take long to find out."""
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(_fetch_one, names))
    except OSError as error:
        return f"jars cannot be fetched from {_CENTRAL}: {error}"
    return None


def _fetch_one(name: str) -> None:
    place = _place(name)
    if place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    group, artifact, version, *_ = name.split(":")
    url = f"{_CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{place.name}"
    with urlopen(url, timeout=60) as answer:
        data = answer.read()
    # Another process may fetch the same one.
    with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as part:
        part.write(data)
    os.replace(part.name, place)


def _place(name: str) -> Path:
    _, *parts = name.split(":")
    return _KEPT / f"{'-'.join(parts)}.jar"
