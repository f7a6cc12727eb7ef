"""Keeps the replicas in sync of the partitions that this broker leads: what comes in, what goes, what is settled.

| event                             | what follows                                                              |
| --------------------------------- | ------------------------------------------------------------------------- |
| a follower fetches                | it is proposed if it has what a replica in sync has, and its broker is up |
| an append, a new leader           | its followers are looked after, until all of them have everything         |
| half of `replica.lag.time.max.ms` | those that lag for longer than the whole of it are proposed to go         |
| a proposal is refused             | it is taken back; another fetch or look proposes anew                     |
| its fate is not known             | it is asked for again, and counts until the metadata say otherwise        |

One request is under way to the controller at a time; all that is proposed meanwhile goes with the next one (KIP-497).
A partition whose followers have everything costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from uuid import UUID

from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.environment.signal import Signal
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.isr import IsrProposal, Watch, grown_isr, keeps_up, proposal
from penstock.replication.partition_leader import PartitionLeader

RETRY_S: Final = 0.1
JOINING_S: Final = 1.0
"""How often to see whether a follower that is waited for still comes."""
MOST_AT_ONCE: Final = 2_000
LOOKED_AT_ONCE: Final = 500
"""Partitions whose followers are looked at before the event loop gets to do something else."""
ANY_EPOCH: Final = -1

SETTLED: Final = (
    ErrorCode.NONE,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
)
"""Answers after which the metadata will say, or have said, what holds."""

logger = logging.getLogger(__name__)

Key = tuple[UUID, int]


class InSyncReplicas:
    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._image = context.image
        self._counts = context.node.counts
        self._now_ms = context.now_ms
        self._watched: dict[IsrPartition, Watch] = {}
        self._joining: dict[IsrPartition, None] = {}
        self._proposed: dict[Key, tuple[IsrPartition, IsrProposal]] = {}
        self._changed = asyncio.Event()
        self._tasks = Tasks()
        self.unwritable = Signal[IsrPartition]()
        """The disk had no room for what was to be appended to this one, or hangs: another replica in sync may have."""

    def start(self) -> None:
        self._tasks.keep(self._look, "look at followers")
        self._tasks.keep(self._look_at_joining, "look at followers that come in sync")
        self._tasks.keep(self._tell, "tell the controller of replicas in sync")

    async def stop(self) -> None:
        await self._tasks.stop()

    # -- what happens to a partition ----------------------------------------------------------------------------------

    def watch(self, partition: IsrPartition) -> None:
        if partition not in self._watched and partition.leader is not None:
            self._watched[partition] = Watch(partition.leader, self._now_ms())

    def has_changed(self, more: int) -> None:
        if more > 0:
            self._counts.isr_expands += 1
        else:
            self._counts.isr_shrinks += 1

    def fetched(self, partition: IsrPartition, replica: int) -> None:
        leader = partition.leader
        if leader is None:
            return
        state = leader.followers.get(replica)
        if state is None or not self._may_come_in(replica, state.broker_epoch):
            return
        isr = grown_isr(leader, replica)
        if isr is not None:
            self._propose(partition, isr)
        elif replica not in leader.joining and keeps_up(
            leader, replica, self._now_ms(), self._context.config.replica_lag_time_max_ms
        ):
            self._joining[partition] = None
            partition.on_joining((*leader.joining, replica))

    def refused(self, partition: IsrPartition) -> None:
        self.unwritable(partition)

    def _may_come_in(self, replica: int, broker_epoch: int) -> bool:
        """Not while its broker is fenced, shuts down or has restarted (KIP-841, KIP-903)."""
        broker = self._image.brokers.get(replica)
        return broker is not None and broker.active and broker_epoch in (ANY_EPOCH, broker.epoch)

    def _propose(self, partition: IsrPartition, isr: tuple[int, ...]) -> None:
        leader = partition.leader
        assert leader is not None
        leader.on_proposed(isr)
        wanted = proposal(leader, isr, self._context.broker_epoch)
        logger.info("%s: in sync shall be %s, not %s", partition, list(isr), list(leader.isr))
        self._proposed[partition.topic_id, partition.index] = partition, wanted
        self._changed.set()

    # -- who lags -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._context.config.replica_lag_time_max_ms / 2000)
            for number, partition in enumerate(list(self._watched)):
                try:
                    self._look_at(partition)
                except Exception:
                    logger.exception("%s: its followers could not be looked at", partition)
                if number % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                    await asyncio.sleep(0)

    def _look_at(self, partition: IsrPartition) -> None:
        leader = partition.leader
        watch = self._watched.get(partition)
        if leader is None or watch is None:
            self._watched.pop(partition, None)
            return
        isr = watch.shrunk_isr(leader, self._now_ms(), self._context.config.replica_lag_time_max_ms)
        if isr is not None:
            self._propose(partition, isr)
        elif watch.is_over(leader):
            del self._watched[partition]

    async def _look_at_joining(self) -> None:
        while True:
            await asyncio.sleep(JOINING_S)
            self.look_at_joining()

    def look_at_joining(self) -> None:
        """Wait no longer for followers that do not come: their broker is gone, or they lag."""
        for partition in list(self._joining):
            leader = partition.leader
            if leader is None or not leader.joining:
                del self._joining[partition]
                continue
            left = tuple(replica for replica in leader.joining if self._still_comes(leader, replica))
            if left != leader.joining:
                partition.on_joining(left)

    def _still_comes(self, leader: PartitionLeader, replica: int) -> bool:
        return keeps_up(
            leader, replica, self._now_ms(), self._context.config.replica_lag_time_max_ms
        ) and self._may_come_in(replica, leader.followers[replica].broker_epoch)

    # -- the controller -----------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._proposed:
                asked = {key: self._proposed.pop(key) for key in list(self._proposed)[:MOST_AT_ONCE]}
                try:
                    is_certain = await self._tell_of(asked)
                except Exception:
                    logger.exception("the controller could not be told of %d partitions", len(asked))
                    self._proposed = asked | self._proposed
                    is_certain = False
                if not is_certain:
                    await asyncio.sleep(RETRY_S)

    async def _tell_of(self, asked: dict[Key, tuple[IsrPartition, IsrProposal]]) -> bool:
        """Whether the fate of all of them is certain now, or will be when the metadata come."""
        answers, unknown = await self._ask(asked)
        told = [
            self._answered(partition, wanted, *answers.get(key, (unknown, ANY_EPOCH)))
            for key, (partition, wanted) in asked.items()
        ]
        return all(told)

    def _answered(self, partition: IsrPartition, wanted: IsrProposal, code: ErrorCode, partition_epoch: int) -> bool:
        """Whether the fate of a proposal is certain now, or will be when the metadata come."""
        leader = partition.leader
        if leader is None or not _is_proposed(leader, wanted):
            return True  # the metadata have told more meanwhile
        is_as_it_was = code == ErrorCode.NONE and partition_epoch == wanted.partition_epoch
        if is_as_it_was or code == ErrorCode.INELIGIBLE_REPLICA:
            self._counts.isr_failures += 1
            partition.on_isr_refused()
            return True
        if code in SETTLED:
            return True
        logger.info("%s: in sync shall be %s: %s, asked again", partition, list(wanted.isr), code.name)
        self._proposed[partition.topic_id, partition.index] = partition, wanted
        return False

    async def _ask(
        self, asked: dict[Key, tuple[IsrPartition, IsrProposal]]
    ) -> tuple[dict[Key, tuple[ErrorCode, int]], ErrorCode]:
        """The error and the partition epoch for each proposal, and the error where there is no answer."""
        # A single node proposes nothing, and starts without this module.
        from penstock.protocol.messages.alter_partition import (
            AlterPartitionRequest,
            AlterPartitionRequestPartitionData,
            AlterPartitionRequestTopicData,
            AlterPartitionResponse,
            BrokerState,
        )

        topics: dict[UUID, AlterPartitionRequestTopicData] = {}
        for (topic_id, index), (_, wanted) in asked.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=wanted.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=replica, broker_epoch=epoch)
                        for replica, epoch in zip(wanted.isr, wanted.broker_epochs, strict=True)
                    ],
                    partition_epoch=wanted.partition_epoch,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._context.node_id, broker_epoch=self._context.broker_epoch, topics=list(topics.values())
        )
        try:
            reply = await self._context.controller.submit(request, AlterPartitionResponse)
        except KafkaError as error:
            return {}, error.code
        answers = {
            (topic.topic_id, answer.partition_index): (ErrorCode(answer.error_code), answer.partition_epoch)
            for topic in reply.topics
            for answer in topic.partitions
        }
        return answers, ErrorCode(reply.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR


def _is_proposed(leader: PartitionLeader, wanted: IsrProposal) -> bool:
    epochs = leader.leader_epoch, leader.partition_epoch
    return epochs == (wanted.leader_epoch, wanted.partition_epoch) and leader.proposed_isr == wanted.isr
