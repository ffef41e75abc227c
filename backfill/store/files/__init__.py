"""Tables of Parquet files in folders: Spark writes them, a log commits them."""
