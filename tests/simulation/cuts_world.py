"""A follower's log is cut and flushed by threads of its disk, which may hang or fail, while leaders change, and this
node leads, is given the partition anew, or dies.

Two other brokers are played by lists. What is looked for: when this node asks a leader for more, it has what that
leader has up to there; and what was committed so, it keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, cast
from uuid import UUID

from tests.unit.node.contexts import broker_context, node_context

from penstock.client.connection import Taker
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.replica_fetcher import Follower, ReplicaFetcher
from penstock.node.partitions.replica_fetchers import ReplicaFetchers
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.partitions.table import PartitionTable
from penstock.node.partitions.topic_settings import TopicSettingsTable
from penstock.node.partitions.upkeep import Upkeep, UpkeepIntervals
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.records import Record, encode_batch, iterate_batches, iterate_records
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import FetchPartition, FetchPartitionResult, encode_fetch_response, parse_fetch
from penstock.protocol.requests.framing import read_request_header
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process, VirtualLoop

HERE, OTHERS = 1, (2, 3)
NOBODY = -1
STEPS, MOST_CALLS = 80, 30
SETTINGS = {
    "node.id": str(HERE),
    "log.dirs": "/data",
    "log.flush.interval.messages": "1",
    "log.segment.delete.delay.ms": "20",
    "replica.fetch.backoff.ms": "30",
}
Entry = tuple[int, bytes]
"""The epoch and the value; the offset is the place in the list."""


def a_batch(offset: int, entry: Entry) -> bytes:
    made = bytearray(encode_batch([Record(0, 0, None, entry[1])]))
    made[:8] = offset.to_bytes(8, "big")
    made[12:16] = entry[0].to_bytes(4, "big")
    return bytes(made)


class Peer:
    """The connection of one fetcher to another broker; what that says takes a while."""

    def __init__(self, world: World, broker: int) -> None:
        self.world, self.broker, self.process = world, broker, world.process
        self.closed = False
        self.address = Address(f"broker{broker}", 9092)

    def version_for(self, _: ApiKey) -> int:
        return 17

    def exchange(self, _: ApiKey, encode: Callable[[int], bytes], taker: Taker) -> None:
        frame = memoryview(encode(5))[4:]
        asked = parse_fetch(frame, read_request_header(frame)[-1], 17)
        topics = [
            (topic.topic_id, [self.world.fetched(self.broker, topic.topic_id, one) for one in topic.partitions])
            for topic in asked.topics
        ]
        (response,) = encode_fetch_response(topics, 17, 5)
        assert isinstance(response, bytes)
        self.world.loop.call_later(self.world.a_while(), self._answer, taker, response)

    def _answer(self, taker: Taker, response: bytes) -> None:
        if not self.closed:
            taker.take(memoryview(response)[4:])

    async def request(self, request: ListOffsetsRequest, *_: object) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0]
        found = self.world.end_or_start(self.broker, asked.current_leader_epoch, asked.timestamp)
        await asyncio.sleep(self.world.a_while())
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[found])])

    def abort(self, _: str) -> None:
        self.closed = True

    async def close(self) -> None:
        self.closed = True


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = VirtualLoop(Random(seed))
        self.loop.thread_delay_s = lambda _: self.random.choice((0.001, 0.05, 0.3))
        self.host = HostDisk(self.loop, Random(seed))
        self.host.add_root("/data")
        self.host.root.sync()
        self.host.on_crash = lambda: self.process.kill()
        self.image = ClusterImage("c")
        self.logs: dict[int, list[Entry]] = {broker: [] for broker in OTHERS}
        self.former: list[Entry] = []
        """What this node's predecessor had, while this node leads."""
        self.own: list[Entry] | None = None
        """What this node has while it leads, once it does."""
        self.sure: list[bytes] = []
        """What is committed."""
        self.wrong: list[str] = []
        self.start = 0
        self.topic_id = UUID(int=7)
        self.is_in_sync = True
        self.leader = OTHERS[0]
        self.apply(*self.records_of_topic())

    # -- what the cluster is ------------------------------------------------------------------------------------------

    def records_of_topic(self) -> list[MetadataRecord]:
        replicas = [*OTHERS, HERE]
        return [
            TopicRecord(name="t", topic_id=self.topic_id),
            PartitionRecord(
                partition_id=0,
                topic_id=self.topic_id,
                replicas=replicas,
                isr=replicas,
                leader=self.leader,
                leader_epoch=1,
                partition_epoch=1,
            ),
        ]

    def apply(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.apply(record)

    def tell(self, *records: MetadataRecord) -> None:
        self.apply(*records)
        self.process.context.copy().run(self.replicas.on_metadata, records)

    @property
    def epoch(self) -> int:
        return self.image.topics["t"].partitions[0].leader_epoch

    @property
    def log(self) -> list[Entry]:
        """The leader's."""
        if self.leader != HERE:
            return self.logs[self.leader]
        return self.former if self.own is None else self.own

    @property
    def committed(self) -> int:
        return len(self.sure)

    def commit(self, most: int) -> None:
        """Others have so much, or less."""
        end = self.random.randrange(self.committed, max(most, self.committed) + 1)
        self.sure += [value for _, value in self.log[self.committed : end]]

    def a_while(self) -> float:
        return self.random.choice((0.001, 0.005, 0.05))

    def value(self) -> bytes:
        return b"%d of %d" % (self.random.getrandbits(99), self.topic_id.int)

    # -- what others answer -------------------------------------------------------------------------------------------

    def fetched(self, broker: int, topic_id: UUID, asked: FetchPartition) -> FetchPartitionResult:
        if broker != self.leader or topic_id != self.topic_id or asked.current_leader_epoch != self.epoch:
            return FetchPartitionResult(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log, offset, last = self.log, asked.fetch_offset, asked.last_fetched_epoch
        try:
            self.check_told(offset)
        except AssertionError as error:  # who asks would take it for a fault of its own
            self.wrong.append(str(error))
        if not self.start <= offset:
            return FetchPartitionResult(0, ErrorCode.OFFSET_OUT_OF_RANGE)
        end = max(self.start, sum(epoch <= last for epoch, _ in log))
        latest = log[end - 1][0] if end > self.start else last  # of what it has deleted a leader says no epochs
        if offset > self.start and (latest < last or end < offset):
            return FetchPartitionResult(0, 0, self.committed, diverging_epoch=(latest, end))
        try:
            self.check_same(offset)
        except (AssertionError, KafkaError) as error:
            self.wrong.append(str(error))
        if offset >= self.committed:
            self.is_in_sync = True
            self.commit(offset)
        upto = offset + self.random.randrange(4)
        records = b"".join(a_batch(at, entry) for at, entry in enumerate(log[offset:upto], offset))
        return FetchPartitionResult(0, 0, self.committed, log_start_offset=self.start, records=records)

    def end_or_start(self, broker: int, epoch: int, timestamp: int) -> ListOffsetsPartitionResponse:
        if broker != self.leader or epoch != self.epoch:
            return ListOffsetsPartitionResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ListOffsetsPartitionResponse(offset=len(self.log) if timestamp == -1 else self.start)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def held(self) -> IsrPartition | None:
        found = self.table.get("t", 0)
        return found if isinstance(found, IsrPartition) and found.topic_id == self.topic_id else None

    def check_told(self, offset: int) -> None:
        partition = self.held()
        assert partition is not None
        assert not partition.log.is_lent, "it says where its log ends while that is cut"
        assert offset == partition.log.log_end_offset, "it says another end than it has"

    def check_same(self, offset: int) -> None:
        partition = self.held()
        assert partition is not None
        first = max(self.start, partition.log.log_start_offset)
        found = entries_of(partition.log)
        assert [found.get(at) for at in range(first, offset)] == self.log[first:offset], "its leader has something else"

    def look(self) -> None:
        assert not self.wrong, self.wrong[0]
        partition = self.held()
        if partition is None or not self.is_in_sync or partition.log.is_lent or partition.log.health.failure:
            return
        found = entries_of(partition.log)
        whose = b" of %d" % self.topic_id.int
        assert all(value.endswith(whose) for _, value in found.values()), "it holds what another topic had"
        for offset in range(max(self.start, partition.log.log_start_offset), self.committed):
            assert found.get(offset, (0, b""))[1] == self.sure[offset], f"what was committed at {offset} is gone"

    # -- the node -----------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        self.process = Process("host")
        self.process.context.copy().run(self._begin)

    def _begin(self) -> None:
        config = BrokerConfig.embedded(SETTINGS)
        self.directories = LogDirectories(
            config.log_dirs, node_id=HERE, random=Random(1), cluster_id="c", disk=SimulatedDisk(self.host, self.process)
        )
        settings = TopicSettingsTable(config)
        self.directories.open_all(lambda _: settings.settings({}).log)
        self.directories.begin()
        self.directories.roots.on_failure(self._soon_failed)
        self.table = PartitionTable()
        upkeep = Upkeep(self.directories, UpkeepIntervals(), self.loop.now_ms)
        context = broker_context(node_context(config, self.image, self.directories, self.loop.now_ms))
        self.fetchers = ReplicaFetchers(config, partial(self._fetcher, config, context.lease))
        self.replicas = LocalReplicas(context, self.table, StorageGroups(), settings, upkeep, self.fetchers)
        in_sync = cast("Any", self.replicas.in_sync)
        in_sync.watch = lambda _: None  # the world decides that
        self.opened = asyncio.ensure_future(self.replicas.open_all())

    def _soon_failed(self, path: str) -> None:
        self.loop.call_soon(self.replicas.on_directory_failed, path)

    def _fetcher(self, config: BrokerConfig, lease: Any, broker: int) -> ReplicaFetcher:
        follower = Follower(
            node_id=HERE,
            cluster_id="c",
            lease=lease,
            config=config,
            settings=ClientSettings(now_ms=self.loop.now_ms),
            disks=self.directories,
            address_of=lambda one: Address(f"broker{one}", 9092),
        )
        made = ReplicaFetcher(broker, follower)
        made._link = Link(partial(self._connect, broker))
        return made

    async def _connect(self, broker: int, _: Address) -> Any:
        return cast("Any", Peer(self, broker))

    async def again(self) -> None:
        """It is up again, and knows the cluster."""
        if self.random.random() < 0.5:
            self.host.lose_power()
        if self.leader == HERE:  # another one was elected meanwhile
            self.elect(self.random.choice(OTHERS), self.apply)
        self.boot()
        while not self.opened.done():
            await asyncio.sleep(0.001)
        assert self.opened.exception() is None

    # -- what happens -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self.boot()
        actions = [self.append] * 8 + [self.change_leader] * 10 + [self.shorten, self.anew] + [self.give_away] * 3
        actions += [self.die, self.die_in_a_call, self.fail, self.full, self.stop]
        for _ in range(STEPS):
            await self.random.choice(actions)()
            await asyncio.sleep(self.random.choice((0, 0.002, 0.02, 0.2)))
            self.commit_here()
            self.look()
        await self.settle()

    async def append(self) -> None:
        for _ in range(self.random.randrange(1, 4)):
            if self.leader == HERE:
                await self.append_here()
            else:
                self.log.append((self.epoch, self.value()))

    async def append_here(self) -> None:
        partition = self.held()
        if partition is None or partition.leader is None or partition.leader_epoch != self.epoch:
            return
        if self.own is None:
            found = entries_of(partition.log)
            self.own = [found.get(at, (0, b"")) for at in range(partition.log.log_end_offset)]
        entry = self.epoch, self.value()
        try:
            appended = partition.append(memoryview(bytearray(a_batch(0, entry))), acks=1, now_ms=0)
        except KafkaError:
            await self.die()
            return
        assert appended.base_offset == len(self.own), "it leads from another end than it has"
        self.own.append(entry)

    def commit_here(self) -> None:
        partition = self.held()
        if self.own is not None and self.leader == HERE and partition is not None and partition.leader is not None:
            self.commit(min(len(self.own), partition.kept.offset))

    async def change_leader(self) -> None:
        successors = [one for one in (*OTHERS, HERE) if one != self.leader and (one != HERE or self.is_in_sync)]
        self.elect(self.random.choice(successors), self.tell)

    def elect(self, to: int, tell: Callable[..., None]) -> None:
        """The successor has what was committed, and perhaps more."""
        before = self.log
        if to == HERE:
            self.former, self.own = before[:], None
        else:
            self.logs[to] = before[: self.random.randrange(self.committed, len(before) + 1)]
        self.leader = to
        tell(PartitionChangeRecord(topic_id=self.topic_id, partition_id=0, leader=to))

    async def shorten(self) -> None:
        """DeleteRecords; a follower hears of it with its next fetch."""
        if self.leader != HERE:
            self.start = self.random.randrange(self.start, self.committed + 1)

    async def anew(self) -> None:
        """The topic is deleted, and made again."""
        gone = self.topic_id
        self.topic_id = UUID(int=gone.int + 1)
        self.logs, self.sure, self.start, self.is_in_sync = {broker: [] for broker in OTHERS}, [], 0, True
        self.leader = self.random.choice(OTHERS)
        self.tell(RemoveTopicRecord(topic_id=gone))
        self.tell(*self.records_of_topic())
        if self.random.random() < 0.5:  # the log of the one that is gone may be back
            await self.die()

    async def full(self) -> None:
        """The disk has no room for a while."""
        self.host.conditions.full = True
        await asyncio.sleep(0.2)
        self.host.conditions.full = False
        for directory in self.directories.roots.online:
            directory.health.is_full = False
        self.process.context.copy().run(self.replicas.obey_late)

    async def give_away(self) -> None:
        """The replica goes, and comes back empty."""
        if self.leader == HERE:
            return
        self.is_in_sync = False
        self.tell(PartitionChangeRecord(topic_id=self.topic_id, partition_id=0, replicas=[*OTHERS], isr=[*OTHERS]))
        await asyncio.sleep(self.a_while())
        replicas = [*OTHERS, HERE]
        self.tell(PartitionChangeRecord(topic_id=self.topic_id, partition_id=0, replicas=replicas, isr=[*OTHERS]))

    async def die(self) -> None:
        self.process.kill()
        await self.again()

    async def die_in_a_call(self) -> None:
        self.host.crash_in = self.random.randrange(1, MOST_CALLS)
        await asyncio.sleep(0.05)
        self.host.crash_in = None
        if not self.process.is_alive:
            await self.again()

    async def fail(self) -> None:
        """The disk refuses a call; another start finds it well."""
        self.host.error_in = self.random.randrange(1, MOST_CALLS // 2)
        await asyncio.sleep(0.05)
        self.host.error_in = None
        if self.directories.roots.offline:
            await self.die()

    async def stop(self) -> None:
        """Cleanly: what is under way is waited for."""
        self.replicas.stop()
        stopping = self.process.spawn(self.loop, self.fetchers.stop())
        while not stopping.done():
            await asyncio.sleep(0.001)
        if not self.directories.roots.offline:
            self.process.context.copy().run(self.directories.close)
        await self.die()

    async def settle(self) -> None:
        """It has all that its leader has in the end."""
        if self.leader == HERE:
            await self.change_leader()
        for _ in range(3_000):
            await asyncio.sleep(0.01)
            partition = self.held()
            if partition is not None and not partition.log.is_lent:
                found = entries_of(partition.log)
                if len(self.log) == partition.log.log_end_offset and not set(found.items()) - set(enumerate(self.log)):
                    break
        self.look()
        self.check_same(len(self.log))


def entries_of(log: PartitionLog) -> dict[int, Entry]:
    found, offset = dict[int, Entry](), log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 30).read()  # of one segment
        for position, header in iterate_batches(data):
            for one in iterate_records(data, position, header):
                found[one.offset] = header.partition_leader_epoch, one.value or b""
            offset = header.last_offset + 1
    return found
