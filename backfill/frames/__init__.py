"""Functions that take a DataFrame: windows, metrics, and values as of rows."""
