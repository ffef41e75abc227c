"""Reading Iceberg tables of a catalog, for sources and published tables; needs pyiceberg."""
