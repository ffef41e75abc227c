"""Servers of catalogs on loopback, each started when a test first needs its kind."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests import hive_catalog, objects, rest_catalog


class CatalogServers:
    """One server of each kind, whose tables are in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = ExitStack()
        self._environments: dict[str, dict[str, str]] = {}

    def environment(self, kind: str) -> dict[str, str]:
        """The variables by which pyiceberg finds the catalog that is named like the kind."""
        if kind not in self._environments:
            start = {"rest": self._rest, "glue": self._glue, "hive": self._hive}[kind]
            self._environments[kind] = start()
        return self._environments[kind]

    def close(self) -> None:
        """Stops all servers."""
        self._running.close()

    def _rest(self) -> dict[str, str]:
        address = self._running.enter_context(rest_catalog.served(self._folder / "rest"))
        return {"PYICEBERG_CATALOG__REST__TYPE": "rest", "PYICEBERG_CATALOG__REST__URI": address}

    def _glue(self) -> dict[str, str]:
        environment = self._running.enter_context(objects.served())
        own = "PYICEBERG_CATALOG__GLUE__"
        return {
            **environment,
            f"{own}TYPE": "glue",
            f"{own}GLUE__ENDPOINT": environment["AWS_ENDPOINT_URL"],
            f"{own}WAREHOUSE": f"file://{self._folder}/glue",
        }

    def _hive(self) -> dict[str, str]:
        own = "PYICEBERG_CATALOG__HIVE__"
        return {
            f"{own}TYPE": "hive",
            f"{own}URI": self._running.enter_context(hive_catalog.served(self._folder / "hive")),
            f"{own}WAREHOUSE": f"file://{self._folder}/hive",
            f"{own}HIVE__HIVE2_COMPATIBLE": "true",
            # Six runs at once wait longer for locks than the defaults allow.
            f"{own}LOCK_CHECK_RETRIES": "60",
            f"{own}LOCK_CHECK_MAX_WAIT_TIME": "0.5",
        }
