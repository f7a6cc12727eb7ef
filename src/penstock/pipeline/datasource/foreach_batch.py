"""For functions of `foreachBatch`: write a batch to a topic once, though the function gets it again after a crash.

def write(batch: DataFrame, batch_id: int) -> None:
    write_once(batch, batch_id, {"kafka.bootstrap.servers": servers, "topic": "delays"})
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from penstock.pipeline.datasource.exactly_once import write_batch
from penstock.pipeline.datasource.writer import check_topic
from penstock.pipeline.datasource.written_columns import check_written_columns
from penstock.pipeline.errors import plain_errors
from penstock.pipeline.options.sink import DELIVERY, EXACTLY_ONCE, sink_options
from penstock.pipeline.options.table import read_options


def write_once(batch: DataFrame, batch_id: int, options: Mapping[str, str]) -> int:
    """Returns how many rows it has. The options are those of `format("penstock")`.

    A function that writes several frames to one topic gives each a name of its own (`penstock.sink.id`), which stays.
    PipelineError where the batch has to run again.
    """
    with plain_errors():
        sink = sink_options(read_options({**options, DELIVERY: EXACTLY_ONCE}))
        check_written_columns(batch.schema, sink.topic)
        check_topic(sink)
        return write_batch(batch, batch_id, sink)
