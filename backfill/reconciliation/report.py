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
    reconciled: Reconciled,
    *,
    job: str,
    now: dt.datetime,
    time: Callable[[int], str],
    of: str = "windows",
) -> None:
    """Writes the page.

    Args:
        path: the file to write.
        reconciled: what was found.
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
    causes = _causes(reconciled)
    colors = {cause["name"]: cause["color"] for cause in causes}
    differing = len(reconciled.differences)
    total = reconciled.matched + differing
    page = environment.get_template("report.html.j2").render(
        window=reconciled.window,
        of=of,
        job=job,
        made=f"{now:%Y-%m-%d %H:%M} UTC",
        ordered=reconciled.ordered,
        matched=reconciled.matched,
        differing=differing,
        rate=reconciled.matched / total if total else 1.0,
        possible=reconciled.possible,
        unexplained=reconciled.unexplained,
        causes=causes,
        keys=_keys(reconciled),
        rows=[_row(difference, time) for difference in reconciled.differences[:_ROWS]],
        shown=min(differing, _ROWS),
        **_over_time(reconciled, colors, time),
    )
    path.write_text(page, encoding="utf-8", errors="backslashreplace")


def _causes(reconciled: Reconciled) -> list[dict[str, Any]]:
    most = max(reconciled.causes.values(), default=1)
    return [
        {
            "name": name,
            "rows": rows,
            "width": max(2, round(620 * rows / most)),
            "color": CAUSES[name].color,
            "since": CAUSES[name].since,
        }
        for name, rows in reconciled.causes.items()
    ]


def _over_time(
    reconciled: Reconciled, colors: Mapping[str, str], time: Callable[[int], str]
) -> dict[str, Any]:
    """Bars of equal spans of time, the causes on top of each other."""
    starts = [
        (explained.difference.hull[0], explained.explanation.causes[0])
        for explained in reconciled.differences
    ]
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


def _keys(reconciled: Reconciled) -> list[dict[str, Any]]:
    # By their text, because NaN does not equal itself.
    counts = Counter(repr(difference.key) for difference in reconciled.differences)
    most = dict(counts.most_common(_KEYS))
    keys: dict[str, tuple[Any, ...]] = {}
    causes: dict[str, Counter[str]] = {text: Counter() for text in most}
    for difference in reconciled.differences:
        key = repr(difference.key)
        if key in most:
            keys[key] = difference.key
            causes[key][difference.explanation.causes[0]] += 1
    return [
        {
            "key": _text(keys[key]),
            "rows": rows,
            "causes": ", ".join(f"{cause} {n:,}" for cause, n in causes[key].most_common()),
        }
        for key, rows in most.items()
    ]


def _row(explained: Explained, time: Callable[[int], str]) -> dict[str, Any]:
    def described(rows: Sequence[Row]) -> list[str]:
        return [
            f"{time(row.start)} to {time(row.end)}: "
            + ", ".join(f"{name} {_text(value)}" for name, value in row.values.items())
            for row in rows
        ]

    return {
        "key": _text(explained.key),
        "batch": described(explained.difference.batch),
        "stream": described(explained.difference.stream),
        "status": explained.difference.status,
        "cause": ", ".join(explained.explanation.causes),
        "proved": explained.explanation.proved,
        "evidence": _text(json.dumps(explained.explanation.evidence, default=str)),
    }


def _text(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
