"""What was counted: which inputs, on which dates, in which version of a table."""
