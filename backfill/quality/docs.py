"""Great Expectations' data docs: a page for each validation, and their history."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.quality import gx
from backfill.quality.utc import in_utc

if TYPE_CHECKING:
    from backfill.quality.view import OfflineView

_PAGES = "validations"


def build_docs(validations: Sequence[Mapping[str, Any]], folder: Path, *, title: str) -> Path:
    """Builds the pages; pages of validations that no longer exist are deleted.

    They need no network: the styles are in the pages, which have no scripts. Existing pages are
    kept, so a long history only costs what is new in it.

    Args:
        validations: each with `table`, `run_id`, `at` (when, in ISO 8601) and `document` (the
            validation's).
        folder: where to write them; made if missing.
        title: the title of the index.

    Returns:
        The path of the index.
    """
    gx.load()
    from backfill.quality.view import OfflineView

    view = OfflineView()
    pages = folder / _PAGES
    pages.mkdir(parents=True, exist_ok=True)
    rows = []
    for validation in sorted(validations, key=lambda one: _moment(one["at"]), reverse=True):
        at = f"{_moment(validation['at']):%Y-%m-%d %H:%M:%S}"
        page = pages / f"{_digest(validation, view.look)}.html"
        if not page.exists():
            heading = f"{validation['table']} · {at} · {validation['run_id']}"
            with gx.context():
                text = _page(view, validation["document"], heading)
            _write(page, text)
        statistics = validation["document"]["statistics"]
        rows.append(
            {
                "success": validation["document"]["success"],
                "at": at,
                "table": validation["table"],
                "run_id": validation["run_id"],
                "met": statistics["successful_expectations"],
                "unmet": statistics["unsuccessful_expectations"],
                "link": f"{_PAGES}/{page.name}",
            }
        )
    index = folder / "index.html"
    _write(index, view.index(rows, title=title))
    linked = {row["link"] for row in rows}
    for page in pages.iterdir():
        if f"{_PAGES}/{page.name}" not in linked:
            page.unlink()
    return index


def _page(view: OfflineView, document: Mapping[str, Any], heading: str) -> str:
    from great_expectations.core.expectation_validation_result import (
        expectationSuiteValidationResultSchema,
    )
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer

    known = [result for result in document["results"] if _is_known(result["expectation_config"])]
    others = [result for result in document["results"] if result not in known]
    # The schema takes the document apart.
    whole = deepcopy({**document, "results": known})
    rendered = ValidationResultsPageRenderer().render(
        expectationSuiteValidationResultSchema.load(whole)
    )
    return view.page(rendered, others, heading=heading, home="../index.html")


def _is_known(configuration: Mapping[str, Any]) -> bool:
    """Whether it can be rendered; one of another version, or that was refused, may not be."""
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    try:
        ExpectationConfiguration(**configuration).to_domain_obj()
    except Exception:  # of any kind, an expectation's own among them
        return False
    return True


def _moment(text: str) -> dt.datetime:
    return in_utc(dt.datetime.fromisoformat(re.sub("[Zz]$", "+00:00", text)))


def _digest(validation: Mapping[str, Any], look: str) -> str:
    whole = look + json.dumps(validation, sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def _write(page: Path, text: str) -> None:
    """Writes a page whole or not at all: a page that exists counts as done."""
    unfinished = page.with_suffix(".part")
    unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
    unfinished.replace(page)
