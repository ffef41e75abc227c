"""Expectations that Great Expectations has none of."""
