"""WriteTxnMarkers 1-2: the coordinator of transactions ends them in the partitions that are led here.

A marker is appended as with acks=all, and told when all replicas in sync have it, or after `request.timeout.ms`. One
for a partition of `__consumer_offsets` goes to the coordinator of its groups, which knows of offsets that wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from penstock.coordinator.effects import End, Part
from penstock.log.validation import COORDINATOR
from penstock.node.partitions.partition import ALL_REPLICAS, Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.batch import read_header
from penstock.protocol.control.records import ControlType, transaction_marker
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_A_STEP: Final = 10
OF_GROUPS: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""Errors that a coordinator of transactions does not expect: to it, another node leads the partition."""


def write_txn_markers(
    broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest
) -> Steps[WriteTxnMarkersResponse]:
    response, waiting, pace = WriteTxnMarkersResponse(), list[Awaitable[None]](), Pace(MARKERS_A_STEP)
    for marker in request.markers:
        answered = WritableTxnMarkerResult(producer_id=marker.producer_id)
        response.markers.append(answered)
        for topic in marker.topics:
            results = WritableTxnMarkerTopicResult(name=topic.name)
            answered.topics.append(results)
            for index in topic.partition_indexes:
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                results.partitions.append(result)
                try:
                    later = _write(broker, marker, topic.name, index, result)
                except KafkaError as error:
                    result.error_code = error.code
                else:
                    if later is not None:
                        waiting.append(later)
                if pace.is_due():
                    yield None
    if waiting:
        yield _all(waiting, broker.config.request_timeout_ms / 1000)
    return response


async def _all(waiting: list[Awaitable[None]], timeout_s: float) -> None:
    """Each writes its own result; what does not end in time has one already."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        await asyncio.wait(tasks, timeout=timeout_s)
    finally:
        for task in tasks:
            task.cancel()


def _write(
    broker: Broker, marker: WritableTxnMarker, topic: str, index: int, result: WritableTxnMarkerPartitionResult
) -> Awaitable[None] | None:
    """None if the result is there already. Raises KafkaError."""
    partition = broker.partition(topic, index)
    broker.check_leader(partition)
    kind = ControlType.COMMIT if marker.transaction_result else ControlType.ABORT
    now_ms = broker.now_ms()
    batch = memoryview(
        transaction_marker(
            kind,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=now_ms,
        )
    )
    partition.check_marker(read_header(batch), marker.coordinator_epoch, marker.transaction_version)
    if topic == CONSUMER_OFFSETS:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return _of_groups(broker, marker, index, result)
    appended = partition.append(batch, acks=ALL_REPLICAS, now_ms=now_ms, origin=COORDINATOR)
    if partition.high_watermark > appended.last_offset:
        return None
    result.error_code = ErrorCode.REQUEST_TIMED_OUT
    return _replicated(partition, appended.last_offset, result)


async def _replicated(partition: Partition, last_offset: int, result: WritableTxnMarkerPartitionResult) -> None:
    leader_epoch = partition.leader_epoch
    while partition.leader is not None and partition.leader_epoch == leader_epoch:
        if partition.high_watermark > last_offset:
            result.error_code = ErrorCode.NONE
            return
        moved = asyncio.Event()
        wait = partition.committed.waits.add(last_offset + 1, moved.set)
        try:
            await moved.wait()
        finally:
            partition.committed.waits.cancel(wait)
    result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def _of_groups(
    broker: Broker, marker: WritableTxnMarker, index: int, result: WritableTxnMarkerPartitionResult
) -> None:
    hosted = broker.groups.hosted(index)
    if hosted is None or not hosted.is_serving or hosted.is_paused:
        result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return
    end = End(marker.coordinator_epoch, marker.transaction_result)
    ended = hosted.ask(hosted.machine.end_transaction, Part(marker.producer_id, marker.producer_epoch, end))
    code = await ended if isinstance(ended, asyncio.Future) else ended
    result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER if code in OF_GROUPS else code
