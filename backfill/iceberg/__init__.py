"""Iceberg tables of a catalog, as both sources and published tables read them; with pyiceberg."""
