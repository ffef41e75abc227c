"""What is put side by side, over which events, and with which targets."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks import contenders as c
from benchmarks import counts, data, joins, metrics, sliding, updates
from benchmarks.contenders import Contender
from benchmarks.data import Dataset


@dataclass(frozen=True, kw_only=True)
class Rival:
    """What ours is measured against.

    Attributes:
        contender: how it computes.
        at_least: the target for the ratio of its time to ours; None if it only informs.
        dataset: its own events; None if they are ours, so that its windows have to be ours.
    """

    contender: Contender
    at_least: float | None = None
    dataset: Dataset | None = None


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One table of the report.

    Attributes:
        windows: the folder under a result that holds the windows.
    """

    name: str
    title: str
    dataset: Dataset
    ours: Contender
    rivals: tuple[Rival, ...]
    windows: str = field(default=".")


def _hopping(
    name: str, size: str, advance: str, at_least: float | None, dataset: Dataset = data.FEW_KEYS
) -> Scenario:
    return Scenario(
        name=name,
        title=f"hopping windows of {size} by {advance}, days: {dataset.days}",
        dataset=dataset,
        ours=c.hopping(size, advance),
        rivals=(Rival(contender=c.hopping_window(size, advance), at_least=at_least),),
    )


def _even_keys(ours: Contender, dataset: Dataset, *, at_most: float) -> Rival:
    """The same work without a hot key; the hot key may take at most `at_most` times as long."""
    return Rival(
        contender=Contender("backfill, even keys", ours.run),
        at_least=1 / at_most,
        dataset=dataset,
    )


SCENARIOS = (
    Scenario(
        name="sessions",
        title="sessions with a gap of 30 minutes",
        dataset=data.VISITS,
        ours=c.OURS,
        rivals=(
            Rival(contender=c.SESSION_WINDOW, at_least=2.5),
            Rival(contender=c.LAG, at_least=1.8),
            Rival(contender=c.DUCKDB, at_least=1 / 1.15),
            Rival(contender=c.DUCKDB_SLICES),
            Rival(contender=c.POLARS),
        ),
    ),
    Scenario(
        name="hot-key",
        title="sessions, half of the events on one key",
        dataset=data.HOT_KEY,
        ours=c.OURS,
        rivals=(
            _even_keys(c.OURS, data.VISITS, at_most=1.2),
            Rival(contender=c.SESSION_WINDOW),
            Rival(contender=c.LAG),
        ),
    ),
    Scenario(
        name="one-event",
        title="sessions of one event",
        dataset=data.ONE_EVENT,
        ours=c.OURS_APART,
        rivals=(
            Rival(contender=c.SESSION_WINDOW, at_least=1 / 1.2),
            Rival(contender=c.LAG, at_least=1 / 1.2),
            Rival(contender=c.OURS),
        ),
    ),
    Scenario(
        name="redelivered",
        title="sessions, with an id and 0.1 % duplicates",
        dataset=data.REDELIVERED,
        ours=c.OURS_WITH_ID,
        rivals=(Rival(contender=c.DROP_DUPLICATES, at_least=1.5),),
    ),
    Scenario(
        name="rules",
        title="sessions of at most 4 hours and of one campaign",
        dataset=data.CAMPAIGNS,
        ours=c.OURS_RULED,
        # The same events, but other windows.
        rivals=(Rival(contender=c.OURS_PLAIN, at_least=1 / 1.5, dataset=data.CAMPAIGNS),),
    ),
    _hopping("hopping-24h", "24 hours", "5 minutes", 20),
    _hopping("hopping-1h", "1 hour", "5 minutes", 3),
    # So sparse that no fewer windows come out than events go in: writing them takes the most time.
    _hopping("hopping-24h-month", "24 hours", "5 minutes", None, data.FEW_KEYS_OF_A_MONTH),
    _hopping("hopping-1h-month", "1 hour", "5 minutes", None, data.FEW_KEYS_OF_A_MONTH),
    Scenario(
        name="sliding",
        title="six aggregates over the last 24 hours of each event",
        dataset=data.DENSE,
        ours=sliding.ours(),
        rivals=(
            Rival(contender=sliding.range_frame(), at_least=10),
            Rival(contender=sliding.DUCKDB),
        ),
    ),
    *(
        Scenario(
            name=f"sliding-{name}",
            title=f"{name}, count and sum over the last 24 hours of each event",
            dataset=data.DENSE_QUARTER,
            ours=sliding.ours(sliding.beside(name)),
            rivals=(Rival(contender=sliding.range_frame(sliding.beside(name)), at_least=5),),
        )
        for name in sliding.OTHERS
    ),
    Scenario(
        name="sliding-hot-key",
        title="the same, half of the events on one key",
        dataset=data.DENSE_HOT_KEY,
        ours=sliding.ours(),
        rivals=(_even_keys(sliding.ours(), data.DENSE, at_most=2),),
    ),
    Scenario(
        name="counts",
        title="six aggregates over the last 1,000 events of each event",
        dataset=data.DENSE,
        ours=counts.OURS,
        rivals=(
            Rival(contender=counts.ROWS_FRAME, at_least=3),
            Rival(contender=counts.DUCKDB),
        ),
    ),
    Scenario(
        name="counts-hot-key",
        title="the same, half of the events on one key",
        dataset=data.DENSE_HOT_KEY,
        ours=counts.OURS,
        rivals=(_even_keys(counts.OURS, data.DENSE, at_most=2),),
    ),
    Scenario(
        name="counts-each",
        title="windows of 100 events, one after the other",
        dataset=data.DENSE,
        ours=counts.OURS_EACH,
        rivals=(
            Rival(contender=counts.ROW_NUMBER, at_least=1 / 1.2),
            Rival(contender=counts.DUCKDB_EACH),
        ),
    ),
    Scenario(
        name="joins",
        title="pairs of two streams' events up to 5 minutes apart",
        dataset=data.STREAMS,
        ours=joins.ours(),
        rivals=(
            Rival(contender=joins.RANGE_CONDITION, at_least=5),
            Rival(contender=joins.DUCKDB),
        ),
    ),
    Scenario(
        name="joins-hot-key",
        # So close together that the hot key's pairs are not most of the work.
        title="pairs up to 5 seconds apart, a tenth of the events on one key",
        dataset=data.STREAMS_HOT_KEY,
        ours=joins.ours("5s"),
        rivals=(_even_keys(joins.ours("5s"), data.STREAMS, at_most=3),),
    ),
    Scenario(
        name="metrics",
        title="ten metrics over five windows from 1 hour to 90 days, every hour",
        dataset=data.QUARTER,
        ours=metrics.TEN,
        # The same events, but other windows.
        rivals=(Rival(contender=c.OURS, at_least=1 / 4, dataset=data.QUARTER),),
    ),
    Scenario(
        name="metrics-dense",
        title="two metrics over 24 hours, for every hour",
        dataset=data.FEW_KEYS,
        ours=metrics.EVERY_HOUR,
        rivals=(Rival(contender=c.hopping_window("24 hours", "1 hour")),),
    ),
    Scenario(
        name="metrics-at",
        title="two metrics over five windows from 1 hour to 90 days, as of each event",
        dataset=data.DENSE_QUARTER,
        ours=metrics.SEEN,
        rivals=(Rival(contender=metrics.FRAMES, at_least=10),),
    ),
    Scenario(
        name="metrics-at-cents",
        title="the same, of whole amounts",
        dataset=data.DENSE_QUARTER,
        ours=metrics.SEEN_IN_CENTS,
        rivals=(Rival(contender=metrics.FRAMES_IN_CENTS, at_least=10),),
    ),
    Scenario(
        name="metrics-at-visits",
        # So few events per key that a frame has little to add up.
        title="the same, of 12 events to a session in 90 days",
        dataset=data.QUARTER,
        ours=metrics.SEEN_IN_CENTS,
        rivals=(Rival(contender=metrics.FRAMES_IN_CENTS),),
    ),
    Scenario(
        name="updates",
        title="the panes that Flink sends of windows of an hour, in order of arrival",
        dataset=data.ARRIVED,
        ours=updates.OURS,
        # In one process, where ours has one for each core.
        rivals=(Rival(contender=updates.ONE_PROCESS, at_least=1),),
    ),
    Scenario(
        name="job",
        title="a job with sessions, hourly and daily windows",
        dataset=data.VISITS,
        ours=c.JOB_OF_THREE,
        rivals=(
            Rival(contender=c.JOB_OF_SESSIONS, at_least=1 / 1.6),
            # What the built-in checks cost before publishing.
            Rival(contender=c.JOB_UNCHECKED, at_least=1 / 1.15),
        ),
        windows="sessions",
    ),
)
