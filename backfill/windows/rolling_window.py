"""Windows of several lengths that end at each step: the rows of a metric's tables."""

from __future__ import annotations

from dataclasses import dataclass

from backfill.time.durations import Fixed


@dataclass(frozen=True, kw_only=True)
class RollingWindow:
    """For each value of some dimensions, a row at every step at which an aggregate changes.

    The row at T has the aggregate over the events of [T - window, T), for each of the windows. Job
    files have it as one grouping of a metric, which checks it (`backfill.frames.metric`).

    Args:
        by: the dimensions; empty for all events together.
        windows: their lengths; whole numbers of steps.
        step: the distance between two steps, which are multiples of it since 1970 in UTC.
        offset: shifts the steps; may be negative.

    Example:
        >>> from backfill.time.durations import fixed
        >>> day, hour, no = (fixed(each, field="") for each in ("1d", "1h", "0s"))
        >>> print(RollingWindow(by=("account",), windows=(hour, day), step=hour, offset=no))
        rolling(by=account, windows=1h and 1d, step=1h)
    """

    by: tuple[str, ...]
    windows: tuple[Fixed, ...]
    step: Fixed
    offset: Fixed

    @property
    def longest_us(self) -> int:
        """The length of the longest window, µs."""
        return max(window.us for window in self.windows)

    @property
    def reach_us(self) -> int:
        """How long after an event a row that depends on it can be, µs.

        The event counts from the next step on, at most a step later. The row at which it has ceased
        to count comes a window's length after that.
        """
        return self.step.us + self.longest_us

    def __str__(self) -> str:
        windows = " and ".join(map(str, self.windows))
        return f"rolling({self._by}, windows={windows}, step={self.step}{self._shift})"

    @property
    def _by(self) -> str:
        return f"by={' and '.join(self.by)}" if self.by else "by=nothing"

    @property
    def _shift(self) -> str:
        return f", offset={self.offset}" if self.offset.us else ""


@dataclass(frozen=True, kw_only=True)
class MetricSlices(RollingWindow):
    """The events of each step by themselves, from which longer windows of a metric are merged.

    The row at T has the state of the aggregate over the events of [T - step, T), for each value of
    the dimensions that has events.

    Args:
        metric: the table of the longer windows.

    Example:
        >>> from backfill.time.durations import fixed
        >>> hour, no = (fixed(each, field="") for each in ("1h", "0s"))
        >>> own = {"by": ("account",), "windows": (hour,), "step": hour, "offset": no}
        >>> print(MetricSlices(**own, metric="cards"))
        slices(of=cards, by=account, step=1h)
    """

    metric: str

    @property
    def reach_us(self) -> int:
        """See `RollingWindow`: no row shows that an event has ceased to count."""
        return self.step.us

    def __str__(self) -> str:
        return f"slices(of={self.metric}, {self._by}, step={self.step}{self._shift})"
