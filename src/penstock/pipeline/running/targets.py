"""What a sink writes to is there, or is made, before the first batch."""

from pyspark.sql import DataFrame

from penstock.pipeline.running.keyed_sinks import check_table
from penstock.pipeline.running.topic_sinks import check_sink_topic
from penstock.pipeline.spec.pipeline import PENSTOCK, SQL, SinkSpec


def check_target(sink: SinkSpec, frame: DataFrame) -> None:
    """PipelineError where a topic or a table cannot take the frame; in other formats Spark tells."""
    if sink.format == PENSTOCK:
        check_sink_topic(sink)
    elif sink.format == SQL:
        check_table(sink, frame)
