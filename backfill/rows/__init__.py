"""From events to slices, and from slices to the rows of windows, in Spark columns only."""
