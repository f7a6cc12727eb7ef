"""DeleteRecords 0-2: move the beginning of partitions forward; -1 means to the high watermark (KIP-107).

The answer waits until the logs of all replicas that live begin there, at most as long as the request says
(REQUEST_TIMED_OUT); the low watermark is the least of their beginnings.

Internal topics are refused (INVALID_TOPIC_EXCEPTION), and so are topics without `delete` in their cleanup policy
(POLICY_VIOLATION). A storage group deletes by an entry of its log: the answer waits until the leader has applied it.
"""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DELETE_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.requests.api import ApiKey
from penstock.replication.waits import Wait, Waiter, Waits

TO_HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


@handles(
    ApiKey.DELETE_RECORDS,
    versions=(0, 2),
    rule=(Each(DELETE_TOPIC, ("topics",), "topics"),),
    parts=(("topics", "topics"),),
    polls=True,
    ends_with_client=True,
)
def delete_records(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]:
    pending: list[_Deletion] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(broker, topic.name, wanted, pending) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    return _Deleting(response, request.timeout_ms, pending).future if pending else response


def _delete(
    broker: Broker, topic: str, wanted: DeleteRecordsPartition, pending: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=NO_LOW_WATERMARK)
    try:
        if topic in broker.image.topics:
            check_allowed(topic, Act.DELETE_RECORDS)
        partition = broker.partition(topic, wanted.partition_index)
        broker.check_leader(partition)
        if not partition.log.config.deletes:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        offset = partition.high_watermark if wanted.offset == TO_HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        partition.delete_before(offset)
        broker.replicas.on_log_start_moved(partition)
    except KafkaError as error:
        result.error_code = error.code
        return result
    deletion = _Deletion(broker, partition, offset, result)
    if not deletion.is_done():
        pending.append(deletion)
    return result


class _Deletion:
    """One partition whose followers may still have what was deleted; `result` says how far they are."""

    __slots__ = ("_broker", "_offset", "partition", "result", "wait")

    def __init__(self, broker: Broker, partition: Partition, offset: int, result: DeleteRecordsPartitionResult) -> None:
        self._broker = broker
        self._offset = offset
        self.partition = partition
        self.result = result
        self.wait: tuple[Waits, Wait] | None = None

    def is_done(self) -> bool:
        """Notes in the result what holds now."""
        leader = self.partition.leader
        if leader is None:
            self.result.error_code, self.result.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, NO_LOW_WATERMARK
            return True
        try:
            reached = leader.low_watermark(self.partition.log.log_start_offset, self._is_alive)
        except KafkaError as error:  # it moves to another disk, or its own fails: time may be over before that is
            self.result.error_code, self.result.low_watermark = error.code, NO_LOW_WATERMARK
            return False
        self.result.low_watermark = reached
        self.result.error_code = ErrorCode.NONE if reached >= self._offset else ErrorCode.REQUEST_TIMED_OUT
        return reached >= self._offset

    def _is_alive(self, replica: int) -> bool:
        broker = self._broker.image.brokers.get(replica)
        return broker is not None and not broker.fenced

    def look_again(self, look: Waiter) -> None:
        """Call `look` when a follower's log begins there."""
        assert self.partition.leader is not None
        waits = self.partition.leader.deletions
        self.wait = waits, waits.add(self._offset, look)

    def cancel(self) -> None:
        if self.wait is not None:
            waits, wait = self.wait
            waits.cancel(wait)


class _Deleting:
    """A request that waits for followers, at most as long as it says."""

    def __init__(self, response: DeleteRecordsResponse, timeout_ms: int, pending: list[_Deletion]) -> None:
        self._response = response
        self._pending = dict.fromkeys(pending)
        loop = asyncio.get_running_loop()
        self.future: asyncio.Future[DeleteRecordsResponse] = loop.create_future()
        self.future.add_done_callback(self._clean_up)
        self._timer = loop.call_later(max(0, timeout_ms) / 1000, self._time_out)
        for deletion in pending:
            deletion.look_again(partial(self._look, deletion))

    def _look(self, deletion: _Deletion) -> None:
        if not deletion.is_done():
            deletion.look_again(partial(self._look, deletion))
            return
        del self._pending[deletion]
        if not self._pending:
            self._finish()

    def _time_out(self) -> None:
        for deletion in self._pending:
            deletion.is_done()
        self._finish()

    def _finish(self) -> None:
        if not self.future.done():
            self.future.set_result(self._response)

    def _clean_up(self, _: object) -> None:
        self._timer.cancel()
        for deletion in self._pending:
            deletion.cancel()
