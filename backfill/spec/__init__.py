"""The job file: what it says, validated before anything is started."""

from backfill.spec.job import JobSpec, WindowSpec

__all__ = ["JobSpec", "WindowSpec"]
