"""From a pipeline's declaration to Spark's frames and writers."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import is_here, names_of_reads
from penstock.pipeline.running.judged import RAW, RAW_KEY, WHY, judged
from penstock.pipeline.running.keyed_sinks import keyed_rows, stored_rows
from penstock.pipeline.running.lake_sinks import batch_function
from penstock.pipeline.running.read_bytes import with_bytes_counted
from penstock.pipeline.running.rules import WHY as WHY_BROKEN
from penstock.pipeline.running.rules import broken_rows, kept_rows
from penstock.pipeline.running.topic_sinks import once_by_spark, written_once, written_rows
from penstock.pipeline.running.typed_sinks import typed_key, typed_value
from penstock.pipeline.running.views import Views, function_named
from penstock.pipeline.spec.declared_options import with_default_isolation
from penstock.pipeline.spec.pipeline import (
    AVAILABLE_NOW,
    DELTA,
    FOREACH_BATCH,
    ICEBERG,
    ONCE,
    PENSTOCK,
    REAL_TIME,
    SQL,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TableSpec,
)
from penstock.pipeline.spec.tempo import is_real_time

Raw = Callable[[str, SourceSpec], DataFrame]
"""Makes the frame of a source, by its name, before anything is parsed."""
NOTHING = "noop"
"""Spark's sink for queries whose tasks have done all there is to do."""
SOURCE_EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
BATCH_IN_REAL_TIME = "5 minutes"
WHO_ASKS = ("bootstrap.", "security.", "sasl.", "ssl.")
"""What options begin with that say which cluster is asked, and as whom."""
RECORD_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")
WRITTEN_BESIDE_VALUE = ("key", "topic", "partition", "headers")
"""Columns that are not part of the value made of all other columns; `timestamp` may be one of the user's own."""


def stream_of(session: SparkSession, shared_fetches: str | None = None, *, has_names: bool = True) -> Raw:
    """Within `named_sources`, unless the sources are to have no names."""

    def read(name: str, source: SourceSpec) -> DataFrame:
        options = dict(source.options)
        if source.format == PENSTOCK:
            shared = {} if shared_fetches is None else {"sharedFetches": fetched_by(options, shared_fetches)}
            options = {**shared, **with_default_isolation(options)}
        reader = session.readStream.format(source.format)
        frame = (reader.name(name) if has_names else reader).options(**options).load()
        return with_bytes_counted(frame, name) if source.format == PENSTOCK else frame

    return read


def fetched_by(options: Mapping[str, str], directory: str) -> str:
    """Where in a directory lies what is fetched with these options of a client: who may not read a topic does not find
    there what others have fetched of it.
    """
    known = {key.lower().removeprefix("kafka."): value for key, value in options.items()}
    who = sorted(item for item in known.items() if item[0].startswith(WHO_ASKS))
    return f"{directory}/{hashlib.sha256(repr(who).encode()).hexdigest()[:12]}"


@contextmanager
def named_sources(session: SparkSession, *, has_names: bool = True) -> Iterator[None]:
    """What is made and started meanwhile keeps offsets by the names of sources: without names Spark counts them, and a
    source that is added takes the offsets of another one.
    """
    before = str(session.conf.get(SOURCE_EVOLUTION))
    session.conf.set(SOURCE_EVOLUTION, str(has_names).lower())
    try:
        yield
    finally:
        session.conf.set(SOURCE_EVOLUTION, before)


def check_reads(frame: DataFrame) -> None:
    """PipelineError where a source is read twice; without a JVM (Spark Connect) Spark refuses it when it starts."""
    for name, count in Counter(names_of_reads(frame)).items():
        if count > 1:
            raise PipelineError(
                f"source {name} is read twice in one query, and each read needs a name, by which the checkpoint knows "
                "it: say it twice in sources, with two names."
            )


def rows_of(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """The rows of a source. Where it declares its values their fields become columns, beside those of the record; of
    changes of a database's rows the columns are the row's.

    A value that is no such object has no fields, or is left out where there is a dead letter queue.
    """
    parsed = _parsed(frame, source)
    if parsed is not None:
        has_fields = source.json is not None or source.typed is not None
        content = ["value.*"] if has_fields else ["value"]
        fields = parsed.select(*content).columns
        taken = (*fields, *RECORD_COLUMNS) if source.is_changes else fields
        beside = [column for column in RECORD_COLUMNS if column in frame.columns and column not in taken]
        text = sf.col("key").cast("string").alias("key")
        columns = [text if column == "key" and source.typed_key is None else sf.col(column) for column in beside]
        frame = parsed.select(*content, *columns)
    if source.watermark is not None:
        frame = frame.withWatermark(*source.watermark)
    return frame


def _parsed(frame: DataFrame, source: SourceSpec) -> DataFrame | None:
    """With typed values and keys; bad ones are left out if they go elsewhere. None where neither is declared."""
    is_plain = source.dead_letter is None and source.typed_key is None and not source.is_changes
    if source.json is not None and is_plain:
        return frame.withColumn("value", sf.from_json(sf.col("value").cast("string"), source.json))
    if source.json is None and source.typed is None and source.typed_key is None:
        return None
    all_of_them = judged(frame, source)
    if source.is_changes:  # a value that is null comes after each that deletes, for the topic's compaction
        all_of_them = all_of_them.where(sf.col(RAW).isNotNull())
    return all_of_them if source.dead_letter is None else all_of_them.where(sf.col(WHY).isNull())


def dead_letters(frame: DataFrame, source: SourceSpec) -> DataFrame:
    """Records whose values do not match the source's declaration, with their positions, as Connect writes them."""
    said: dict[str, Column] = {
        **{name: sf.col(name).cast("string") for name in ("topic", "partition", "offset") if name in frame.columns},
        "stage": sf.lit("VALUE_CONVERTER"),
        "exception.message": sf.col(WHY),
    }
    bad = judged(frame, source).where(sf.col(WHY).isNotNull())
    raw_key = "key" if source.typed_key is None else RAW_KEY
    key = [sf.col(raw_key).alias("key")] if "key" in frame.columns else []
    return bad.select(*key, sf.col(RAW).alias("value"), _headers(said).alias("headers"))


def _headers(said: Mapping[str, Column]) -> Column:
    """As Connect names them."""
    return sf.array(
        *(
            sf.struct(sf.lit(f"__connect.errors.{name}").alias("key"), text.cast("binary").alias("value"))
            for name, text in said.items()
        )
    )


def views_of(
    session: SparkSession, spec: PipelineSpec, raw: Raw, tables: Mapping[str, DataFrame] | None = None
) -> Views:
    """Of the given `tables` none is read."""
    frames = {name: rows_of(raw(name, source), source) for name, source in spec.sources.items()}
    given = tables or {}
    looked_up = {name: given[name] if name in given else table_of(session, one) for name, one in spec.tables.items()}
    return Views(session, spec, frames | looked_up)


def table_of(session: SparkSession, table: TableSpec) -> DataFrame:
    options = with_default_isolation(table.options) if table.format == PENSTOCK else table.options
    return session.read.format(table.format).options(**options).load()


def frames_of_sinks(
    session: SparkSession,
    spec: PipelineSpec,
    raw: Raw,
    tables: Mapping[str, DataFrame] | None = None,
    *,
    registers: bool = False,
) -> Iterator[tuple[SinkSpec, DataFrame]]:
    views: Views | None = None
    for sink in spec.running:
        if sink.dead_letter_of is not None:
            source = spec.sources[sink.dead_letter_of]
            yield sink, dead_letters(raw(sink.dead_letter_of, source), source)
        else:
            views = views or views_of(session, spec, raw, tables).with_steps()
            yield sink, frame_of_sink(views, sink, registers=registers)


def frame_of_sink(views: Views, sink: SinkSpec, *, registers: bool = False) -> DataFrame:
    """Of one that gets no dead letters of a source."""
    rows = views.rows_for(sink)
    if sink.broken_of is None:
        return sink_frame(kept_rows(rows, sink), sink, registers=registers)
    bad = broken_rows(rows, sink)
    headers = _headers({"stage": sf.lit("EXPECT"), "exception.message": sf.col(WHY_BROKEN)})
    return sink_frame(bad.withColumn("headers", headers).drop(WHY_BROKEN), sink)


def sink_frame(frame: DataFrame, sink: SinkSpec, *, registers: bool = False) -> DataFrame:
    """For a topic: the key column, and a value: of a schema, the frame's own, or all other columns as JSON.

    With `registers` schemas are registered; else of a registry only what is there is asked.
    """
    for column in (*sink.partitioned_by, *filter(None, [sink.key])):
        if column not in frame.columns:
            raise PipelineError(f"Sink {sink.name}: there is no column {column}; there are {', '.join(frame.columns)}.")
    if sink.changes is not None:
        return keyed_rows(frame, sink, sink.changes)
    if sink.format != PENSTOCK:
        return frame
    if sink.key is not None:
        key = sf.col(sink.key)
        frame = frame.withColumn("key", key if sink.typed_key is not None else key.cast("string"))
    beside = [column for column in WRITTEN_BESIDE_VALUE if column in frame.columns]
    content = [column for column in frame.columns if column not in beside]
    if sink.typed_key is not None:
        frame = frame.withColumn("key", typed_key(frame, sink, sink.typed_key, registers=registers))
    if sink.typed is not None:
        return frame.select(*beside, typed_value(frame, sink, sink.typed, content, registers=registers).alias("value"))
    if "value" in frame.columns:
        return frame
    return frame.select(*beside, sf.to_json(sf.struct(*content)).alias("value"))


def sink_writer(frame: DataFrame, spec: PipelineSpec, sink: SinkSpec, checkpoint: str) -> DataStreamWriter:
    """A query that is ready to be started, from a frame of `frames_of_sinks`."""
    rows, write = frame, None
    if sink.format == PENSTOCK and not sink.is_exactly_once:
        rows = written_rows(frame, sink)
    elif sink.format == SQL:
        rows = stored_rows(frame, sink)
    writer = rows.writeStream.queryName(spec.query_name(sink)).outputMode(sink.mode)
    if sink.is_exactly_once and is_here(frame.sparkSession):
        writer = writer.foreachBatch(written_once(frame, sink))
    elif sink.is_exactly_once:
        writer = writer.format(PENSTOCK).options(**once_by_spark(frame, sink))
    elif sink.format in (PENSTOCK, SQL):
        writer = writer.format(NOTHING)
    elif sink.format in (DELTA, ICEBERG) and (write := batch_function(frame, sink)) is not None:
        writer = writer.foreachBatch(write)
    elif sink.format == FOREACH_BATCH:
        function = function_named(sink.option("function") or "", FOREACH_BATCH, spec.file)
        writer = writer.foreachBatch(function).options(**sink.options)
    else:
        writer = writer.format(sink.format).options(**sink.options)
    writer = writer.option("checkpointLocation", checkpoint)
    if sink.partitioned_by and write is None:  # a function for batches takes none, not even an empty list
        writer = writer.partitionBy(*sink.partitioned_by)
    return _triggered(writer, spec.trigger, sink)


def _triggered(writer: DataStreamWriter, trigger: str | None, sink: SinkSpec) -> DataStreamWriter:
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    if trigger == ONCE:
        return writer.trigger(once=True)
    writer = writer.options(**sink.of_query)
    if trigger is None:
        return writer
    if is_real_time(trigger):
        real_time: Any = {"realTime": trigger.removeprefix(REAL_TIME).strip() or BATCH_IN_REAL_TIME}
        return writer.trigger(**real_time)  # of Spark 4.1 and newer
    return writer.trigger(processingTime=trigger)
