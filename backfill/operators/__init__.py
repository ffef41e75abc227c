"""Windows from slices, as Spark columns: aligned windows and sessions."""
