"""Produce 3-13: append record batches to partitions that this node leads; topics by name, from version 13 by id.

acks=1 and acks=0 are done when the leader has written; acks=-1 when every in-sync replica has, which is at once where
the leader is the only one. acks=0 has no response, so an error closes the connection, as the only way to tell.

Not done: transactions. A transactional batch is refused (INVALID_REQUEST).
"""

from __future__ import annotations

import asyncio
from uuid import UUID

from penstock.log.record_checks import InvalidRecords
from penstock.node.broker import Broker
from penstock.node.partitions.partition import ALL_REPLICAS, Partition
from penstock.node.serving.access import Need
from penstock.node.serving.handler import CloseConnection, RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.batch import TRANSACTIONAL
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.produce import (
    TOPIC_IDS_FROM,
    ProduceFrame,
    ProducePartition,
    ProduceTopic,
    encode_appended,
    encode_produce_response,
    encode_refused,
    parse_produce,
)

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics."""
ATTRIBUTES_END = 22
"""The second byte of a batch's attributes."""

Answers = list[tuple[str | UUID, list[bytes]]]
"""By topic, the answers for its partitions."""
Pending = tuple[Partition, int, int, list[bytes], int]
"""A partition, its index, the last offset that was appended to it, and where its answer stands: the list, the place."""


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
    version = context.api_version
    request = parse_produce(frame, position, version)
    by_id = version >= TOPIC_IDS_FROM
    append = _Append(broker, context, request)
    answers: Answers = [
        (topic.topic_id if by_id else topic.name, append(topic, topic.partitions)) for topic in request.topics
    ]
    if request.acks == 0:
        if append.failure is not None:
            raise CloseConnection(f"produce with acks=0 failed: {append.failure}")
        return None
    if append.pending:
        return _Replicating(context, request.timeout_ms, answers, append.pending).future
    return [encode_produce_response(answers, version, context.correlation_id)]


class _Append:
    """Appends what one request brings. `failure` is what went wrong first, `pending` what is still to be replicated."""

    __slots__ = ("_acks", "_broker", "_now_ms", "_refusal", "_version", "_writes_internal", "failure", "pending")

    def __init__(self, broker: Broker, context: RequestContext, request: ProduceFrame) -> None:
        self._broker = broker
        self._acks = request.acks
        self._now_ms = broker.now_ms()
        self._version = context.api_version
        self._writes_internal = context.client_id == ADMIN_CLIENT_ID
        self._refusal: KafkaError | None = None
        if not -1 <= request.acks <= 1:
            self._refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        elif request.transactional_id is not None:
            self._refusal = KafkaError(ErrorCode.INVALID_REQUEST, "transactions are not served")
        self.failure: str | None = None
        self.pending: list[Pending] = []

    def __call__(self, topic: ProduceTopic, asked: list[ProducePartition]) -> list[bytes]:
        """The answers for the partitions of one topic."""
        version, acks = self._version, self._acks
        answers: list[bytes] = []
        for wanted in asked:
            index, batch = wanted.index, wanted.records
            try:
                partition = self._partition(topic, index)
                if not batch:
                    raise KafkaError(ErrorCode.INVALID_RECORD, "a produce request without a record batch")
                if len(batch) > ATTRIBUTES_END and batch[ATTRIBUTES_END] & TRANSACTIONAL:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "transactions are not served")
                appended = partition.append(batch, acks=acks, now_ms=self._now_ms)
            except KafkaError as error:
                answers.append(self._refused(topic, index, error))
                continue
            if acks == ALL_REPLICAS and partition.committed.high_watermark <= appended.last_offset:
                self.pending.append((partition, index, appended.last_offset, answers, len(answers)))
            answers.append(
                encode_appended(
                    version, index, appended.base_offset, appended.log_append_time_ms, appended.log_start_offset
                )
            )
        return answers

    def _partition(self, topic: ProduceTopic, index: int) -> Partition:
        if self._refusal is not None:
            raise self._refusal
        partitions = self._broker.partitions
        if self._version >= TOPIC_IDS_FROM:
            partition = partitions.get_by_id(topic.topic_id, index)
        else:
            partition = partitions.get(topic.name, index)
        if partition is None:
            partition = self._broker.partition(topic.name, index, topic.topic_id)
        if partition.is_internal and not self._writes_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is written by the cluster itself")
        return partition

    def _refused(self, topic: ProduceTopic, index: int, error: KafkaError) -> bytes:
        if self.failure is None:
            self.failure = f"{topic.name or topic.topic_id}-{index}: {ErrorCode(error.code).name}"
        record_errors = error.record_errors if isinstance(error, InvalidRecords) else ()
        return encode_refused(self._version, index, error.code, error.message or None, record_errors)


class _Replicating:
    """A request with acks=-1 that waits for the in-sync replicas, at most as long as it says."""

    def __init__(self, context: RequestContext, timeout_ms: int, answers: Answers, pending: list[Pending]) -> None:
        self._context = context
        self._answers = answers
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[bytes]] = loop.create_future()
        self.future.add_done_callback(self._clean_up)
        self._timer = loop.call_later(max(0, timeout_ms) / 1000, self._time_out)
        self._uncommitted = {_Uncommitted(self, *one): None for one in pending}

    @property
    def version(self) -> int:
        """The version in which to answer."""
        return self._context.api_version

    def answered(self, one: _Uncommitted) -> None:
        """One partition has its answer."""
        del self._uncommitted[one]
        if not self._uncommitted:
            self._finish()

    def _time_out(self) -> None:
        for one in self._uncommitted:
            one.refuse(ErrorCode.REQUEST_TIMED_OUT)
        self._finish()

    def _finish(self) -> None:
        if not self.future.done():
            response = encode_produce_response(self._answers, self.version, self._context.correlation_id)
            self.future.set_result([response])

    def _clean_up(self, _: object) -> None:
        self._timer.cancel()
        for one in self._uncommitted:
            one.cancel()


class _Uncommitted:
    """What a request appended to one partition, until every in-sync replica has it."""

    __slots__ = ("_answers", "_index", "_last_offset", "_partition", "_place", "_request", "_wait")

    def __init__(
        self,
        request: _Replicating,
        partition: Partition,
        index: int,
        last_offset: int,
        answers: list[bytes],
        place: int,
    ) -> None:
        self._request = request
        self._partition = partition
        self._index = index
        self._last_offset = last_offset
        self._answers = answers
        self._place = place
        self._wait = partition.committed.waits.add(last_offset + 1, self._look)

    def _look(self) -> None:
        leader = self._partition.leader
        if leader is None:
            self.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif leader.high_watermark <= self._last_offset:  # this node goes on leading in a new epoch
            self._wait = self._partition.committed.waits.add(self._last_offset + 1, self._look)
            return
        self._request.answered(self)

    def refuse(self, code: ErrorCode) -> None:
        """Answer with an error."""
        self._answers[self._place] = encode_refused(self._request.version, self._index, code)

    def cancel(self) -> None:
        """The request waits no longer."""
        self._partition.committed.waits.cancel(self._wait)
