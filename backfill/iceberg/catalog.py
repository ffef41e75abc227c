"""Catalogs, as pyiceberg is configured for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.utils.config import Config

from backfill.errors import TableError
from backfill.folders import endpoint, region
from backfill.iceberg.failures import without
from backfill.iceberg.hadoop import HadoopCatalog
from backfill.printable import first_line


def open_catalog(name: str, options: Mapping[str, str], *, field: str) -> Catalog:
    """A catalog.

    Args:
        name: as pyiceberg is configured: in `~/.pyiceberg.yaml`, or by environment variables such
            as PYICEBERG_CATALOG__LAKE__URI.
        options: further settings; they override the configured ones.
        field: the setting that names the catalog, for errors.

    Raises:
        TableError: it is not configured, or fails.
    """
    configured = Config().get_catalog_config(name) or {}
    # The library does not look for these where Amazon's libraries do.
    named = {"s3.endpoint": endpoint(), "client.region": region()}
    defaults: dict[str, Any] = {name: value for name, value in named.items() if value}
    wanted = {**defaults, **configured, **options}
    if wanted.get("type") == "hadoop":
        return HadoopCatalog(name, field, wanted)
    try:
        try:
            return load_catalog(name, **wanted)
        except Exception as error:
            # Another run has made the catalog's own tables at the same moment.
            if "already exists" not in str(error):
                raise
            return load_catalog(name, **wanted)
    except Exception as error:
        settings = {**configured, **options}
        problem = without(first_line(error), {k: str(v) for k, v in settings.items()})
        # Not chained, because stack traces show messages, too.
        raise TableError(
            f"the catalog fails: {problem}",
            field=field,
            value=name,
            way_out="Configure it for pyiceberg: in ~/.pyiceberg.yaml, or with "
            f"PYICEBERG_CATALOG__{name.upper()}__URI and other variables",
        ) from None
