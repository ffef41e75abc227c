"""Whether a job's events are combined into slices before they are exchanged: a sample decides.

Combining pays by what it saves of the exchange and of the sort after it. If a slice holds hardly
more than one event, it saves nothing, and every event is hashed and exchanged twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill.columns import REASON, TIME, column
from backfill.events.model import InputFile
from backfill.frames.cutting import cuttings
from backfill.ledger.reader import Reader
from backfill.rows.compute import Sliced
from backfill.rows.definition import Definition
from backfill.spec import JobSpec

#: With fewer events per slice than this, they are exchanged as they are. At about 2, both ways take
#: equally long; at 1, combining takes 1.7 times as long; at 5, exchanging every event 1.5 times.
FEWEST = 1.5
#: How much is sampled, and how much must be read for a sample to pay.
_SAMPLE_BYTES, _SAMPLE_ROWS = 64 * 2**20, 2_000_000
_LARGE = 4 * _SAMPLE_BYTES
#: One in this many slices is counted, with all of its sampled events.
_ONE_OF = 8


@dataclass(frozen=True)
class Combining:
    """What was chosen, and why.

    Attributes:
        combined: events are combined into slices before they are exchanged.
        why: in words.
        per_slice: events per slice in a sample; None if no sample was taken.
        sampled: how many events were looked at.
    """

    combined: bool
    why: str
    per_slice: float | None = None
    sampled: int = 0


#: For when there is nothing to choose.
COMBINED = Combining(True, "little data is read")


def choose(
    spec: JobSpec,
    reader: Reader,
    paths: Iterable[str],
    definitions: Sequence[Definition],
    slices: Callable[[DataFrame], Sliced],
) -> Combining:
    """Chooses for a run that reads these inputs; never changes a result.

    Args:
        spec: the job.
        reader: the reader of its source.
        paths: the inputs. A sample of them is read only if they are large.
        definitions: the windows that are built from the same slices.
        slices: makes these slices from usable events; lazy.
    """
    files = reader.source.inputs(set(paths)) if reader.source.snapshot.inputs else ()
    if not files:
        return Combining(True, "there are no files to sample")
    if sum(file.size for file in files) < _LARGE:
        return Combining(True, "the input is small")
    rows = reader.rows([file.path for file in _some(files)]).where(F.col(REASON).isNull())
    sliced = slices(rows)
    if not all(map(sliced.takes_events, definitions)):
        return Combining(True, "a window or an aggregate benefits in any case")
    grids = [
        cutting.cut(F.col(TIME)) for cutting in cuttings(definitions, spec.engine, spec.timezone)
    ]
    place = F.xxhash64(*(column(name) for name in spec.key), *grids).alias("place")
    sample = rows.select(place).limit(_SAMPLE_ROWS).where(F.pmod("place", F.lit(_ONE_OF)) == 0)
    events, occupied = sample.agg(F.count("place"), F.count_distinct("place")).collect()[0]
    if not occupied:
        return Combining(True, "a sample of the input has no events")
    ratio = events / occupied
    few = ratio < FEWEST
    than = "less than" if few else "not less than"
    return Combining(
        not few, f"{ratio:.2f} events per slice in a sample, {than} {FEWEST}", ratio, events
    )


def _some(files: Sequence[InputFile]) -> list[InputFile]:
    """Adjacent files, from the middle on: what one task would read together."""
    chosen: list[InputFile] = []
    for file in files[len(files) // 2 :]:
        if chosen and sum(other.size for other in chosen) + file.size > _SAMPLE_BYTES:
            break
        chosen.append(file)
    return chosen
