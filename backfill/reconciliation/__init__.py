"""Compares what a stream wrote with what the batch computed."""
