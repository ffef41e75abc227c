"""One Spark session for the whole test run."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from pyspark.sql import SparkSession

from backfill.spark import session as of_backfill
from tests import jvm_options
from tests.catalog_servers import CatalogServers
from tests.connect import Programs
from tests.interpreted import SETTINGS
from tests.lake import SERVED
from tests.on_sail import ON_SAIL
from tests.quiet_hadoop import quieten
from tests.spark_sql import SparkSql, with_jars

# A Spark job takes too long for shrinking. With CI set, examples are the same in every run, unless
# a seed is given: the lakehouse lane gives a new one each time, and prints it.
_SEED = os.environ.get("BACKFILL_SEED", "")
_SAME = bool(os.environ.get("CI")) and not _SEED
settings.register_profile(
    "spark",
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
    derandomize=_SAME,
    database=None if os.environ.get("CI") else settings().database,
)
settings.load_profile("spark")

jvm_options.set_options()

# For every Spark that a test starts, in any process: nothing listens beyond loopback.
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


#: Tests that take a minute or so, for each of two processes: they begin with these, so that neither
#: has one left when all else is done. Tests over Spark Connect share a server in one of them; tests
#: with SQL of Spark's own Delta Lake and Iceberg, which need the jars, share a Spark in the other.
_LONG = (
    ("execution/test_kill.py",),
    (
        "execution/test_meanwhile.py::test_any_runs_at_once",
        "reconcile/test_parts.py",
        "events/test_connect.py",
        "quality/test_evaluate.py::test_the_same_over_connect",
        "test_connect.py",
        "test_jobs.py",
    ),
)


#: One in this many tests is drawn, by the seed.
_ONE_IN = int(os.environ.get("BACKFILL_ONE_IN", "1"))
#: At most this many variants of each test that is drawn; 0 draws each variant as a test of its own.
_VARIANTS = int(os.environ.get("BACKFILL_VARIANTS", "0"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts long tests at the beginning of each half; each process is given one half."""
    if _SEED:
        _draw(config, items)
    groups = [[item for item in items if _group(item) == n] for n in range(2)]
    rest = [item for item in items if _group(item) is None]
    half = max(0, len(items) // 2 - len(groups[0]))
    items[:] = [*groups[0], *rest[:half], *groups[1], *rest[half:]]


def _draw(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests and the variants that are not drawn."""
    chance = random.Random(_SEED)
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        name = item.nodeid.partition("[")[0] if _VARIANTS else item.nodeid
        tests.setdefault(name, []).append(item)
    drawn = {
        item
        for variants in chance.sample(list(tests.values()), -(-len(tests) // _ONE_IN))
        for item in chance.sample(variants, min(_VARIANTS or 1, len(variants)))
    }
    # No other lane runs these.
    drawn |= {item for item in items if _needs_jars(item)}
    drawn |= {item for item in items if ON_SAIL and item.path.name == "test_sail.py"}
    config.hook.pytest_deselected(items=[item for item in items if item not in drawn])
    items[:] = [item for item in items if item in drawn]


def _group(item: pytest.Item) -> int | None:
    """The half that a test is at the beginning of, if any."""
    if _needs_jars(item):
        return 0
    name = item.nodeid.removeprefix("tests/")
    return next((n for n, names in enumerate(_LONG) if name.startswith(names)), None)


def _needs_jars(item: pytest.Item) -> bool:
    return with_jars.mark in item.iter_markers(with_jars.name)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, few partitions, and a session time zone that must never change a result."""
    if ON_SAIL:
        yield of_backfill(runtime="sail")
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("backfill tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "America/St_Johns")
        # As in backfill's own sessions; and room to keep compiled code for queries of later tests.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.sql.dataFrameQueryContext.enabled", "false")
        .config("spark.sql.codegen.cache.maxEntries", "3000")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    jvm_options.remember_lookups(session)
    quieten(session)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Lets Spark interpret its plans, for modules that run whole jobs on few rows."""
    if ON_SAIL:
        yield
        return
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield
    for name in SETTINGS:
        spark.conf.unset(name)


@pytest.fixture(scope="module")
def adaptive(spark: SparkSession, interpreted: None) -> None:
    """Lets Spark change the plans that it interprets, for modules that count the files written."""
    if not ON_SAIL:
        spark.conf.set("spark.sql.adaptive.enabled", "true")


@pytest.fixture(scope="session")
def over_connect() -> Iterator[Programs]:
    """Runs programs over Spark Connect."""
    programs = Programs()
    yield programs
    programs.close()


@pytest.fixture(scope="session")
def spark_sql() -> Iterator[SparkSql]:
    """Runs SQL of Spark's own Delta Lake and Iceberg."""
    made = SparkSql()
    yield made
    made.close()


@pytest.fixture(scope="session")
def catalog_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServers]:
    """Servers of catalogs."""
    servers = CatalogServers(tmp_path_factory.mktemp("catalogs"))
    yield servers
    servers.close()


@pytest.fixture
def reach(
    catalog_servers: CatalogServers, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Directs a test to the server of a catalog, if it asks for a catalog that has one."""

    def lead(kind: str) -> None:
        if kind in SERVED:
            for name, value in catalog_servers.environment(kind).items():
                monkeypatch.setenv(name, value)

    return lead


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """A copy of the samples and their job, to run in."""
    kept = Path(__file__).parent.parent / "data" / "samples"
    return shutil.copytree(kept, tmp_path / "samples", ignore=shutil.ignore_patterns("out"))
