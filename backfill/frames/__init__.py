"""What is called with a DataFrame: windows, metrics, and values as of rows."""
