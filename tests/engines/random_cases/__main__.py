"""Draw new cases, run the engine, compare: `python -m tests.engines.random_cases kafka`."""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.engines.random_cases.comparing import differing, smallest
from tests.engines.recordings import RANDOM, Recording, random_recordings

ENGINES = ("beam", "flink", "kafka", "samza", "storm")


def run(engine: str, cases: list[dict[str, Any]], to: Path) -> list[Recording]:
    """What the engine makes of the cases, also written to a file."""
    script = Path(__file__).parents[1] / engine / "record.sh"
    with TemporaryDirectory() as folder:
        lines = Path(folder) / "cases.jsonl"
        lines.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
        subprocess.run([script, "random", lines, to.resolve()], check=True)
    return random_recordings(to)


def kind(recording: Recording) -> str:
    """What the cases are counted by."""
    settings = recording.settings
    return f"{settings['runner']} {next(iter(settings.get('window', ())), settings.get('how'))}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.engines.random_cases", description=__doc__
    )
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("--cases", default="1000", help="how many, or a file of them, one per line")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--keep", action="store_true", help="add them to the fixed selection")
    given = parser.parse_args()
    if given.cases.isdigit():
        chance = random.Random(given.seed)
        draw = import_module(f"tests.engines.random_cases.{given.engine}").draw
        cases = [draw(chance) for _ in range(int(given.cases))]
        print(f"{given.engine}: {len(cases)} cases of seed {given.seed}", flush=True)
    else:
        cases = [json.loads(line) for line in Path(given.cases).read_text().splitlines()]
    kept = RANDOM / f"{given.engine}.jsonl.gz"
    with TemporaryDirectory() as folder:
        if given.keep:
            before = random_recordings(kept) if kept.exists() else []
            recordings = run(
                given.engine, [*(dict(recording.settings) for recording in before), *cases], kept
            )
        else:
            recordings = run(given.engine, cases, Path(folder) / f"{given.engine}.jsonl.gz")
    differences = list(differing(given.engine, recordings))
    wrong = {recording.name for recording, _ in differences}
    counts: Counter[tuple[str, str]] = Counter()
    for case in recordings:
        outcome = "failed" if case.failed else "differ" if case.name in wrong else "agree"
        counts[kind(case), outcome] += 1
    for (name, outcome), count in sorted(counts.items()):
        print(f"{name}: {count} {outcome}")
    if differences:
        print(smallest(differences))
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
