"""Markers on their way to the leaders of partitions: those for one broker go together, one request after the other."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from penstock.coordinator.effects import Markers
from penstock.node.environment.tasks import Tasks
from penstock.protocol.errors import ErrorCode, KafkaError, error_code
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

logger = logging.getLogger(__name__)

Partition = tuple[str, int]
Errors = dict[Partition, ErrorCode]

MOST_PARTITIONS: Final = 1_000
"""That one request names, but for a single transaction in more."""


class Brokers(Protocol):
    """`Errands`."""

    def leader_of(self, name: str, partition: int) -> int: ...

    async def ask_broker(
        self, broker_id: int, request: WriteTxnMarkersRequest, answer: type[WriteTxnMarkersResponse], *, lane: str
    ) -> WriteTxnMarkersResponse: ...


class _Waiting:
    """A marker for partitions that one broker leads."""

    __slots__ = ("answer", "marker", "partitions")

    def __init__(self, job: Markers, partitions: list[Partition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        self.partitions = partitions
        self.marker = WritableTxnMarker(
            producer_id=job.producer_id,
            producer_epoch=job.producer_epoch,
            transaction_result=job.commits,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=them) for name, them in topics.items()],
            coordinator_epoch=job.coordinator_epoch,
            transaction_version=job.transaction_version,
        )
        self.answer: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()


class MarkerSender:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._queues: dict[int, deque[_Waiting]] = {}
        """By broker, what has not been sent. An empty one means that a request is on its way."""
        self._tasks = Tasks()

    async def written(self, job: Markers) -> Errors:
        """What became of the marker at each partition, after one try."""
        errors: Errors = {}
        leaders: dict[int, list[Partition]] = {}
        for partition in job.partitions:
            try:
                leaders.setdefault(self._brokers.leader_of(*partition), []).append(partition)
            except KafkaError as error:
                errors[partition] = error.code
        sent = [self._queue(leader, _Waiting(job, partitions)) for leader, partitions in leaders.items()]
        try:
            for answer in sent:
                errors |= await answer
        finally:
            for answer in sent:  # another broker coordinates: it sends what is left
                answer.cancel()
        return errors

    async def stop(self) -> None:
        await self._tasks.stop()

    def _queue(self, broker_id: int, waiting: _Waiting) -> asyncio.Future[Errors]:
        if broker_id in self._queues:
            self._queues[broker_id].append(waiting)
        else:
            self._queues[broker_id] = deque([waiting])
            self._tasks.start(self._send_all(broker_id), f"markers for broker {broker_id}")
        return waiting.answer

    async def _send_all(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        try:
            while queue:
                some = _taken_from(queue)
                if some:
                    await self._send(broker_id, some)
        finally:
            del self._queues[broker_id]

    async def _send(self, broker_id: int, some: list[_Waiting]) -> None:
        request = WriteTxnMarkersRequest(markers=[waiting.marker for waiting in some])
        answers: dict[tuple[int, str, int], ErrorCode] = {}
        try:
            response = await self._brokers.ask_broker(broker_id, request, WriteTxnMarkersResponse, lane="markers")
        except KafkaError as error:
            otherwise = error.code
        except Exception:
            logger.exception("markers for broker %d failed by our own fault", broker_id)
            otherwise = ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            otherwise = ErrorCode.NETWORK_EXCEPTION
            answers = {
                (marker.producer_id, topic.name, it.partition_index): _as_leaders_say(error_code(it.error_code))
                for marker in response.markers
                for topic in marker.topics
                for it in topic.partitions
            }
        _settle(some, answers, otherwise)


def _taken_from(queue: deque[_Waiting]) -> list[_Waiting]:
    """Those that nobody waits for any more are left out: another broker coordinates."""
    some: list[_Waiting] = []
    left, producers = MOST_PARTITIONS, set[int]()
    while queue and queue[0].marker.producer_id not in producers and (not some or len(queue[0].partitions) <= left):
        waiting = queue.popleft()
        if not waiting.answer.done():
            some.append(waiting)
            producers.add(waiting.marker.producer_id)
            left -= len(waiting.partitions)
    return some


def _settle(some: list[_Waiting], answers: dict[tuple[int, str, int], ErrorCode], otherwise: ErrorCode) -> None:
    for waiting in some:
        producer_id = waiting.marker.producer_id
        errors = {it: answers.get((producer_id, *it), otherwise) for it in waiting.partitions}
        if not waiting.answer.done():
            waiting.answer.set_result(errors)


def _as_leaders_say(code: ErrorCode) -> ErrorCode:
    """A broker that does not know the partition may know it soon; whether it is gone, the metadata here say."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else code
