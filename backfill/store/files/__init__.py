"""Tables of Parquet files in folders: written by Spark, committed by a log."""
