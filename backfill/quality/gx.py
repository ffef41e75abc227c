"""Great Expectations, imported when it is needed: without output and without telemetry."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def load() -> Any:
    """The package, which takes seconds to import the first time."""
    # Read at import by the versions that have telemetry; it is set again for each context.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        # It imports a module that Python calls deprecated; its authors have to change that.
        warnings.simplefilter("ignore", DeprecationWarning)
        import great_expectations

        import backfill.quality.expectations  # noqa: F401  # registers ours as well
    return great_expectations


def begin_to_load() -> None:
    """Loads the package in the background: it takes seconds, as does the start of Spark.

    For a process that does nothing else meanwhile, such as a command line: Python's warning filters
    are changed for as long as it takes.
    """
    threading.Thread(target=load, daemon=True).start()


@contextmanager
def context() -> Iterator[Any]:
    """A context of Great Expectations for one piece of work.

    It lives in memory and in no cloud, whatever the environment says. The process's current
    context, such as a notebook's, is unchanged afterwards. It takes about 5 ms, and everything that
    was made in it goes with it.
    """
    gx = load()
    from great_expectations.data_context.data_context.context_factory import project_manager
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    try:
        before = project_manager.get_current_project()
    except gx.exceptions.DataContextError:
        before = None
    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    try:
        with quiet():
            yield gx.get_context(mode="ephemeral", project_config=config)
    finally:
        project_manager.set_project(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppresses log lines: what they say of a failing expectation is in its outcome.

    Also suppresses warnings about row conditions given as text, which is how job files and suites
    give them; they work throughout this major version, which is pinned. And about groups in a
    pattern, of which pandas warns where it only looks for a match.
    """
    logger = logging.getLogger("great_expectations")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            for text in ("Passing a string to the row_condition", "The condition_parser"):
                warnings.filterwarnings("ignore", text, DeprecationWarning)
            warnings.filterwarnings("ignore", "This pattern is interpreted as", UserWarning)
            yield
    finally:
        logger.setLevel(before)
