"""Spark pipelines and the data source `penstock`; the only package that imports pyspark.

    from penstock.pipeline import spark_session

    spark = spark_session()
    flights = spark.readStream.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092") …

The data source is in `datasource/`, which knows the `options/` and has records decoded and encoded by `arrow/`.
Whole pipelines, as `penstock pipeline run` runs them, are declared in `spec/`, with the schemas of their `values/`;
`running/` makes queries of Spark of them, and `jobs/` runs these on workers.
"""

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import spark_session

__all__ = ["PipelineError", "spark_session"]
"""Nothing here imports pyspark before it is used: Spark imports this package to look for data sources."""
