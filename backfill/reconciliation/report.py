"""A reconciliation as one self-contained HTML page, safe whatever its keys hold."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from backfill.causes import CAUSES
from backfill.reconciliation.result import Explained, Reconciled
from backfill.reconciliation.rows import Row

_BARS = 60
_KEYS = 20
_ROWS = 1_000
_WIDEST = 300


def write_report(
    path: Path,
    found: Reconciled,
    *,
    job: str,
    now: dt.datetime,
    time: Callable[[int], str],
    of: str = "windows",
) -> None:
    """Writes the page.

    Args:
        path: the file to write.
        found: what was found.
        job: the job file's name.
        now: when it was found.
        time: µs as text.
        of: what is compared.
    """
    # Values from outside are escaped; besides, the page's policy forbids scripts.
    environment = Environment(
        loader=PackageLoader("backfill.reconciliation", "."),
        autoescape=True,
        undefined=StrictUndefined,
    )
    causes = _causes(found)
    colors = {each["name"]: each["color"] for each in causes}
    differing = len(found.differences)
    total = found.matched + differing
    page = environment.get_template("report.html.j2").render(
        window=found.window,
        of=of,
        job=job,
        made=f"{now:%Y-%m-%d %H:%M} UTC",
        ordered=found.ordered,
        matched=found.matched,
        differing=differing,
        rate=found.matched / total if total else 1.0,
        possible=found.possible,
        unexplained=found.unexplained,
        causes=causes,
        keys=_keys(found),
        rows=[_row(each, time) for each in found.differences[:_ROWS]],
        shown=min(differing, _ROWS),
        **_over_time(found, colors, time),
    )
    path.write_text(page, encoding="utf-8", errors="backslashreplace")


def _causes(found: Reconciled) -> list[dict[str, Any]]:
    most = max(found.causes.values(), default=1)
    return [
        {
            "name": name,
            "rows": rows,
            "width": max(2, round(620 * rows / most)),
            "color": CAUSES[name].color,
            "since": CAUSES[name].since,
        }
        for name, rows in found.causes.items()
    ]


def _over_time(
    found: Reconciled, colors: Mapping[str, str], time: Callable[[int], str]
) -> dict[str, Any]:
    """Bars of equal spans of time, the causes on top of each other."""
    starts = [(each.difference.hull[0], each.explanation.causes[0]) for each in found.differences]
    if not starts:
        return {"bars": [], "first": "", "last": "", "tallest": 0}
    low, high = min(starts)[0], max(starts)[0]
    width = (high - low) // _BARS + 1
    counts = Counter(((start - low) // width, cause) for start, cause in starts)
    heights: Counter[int] = Counter()
    for (place, _), count in counts.items():
        heights[place] += count
    tallest = max(heights.values())
    step = 900 / _BARS
    bars = []
    for place in heights:
        top = 170.0
        for cause, color in colors.items():
            count = counts[place, cause]
            if count:
                height = 150 * count / tallest
                top -= height
                bars.append(
                    {
                        "x": round(place * step, 1),
                        "y": round(top, 1),
                        "width": round(step - 2, 1),
                        "height": round(height, 1),
                        "color": color,
                        "title": f"{time(low + place * width)}: {count:,} {cause}",
                    }
                )
    return {"bars": bars, "first": time(low), "last": time(high), "tallest": tallest}


def _keys(found: Reconciled) -> list[dict[str, Any]]:
    # By their text, because NaN does not equal itself.
    counts = Counter(repr(each.key) for each in found.differences)
    most = dict(counts.most_common(_KEYS))
    keys: dict[str, tuple[Any, ...]] = {}
    causes: dict[str, Counter[str]] = {each: Counter() for each in most}
    for each in found.differences:
        key = repr(each.key)
        if key in most:
            keys[key] = each.key
            causes[key][each.explanation.causes[0]] += 1
    return [
        {
            "key": _text(keys[key]),
            "rows": rows,
            "causes": ", ".join(f"{cause} {n:,}" for cause, n in causes[key].most_common()),
        }
        for key, rows in most.items()
    ]


def _row(each: Explained, time: Callable[[int], str]) -> dict[str, Any]:
    def described(rows: Sequence[Row]) -> list[str]:
        return [
            f"{time(row.start)} to {time(row.end)}: "
            + ", ".join(f"{name} {_text(value)}" for name, value in row.values.items())
            for row in rows
        ]

    return {
        "key": _text(each.key),
        "batch": described(each.difference.batch),
        "stream": described(each.difference.stream),
        "status": each.difference.status,
        "cause": ", ".join(each.explanation.causes),
        "proved": each.explanation.proved,
        "evidence": _text(json.dumps(each.explanation.evidence, default=str)),
    }


def _text(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
