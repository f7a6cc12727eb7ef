"""Rows that a pipeline writes to a topic.

The tasks that make them write them, and tell Spark's sink `noop` of each. Spark asks a sink in Python in two more
processes for each batch, to plan it and to commit it, and lets it have no output mode but append.
"""

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from penstock.pipeline.datasource.exactly_once import name_of, settle, write_batch
from penstock.pipeline.datasource.writer import WRITTEN, check_topic, writing
from penstock.pipeline.datasource.written_columns import check_written_columns
from penstock.pipeline.errors import PipelineError, plain_errors
from penstock.pipeline.options.sink import SinkOptions, sink_options
from penstock.pipeline.options.table import read_options
from penstock.pipeline.spec.pipeline import SinkSpec

APPEND: Final = "append"


def written_rows(frame: DataFrame, sink: SinkSpec) -> DataFrame:
    """A row without content for each that is stored; PipelineError for columns that no record has."""
    options = _options(sink)
    check_written_columns(frame.schema, options.topic)
    return frame.mapInArrow(writing(options), f"{WRITTEN} BOOLEAN")


def written_once(frame: DataFrame, sink: SinkSpec) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`, which takes each output mode; PipelineError for columns that no record has."""
    options = _options(sink)
    check_written_columns(frame.schema, options.topic)

    def write(batch: DataFrame, batch_id: int) -> None:
        write_batch(batch, batch_id, options)

    return write


def once_by_spark(frame: DataFrame, sink: SinkSpec) -> Mapping[str, str]:
    """Options of the format, for Spark's own sink: a function for batches runs elsewhere with Spark Connect, where
    tasks do not know to which batch their rows belong. PipelineError for columns that no record has, and another mode.
    """
    check_written_columns(frame.schema, _options(sink).topic)
    if sink.mode != APPEND:
        raise PipelineError(
            f"Sink {sink.name}: with Spark Connect a topic is written exactly once in mode: {APPEND}, not {sink.mode}."
        )
    return sink.options


def settle_run(sink: SinkSpec, query: str) -> None:
    """`query` is Spark's id of one that has ended."""
    options = _options(sink)
    settle(options, name_of(query, options))


def check_sink_topic(sink: SinkSpec) -> None:
    """The topic exists, or the cluster creates it now; PipelineError."""
    with plain_errors():
        check_topic(_options(sink))


def _options(sink: SinkSpec) -> SinkOptions:
    return sink_options(read_options(sink.options))
