"""The published tables of a job: what is in them, and what can be looked up without Spark."""
