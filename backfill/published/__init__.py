"""The published tables of a job: their rows, and look-ups without Spark."""
