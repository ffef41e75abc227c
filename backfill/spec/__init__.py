"""The job file: its contents, validated before anything is started.

A job file's types need Spark; the settings of a stream, which `--help` shows, do not. So the
former are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backfill.spec.job import JobSpec, WindowSpec

__all__ = ["JobSpec", "WindowSpec"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("backfill.spec.job"), name)
    raise AttributeError(f"module 'backfill.spec' has no attribute {name!r}")
