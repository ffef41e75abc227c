"""Iceberg tables in a catalog: Spark writes the files; the `pyiceberg` library commits them."""
