"""Spark pipelines and the data source `penstock`; the only package that imports pyspark.

    from penstock.pipeline import spark_session

    spark = spark_session()
    flights = spark.readStream.format("penstock").option("kafka.bootstrap.servers", "127.0.0.1:9092") …

The data source is `datasource.py`; reads are planned in `source_batch.py` and `source_stream.py` and done in
`range_reader.py`; writes are in `sink.py`; whole pipelines, as `penstock pipeline run` runs them, are in `run.py`.
"""

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import spark_session

__all__ = ["PipelineError", "spark_session"]
"""Nothing here imports pyspark before it is used: Spark imports this package to look for data sources."""
