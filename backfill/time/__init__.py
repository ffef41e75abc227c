"""Instants, durations, dates and time zones."""
