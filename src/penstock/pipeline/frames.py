"""From a pipeline's declaration to Spark's frames and writers."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec import AVAILABLE_NOW, ONCE, PENSTOCK, PipelineSpec, SinkSpec, SourceSpec

VIEW = "source"
RECORD_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")
WRITTEN_BESIDE_VALUE = ("key", "topic", "partition", "headers")
"""What is no part of the value that is made of all other columns; a column `timestamp` may be one of the user's own."""


def source_frame(session: SparkSession, source: SourceSpec) -> DataFrame:
    """The source as a stream. With `json` the fields of the values become columns, beside those of the record."""
    frame = session.readStream.format(source.format).options(**source.options).load()
    if source.json is not None:
        parsed = frame.withColumn("value", sf.from_json(sf.col("value").cast("string"), source.json))
        fields = parsed.select("value.*").columns
        beside = [column for column in RECORD_COLUMNS if column in frame.columns and column not in fields]
        columns = [
            sf.col("key").cast("string").alias("key") if column == "key" else sf.col(column) for column in beside
        ]
        frame = parsed.select("value.*", *columns)
    if source.watermark is not None:
        frame = frame.withWatermark(*source.watermark)
    return frame


def transformed(session: SparkSession, spec: PipelineSpec) -> DataFrame:
    """The source after the pipeline's own part."""
    frame = source_frame(session, spec.source)
    if spec.transform is None:
        return frame
    if isinstance(spec.transform, str):
        frame.createOrReplaceTempView(VIEW)
        return session.sql(spec.transform)
    result = spec.transform(frame)
    if not isinstance(result, DataFrame):
        raise PipelineError(f"Pipeline {spec.name}: its function must return a DataFrame, not {type(result).__name__}.")
    return result


def sink_frame(frame: DataFrame, sink: SinkSpec) -> DataFrame:
    """For a topic: the key column, and a value: the frame's own, else all other columns as JSON."""
    if sink.format != PENSTOCK:
        return frame
    if sink.key is not None:
        if sink.key not in frame.columns:
            raise PipelineError(
                f"Sink {sink.name}: there is no column {sink.key}; there are {', '.join(frame.columns)}."
            )
        frame = frame.withColumn("key", sf.col(sink.key).cast("string"))
    if "value" in frame.columns:
        return frame
    beside = [column for column in WRITTEN_BESIDE_VALUE if column in frame.columns]
    content = [column for column in frame.columns if column not in beside]
    return frame.select(*beside, sf.to_json(sf.struct(*content)).alias("value"))


def sink_writer(frame: DataFrame, spec: PipelineSpec, sink: SinkSpec, checkpoint: str) -> DataStreamWriter:
    """A query that is ready to be started."""
    writer = (
        sink_frame(frame, sink)
        .writeStream.queryName(spec.query_name(sink))
        .format(sink.format)
        .outputMode(sink.mode)
        .options(**sink.options)
        .option("checkpointLocation", checkpoint)
    )
    if spec.trigger is None:
        return writer
    if spec.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    if spec.trigger == ONCE:
        return writer.trigger(once=True)
    return writer.trigger(processingTime=spec.trigger)
