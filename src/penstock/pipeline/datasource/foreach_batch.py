"""For functions of `foreachBatch`: write a batch to a topic once, though the function gets it again after a crash.

def write(batch: DataFrame, batch_id: int) -> None:
    write_once(batch, batch_id, {"kafka.bootstrap.servers": servers, "topic": "delays"})
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame

from penstock.pipeline.datasource.exactly_once import MOST_QUERIES, of_this_function, write_batch
from penstock.pipeline.datasource.writer import check_topic
from penstock.pipeline.datasource.written_columns import check_written_columns
from penstock.pipeline.errors import PipelineError, plain_errors
from penstock.pipeline.jvm import of_this_run
from penstock.pipeline.options.sink import DELIVERY, EXACTLY_ONCE, SinkOptions, sink_options
from penstock.pipeline.options.table import read_options

RUN_ID: Final = "spark.jobGroup.id"
"""What Spark calls this run of a streaming query: another one begins with the batch that this one has not ended."""

_written: OrderedDict[str, tuple[str | None, int]] = OrderedDict()
"""By query and name: in which run this process has written it last, and which batch."""


def write_once(batch: DataFrame, batch_id: int, options: Mapping[str, str]) -> int:
    """Returns how many rows it has. The options are those of `format("penstock")`.

    A function that writes several frames to one topic gives each a name of its own (`penstock.sink.id`), which stays.
    PipelineError where the batch has to run again, and for a second write of a batch that has no other name: what is
    decided is decided, and its rows would be left out.
    """
    with plain_errors():
        sink = sink_options(read_options({**options, DELIVERY: EXACTLY_ONCE}))
        check_written_columns(batch.schema, sink.topic)
        check_topic(sink)
        session = batch.sparkSession
        written = of_this_function(session, sink)
        place = of_this_run(session, RUN_ID), batch_id
        if _written.get(written) == place:
            raise PipelineError(
                f"write_once has written batch {batch_id} to {_target(sink)} already, and would leave these rows out: "
                "where a function writes several times, give each a name of its own (penstock.sink.id)"
            )
        count = write_batch(batch, batch_id, sink)
        _note(written, place)
        return count


def _target(sink: SinkOptions) -> str:
    topic = f"the topic {sink.topic!r}" if sink.topic else "the topics that its rows name"
    return f"{topic} as {sink.name!r}" if sink.name else topic


def _note(written: str, place: tuple[str | None, int]) -> None:
    _written.pop(written, None)
    _written[written] = place
    if len(_written) > MOST_QUERIES:
        _written.popitem(last=False)
