"""Keys that the driver has no room for are explained by workers, just as it would do it."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from backfill.errors import ReplayError
from backfill.reconciliation import reconcile as run
from tests.connect import Programs
from tests.on_sail import spark_only
from tests.reconcile import in_parts

pytestmark = pytest.mark.usefixtures("interpreted")


def _without_backfill(*given: object) -> NoReturn:
    raise ReplayError("there is no backfill")


@pytest.mark.slow
def test_parts_are_explained_as_the_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = in_parts.job_of(tmp_path / "classic")
    job.run(spark)
    said: list[str] = []
    whole = in_parts.reconciled(job, spark, 10_000, said)
    assert "replaying 72 events" in said, said
    parts = in_parts.reconciled(job, spark, 10, said)
    assert said[-1] == "replaying 72 events in 16 parts", said
    assert in_parts.whole_result(whole) == in_parts.whole_result(parts)

    # On workers without backfill the parts fail as they do if something else is missing.
    with monkeypatch.context() as patched:
        patched.setattr(run, "in_parts", _without_backfill)
        here = in_parts.reconciled(job, spark, 10, said)
        assert said[-1] == "replaying them in this process, because there is no backfill", said
        assert in_parts.whole_result(here) == in_parts.whole_result(whole)
        patched.setattr(run, "MOST_EVENTS", 71)
        with pytest.raises(ReplayError, match="there is no backfill"):
            in_parts.reconciled(job, spark, 10, said)

    causes = {
        (difference.key, difference.explanation.causes, difference.explanation.proved)
        for difference in whole.differences
    }
    assert causes == {
        ((None, None), ("late",), True),
        ((None, None), ("rounded",), True),
        (("b", 1), ("missing_in_stream",), True),
        (("c", 7), ("unexplained",), False),
    }, whole.differences


@spark_only
@pytest.mark.slow
def test_the_same_over_connect(spark: SparkSession, over_connect: Programs, tmp_path: Path) -> None:
    job = in_parts.job_of(tmp_path / "classic")
    job.run(spark)
    here = in_parts.whole_result(in_parts.reconciled(job, spark, 10_000, []))
    whole, parts = over_connect.last_line("-m", in_parts.__name__, str(tmp_path / "connect"))
    assert whole == parts == here
