"""Delta Lake tables in a folder: Spark writes the files; the `deltalake` library commits them."""
