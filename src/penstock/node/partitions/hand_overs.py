"""What this broker leads and others should goes to them, when the controller says that it is time for it.

As long as the metadata show partitions that are not led by their preferred replicas, the controller is asked now and
then whether one of ours is to be handed over. There is one at a time in the whole cluster (`leadership.balancer`).

A broker that stops hands over all that others in sync can lead, several partitions at once. What it does not get done
in time goes to others by an election, when its heartbeat says that it wants to stop.

A partition for which its log directory has no room goes to another replica in sync, and this one out of sync. It comes
back as any follower, when the directory has had room for a while: till then it does not fetch (`replica_fetcher`). So
does one whose flush hangs, and it comes back when that has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.leadership.transfer import Answer, Limits
from penstock.metadata.partition_index import each
from penstock.metadata.topics import PartitionImage
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.environment.signal import Signal
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.requests.own_apis import HandOverLeaderRequest, HandOverLeaderResponse

PAUSE_S: Final = 1.0
"""Between two questions to the controller."""
SOON_S: Final = 0.05
"""The same after a move, as the next one may follow."""
SOON_TIMES: Final = 20
ANSWER_S: Final = 0.5
AT_ONCE: Final = 8
"""How many partitions a broker that stops hands over at the same time."""
FULL_S: Final = 5
"""How long a log directory is full at least: some limits cannot be seen before they refuse a write."""
GIVE_AWAY_S: Final = 5
"""How long a broker that stops hands over; the rest of its partitions go to others by an election."""
ELSEWHERE: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.STALE_BROKER_EPOCH,
)
"""Refusals that tell of a change that the metadata will bring."""
NOBODY_KNOWS: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION)

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.log.directories.directory import LogDirectories
    from penstock.log.directories.log_directory import LogDirectory
    from penstock.node.partitions.hand_over import PartitionHandOver, Resident
    from penstock.node.storage_groups.group import StorageGroup
    from penstock.node.storage_groups.hand_over import StorageGroupHandOver

Connect = Callable[[], Awaitable["Connection"]]

logger = logging.getLogger(__name__)


class Neighbours(Protocol):
    """The other brokers, and what lives on partitions and goes to them with these."""

    def connect(self, broker_id: int) -> Awaitable[Connection]:
        """ClientError if there is no connection to be had."""

    def group(self, number: int) -> StorageGroup | None:
        """None if the group does not run here."""

    def resident_of(self, partition: Partition, connect: Connect) -> Resident | None:
        """The coordinator on a partition, with the way to the successor. KafkaError if it cannot move now."""

    async def prepare(self, partition: Partition) -> None:
        """What the coordinator does before it goes, while it works as ever."""


class HandOvers:
    def __init__(self, context: BrokerContext, table: PartitionTable, neighbours: Neighbours) -> None:
        self._context = context
        self._node_id = context.node_id
        self._image = context.image
        self._table = table
        self._neighbours = neighbours
        self._groups: list[StorageGroupHandOver] = []
        self._limits = Limits(silent_ms=context.config.broker_session_timeout_ms)
        self._few = asyncio.Semaphore(AT_ONCE)
        self.open: list[PartitionHandOver] = []
        self._unwritable: dict[IsrPartition, None] = {}
        self.full = FullDirectories(context.node.directories)
        self._hurry = asyncio.Event()
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.keep(self._run, "hand over what others should lead")

    async def stop(self) -> None:
        """Hand over no more; requests that are held are refused."""
        await self._tasks.stop()
        for hand_over in (*self.open, *self._groups):
            await hand_over.stop()

    async def _run(self) -> None:
        soon = 0
        while True:
            await asyncio.sleep(SOON_S)
            if not soon:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PAUSE_S - SOON_S):
                        await self._hurry.wait()
            self._hurry.clear()
            soon = max(soon - 1, 0)
            try:
                await self._give_up_unwritable()
                if self._image.index.moved and await self._hand_over():
                    soon = SOON_TIMES
            except KafkaError as error:
                logger.debug("no controller says what to hand over: %s", error)
            except Exception:
                logger.exception("a hand-over failed by our own fault")

    def on_unwritable(self, partition: IsrPartition) -> None:
        """The disk had no room for what was to be appended to it as its leader, or to be flushed, or hangs."""
        self._unwritable[partition] = None
        self._hurry.set()

    async def _give_up_unwritable(self) -> None:
        """Who still has no successor is heard of again with the next append that is refused."""
        self.full.look()
        unwritable, self._unwritable = self._unwritable, {}
        still = [one for one in unwritable if one.leader and (one.kept.is_stuck or one.log.health.is_full)]
        await asyncio.gather(*(self._give_away(partition, has_no_room=True) for partition in still))

    async def _hand_over(self) -> bool:
        """Hand over what the controller names; whether there was anything. Raises KafkaError."""
        told = await self._submit(HandOverLeaderRequest())
        groups = self._image.topics.get(STORAGE_GROUPS)
        if groups is not None and told.topic_id == groups.topic_id:
            group = self._neighbours.group(told.partition)
            return group is not None and await self.hand_over_group(group, told.successor)
        partition = self._table.get(told.topic_id, told.partition) if told.successor >= 0 else None
        if not isinstance(partition, IsrPartition):
            return False
        return await self._hand_over_partition(partition, told.leader_epoch, told.successor)

    async def _hand_over_partition(
        self, partition: IsrPartition, leader_epoch: int, successor: int, *, has_no_room: bool = False
    ) -> bool:
        """Whether it has been tried. Raises KafkaError."""
        if not self._can(partition, leader_epoch, successor):
            return False
        await self._neighbours.prepare(partition)
        async with self._few:
            if not self._can(partition, leader_epoch, successor):
                return False
            # A single node starts without what clients need.
            from penstock.node.links.successor import SucceedingBroker
            from penstock.node.partitions.hand_over import PartitionHandOver

            connect = partial(self._neighbours.connect, successor)
            self.open = [one for one in self.open if not one.is_over]
            hand_over = PartitionHandOver(
                partition,
                successor,
                self._limits,
                partial(self._asked, partition, leader_epoch, successor, has_no_room),
                SucceedingBroker(connect),
                self._neighbours.resident_of(partition, connect),
            )
            self.open.append(hand_over)
            await hand_over.is_decided.wait()
        return True

    async def give_away(self) -> None:
        """This broker stops: hand over what others can lead, as far as there is time for it."""
        led = list(self._led_with_others())
        if not led:
            return
        import penstock.node.partitions.hand_over  # noqa: F401  while nothing is held

        try:
            async with asyncio.timeout(GIVE_AWAY_S):
                if not (await self._submit(HandOverLeaderRequest(is_stopping=True))).error_code:
                    await asyncio.gather(*(self._give_away(partition) for partition in led))
        except (KafkaError, TimeoutError) as error:
            logger.info("what this broker leads is not all handed over: %s", error)

    def _led_with_others(self) -> Iterator[IsrPartition]:
        for name, index in each(self._image.index.led_by(self._node_id)):
            topic, partition = self._image.topics[name], self._table.get(name, index)
            # A partition that is not in the table has no record, and no client has asked for it.
            if isinstance(partition, IsrPartition) and len(topic.partitions[index].isr) > 1:
                yield partition

    async def _give_away(self, partition: IsrPartition, *, has_no_room: bool = False) -> None:
        topic = self._image.topics_by_id.get(partition.topic_id)
        image = None if topic is None else topic.partitions.get(partition.index)
        if image is None:
            return
        successor = next((one for one in image.replicas if one in image.isr and self._may_lead(image, one)), None)
        if successor is not None:
            try:
                await self._hand_over_partition(partition, image.leader_epoch, successor, has_no_room=has_no_room)
            except KafkaError as error:
                logger.info("%s is not handed over: %s", partition, error)

    def _may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether the controller would have that broker lead, as far as this one knows."""
        return broker_id != self._node_id and self._image.is_served(partition, broker_id)

    async def settle(self) -> None:
        """The metadata name the new leaders, where clients find them; requests held or sent on get answers."""
        await asyncio.gather(*(one.settle() for one in self.open))

    async def hand_over_group(self, group: StorageGroup, successor: int) -> bool:
        """Whether it was tried. Returns when this node has nothing left to do but to send on what arrives."""
        from penstock.node.links.successor import SucceedingBroker  # as above
        from penstock.node.storage_groups.hand_over import StorageGroupHandOver

        self._groups = [one for one in self._groups if not one.is_over]
        try:
            way = SucceedingBroker(partial(self._neighbours.connect, successor))
            hand_over = StorageGroupHandOver(group, successor, way)
        except KafkaError as error:
            logger.info("a storage group is not handed over to %d: %s", successor, error.message)
            return False
        self._groups.append(hand_over)
        await hand_over.is_decided.wait()
        return True

    async def settle_groups(self) -> None:
        """The metadata name the new leaders of the groups: clients find them by themselves."""
        await asyncio.gather(*(one.settle() for one in self._groups))

    def _can(self, partition: IsrPartition, leader_epoch: int, successor: int) -> bool:
        leader = partition.leader
        return (
            leader is not None
            and leader.leader_epoch == leader_epoch
            and successor in leader.isr
            and successor in leader.followers
            and partition.hand_over is None
        )

    async def _asked(
        self, partition: Partition, leader_epoch: int, successor: int, has_no_room: bool, partition_epoch: int
    ) -> Answer:
        request = HandOverLeaderRequest(
            topic_id=partition.topic_id,
            partition=partition.index,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            successor=successor,
            has_no_room=has_no_room,
        )
        try:
            code = ErrorCode((await self._submit(request)).error_code)
        except KafkaError as error:
            code = error.code
        if code == ErrorCode.NONE:
            return Answer.MADE
        logger.info("%s: the controller says %s to its hand-over to %d", partition, code.name, successor)
        if code in NOBODY_KNOWS:
            return Answer.UNKNOWN
        return Answer.CHANGED if code in ELSEWHERE else Answer.REFUSED

    async def _submit(self, request: HandOverLeaderRequest) -> HandOverLeaderResponse:
        request = request.replace(broker_id=self._node_id, broker_epoch=self._context.broker_epoch)
        deadline_s = asyncio.get_running_loop().time() + ANSWER_S
        return await self._context.controller.submit(request, HandOverLeaderResponse, deadline_s=deadline_s)


class FullDirectories:
    """Log directories that had no room for a write, until they were seen to have some for a while."""

    def __init__(self, directories: LogDirectories) -> None:
        self.has_room = Signal[()]()
        """A directory that was full can be written again."""
        self._directories = directories
        self._since: dict[str, float] = {}

    def look(self) -> None:
        """To be called now and then: costs next to nothing as long as none is full."""
        now = asyncio.get_running_loop().time()
        for directory in self._directories.roots.for_data:
            if not directory.health.is_full or not directory.is_online:
                continue
            since = self._since.get(directory.path)
            if since is None:
                self._since[directory.path] = now
                logger.error(
                    "%s is full: what is led there and cannot be written goes to other brokers. Free some space on its"
                    " disk",
                    directory.path,
                )
            elif now - since >= FULL_S and _has_room(directory):
                logger.info("%s has room again", directory.path)
                del self._since[directory.path]
                directory.health.is_full = False
                self.has_room()


def _has_room(directory: LogDirectory) -> bool:
    try:
        return directory.has_room()
    except OSError as error:
        logger.warning("%s: how full it is cannot be seen: %s", directory.path, error)
        return False
