"""The command line: one file per command."""

from backfill.cli.app import main

__all__ = ["main"]
