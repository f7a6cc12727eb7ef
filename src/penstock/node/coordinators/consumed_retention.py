"""Deletes what all groups have consumed, from partitions that this broker leads and whose topic has
`retention.consumed`.

Upkeep names a partition when it has looked after its log. All coordinators are asked about its topic, this broker as
well; what they say is judged in `replication/consumed.py`, and the log begins later, as by DeleteRecords. One topic is
asked about at a time, and where a coordinator does not answer nothing goes until the next look.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from penstock.node.coordinators.host import HostContext
from penstock.node.environment.event_loop import steady_clock
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.partition import Partition
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from penstock.protocol.requests.own_apis import CommittedPositionsRequest, CommittedPositionsResponse
from penstock.replication.consumed import Answer, Consumption, Positions, Question, Shard, new_start

logger = logging.getLogger(__name__)

COORDINATORS: Final = {CONSUMER_OFFSETS: 0, SHARE_GROUP_STATE: 2}
"""By the topic on which they live, the type of the keys of all coordinators that know what groups have consumed."""


class ConsumedRetention:
    def __init__(self, context: HostContext, on_log_start_moved: Callable[[Partition], None]) -> None:
        self._context = context
        self._on_log_start_moved = on_log_start_moved
        self._now_ms = steady_clock(context.now_ms)
        self._wanted: dict[UUID, dict[int, Partition]] = {}
        self._heard: dict[Partition, tuple[int, Consumption]] = {}
        """With the epoch in which it was heard."""
        self._tasks = Tasks()

    async def stop(self) -> None:
        await self._tasks.stop()

    def look_at(self, partition: Partition) -> None:
        """Soon, and in the background."""
        if _may_begin_later(partition):
            self._wanted.setdefault(partition.topic_id, {})[partition.index] = partition
            if not self._tasks:
                self._tasks.start(self._look(), "retention of what was consumed")

    async def _look(self) -> None:
        while self._wanted:
            topic_id = next(iter(self._wanted))
            try:
                positions = await self.positions(topic_id)
            except KafkaError as error:
                name = next(iter(self._wanted[topic_id].values())).topic
                logger.info("nothing that was consumed goes from %s now: %s", name, error)
                del self._wanted[topic_id]
                continue
            for partition in self._wanted.pop(topic_id).values():
                await asyncio.sleep(0)  # there may be many groups, and partitions
                try:
                    self._follow(partition, positions)
                except KafkaError as error:
                    logger.error("%s: what was consumed stays: %s", partition, error)
        self._heard = {one: heard for one, heard in self._heard.items() if self._leads(one)}

    async def positions(self, topic_id: UUID) -> Positions:
        """What all groups have committed in a topic. Raises KafkaError where a coordinator does not answer."""
        question, image = Question(), self._context.image
        asked: dict[tuple[int, str], None] = {}
        for topic, index in self._shards():
            asked[image.topics[topic].partitions[index].leader, topic] = None
        answers = await asyncio.gather(*(self._ask(broker_id, topic, topic_id) for broker_id, topic in asked))
        for (_, topic), answer in zip(asked, answers, strict=True):
            for one in answer.coordinated:
                await asyncio.sleep(0)
                groups = {it.group_id: {place.partition: place.offset for place in it.positions} for it in one.groups}
                question.answered((topic, one.partition), Answer(one.leader_epoch, answer.partition_count, groups))
        return question.positions(self._shards())

    async def _ask(self, broker_id: int, topic: str, topic_id: UUID) -> CommittedPositionsResponse:
        """Of no shard where it does not answer."""
        request = CommittedPositionsRequest(topic_id=topic_id, key_type=COORDINATORS[topic])
        try:
            return await self._context.errands.ask_broker(broker_id, request, CommittedPositionsResponse)
        except KafkaError as error:
            logger.info("broker %d does not say what groups have consumed: %s", broker_id, error)
            return CommittedPositionsResponse()

    def _shards(self) -> dict[Shard, int]:
        """With their leader epochs."""
        topics = self._context.image.topics
        return {
            (name, index): partition.leader_epoch
            for name in COORDINATORS
            if name in topics
            for index, partition in topics[name].partitions.items()
        }

    def _follow(self, partition: Partition, positions: Positions) -> None:
        """The partition may have changed while the coordinators were asked."""
        config, log = partition.log.config, partition.log
        if not (self._leads(partition) and _may_begin_later(partition)):
            return
        epoch, heard = self._heard.get(partition, (-1, None))
        if heard is None or epoch != partition.leader_epoch:
            heard = Consumption(partition.index)
            self._heard[partition] = partition.leader_epoch, heard
        consumed_to = heard.consumed_to(positions, config.retention_consumed_grace_ms, self._now_ms())
        start = new_start(consumed_to, log.log_start_offset, partition.high_watermark, partition.last_stable_offset)
        if start > log.log_start_offset:
            partition.delete_before(start)
            self._on_log_start_moved(partition)

    def _leads(self, partition: Partition) -> bool:
        table = self._context.partitions
        return (
            table.get(partition.topic_id, partition.index) is partition
            and partition.leader is not None
            and self._context.may_lead(partition)
        )


def _may_begin_later(partition: Partition) -> bool:
    config = partition.log.config
    return config.retention_consumed and config.deletes and not partition.is_internal and partition.leader is not None
