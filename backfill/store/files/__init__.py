"""Tables of Parquet files in local folders: written by Spark, committed by a log."""
