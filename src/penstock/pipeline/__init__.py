"""Spark pipelines and the data source `penstock`; the only package that imports pyspark."""
