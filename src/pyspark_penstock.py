"""Lets Spark find `format("penstock")` by itself: it looks for modules named `pyspark_*` with a `DefaultSource`."""

from penstock.pipeline.datasource.entry import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
