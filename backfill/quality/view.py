"""Great Expectations' pages, without network and scripts, whatever the values hold."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from typing import Any

import great_expectations
from great_expectations.render.components import RenderedDocumentContent
from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, PackageLoader

# What the renderer itself says; the rest comes from tables, job files and errors.
_OWN = frozenset({"content_block_type", "renderer_type", "tag"})
# Dictionaries to be rendered have one of these; other dictionaries are values.
_RENDERED = frozenset({"content_block_type", "content_blocks", "string_template"})


class OfflineView(DefaultJinjaPageView):
    """A page for each validation result, and an index of them.

    Great Expectations' templates load their styles and scripts from elsewhere, and escape only some
    of the values. Here everything is in the page and is escaped, and the page's policy forbids
    scripts as well.
    """

    def __init__(self) -> None:
        super().__init__()
        ours = PackageLoader("backfill.quality", "pages")
        sources = [ours.get_source(self.env, name)[0] for name in sorted(ours.list_templates())]
        #: Changes when the pages would look different.
        self.look = "".join([great_expectations.__version__, *sources])
        self.env.loader = ChoiceLoader([ours, self.env.loader or ours])

    def page(
        self,
        document: RenderedDocumentContent,
        others: list[Mapping[str, Any]],
        *,
        heading: str,
        home: str,
    ) -> str:
        """The page of a validation result.

        Args:
            document: rendered by Great Expectations.
            others: results that it can't render.
            heading: the page's heading.
            home: the link to the index.
        """
        content = _escaped(document.to_json_dict())
        page = self._get_template("page.j2")
        return str(page.render(content, others=others, heading=heading, home=home))

    def index(self, rows: list[dict[str, Any]], *, title: str) -> str:
        """The index.

        Args:
            rows: the validations, in the form in which to list them.
            title: the site's title.
        """
        return str(self._get_template("index.j2").render(rows=rows, title=title))


def _escaped(node: Any) -> Any:
    if isinstance(node, str):
        return html.escape(node)
    if isinstance(node, list):
        return [
            _escaped(
                child if not isinstance(child, dict) or _RENDERED & child.keys() else str(child)
            )
            for child in node
        ]
    if not isinstance(node, dict):
        return node
    escape: dict[str, Callable[[Any], Any]] = {"params": _texts, "styling": _unlinked}
    return {
        name: value if name in _OWN else escape.get(name, _escaped)(value)
        for name, value in node.items()
    }


def _unlinked(styling: Any) -> Any:
    """Removes links, since they would lead to pages of suites, which do not exist here."""
    if not isinstance(styling, dict):
        return styling
    return {name: _unlinked(value) for name, value in styling.items() if name != "href"}


def _texts(params: dict[str, Any]) -> dict[str, str]:
    """Parameters of a sentence, as text: the view escapes text, and nothing else."""
    return {name: value if isinstance(value, str) else str(value) for name, value in params.items()}
