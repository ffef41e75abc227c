"""The command line: one file per verb."""

from backfill.cli.app import main

__all__ = ["main"]
