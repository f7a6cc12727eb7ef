"""Writes each batch exactly once: tasks leave their rows in prepared transactions, the driver decides and commits.

For Spark's own streams and batch writes (`ExactlyOnceWriter`), and for whoever has a batch in hand (`write_batch`): a
pipeline's sink, or a function for `foreachBatch`.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from penstock.client.blocking import now_ms
from penstock.client.blocking.transactions import TransactionCoordinators
from penstock.client.settings import wall_clock_ms
from penstock.client.values import TransactionName
from penstock.pipeline.arrow.plain_arrays import contents
from penstock.pipeline.datasource.cluster_cache import borrowed_cluster
from penstock.pipeline.datasource.decider import Decider
from penstock.pipeline.datasource.decisions_topic import DECIDING_TIMEOUT_MS
from penstock.pipeline.datasource.writer import RowWriter, in_chunks
from penstock.pipeline.errors import PipelineError, plain_errors
from penstock.pipeline.jvm import of_this_run
from penstock.pipeline.once.names import TaskNames
from penstock.pipeline.options.sink import SinkOptions
from penstock.protocol.errors import KafkaError

logger = logging.getLogger(__name__)

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells each task of a streaming query."""
OF_NO_QUERY: Final = (
    "penstock.sink.delivery=exactly-once: Spark does not say to which query and batch these rows belong; write them in "
    "a streaming query, or in a batch write."
)
ONLY_BATCH: Final = 0
"""The number of a batch write."""
MOST_QUERIES: Final = 100
"""Whose names a worker process remembers; then it begins anew, with ids that nobody had."""
MESSAGE: Final = "message"
CARRIED_OUT_WITHIN_MS: Final = 2 * DECIDING_TIMEOUT_MS
"""A decision is written within half of that, or not at all."""

_names: dict[tuple[int, str], TaskNames] = {}


@dataclass
class PreparedRecords(WriterCommitMessage):
    """What a task has left: no transaction, if it had no rows."""

    query: str
    count: int
    transaction: TransactionName | None
    took_ms: int
    """From before the transaction began."""
    ended_at_ms: int
    """By the wall clock, as the driver is another process, perhaps on another machine."""


class ExactlyOnceWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    def __init__(self, sink: SinkOptions, *, is_stream: bool) -> None:
        """A batch write is named by the option, or is one of its own."""
        self._sink = sink
        self._query = None if is_stream else f"write-{sink.name or uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._query is not None:
            return prepare_rows(self._sink, iterator, self._query, ONLY_BATCH)
        query, batch = of_this_task(self._sink)
        return prepare_rows(self._sink, iterator, query, batch)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int = ONLY_BATCH) -> None:  # noqa: N803 - Spark's name
        """Of a stream the tasks tell the query: Spark runs one for a batch without rows, too."""
        told = [one for one in messages if isinstance(one, PreparedRecords)]
        decide(self._sink, self._query or told[0].query, batchId, told)
        self._end_of_write()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int = ONLY_BATCH) -> None:  # noqa: N803 - Spark's name
        """Spark calls it where tasks fail, and where `commit` does, which may have decided by then."""
        told = [one for one in messages if isinstance(one, PreparedRecords)]
        prepared = [one.transaction for one in told if one.transaction is not None]
        if prepared:
            with plain_errors(), borrowed_cluster(self._sink.settings) as cluster:
                Decider(cluster, self._sink.decisions_topic, told[0].query).give_up(batchId, prepared)
        self._end_of_write()

    def _end_of_write(self) -> None:
        """Of a batch write, whatever became of it: tasks that failed or were killed have told nothing."""
        if self._query is not None and settle(self._sink, self._query) and not self._sink.name:
            forget(self._sink, self._query)


def write_batch(frame: DataFrame, batch_id: int, sink: SinkOptions) -> int:
    """Within `foreachBatch`: write this batch of the query once, and return how many rows it has.

    A function that writes to one topic twice gives each write a name of its own in the options.
    """
    query = of_this_function(frame.sparkSession, sink)
    rows = frame.mapInArrow(preparing(sink, query, batch_id), f"{MESSAGE} BINARY").collect()
    messages: list[PreparedRecords] = [pickle.loads(row[MESSAGE]) for row in rows]
    decide(sink, query, batch_id, messages)
    return sum(message.count for message in messages)


def preparing(
    sink: SinkOptions, query: str, batch: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: a row with the message of the task, pickled as Spark pickles a writer's."""

    def prepare(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message = pickle.dumps(prepare_rows(sink, batches, query, batch))
        yield pa.RecordBatch.from_arrays([contents([message])], [MESSAGE])

    return prepare


def of_this_task(sink: SinkOptions) -> tuple[str, int]:
    """The query, with the name of the sink or its topic, as a function may write several; and the batch."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(QUERY_ID)
    batch = None if context is None else context.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise PipelineError(OF_NO_QUERY)
    return name_of(query, sink), int(batch)


def of_this_function(session: SparkSession, sink: SinkOptions) -> str:
    """What the query is called whose batch a function has in hand."""
    query = of_this_run(session, QUERY_ID)
    if query is None:
        raise PipelineError(OF_NO_QUERY)
    return name_of(query, sink)


def name_of(query: str, sink: SinkOptions) -> str:
    """What a streaming query is called among those that decide."""
    return f"{query}-{sink.name or sink.topic or ''}"


# -- tasks ------------------------------------------------------------------------------------------------------------


def prepare_rows(sink: SinkOptions, batches: Iterator[pa.RecordBatch], query: str, batch: int) -> PreparedRecords:
    """All rows are stored when this returns, in a transaction that is open."""
    chunks = in_chunks(batches)
    first = next(chunks, None)
    if first is None:
        return PreparedRecords(query, 0, None, 0, wall_clock_ms())
    began_at_ms = now_ms()
    with plain_errors(), borrowed_cluster(sink.settings) as cluster:
        coordinators, name = TransactionCoordinators(cluster), _names_of(query).take(batch)
        kept = coordinators.begin_kept(name)
        identity = kept or coordinators.begin(name, sink.transaction_timeout_ms)
        transaction = TransactionName(name, identity.producer_id, identity.epoch, kept is not None)
        try:
            with closing(RowWriter(cluster, sink, identity)) as writer:
                count = writer.write(first) + sum(map(writer.write, chunks))
                writer.flush()
        except BaseException:
            with suppress(OSError, KafkaError):  # who runs the batch again will do it
                coordinators.end(transaction, commits=False)
            raise
    return PreparedRecords(query, count, transaction, now_ms() - began_at_ms, wall_clock_ms())


def _names_of(query: str) -> TaskNames:
    key = os.getpid(), query
    if key not in _names:
        if len(_names) >= MOST_QUERIES:
            _names.clear()
        _names[key] = TaskNames(query, uuid.uuid4().hex)
    return _names[key]


# -- the driver -------------------------------------------------------------------------------------------------------


def decide(sink: SinkOptions, query: str, batch: int, messages: Sequence[PreparedRecords]) -> None:
    """PipelineError where the batch has to run again. Also without tasks: an earlier attempt may have had some, and be
    decided.
    """
    prepared = [message.transaction for message in messages if message.transaction is not None]
    until_ms = latest_decision_ms(sink.transaction_timeout_ms, messages)
    with plain_errors(), borrowed_cluster(sink.settings) as cluster:
        Decider(cluster, sink.decisions_topic, query).decide(batch, prepared, until_ms)


def latest_decision_ms(timeout_ms: int, messages: Sequence[PreparedRecords]) -> float:
    """By `now_ms`, before the first of the transactions times out that have a time-out: early enough to write the
    decision, however long that takes, and then to commit. Where little time is given, half of it is left for that.
    """
    ages_ms = [
        message.took_ms + max(0, wall_clock_ms() - message.ended_at_ms)
        for message in messages
        if message.transaction is not None and not message.transaction.is_kept
    ]
    if not ages_ms:
        return math.inf
    return now_ms() - max(ages_ms) + timeout_ms - min(CARRIED_OUT_WITHIN_MS, timeout_ms // 2)


def settle(sink: SinkOptions, query: str) -> bool:
    """When a run of the query is over: without a next batch nobody would end what its tasks have left. Who cannot, goes
    on: what is left then is found by `penstock transactions list`. Whether what was decided is carried out.
    """
    try:
        with plain_errors(), borrowed_cluster(sink.settings) as cluster:
            return Decider(cluster, sink.decisions_topic, query).settle()
    except PipelineError as error:
        logger.warning("query %s: whether its tasks have left transactions open is not known: %s", query, error)
        return False


def forget(sink: SinkOptions, query: str) -> None:
    """Of a write whose name no other one has. It is done, also where that cannot be written down."""
    try:
        with plain_errors(), borrowed_cluster(sink.settings) as cluster:
            Decider(cluster, sink.decisions_topic, query).forget()
    except PipelineError as error:
        logger.warning("query %s: its decision stays in the topic %s: %s", query, sink.decisions_topic, error)
