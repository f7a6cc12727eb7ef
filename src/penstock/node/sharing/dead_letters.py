"""Writes the dead letters of share groups (KIP-1191), to whoever leads the partition that they go to.

Those of one share partition go one batch after the other, and to partition p of a topic with n go those of partition
p mod n, as in Kafka. Once a batch is written, or has been tried `ATTEMPTS` times, its records are finished: where it
could not be written the log says so, and the records are in their topic alone. A misconfigured topic is not tried.

A letter may be there twice: an answer that is lost is one more attempt, and a leader that takes over writes what the
one before has not reported. Such a letter says that it may repeat another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Counts
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.effective import topic_text
from penstock.metadata.resources import ResourceType
from penstock.node.coordinators.host import HostContext
from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.counts import OTHER
from penstock.node.partitions.partition import Later
from penstock.node.sharing.dead_letter_topics import create, why_not
from penstock.node.sharing.group_settings import GroupSettings
from penstock.node.sharing.letter_batches import Letter, Origin, letter_batch, records_in
from penstock.node.sharing.shared import Shared
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from penstock.protocol.records import Record, iterate_batches
from penstock.sharing.dead_letters import DeadLetter
from penstock.sharing.values import Status

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 5
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
"""A pause is twice as long as the one before, and a fifth longer or shorter by chance."""
JITTER: Final = 0.2
MOST_READ: Final = 1024 * 1024
"""Bytes that are read of the log at once, but for a single batch that is larger."""
TIMEOUT_MS: Final = 30_000
NAMED_GROUPS: Final = 1_000
LONGEST_NAME: Final = 256
"""Characters of a group that is counted by its name."""
SAY_AGAIN_S: Final = 60.0
"""Of one group the log says the same no sooner."""

AGAIN: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
Buried = Callable[[Shared, Sequence[DeadLetter]], None]


class LettersCounted:
    """By group, for those that had dead letters last. The others share an entry, so that a total never falls."""

    def __init__(self, most: int = NAMED_GROUPS) -> None:
        self.records: Counts[str] = Counts()
        self.requests: Counts[str] = Counts()
        self.failed: Counts[str] = Counts()
        self._most = most
        self._named: dict[str, None] = {}

    def name_of(self, group_id: str) -> str:
        """By which it is counted now."""
        if len(group_id) > LONGEST_NAME:
            return OTHER
        self._named.pop(group_id, None)
        self._named[group_id] = None
        if len(self._named) > self._most:
            oldest = next(iter(self._named))
            del self._named[oldest]
            for counts in (self.records, self.requests, self.failed):
                if oldest in counts:
                    counts[OTHER] += counts.pop(oldest)
        return group_id


class _Place(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int
    leader: int
    max_bytes: int


class DeadLetterWriter:
    """`buried` is called with what is written, or cannot be; not where another node leads by then."""

    def __init__(
        self, config: BrokerConfig, context: HostContext, settings: GroupSettings, random: Random, buried: Buried
    ) -> None:
        self.counted = LettersCounted()
        self._config = config
        self._context = context
        self._settings = settings
        self._random = random
        self._buried = buried
        self._waiting: dict[Shared, list[DeadLetter]] = {}
        self._tasks = Tasks()
        self._said: dict[tuple[str, str], float] = {}
        """When the log last said what of which group."""

    async def stop(self) -> None:
        """The next leaders write what is not written."""
        await self._tasks.stop()

    def bury(self, shared: Shared, letters: Sequence[DeadLetter]) -> None:
        waiting = self._waiting.get(shared)
        if waiting is not None:
            waiting += letters
            return
        self._waiting[shared] = list(letters)
        self._tasks.start(self._bury_all(shared), f"dead letters of {shared.key.text}")

    async def _bury_all(self, shared: Shared) -> None:
        try:
            while letters := self._waiting[shared]:
                self._waiting[shared] = []
                await self._bury(shared, letters)
                if shared.machine.status is Status.ACTIVE:
                    self._buried(shared, letters)
        finally:
            del self._waiting[shared]

    async def _bury(self, shared: Shared, letters: Sequence[DeadLetter]) -> None:
        """Until all are written, or cannot be."""
        in_order = sorted(letters, key=attrgetter("first"))  # as they lie in the log, from where they are copied
        left = [Letter(offset, it) for it in in_order for offset in range(it.first, it.last + 1)]
        while left and shared.machine.status is Status.ACTIVE:
            try:
                left = left[await self._write_some(shared, left) :]
            except KafkaError as error:
                self._give_up(shared, len(left), left[0].offset, error)
                return

    async def _write_some(self, shared: Shared, letters: Sequence[Letter]) -> int:
        """How many of the first are written. KafkaError if none could be."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._try(shared, letters, may_repeat=attempt > 1)
            except KafkaError as error:
                if error.code not in AGAIN or attempt == ATTEMPTS or shared.machine.status is not Status.ACTIVE:
                    raise
            await asyncio.sleep(self._pause_s(attempt))
        raise AssertionError("the last attempt has returned or raised")

    def _pause_s(self, attempt: int) -> float:
        pause_s: float = min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S)
        return pause_s * (1 + self._random.uniform(-JITTER, JITTER))

    def _give_up(self, shared: Shared, count: int, offset: int, error: KafkaError) -> None:
        group, topic = shared.key.group_id, shared.partition.topic
        self.counted.failed[self.counted.name_of(group)] += 1
        now_s = asyncio.get_running_loop().time()
        what = (group, f"{topic} {error}")
        if self._said.get(what, -SAY_AGAIN_S) + SAY_AGAIN_S > now_s:
            return
        self._said = {it: at for it, at in self._said.items() if at + SAY_AGAIN_S > now_s} | {what: now_s}
        logger.error(
            "share group %s: %d records of %s-%d from offset %d on were given up without a dead letter; they are in"
            " their topic alone: %s",
            group,
            count,
            topic,
            shared.key.partition,
            offset,
            error,
        )

    # one attempt

    async def _try(self, shared: Shared, letters: Sequence[Letter], *, may_repeat: bool) -> int:
        group_id = shared.key.group_id
        place = await self._place(shared)
        letters, sources = await self._sources(shared, letters)
        now_ms = self._context.now_ms()
        origin = Origin(shared.partition.topic, shared.key.partition, group_id, now_ms - shared.now_ms())
        pack = partial(letter_batch, letters, sources, origin, now_ms, place.max_bytes, may_repeat=may_repeat)
        batch, count = await asyncio.get_running_loop().run_in_executor(None, pack)
        self.counted.requests[self.counted.name_of(group_id)] += 1
        await self._produce(place, batch)
        self.counted.records[self.counted.name_of(group_id)] += count
        return count

    async def _place(self, shared: Shared) -> _Place:
        """Where the letters go; a topic that is missing is made. Raises KafkaError."""
        group_id, image, config = shared.key.group_id, self._context.image, self._config
        name = self._settings.of(group_id).dead_letter_topic
        reason = why_not(name, shared.partition.topic, image, config)
        if reason is not None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, reason)
        if name not in image.topics:
            await create(name, self._context.errands)
        topic = image.topics.get(name)
        if topic is None or not topic.partitions:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"the topic {name} was made just now")
        index = shared.key.partition % len(topic.partitions)
        leader = self._context.errands.leader_of(name, index)
        text = topic_text(image.config_of(ResourceType.TOPIC, name), config.layers, "max.message.bytes")
        return _Place(name, topic.topic_id, index, leader, int(text or 0))

    async def _sources(self, shared: Shared, letters: Sequence[Letter]) -> tuple[Sequence[Letter], dict[int, Record]]:
        """The first of the letters, and what the log has of these where the group copies records."""
        if not self._settings.of(shared.key.group_id).copies_dead_letters:
            return letters, {}
        begin = shared.partition.log_start_offset
        if letters[0].offset < begin:
            return [it for it in letters if it.offset < begin], {}
        data = await self._read(shared, letters[0].offset)
        ends = [it.last_offset for _, it in iterate_batches(data)]
        if not ends or ends[-1] < letters[0].offset:
            return letters, {}  # compaction or retention took them
        some = [it for it in letters if it.offset <= ends[-1]]
        look = partial(records_in, data, [it.offset for it in some])
        found, last = await asyncio.get_running_loop().run_in_executor(None, look)
        return [it for it in some if it.offset <= last], found

    async def _read(self, shared: Shared, offset: int) -> bytes:
        """Whole batches from there on; nothing where they cannot be read."""
        partition = shared.partition
        try:
            for _ in range(ATTEMPTS):
                upper = partition.high_watermark
                found = partition.read(offset, MOST_READ, upper_offset=upper, at_least_one_batch=True)
                if not isinstance(found, Later):
                    return bytes(partition.log.bytes_of(found))
                here = asyncio.Event()
                found.waits.add(found.offset, here.set)
                await here.wait()
        except KafkaError as error:
            logger.warning("dead letters of %s have no copies of records: %s", shared.key.text, error)
        return b""

    async def _produce(self, place: _Place, batch: bytes) -> None:
        """With acks=all. Raises KafkaError."""
        partition = PartitionProduceData(index=place.partition, records=batch)
        topic = TopicProduceData(topic_id=place.topic_id, name=place.topic, partition_data=[partition])
        request = ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic])
        answer = await self._context.errands.ask_broker(place.leader, request, ProduceResponse, lane="dead letters")
        for response in answer.responses:
            for it in response.partition_responses:
                if it.error_code != ErrorCode.NONE:
                    reason = f"the topic {place.topic} takes no dead letter: {it.error_message or ''}".rstrip(": ")
                    raise KafkaError(ErrorCode(it.error_code), reason)
                return
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {place.leader} does not say what it has written")
