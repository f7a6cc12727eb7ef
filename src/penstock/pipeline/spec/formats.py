"""Formats that Spark brings, or that are usual: a name that is nearly one of them is a slip."""

from typing import Final

from penstock.pipeline.spec.pipeline import DELTA, FOREACH_BATCH, ICEBERG, PENSTOCK, SQL

FILES: Final = ("csv", "json", "orc", "parquet", "text", "xml")
TABLES: Final = ("avro", DELTA, ICEBERG)
WITH_A_PATH: Final = FILES
READ: Final = (PENSTOCK, *FILES, *TABLES, "jdbc", "kafka", "rate", "rate-micro-batch", "socket")
WRITTEN: Final = (PENSTOCK, FOREACH_BATCH, SQL, *FILES, *TABLES, "console", "kafka", "memory", "noop")
