"""Produce 3-13: append record batches to partitions that this node leads; topics by name, from version 13 by id.

acks=1 and acks=0 are done when the leader has written; acks=-1 when every in-sync replica has, which is at once where
the leader is the only one. acks=0 has no response, so an error closes the connection, as the only way to tell.

Not done: transactions. A transactional batch is refused (INVALID_REQUEST).
"""

from __future__ import annotations

import asyncio

from penstock.log.validation import InvalidRecords
from penstock.node.broker import Broker
from penstock.node.partitions.partition import ALL_REPLICAS, Partition
from penstock.node.serving.access import Need
from penstock.node.serving.handler import CloseConnection, RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.produce import (
    TOPIC_IDS_FROM,
    PartitionResult,
    ProduceFrame,
    ProduceTopic,
    ProduceTopicResult,
    encode_produce_response,
    parse_produce,
)

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics."""
_ATTRIBUTES_POSITION = 22
_TRANSACTIONAL = 0x10

Pending = tuple[Partition, int, PartitionResult]
"""A partition, the last offset that was appended to it, and the result that is to be sent."""


@handles(
    ApiKey.PRODUCE,
    versions=(3, 13),
    needs=(Need.WRITE_TOPIC, Need.IDEMPOTENT_WRITE, Need.WRITE_TRANSACTION),
    raw=True,
    pipelined=True,
)
def produce(
    broker: Broker, context: RequestContext, frame: memoryview, position: int
) -> list[bytes] | asyncio.Future[list[bytes]] | None:
    """Append each partition's records; errors are per partition."""
    request = parse_produce(frame, position, context.api_version)
    results: list[ProduceTopicResult] = []
    pending: list[Pending] = []
    append = _Append(broker, context, request, pending)
    for topic in request.topics:
        partitions = [append(topic, asked.index, asked.records) for asked in topic.partitions]
        results.append(ProduceTopicResult(topic.name, topic.topic_id, partitions))
    if request.acks == 0:
        _close_on_error(results)
        return None
    if pending:
        return _Replicating(context, request, results, pending).future
    return [encode_produce_response(results, context.api_version, context.correlation_id)]


class _Append:
    """Appends what one request brings."""

    __slots__ = ("acks", "broker", "by_id", "now_ms", "pending", "refusal", "writes_internal")

    def __init__(self, broker: Broker, context: RequestContext, request: ProduceFrame, pending: list[Pending]) -> None:
        self.broker = broker
        self.acks = request.acks
        self.now_ms = broker.now_ms()
        self.pending = pending
        self.by_id = context.api_version >= TOPIC_IDS_FROM
        self.writes_internal = context.client_id == ADMIN_CLIENT_ID
        self.refusal: KafkaError | None = None
        if not -1 <= request.acks <= 1:
            self.refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        elif request.transactional_id is not None:
            self.refusal = KafkaError(ErrorCode.INVALID_REQUEST, "transactions are not served")

    def __call__(self, topic: ProduceTopic, index: int, records: memoryview | None) -> PartitionResult:
        try:
            partition = self._partition(topic, index)
            if not records:
                raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request without a record batch")
            if len(records) > _ATTRIBUTES_POSITION and records[_ATTRIBUTES_POSITION] & _TRANSACTIONAL:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "transactions are not served")
            appended = partition.append(records, acks=self.acks, now_ms=self.now_ms)
        except InvalidRecords as error:
            return PartitionResult(index, error.code, record_errors=error.record_errors, error_message=error.message)
        except KafkaError as error:
            return PartitionResult(index, error.code, error_message=error.message)
        result = PartitionResult(index, 0, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset)
        if self.acks == ALL_REPLICAS and partition.high_watermark <= appended.last_offset:
            self.pending.append((partition, appended.last_offset, result))
        return result

    def _partition(self, topic: ProduceTopic, index: int) -> Partition:
        if self.refusal is not None:
            raise self.refusal
        partitions = self.broker.partitions
        if self.by_id:
            partition = partitions.get_by_id(topic.topic_id, index)
        else:
            partition = partitions.get(topic.name, index)
        if partition is None:
            partition = self.broker.partition(topic.name, index, topic.topic_id)
        if partition.is_internal and not self.writes_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is written by the cluster itself")
        return partition


def _close_on_error(results: list[ProduceTopicResult]) -> None:
    for topic in results:
        for result in topic.partitions:
            if result.error_code:
                name = ErrorCode(result.error_code).name
                where = f"{topic.name or topic.topic_id}-{result.index}"
                raise CloseConnection(f"produce with acks=0 to {where} failed: {name}")


class _Replicating:
    """A request with acks=-1 that waits for the in-sync replicas, at most as long as it says."""

    def __init__(
        self,
        context: RequestContext,
        request: ProduceFrame,
        results: list[ProduceTopicResult],
        pending: list[Pending],
    ) -> None:
        self._context = context
        self._results = results
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[bytes]] = loop.create_future()
        self.future.add_done_callback(self._clean_up)
        self._timer = loop.call_later(max(0, request.timeout_ms) / 1000, self._time_out)
        self._uncommitted = {_Uncommitted(self, *one): None for one in pending}

    def committed(self, one: _Uncommitted) -> None:
        del self._uncommitted[one]
        if not self._uncommitted:
            self._finish()

    def _time_out(self) -> None:
        for one in self._uncommitted:
            _fail(one.result, ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        if not self.future.done():
            version, correlation_id = self._context.api_version, self._context.correlation_id
            self.future.set_result([encode_produce_response(self._results, version, correlation_id)])

    def _clean_up(self, _: object) -> None:
        self._timer.cancel()
        for one in self._uncommitted:
            one.cancel()


class _Uncommitted:
    """What a request appended to one partition, until every in-sync replica has it."""

    __slots__ = ("_last_offset", "_partition", "_request", "_wait", "result")

    def __init__(self, request: _Replicating, partition: Partition, last_offset: int, result: PartitionResult) -> None:
        self._request = request
        self._partition = partition
        self._last_offset = last_offset
        self.result = result
        self._wait = partition.committed.waits.add(last_offset + 1, self._look)

    def _look(self) -> None:
        leader = self._partition.leader
        if leader is None:
            _fail(self.result, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif leader.high_watermark <= self._last_offset:  # this node goes on leading in a new epoch
            self._wait = self._partition.committed.waits.add(self._last_offset + 1, self._look)
            return
        self._request.committed(self)

    def cancel(self) -> None:
        """The request waits no longer."""
        self._partition.committed.waits.cancel(self._wait)


def _fail(result: PartitionResult, code: ErrorCode) -> None:
    result.error_code = code
    result.base_offset = -1
