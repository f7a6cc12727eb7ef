"""A pipeline as a batch over what came in some time, to fill what is missing or was wrong; no checkpoint is touched.

A topic gets the rows once more. Files go to a directory of their own, named by the time, which is written as a whole:
running it again changes nothing, and a directory that a query writes to knows only what that query wrote.
"""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles, has_format
from penstock.pipeline.running.frames import NOTHING, Raw, frames_of_sinks
from penstock.pipeline.running.keyed_sinks import stored_rows
from penstock.pipeline.running.pinned_schemas import with_pinned_schemas
from penstock.pipeline.running.run import in_a_sentence
from penstock.pipeline.running.targets import check_target
from penstock.pipeline.spec.declared_options import with_default_isolation
from penstock.pipeline.spec.pipeline import DELTA, FOREACH_BATCH, PENSTOCK, SQL, PipelineSpec, SinkSpec, SourceSpec

POSITIONS = ("starting", "ending")
"""Prefixes of the options that say where a read starts and ends."""
STREAMS_ONLY = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "maxbytespertrigger")


def run_backfill(
    spec: PipelineSpec, start_ms: int, end_ms: int | None = None, *, session: SparkSession
) -> dict[str, str]:
    """Where each query has written; PipelineError."""
    if end_ms is not None and end_ms <= start_ms:
        raise PipelineError("There is nothing in this time: it ends before it begins.")
    places: dict[str, str] = {}
    with in_a_sentence(spec.file):
        spec = with_pinned_schemas(spec, TextFiles(session))
        for sink, frame in frames_of_sinks(session, spec, _batch_of(session, start_ms, end_ms), registers=True):
            places[spec.query_name(sink)] = _write(frame, sink, start_ms, end_ms)
    return places


def _batch_of(session: SparkSession, start_ms: int, end_ms: int | None) -> Raw:
    def read(name: str, source: SourceSpec) -> DataFrame:
        if source.format != PENSTOCK:
            raise PipelineError(f"Source {name} is of the format {source.format}: only topics have times to go by.")
        options = read_options_of(source)
        options |= {"startingTimestamp": str(start_ms), "startingOffsetsByTimestampStrategy": "latest"}
        if end_ms is not None:
            options["endingTimestamp"] = str(end_ms)
        frame = session.read.format(PENSTOCK).options(**options).load()
        frame = frame.where(sf.col("timestamp") >= sf.timestamp_millis(sf.lit(start_ms)))
        return frame if end_ms is None else frame.where(sf.col("timestamp") < sf.timestamp_millis(sf.lit(end_ms)))

    return read


def read_options_of(source: SourceSpec) -> dict[str, str]:
    """Of a source that is a topic: what is read, not from where to where."""
    given = with_default_isolation(source.options)
    return {option: value for option, value in given.items() if _says_what(option)}


def _says_what(option: str) -> bool:
    """Whether an option says what is read, not from where to where."""
    name = option.lower().removeprefix("kafka.")
    return not name.startswith(POSITIONS) and name not in STREAMS_ONLY


def _write(frame: DataFrame, sink: SinkSpec, start_ms: int, end_ms: int | None) -> str:
    if sink.format == FOREACH_BATCH:
        raise PipelineError(f"Sink {sink.name}: its function is given numbers of batches, and a time has none.")
    if sink.format == SQL:
        check_target(sink, frame)
        stored_rows(frame, sink).write.format(NOTHING).mode("append").save()
        return sink.name
    if sink.changes is not None or (sink.format == DELTA and not has_format(frame.sparkSession, DELTA)):
        raise PipelineError(f"Sink {sink.name}: its table is written by batches of the stream alone.")
    path = sink.option("path")
    options = {
        name: value for name, value in sink.options.items() if name.lower() not in ("path", "checkpointlocation")
    }
    writer = frame.write.format(sink.format).options(**options).partitionBy(*sink.partitioned_by)
    if path is None:
        writer.mode("append").save()
        return sink.name
    place = f"{path.rstrip('/')}.backfill/{_name(start_ms)}_{'now' if end_ms is None else _name(end_ms)}"
    writer.mode("overwrite").save(place)
    return place


def _name(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
