"""What share partitions know is kept by share coordinators, which are asked here: by their keys, over the wire.

A partition has one write under way at a time: what comes meanwhile goes with the next. What is due for one coordinator
goes together, a request for each group, and the next when all of these are answered. Where that is this node itself,
writes are put to its machines, without a request: each acknowledgement of a member is one.

| error of a coordinator                                                          | what happens                     |
| ------------------------------------------------------------------------------- | -------------------------------- |
| COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR        | again, to whoever coordinates it |
| NETWORK_EXCEPTION, REQUEST_TIMED_OUT                                            | the same                         |
| FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH                                         | NOT_LEADER_OR_FOLLOWER           |
| GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION                                  | the caller is told               |
| any other                                                                       | UNKNOWN_SERVER_ERROR             |

The first two end as COORDINATOR_NOT_AVAILABLE after `ATTEMPTS`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.coordinator.share.records import SharePartitionKey
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.coordinators.errands import Errands
from penstock.node.environment.tasks import Tasks
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.protocol.messages import read_share_group_state as reading
from penstock.protocol.messages import read_share_group_state_summary as summarizing
from penstock.protocol.messages import write_share_group_state as writing
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.value import Value
from penstock.sharing.in_flight import RecordState
from penstock.sharing.keys import ShareKey
from penstock.sharing.values import NOT_WRITTEN, StateBatch, Write, Written

if TYPE_CHECKING:
    from penstock.coordinator.shards.shares import ShareShard
    from penstock.node.coordinators.hosted import Hosted
    from penstock.node.coordinators.shares import ShareCoordinator

SHARE_KEYS: Final = 2
"""As FindCoordinator counts the types."""
MOST_TOGETHER: Final = 100
"""Share partitions whose states are written together, or read at once."""
MOST_BATCHES: Final = 250
"""Of one share partition that several writes have together, and of all that are written in a turn of the loop."""
ATTEMPTS: Final = 8
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
"""A pause is twice as long as the one before, and a fifth longer or shorter by chance."""
JITTER: Final = 0.2

AGAIN: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
TOLD: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class Epochs(Value):
    """Who writes: what a coordinator fences by."""

    leader_epoch: int
    state_epoch: int


@dataclass(slots=True)
class _Queue:
    """What one share partition has to write."""

    key: ShareKey
    waiting: list[tuple[Epochs, Write, asyncio.Future[None]]] = field(default_factory=list)
    attempts: int = 0

    @property
    def count(self) -> int:
        """How many may go together: a leader's, and not those of its next term, nor too many batches."""
        first, batches = self.waiting[0][0], 0
        for at, (epochs, write, _) in enumerate(self.waiting):
            batches += len(write.batches)
            if at and (epochs != first or batches > MOST_BATCHES):
                return at
        return len(self.waiting)

    @property
    def batches(self) -> int:
        """Of what may go together."""
        return sum(len(write.batches) for _, write, _ in self.waiting[: self.count])


class Persister:
    """`own` is the share coordinator of this node."""

    def __init__(
        self,
        node_id: int,
        image: ClusterImage,
        errands: Errands,
        random: Random,
        own: Callable[[], ShareCoordinator],
    ) -> None:
        self._node_id = node_id
        self._own = own
        self._image = image
        self._errands = errands
        self._random = random
        self._queues: dict[ShareKey, _Queue] = {}
        self._due: dict[int, list[_Queue]] = {}
        """By coordinator, what goes with the next request; NOBODY, where it is still to be found."""
        self._tasks = Tasks()
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._has_stopped = False
        self._reading = asyncio.Semaphore(MOST_TOGETHER)

    async def stop(self) -> None:
        """What is not written will not be: the next leader of the partition goes on from what is."""
        self._has_stopped = True
        tasks = list(self._senders.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            for _, _, written in queue.waiting:
                written.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker stops"))

    # reading

    async def read(self, key: ShareKey, leader_epoch: int) -> Written:
        """What is known of a share partition; it fences leaders before. Raises KafkaError."""
        partition = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=key.topic_id, partitions=[partition])
        request = reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=[topic])
        for attempt in range(ATTEMPTS):
            try:
                async with self._reading:
                    coordinator = await self._find(key)
                    answer = await self._errands.ask_broker(coordinator, request, reading.ReadShareGroupStateResponse)
                return _read(answer, key)
            except KafkaError as error:
                if error.code not in AGAIN:
                    raise _told(error) from error
            await asyncio.sleep(self._pause_s(attempt))
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no share coordinator answers for {key.text}")

    async def has_begun_anew(self, key: ShareKey, leader_epoch: int, state_epoch: int) -> bool:
        """Whether what this leader has read is not what there is any more: the group was deleted since. Not, where
        nobody answers.
        """
        partition = summarizing.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = summarizing.ReadStateSummaryData(topic_id=key.topic_id, partitions=[partition])
        request = summarizing.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[topic])
        try:
            async with self._reading:
                coordinator = await self._find(key)
                answer = await self._errands.ask_broker(
                    coordinator, request, summarizing.ReadShareGroupStateSummaryResponse
                )
        except KafkaError:
            return False
        return any(
            it.error_code == ErrorCode.NONE
            and (it.start_offset == NOT_WRITTEN or (it.leader_epoch, it.state_epoch) != (leader_epoch, state_epoch))
            for result in answer.results
            for it in result.partitions
        )

    # writing

    def write(self, key: ShareKey, epochs: Epochs, write: Write) -> asyncio.Future[None]:
        """Done when it is written down; raises KafkaError if it is not, or nobody knows."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(key)
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiting.append((epochs, write, written))
        if len(queue.waiting) == 1:
            self._send_later(queue)
        return written

    def _send_later(self, queue: _Queue) -> None:
        """With what else is due for its coordinator, in the next turn of the loop."""
        if self._has_stopped:
            return
        coordinator = self._known(queue.key)
        due = self._due.setdefault(coordinator, [])
        due.append(queue)
        if coordinator == self._node_id:
            if len(due) == 1:
                asyncio.get_running_loop().call_soon(self._write_here)
        elif coordinator not in self._senders:
            self._senders[coordinator] = self._tasks.start(self._send(coordinator), "write share group states")

    async def _send(self, coordinator: int) -> None:
        """Have all written that is due, until nothing is."""
        try:
            while coordinator in self._due:
                groups: dict[str, list[_Queue]] = {}
                for queue in self._taken(coordinator):
                    groups.setdefault(queue.key.group_id, []).append(queue)
                await asyncio.gather(*(self._write(coordinator, group, it) for group, it in groups.items()))
        finally:
            del self._senders[coordinator]

    def _write_here(self) -> None:
        """Have written what is due for machines of this node."""
        if self._has_stopped:
            return
        asked: dict[Hosted[ShareShard], list[_Queue]] = {}
        taken = self._taken(self._node_id)
        if self._due.get(self._node_id):  # the rest; what comes from now on finds it
            asyncio.get_running_loop().call_soon(self._write_here)
        for queue in taken:
            try:
                asked.setdefault(self._own().find(queue.key.text), []).append(queue)
            except KafkaError as error:
                self._answered(queue, queue.count, error)
        for hosted, queues in asked.items():
            counts = [queue.count for queue in queues]
            told = hosted.ask(
                hosted.machine.write, [(SharePartitionKey(*queue.key), _together(queue)) for queue in queues]
            )
            if isinstance(told, asyncio.Future):
                told.add_done_callback(partial(self._written_here, queues, counts))
            else:
                self._told(queues, counts, told)

    def _taken(self, coordinator: int) -> list[_Queue]:
        """As much of what is due for it as one turn of the loop takes; the rest stays due."""
        due = self._due.pop(coordinator)
        batches = list(accumulate(queue.batches for queue in due[:MOST_TOGETHER]))
        taken = max(bisect_right(batches, MOST_BATCHES), 1)
        if len(due) > taken:
            self._due[coordinator] = due[taken:]
        return due[:taken]

    def _written_here(
        self, queues: Sequence[_Queue], counts: Sequence[int], told: asyncio.Future[Iterable[writing.PartitionResult]]
    ) -> None:
        if not self._has_stopped:
            self._told(queues, counts, told.result())

    def _told(
        self, queues: Sequence[_Queue], counts: Sequence[int], results: Iterable[writing.PartitionResult]
    ) -> None:
        for queue, count, it in zip(queues, counts, results, strict=True):
            self._answered(queue, count, _error(it.error_code, it.error_message))

    async def _write(self, coordinator: int, group_id: str, queues: Sequence[_Queue]) -> None:
        counts = [queue.count for queue in queues]
        topics: dict[UUID, writing.WriteStateData] = {}
        for queue in queues:
            topic_id = queue.key.topic_id
            topic = topics.setdefault(topic_id, writing.WriteStateData(topic_id=topic_id))
            topic.partitions.append(_together(queue))
        request = writing.WriteShareGroupStateRequest(group_id=group_id, topics=list(topics.values()))
        told: dict[ShareKey, KafkaError] = {}
        unsaid = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the share coordinator does not say")
        try:
            if coordinator == NOBODY:
                coordinator = await self._find(queues[0].key)
            answer = await self._errands.ask_broker(coordinator, request, writing.WriteShareGroupStateResponse)
            for result in answer.results:
                for it in result.partitions:
                    key = ShareKey(group_id, result.topic_id, it.partition)
                    told[key] = _error(it.error_code, it.error_message)
        except KafkaError as error:
            unsaid = error
        for queue, count in zip(queues, counts, strict=True):
            self._answered(queue, count, told.get(queue.key, unsaid))

    def _answered(self, queue: _Queue, count: int, error: KafkaError) -> None:
        """What the coordinator says of the first `count` writes."""
        queue.attempts += 1
        if error.code in AGAIN and queue.attempts < ATTEMPTS:
            asyncio.get_running_loop().call_later(self._pause_s(queue.attempts - 1), self._send_later, queue)
            return
        done = queue.waiting[:count]
        del queue.waiting[:count]
        queue.attempts = 0
        if queue.waiting:
            self._send_later(queue)
        else:
            del self._queues[queue.key]
        for _, _, written in done:
            if error.code == ErrorCode.NONE:
                written.set_result(None)
            else:
                written.set_exception(_told(error))

    # who keeps it

    def _known(self, key: ShareKey) -> int:
        """The coordinator of a share partition as the metadata have it, or NOBODY."""
        topic = self._image.topics.get(SHARE_GROUP_STATE)
        if topic is None:
            return NOBODY
        leader: int = topic.partitions[coordinator_partition(key.text, len(topic.partitions))].leader
        return leader

    async def _find(self, key: ShareKey) -> int:
        """The coordinator; the first question has its topic made. Raises KafkaError."""
        coordinator = self._known(key)
        if coordinator != NOBODY:
            return coordinator
        request = FindCoordinatorRequest(key_type=SHARE_KEYS, coordinator_keys=[key.text])
        answer = await self._errands.ask_broker(self._node_id, request, FindCoordinatorResponse)
        for found in answer.coordinators:
            if found.error_code == ErrorCode.NONE:
                node_id: int = found.node_id
                return node_id
            raise _error(found.error_code, found.error_message)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _pause_s(self, attempt: int) -> float:
        pause_s: float = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S)
        return pause_s * (1 + self._random.uniform(-JITTER, JITTER))


def _together(queue: _Queue) -> writing.PartitionData:
    """What goes together, as one write: the last says where the partition begins."""
    waiting = queue.waiting[: queue.count]
    epochs, last, _ = waiting[-1]
    return writing.PartitionData(
        partition=queue.key.partition,
        state_epoch=epochs.state_epoch,
        leader_epoch=epochs.leader_epoch,
        start_offset=last.start_offset,
        delivery_complete_count=last.delivery_complete_count,
        state_batches=[
            writing.StateBatch(
                first_offset=it.first,
                last_offset=it.last,
                delivery_state=it.state,
                delivery_count=it.delivery_count,
                held_until_ms=it.held_until_ms,
            )
            for _, write, _ in waiting
            for it in write.batches
        ],
    )


def _read(answer: reading.ReadShareGroupStateResponse, key: ShareKey) -> Written:
    for result in answer.results:
        for it in result.partitions:
            if (result.topic_id, it.partition) != (key.topic_id, key.partition):
                continue
            if it.error_code != ErrorCode.NONE:
                raise _error(it.error_code, it.error_message)
            batches = [
                StateBatch(
                    at.first_offset, at.last_offset, RecordState(at.delivery_state), at.delivery_count, at.held_until_ms
                )
                for at in it.state_batches
            ]
            return Written(it.start_offset, it.state_epoch, batches)
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the share coordinator does not say what it has of {key.text}")


def _error(code: int, message: str | None) -> KafkaError:
    known = code in ErrorCode.__members__.values()
    return KafkaError(ErrorCode(code) if known else ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _told(error: KafkaError) -> KafkaError:
    """As those who wait for it are told."""
    if error.code in AGAIN:
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no share coordinator answers: {error}")
    return KafkaError(TOLD.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), str(error))
