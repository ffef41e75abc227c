"""Runs: from a plan to published tables."""
