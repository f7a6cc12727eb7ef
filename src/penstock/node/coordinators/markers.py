"""Markers on their way to the leaders of partitions: those for one broker go together, one request after the other.

A broker may fall silent, or be cut off from this one alone. Nothing waits for it longer than it leads: as soon as the
metadata name another leader, the coordinator hears so, and sends the marker there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from penstock.coordinator.effects import Markers
from penstock.node.environment.tasks import Tasks
from penstock.protocol.errors import ErrorCode, KafkaError
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


class _Way:
    """To one broker, while there is something for it."""

    __slots__ = ("queue", "sender", "sent")

    def __init__(self, queue: deque[_Waiting]) -> None:
        self.queue = queue
        self.sent: list[_Waiting] = []
        """What the request has that is on its way."""
        self.sender: asyncio.Task[None] | None = None


class MarkerSender:
    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._ways: dict[int, _Way] = {}
        self._tasks = Tasks()

    async def written(self, job: Markers, tell: Callable[[Errors], Awaitable[None]]) -> Errors:
        """What became of the marker at each partition, after one try; `tell` hears at once what each broker answers,
        but for the last one.
        """
        errors: Errors = {}
        leaders: dict[int, list[Partition]] = {}
        for partition in job.partitions:
            try:
                leaders.setdefault(self._brokers.leader_of(*partition), []).append(partition)
            except KafkaError as error:
                errors[partition] = error.code
        sent = [self._queue(leader, _Waiting(job, partitions)) for leader, partitions in leaders.items()]
        try:
            while sent:
                if errors:
                    await tell(errors)
                    errors = {}
                await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
                for answer in [it for it in sent if it.done()]:
                    errors |= answer.result()
                    sent.remove(answer)
            return errors
        finally:
            for answer in sent:  # another broker coordinates: it sends what is left
                answer.cancel()

    def follow(self) -> None:
        """Leaders have changed."""
        for broker_id, way in list(self._ways.items()):
            for waiting in way.sent:
                self._tell_if_moved(broker_id, waiting)
            if way.sender is not None and way.sent and all(waiting.answer.done() for waiting in way.sent):
                way.sender.cancel()
                del self._ways[broker_id]
                if way.queue:
                    self._begin(broker_id, way.queue)

    def _tell_if_moved(self, broker_id: int, waiting: _Waiting) -> None:
        """Where other brokers lead all of its partitions now, who waits is told so."""
        if not waiting.answer.done() and not any(self._leads(broker_id, it) for it in waiting.partitions):
            waiting.answer.set_result(dict.fromkeys(waiting.partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER))

    def _leads(self, broker_id: int, partition: Partition) -> bool:
        try:
            return self._brokers.leader_of(*partition) == broker_id
        except KafkaError:
            return False

    async def stop(self) -> None:
        await self._tasks.stop()

    def _queue(self, broker_id: int, waiting: _Waiting) -> asyncio.Future[Errors]:
        if broker_id in self._ways:
            self._ways[broker_id].queue.append(waiting)
        else:
            self._begin(broker_id, deque([waiting]))
        return waiting.answer

    def _begin(self, broker_id: int, queue: deque[_Waiting]) -> None:
        way = self._ways[broker_id] = _Way(queue)
        way.sender = self._tasks.start(self._send_all(broker_id, way), f"markers for broker {broker_id}")

    async def _send_all(self, broker_id: int, way: _Way) -> None:
        try:
            while way.queue:
                way.sent = self._taken_from(way.queue, broker_id)
                if way.sent:
                    await self._send(broker_id, way.sent)
                else:
                    await asyncio.sleep(0)
        finally:
            if self._ways.get(broker_id) is way:
                del self._ways[broker_id]

    def _taken_from(self, queue: deque[_Waiting], broker_id: int) -> list[_Waiting]:
        """Those that nobody waits for any more, or that have to go elsewhere, are left out."""
        some: list[_Waiting] = []
        left, producers, taken = MOST_PARTITIONS, set[int](), 0
        while (
            queue and queue[0].marker.producer_id not in producers and (not taken or len(queue[0].partitions) <= left)
        ):
            waiting = queue.popleft()
            taken += 1
            left -= len(waiting.partitions)
            self._tell_if_moved(broker_id, waiting)
            if not waiting.answer.done():
                some.append(waiting)
                producers.add(waiting.marker.producer_id)
        return some

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
                (marker.producer_id, topic.name, it.partition_index): _as_leaders_say(ErrorCode(it.error_code))
                for marker in response.markers
                for topic in marker.topics
                for it in topic.partitions
            }
        _settle(some, answers, otherwise)


def _settle(some: list[_Waiting], answers: dict[tuple[int, str, int], ErrorCode], otherwise: ErrorCode) -> None:
    for waiting in some:
        producer_id = waiting.marker.producer_id
        errors = {it: answers.get((producer_id, *it), otherwise) for it in waiting.partitions}
        if not waiting.answer.done():
            waiting.answer.set_result(errors)


def _as_leaders_say(code: ErrorCode) -> ErrorCode:
    """A broker that does not know the partition may know it soon; whether it is gone, the metadata here say."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else code
