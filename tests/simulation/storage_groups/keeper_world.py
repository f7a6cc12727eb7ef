"""A node that keeps two storage groups alone (`GroupKeeper`), on a disk that fills, fails and loses its power.

The node is killed between any two steps, in the middle of a call to its disk too, and starts again with what the disk
has. Topics come into its groups and go. What is looked for: what was acknowledged is found again at its offset; no
epoch of a group goes back, neither in its vote nor as its leader; and each start opens all groups and leads them.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.simulation.cuts_world import entries_of
from tests.unit.node.contexts import broker_context, node_context

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.quorum.state_file import StateFile
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.links import GroupLinks
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest, ClaimStorageGroupResponse
from penstock.replication.storage_groups.entries import PartitionId
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import KilledError, Process, VirtualLoop

ME = 1
GROUPS = (0, 1)
GROUPS_ID = UUID(int=1)
STEPS = 50
MOST_CALLS = 60
PATIENCE_S = 60
CONFIG = LogConfig(
    segment_bytes=1_500, retention_ms=-1, cleanup_policy=frozenset(), file_delete_delay_ms=50, log_delete_delay_ms=50
)
SETTINGS = {"node.id": str(ME), "log.dirs": "/data", "storage.group.max.bytes.between.snapshots": "3000"}


class NoOthers(GroupLinks):
    """This node is the only one."""

    def __init__(self) -> None:
        pass

    def peers(self, *_: object) -> Any:
        return NoPeers()

    async def close(self) -> None:
        pass


class KeeperWorld:
    """It is the keeper's host and its controller as well."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = VirtualLoop(Random(seed))
        self.loop.thread_delay_s = lambda _: self.random.choice((0.001, 0.01, 0.2))
        self.host = HostDisk(self.loop, Random(seed))
        self.host.add_root("/data")
        self.host.root.sync()
        self.host.on_crash = lambda: self.process.kill()
        self.image = ClusterImage("c")
        self.topics: dict[str, UUID] = {}
        self.made = 0
        self.sure: dict[PartitionId, dict[int, bytes]] = {}
        """What was acknowledged."""
        self.epochs = dict.fromkeys(GROUPS, 0)
        """The highest in which each group was seen to lead."""
        self.starts = self.acknowledged = 0

    # -- the metadata -------------------------------------------------------------------------------------------------

    def first_records(self) -> list[MetadataRecord]:
        (directory,) = self.directories.roots.online_ids
        return [
            RegisterBrokerRecord(broker_id=ME, broker_epoch=5, fenced=False, log_dirs=[directory]),
            TopicRecord(name=STORAGE_GROUPS, topic_id=GROUPS_ID),
            *(
                PartitionRecord(
                    partition_id=group,
                    topic_id=GROUPS_ID,
                    replicas=[ME],
                    isr=[ME],
                    leader=-1,
                    leader_epoch=0,
                    partition_epoch=3,
                    directories=[directory],
                )
                for group in GROUPS
            ),
        ]

    def commit(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.apply(record)
        if self.process.is_alive:
            self.process.context.copy().run(self.keeper.on_metadata, records)

    def submit(self, request: ClaimStorageGroupRequest, _: object) -> asyncio.Future[Any]:
        """A claim; the metadata name the leader then."""
        done: asyncio.Future[Any] = self.loop.create_future()
        self.loop.call_later(0.005, self._claimed, request, done)
        return done

    def _claimed(self, request: ClaimStorageGroupRequest, done: asyncio.Future[Any]) -> None:
        assert request.group_epoch >= self.epochs[request.group], "an earlier leader claims"
        self.epochs[request.group] = request.group_epoch
        self.commit(PartitionChangeRecord(partition_id=request.group, topic_id=GROUPS_ID, leader=ME, isr=[ME]))
        if not done.done():
            done.set_result(ClaimStorageGroupResponse(error_code=ErrorCode.NONE))

    # -- `GroupHost` --------------------------------------------------------------------------------------------------

    def config_of(self, _: str) -> LogConfig:
        return CONFIG

    def links(self) -> GroupLinks:
        return NoOthers()

    async def hand_over_group(self, *_: object) -> bool:
        raise AssertionError("nobody can take it")

    def on_group(self, *_: object) -> None:
        pass

    # -- the node -----------------------------------------------------------------------------------------------------

    async def boot(self) -> None:
        """Start, and be there with all groups before long."""
        self.process = Process("host")
        self.starts += 1
        starting = self.process.context.copy().run(self._begin)
        for _ in range(PATIENCE_S * 100):
            await asyncio.sleep(0.01)
            if not self.process.is_alive or (starting.done() and self.is_whole()):
                break
        if starting.done() and self.process.is_alive:
            starting.result()
        assert not self.process.is_alive or self.is_whole(), "a group is not there after a start"
        if self.process.is_alive:
            self.look()

    def _begin(self) -> asyncio.Task[None]:
        disk = SimulatedDisk(self.host, self.process)
        config = BrokerConfig.embedded(SETTINGS)
        for group in GROUPS:
            found = StateFile(disk, f"/data/{STORAGE_GROUPS}-{group}").read()
            assert found.epoch >= self.epochs[group], "a vote is forgotten"
        self.directories = LogDirectories(["/data"], node_id=ME, random=Random(1), cluster_id="c", disk=disk)
        self.directories.open_all(lambda _: CONFIG)
        self.directories.begin()
        if not self.image.topics:
            for record in self.first_records():
                self.image.apply(record)
        environment = {"disk": disk, "random": Random(self.random.random()), "elapsed_s": self.loop.time}
        node = node_context(config, self.image, self.directories, self.loop.now_ms, **environment)
        context = broker_context(node, cast("Any", SimpleNamespace(submit=self.submit)))
        context.lease.is_renewed(1e9)
        self.groups = StorageGroups()
        self.keeper = GroupKeeper(context, self.groups, self)
        return self.loop.create_task(self.keeper.start())

    def is_whole(self) -> bool:
        """Each group leads, and has the partitions of its topics."""
        found = [self.groups.by_number.get(group) for group in GROUPS]
        wanted = {PartitionId(topic_id, 0) for topic_id in self.topics.values()}
        there = {one for replica in found if replica is not None for one in replica.group.partitions}
        return all(one is not None and one.is_running and one.leads for one in found) and wanted <= there

    def look(self) -> None:
        if not self.process.is_alive or not self.is_whole():
            return
        for replica in self.groups.by_number.values():
            for partition, member in replica.group.partitions.items():
                sure = self.sure.get(partition, {})
                if sure and partition.topic_id in self.topics.values():
                    found = entries_of(member.log)
                    assert {at: found.get(at, (0, b""))[1] for at in sure} == sure, "what was acknowledged is gone"

    # -- what happens -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        await self.boot()
        actions = [self.produce] * 8 + [self.make, self.make, self.remove, self.fill, self.fail, self.stop]
        actions += [self.die, self.die_in_a_call, self.die_in_a_call]
        for _ in range(STEPS):
            with suppress(KilledError):  # what the world asks of the node may end it
                await self.random.choice(actions)()
            await asyncio.sleep(self.random.choice((0, 0.002, 0.05, 1)))
            if not self.process.is_alive or self.directories.roots.offline:
                await self.die()
            self.look()
        await self.die()

    async def again(self) -> None:
        """With a disk that is well."""
        if self.random.random() < 0.5:
            self.host.lose_power()
        self.host.crash_in = self.host.error_in = None
        self.host.conditions.full = False
        await self.boot()

    async def die(self) -> None:
        self.process.kill()
        await self.again()

    async def die_in_a_call(self) -> None:
        """Also while it starts."""
        if self.random.random() < 0.5:
            self.process.kill()
            self.host.crash_in = self.random.randrange(1, MOST_CALLS)
            await self.boot_into_death()
        else:
            self.host.crash_in = self.random.randrange(1, MOST_CALLS)
            await self.produce()
            await asyncio.sleep(0.1)
        if not self.process.is_alive:
            await self.again()
        self.host.crash_in = None

    async def boot_into_death(self) -> None:
        try:
            await self.boot()
        except BaseException:
            if self.process.is_alive:
                raise

    async def fill(self) -> None:
        """The disk is full for a while."""
        self.host.conditions.full = True
        await self.produce()
        await asyncio.sleep(self.random.choice((0.1, 3)))
        self.host.conditions.full = False
        for _ in range(PATIENCE_S * 100):
            if self.is_whole() or self.directories.roots.offline:
                break
            await asyncio.sleep(0.01)
        assert self.is_whole() or self.directories.roots.offline, "a group does not come back when there is room"

    async def fail(self) -> None:
        """The disk refuses a call; another start finds it well."""
        self.host.error_in = self.random.randrange(1, MOST_CALLS // 2)
        await self.produce()
        await asyncio.sleep(0.1)
        self.host.error_in = None
        if self.directories.roots.offline:
            await self.die()

    async def stop(self) -> None:
        stopping = self.process.spawn(self.loop, self.keeper.stop())
        while self.process.is_alive and not stopping.done():
            await asyncio.sleep(0.01)
        if self.process.is_alive and not self.directories.roots.offline:
            self.process.context.copy().run(self.directories.close)
        await self.die()

    async def make(self) -> None:
        """A topic, in one of the groups."""
        self.made += 1
        name, topic_id = f"t{self.made}", UUID(int=100 + self.made)
        self.topics[name] = topic_id
        group = str(self.random.choice(GROUPS))
        self.commit(
            TopicRecord(name=name, topic_id=topic_id),
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name="storage.group", value=group),
            PartitionRecord(partition_id=0, topic_id=topic_id, replicas=[ME], isr=[ME], leader=-1, leader_epoch=0),
        )

    async def remove(self) -> None:
        if self.topics:
            name = self.random.choice(list(self.topics))
            self.commit(RemoveTopicRecord(topic_id=self.topics.pop(name)))

    async def produce(self) -> None:
        for topic_id in list(self.topics.values()):
            replica = self.groups.by_topic.get(topic_id)
            partition = PartitionId(topic_id, 0)
            if replica is None or not replica.leads or partition not in replica.group.partitions:
                continue
            for _ in range(self.random.randrange(1, 5)):
                self.process.context.copy().run(self._produce, replica, partition)

    def _produce(self, replica: Any, partition: PartitionId) -> None:
        value = b"%d" % self.random.getrandbits(400)
        batch = memoryview(bytearray(encode_batch([Record(0, 0, None, value)])))
        try:
            epoch = self.image.topics_by_id[partition.topic_id].partitions[0].leader_epoch
            place = replica.group.append(partition, batch, leader_epoch=epoch)
            done = replica.group.acknowledged(partition, place.last_offset)
        except KafkaError:
            return
        done.add_done_callback(lambda _: self._acknowledged(partition, place.last_offset, value, done))

    def _acknowledged(self, partition: PartitionId, offset: int, value: bytes, done: asyncio.Future[None]) -> None:
        if done.exception() is None:
            self.acknowledged += 1
            self.sure.setdefault(partition, {})[offset] = value


def simulated(seed: int) -> KeeperWorld:
    world = KeeperWorld(seed)
    world.loop.run_until_complete(world.run())
    assert not world.loop.failures
    return world
