"""A replica of a storage group on a simulated host: its logs on the host's disk, its peers by post."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from functools import partial
from random import Random
from uuid import UUID

from tests.simulation.storage_groups.post import Links, Post

from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.directories.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from penstock.log.partition_log import PartitionLog
from penstock.node.links import hand_over
from penstock.node.links.hand_over import Outcome
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import iterate_batches, iterate_records
from penstock.raft.effects import ANY_SERVER
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import AddVoter, RemoveVoter, VoterChangeAnswer
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId, Scheme
from penstock.replication.storage_groups.proposer import Place, ProposalSettings
from penstock.replication.storage_groups.snapshot import encode_snapshot
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import Process

CLUSTER_ID = "storage-group"
GROUP_TOPIC = "__storage_group"
GROUP_TOPIC_ID = UUID(int=1)
FIRST_IDS = (1, 2, 3)
NEWCOMER = 4
IDS = (*FIRST_IDS, NEWCOMER)
GROUP_CONFIG = LogConfig(segment_bytes=4_000, retention_ms=-1, cleanup_policy=frozenset())
TOPIC_CONFIG = LogConfig(segment_bytes=3_000, retention_ms=-1, cleanup_policy=frozenset())
TOPICS = {UUID(int=10): "orders", UUID(int=20): "payments"}
PARTITIONS = tuple(PartitionId(topic_id, number) for topic_id in TOPICS for number in (0, 1))
SNAPSHOT_BYTES = 2_000
COPY_BYTES = 1_000
BOOTSTRAP = SnapshotId(0, 0)


def key_of(node_id: int) -> ReplicaKey:
    """The replica on this host."""
    return ReplicaKey(node_id, UUID(int=node_id))


FIRST_VOTERS = Quorum.of([Voter(key_of(node_id)) for node_id in FIRST_IDS])


class Held:
    """What a producer has sent while the lead goes to another replica."""

    def __init__(self, server: "Server", partition: PartitionId, batch: bytes) -> None:
        self.partition = partition
        self.batch = batch
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._server = server

    @property
    def size(self) -> int:
        """Of its records."""
        return len(self.batch)

    def answer(self, offset: int) -> None:
        """It is acknowledged, once."""
        self.done.set_result(offset)

    def append(self) -> None:
        """Append it here, after all."""
        try:
            done = self._server.append(self.partition, self.batch)
        except KafkaError as error:
            self.refused(error)
        else:
            task = asyncio.ensure_future(done)
            task.add_done_callback(self._appended)

    def _appended(self, task: asyncio.Future[int]) -> None:
        if (error := task.exception()) is None:
            self.answer(task.result())
        else:
            assert isinstance(error, KafkaError)
            self.refused(error)

    def refused(self, error: KafkaError) -> None:
        """Nobody has, or nobody knows."""
        self.done.set_exception(error)


class Way:
    """From one replica to another that shall lead."""

    def __init__(self, server: "Server", successor: int) -> None:
        self._server = server
        self._successor = successor

    def prepare(self) -> None:
        pass

    async def reach(self) -> None:
        pass

    async def send(self, held: hand_over.Held) -> Outcome:
        assert isinstance(held, Held)
        return await self._server.send_on(self._successor, held)

    def hang_up(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Server:
    """One process that holds a replica."""

    def __init__(
        self,
        node_id: int,
        process: Process,
        disk: HostDisk,
        post: Post,
        random: Random,
        clock: float,
        linger_ms: int,
        scheme: Scheme,
        peer: Callable[[int], "Server | None"],
    ) -> None:
        """`clock` is how fast the host's clock goes; `peer` finds who runs under another id now."""
        self.id = node_id
        self.process = process
        self._random = random
        self._disk = SimulatedDisk(disk, process)
        self._post = post
        self._clock = clock
        self._peer = peer
        settings = ProposalSettings(linger_ms=linger_ms, max_bytes=500, handover_scheme=scheme)
        self.group = StorageGroup(self, self._copy, settings, post.loop.now_ms)
        self.handing_over: StorageGroupHandOver | None = None
        self.held = self.sent_on_here = 0
        self.copies = 0
        """How often it copied something from another replica."""
        self.driver: QuorumDriver
        self._directories: LogDirectories

    async def start(self) -> None:
        """Take up what the disk has."""
        if read_meta_properties(self._disk, "/data") is None:
            self._format()
        directories = self._directories = LogDirectories(
            ["/data"], node_id=self.id, random=self._random, cluster_id=CLUSTER_ID, disk=self._disk
        )
        directories.open_all(lambda topic: GROUP_CONFIG if topic == GROUP_TOPIC else TOPIC_CONFIG)
        directories.begin()
        log = directories.create(GROUP_TOPIC, 0, GROUP_TOPIC_ID, GROUP_CONFIG)
        snapshots = StoredSnapshots(self._disk, log.directory)
        self.driver = QuorumDriver(
            Member(
                Voter(key_of(self.id)),
                Quorum((), DYNAMIC_VOTERS),
                RaftSettings(leases=True, fetch_snapshot_max_bytes=200),
            ),
            Stores(StoredLog(log, snapshots), snapshots, StateFile(self._disk, log.directory)),
            Links(self.process, self._post, self._driver_of),
            self.group,
            Clock(self._post.loop.now_ms, lambda: self._post.loop.moment * self._clock),
            self._random,
        )
        await self.group.start(self.driver)
        asyncio.ensure_future(self._look_after())  # noqa: RUF006  # the process keeps its tasks

    def _format(self) -> None:
        """A new directory; those of the first voters have a snapshot of nothing that names them."""
        if self.id in FIRST_IDS:
            snapshots = StoredSnapshots(self._disk, f"/data/{GROUP_TOPIC}-0")
            snapshots.write(BOOTSTRAP, encode_snapshot([], FIRST_VOTERS, epoch=0, now_ms=0))
        mine = MetaProperties(cluster_id=CLUSTER_ID, node_id=self.id, directory_id=key_of(self.id).directory_id)
        write_meta_properties(self._disk, "/data", mine)

    async def stop(self) -> None:
        """Lay down the lead, write everything down."""
        await self.group.stop()
        self._directories.close()

    async def _look_after(self) -> None:
        """What a node's metadata and timers do: partitions come into the group, and its log is kept short."""
        while self.driver.is_running:
            missing = [partition for partition in PARTITIONS if partition not in self.group.partitions]
            if self.group.proposer.epoch is not None:
                for partition in missing:
                    self.group.open(partition, TOPICS[partition.topic_id])
            if self.group.bytes_since_snapshot >= SNAPSHOT_BYTES:
                try:
                    await self.group.snapshot()
                except KafkaError:
                    if self.driver.failure is None:
                        raise
            await asyncio.sleep(0.3)

    # `GroupLogs`.

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        """The log that is there, or a new one."""
        return self._directories.create(topic, partition.number, partition.topic_id, TOPIC_CONFIG)

    def remove(self, log: PartitionLog) -> None:
        """Its files go."""
        self._directories.delete(log, now_ms=self._post.loop.now_ms())

    def threads_of(self, log: PartitionLog) -> Executor:
        """Those of its disk."""
        return self._directories.threads_of(log)

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        """No topic is ever deleted here."""
        return False

    # Others.

    def _driver_of(self, node_id: int) -> tuple[Process, QuorumDriver] | None:
        peer = self._peer(self._random.choice(IDS) if node_id == ANY_SERVER else node_id)
        return None if peer is None else (peer.process, peer.driver)

    async def _copy(self, node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        peer = self._peer(node_id)
        if peer is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        self.copies += 1
        return await self._post.ask(self.process, peer.process, lambda: peer.copied(partition, offset), 1)

    # What it is asked.

    async def copied(self, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        """What another replica copies from here."""
        log = self.group.partition(partition).log
        if not log.log_start_offset <= offset < log.log_end_offset:
            return log.log_start_offset, b""
        return log.log_start_offset, log.read(offset, COPY_BYTES).read()

    async def produce(self, partition: PartitionId, batch: bytes) -> int:
        """Append as a producer with acks=all asks, or hold it while the group is handed over: the first offset."""
        try:
            done = self.append(partition, batch)
        except KafkaError as error:
            giving = self.group.hand_over
            if error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER or giving is None or not giving.takes:
                raise
            self.held += 1
            held = Held(self, partition, batch)
            giving.hold(held)
            done = held.done
        return await done

    def append(self, partition: PartitionId, batch: bytes) -> Awaitable[int]:
        """Append it here: the first offset, when it is acknowledged."""
        epoch = self.group.proposer.epoch
        place = self.group.append(partition, memoryview(bytearray(batch)), leader_epoch=epoch or 0)
        return self._acknowledged(partition, place)

    async def _acknowledged(self, partition: PartitionId, place: Place) -> int:
        await self.group.acknowledged(partition, place.last_offset)
        return place.first_offset

    # The lead goes to another one.

    def hand_over(self, successor: int) -> None:
        """Give the lead to this voter. Raises KafkaError as `StorageGroupHandOver` does."""
        self.handing_over = StorageGroupHandOver(self.group, successor, Way(self, successor))

    async def send_on(self, successor: int, held: "Held") -> Outcome:
        """What was held goes to the successor, and its answer back."""
        peer = self._peer(successor)
        if peer is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        offset = await self._post.ask(self.process, peer.process, lambda: peer.sent_on(held), 1, in_order=True)
        if offset is None:
            return Outcome(False, lambda: held.refused(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
        self.sent_on_here += 1
        return Outcome(True, partial(held.answer, offset))

    async def sent_on(self, held: "Held") -> int | None:
        """What another replica has held: the first offset, or None if this one does not lead."""
        try:
            done = self.append(held.partition, held.batch)
        except KafkaError as error:
            if error.code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise
            return None
        return await done

    async def change_voters(self, change: AddVoter | RemoveVoter) -> ErrorCode:
        """Add or remove a voter, as an administrator asks."""
        answer = await self.driver.request(change)
        assert isinstance(answer, VoterChangeAnswer)
        return answer.error

    async def fetch(self, partition: PartitionId, offset: int) -> tuple[int, list[tuple[int, str]]]:
        """The end of the log, and its records from an offset on, with their offsets."""
        if not self.group.can_be_read:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no lease")
        return self.group.partition(partition).committed.high_watermark, self.values(partition, offset)

    def values(self, partition: PartitionId, offset: int = 0) -> list[tuple[int, str]]:
        """What the log of a partition here holds."""
        log, found = self.group.partition(partition).log, list[tuple[int, str]]()
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 30).read()  # of one segment
            for position, header in iterate_batches(data):
                records = iterate_records(data, position, header)
                found += [(record.offset, (record.value or b"").decode()) for record in records]
                offset = header.last_offset + 1
        return found
