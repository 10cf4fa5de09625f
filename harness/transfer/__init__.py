"""Submissions in and out of the store: the parquet files of published competitions, and JSON lines of everything."""
