"""Slices: no boundary of a window may lie inside one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill.operators.grids import Grid, fewest

MINUTE = 60_000_000

aligned = st.lists(
    st.builds(
        lambda size, advance, phase: Grid.of(size * MINUTE, advance * MINUTE, phase=phase * 1000),
        st.integers(1, 200),
        st.integers(1, 200),
        st.integers(-5, 5),
    ),
    max_size=4,
)
gaps = st.lists(st.integers(1, 400).map(lambda n: n * 7 * 1_000_000), max_size=3)


@settings(max_examples=300)
@given(aligned=aligned, gaps=gaps)
def test_every_window_finds_its_boundaries(aligned: list[Grid], gaps: list[int]) -> None:
    grids = fewest(aligned, gaps)
    for wanted in aligned:
        assert any(
            wanted.width % grid.width == 0 and (wanted.phase - (grid.phase or 0)) % grid.width == 0
            for grid in grids
        )
    if gaps:
        assert min(grid.width for grid in grids) <= min(gaps)
    assert len(grids) <= len(set(aligned)) + bool(gaps)


@settings(max_examples=300)
@given(aligned=aligned, gaps=gaps)
def test_slices_are_no_finer_than_they_must_be(aligned: list[Grid], gaps: list[int]) -> None:
    finest = min([grid.width for grid in aligned] + gaps, default=0)
    assert all(grid.width * 2 ** len(aligned) >= finest // 2 for grid in fewest(aligned, gaps))


def test_common_jobs_need_one_grid() -> None:
    hour, day = (
        Grid.of(60 * MINUTE, 60 * MINUTE, phase=0),
        Grid.of(1440 * MINUTE, 60 * MINUTE, phase=0),
    )
    assert fewest([hour, day], [30 * MINUTE]) == [Grid(30 * MINUTE, 0)]
    assert fewest([], [30 * MINUTE]) == [Grid(30 * MINUTE, None)]
    assert fewest([hour], [7 * MINUTE]) == [Grid(400_000_000, 0)]
    # Boundaries a second apart would leave slices of a second, so there are two grids.
    shifted = Grid.of(60 * MINUTE, 60 * MINUTE, phase=1_000_000)
    assert fewest([hour, shifted], []) == [hour, shifted]
