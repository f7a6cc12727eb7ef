"""What group commit brings: three replicas of a storage group, without a node around them, on files of one disk.

They live in one process and hand each other messages as they are, so what is measured is the disk's syncs and the work
of leader and followers together. Beside it stands a log of which each batch is flushed by itself.

And how long it takes to hand over: from its beginning until the new leader has acknowledged a batch that came to the
old one meanwhile.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from bench.measure import Figures, Measure, percentile
from bench.process import scratch
from penstock.log.config import LogConfig
from penstock.log.directories.directory import LogDirectories
from penstock.log.disk import Disk
from penstock.log.partition_log import PartitionLog
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.links.hand_over import Held, Outcome
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.quorum.ports import Clock, Member, PeerAnswer, Stores
from penstock.node.quorum.state_file import StateFile
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.quorum.stored_snapshots import StoredSnapshots
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.raft.requests import Answer, AskVersions, PeerRequest
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import Quorum, ReplicaKey, Voter
from penstock.replication.storage_groups.entries import PartitionId, Scheme
from penstock.replication.storage_groups.proposer import ProposalSettings

IDS: Final = (1, 2, 3)
VOTERS: Final = Quorum.of([Voter(ReplicaKey(node_id)) for node_id in IDS], 0)
CONFIG: Final = LogConfig(retention_ms=-1, cleanup_policy=frozenset())
BATCH: Final = bytes(encode_batch([Record(timestamp_ms=0, value=os.urandom(1000))]))
PARTITION: Final = PartitionId(UUID(int=0), 0)
SECONDS: Final = 1.0
HAND_OVERS: Final = 5
PAUSE_S: Final = 0.6
"""The lease was renewed by then, and all is quiet."""
KINDS: Final = ((1, 1, 0), (1, 12, 0), (12, 12, 0), (12, 12, 2), (12, 12, 10), (1, 100, 0), (12, 100, 0))
"""Topics, producers that wait for each batch, and milliseconds for which appends are collected."""


class Replica:
    def __init__(self, node_id: int, path: Path, replicas: "dict[int, Replica]", settings: ProposalSettings) -> None:
        path.mkdir()
        self.directories = directories = _opened(path, node_id)
        self.group = StorageGroup(self, _nobody, settings, wall_clock_ms)
        log = directories.create("__storage_group", 0, UUID(int=1), CONFIG)
        snapshots = StoredSnapshots(Disk(), log.directory)
        self.driver = QuorumDriver(
            Member(Voter(ReplicaKey(node_id)), VOTERS, RaftSettings(leases=True)),
            Stores(StoredLog(log, snapshots), snapshots, StateFile(Disk(), log.directory)),
            Links(replicas),
            self.group,
            Clock(wall_clock_ms),
            Random(node_id),
        )

    def threads_of(self, log: PartitionLog) -> Executor:
        return self.directories.threads_of(log)

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        return self.directories.create(topic, partition.number, partition.topic_id, CONFIG)

    def remove(self, log: PartitionLog) -> None:
        """Nothing is removed here."""

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        return False


async def _nobody(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
    raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody falls so far behind here")


class Links(NoPeers):
    """The other replicas, in the same process."""

    def __init__(self, replicas: dict[int, Replica]) -> None:
        self._replicas = replicas
        self._answered: Callable[[int, PeerRequest, PeerAnswer], None]

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        self._answered = answered

    def send(self, to: int, request: PeerRequest) -> None:
        asyncio.get_running_loop().call_soon(self._ask, to, request)

    def _ask(self, to: int, request: PeerRequest) -> None:
        assert not isinstance(request, AskVersions), "the voters are always the same"
        asked = self._replicas[to].driver
        if asked.is_running:
            asked.request(request).add_done_callback(partial(self._answer, to, request))

    def _answer(self, to: int, request: PeerRequest, answer: asyncio.Future[Answer]) -> None:
        if answer.exception() is None:
            self._answered(to, request, answer.result())


def storage_groups(runs: int) -> list[Measure]:
    """How many batches of 1 KB are on the disks of a majority in a second, and how long does each take?"""
    figures = Figures()
    for _ in range(runs):
        with scratch() as path:
            figures.add("one log, each batch flushed", "batches/s", _flushed_one_by_one(path))
    for (topics, producers, linger_ms), _ in product(KINDS, range(runs)):
        with scratch() as path:
            trips, together = asyncio.run(_produced(path, topics, producers, linger_ms))
        name = f"storage group, topics {topics}, producers {producers}, linger {linger_ms} ms"
        figures.add(name, "batches/s", len(trips) / SECONDS)
        figures.add(f"{name}, p50", "ms", statistics.median(trips))
        figures.add(f"{name}, p99", "ms", percentile(trips, 99))
        figures.add(f"{name}, batches in a proposal", "", together)
    for scheme in Scheme:
        took = []
        for _ in range(runs):
            with scratch() as path:
                took += asyncio.run(_handed_over(path, scheme))
        for one in took:
            figures.add(f"storage group, handed over by scheme {scheme}", "ms", one)
        figures.add(f"storage group, handed over by scheme {scheme}, longest", "ms", max(took))
    return figures.measures()


def _opened(path: Path, node_id: int = 1) -> LogDirectories:
    directories = LogDirectories([str(path)], node_id=node_id, random=Random(node_id), cluster_id="bench")
    directories.open_all(lambda topic: CONFIG)
    directories.begin()
    return directories


def _flushed_one_by_one(path: Path) -> float:
    directories = _opened(path)
    log = directories.create("flushed", 0, UUID(int=2), CONFIG)
    end, count = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < end:
        log.append_as_leader(memoryview(bytearray(BATCH)), leader_epoch=0, now_ms=wall_clock_ms())
        log.flush()
        count += 1
    directories.abandon()
    return count / SECONDS


async def _produced(path: Path, topics: int, producers: int, linger_ms: int) -> tuple[list[float], float]:
    """Milliseconds from append to acknowledgement of each batch, and the batches of a proposal."""
    replicas = await _started(path, ProposalSettings(linger_ms=linger_ms))
    group, partitions = await _leader(replicas), [PartitionId(UUID(int=number), 0) for number in range(topics)]
    for partition in partitions:
        group.open(partition, f"topic{partition.topic_id.int}")
    while len(group.partitions) < topics:
        await asyncio.sleep(0.01)
    proposals, entries, trips = group.proposer.proposals, group.proposer.entries, list[float]()
    end = time.perf_counter() + SECONDS
    works = [_produce(group, partitions[number % topics], end, trips) for number in range(producers)]
    await asyncio.gather(*works)
    together = (group.proposer.entries - entries) / (group.proposer.proposals - proposals)
    await _stopped(replicas)
    return trips, together


async def _started(path: Path, settings: ProposalSettings) -> dict[int, Replica]:
    replicas: dict[int, Replica] = {}
    for node_id in IDS:
        replicas[node_id] = Replica(node_id, path / f"{node_id}", replicas, settings)
    for replica in replicas.values():
        await replica.group.start(replica.driver)
    return replicas


async def _stopped(replicas: dict[int, Replica]) -> None:
    for replica in replicas.values():
        await replica.group.stop(resign=False)
        replica.directories.abandon()


async def _leader(replicas: dict[int, Replica]) -> StorageGroup:
    while not (leaders := [one.group for one in replicas.values() if one.group.can_be_read]):
        await asyncio.sleep(0.01)
    return leaders[0]


class Waiting:
    size = len(BATCH)

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def append(self) -> None:
        raise AssertionError("the successor leads")

    def refused(self, error: KafkaError) -> None:
        self.done.set_exception(error)


class Way:
    """To the replica that shall lead, in this process."""

    def __init__(self, group: StorageGroup, partition: PartitionId) -> None:
        self._group = group
        self._partition = partition

    def prepare(self) -> None:
        """There is nothing to open."""

    async def reach(self) -> None:
        """It is there."""

    async def send(self, held: Held) -> Outcome:
        """Append it there."""
        assert isinstance(held, Waiting)
        try:
            place = self._group.append(self._partition, memoryview(bytearray(BATCH)), leader_epoch=0)
        except KafkaError as error:
            return Outcome(False, partial(held.refused, error))
        await self._group.acknowledged(self._partition, place.last_offset)
        return Outcome(True, partial(held.done.set_result, None))

    def hang_up(self) -> None:
        """There is nothing to close."""

    async def close(self) -> None:
        """The same."""


async def _handed_over(path: Path, scheme: Scheme) -> list[float]:
    """Milliseconds from the beginning of each hand-over to the acknowledgement of the first batch by the new leader."""
    replicas, partition, took = await _started(path, ProposalSettings(handover_scheme=scheme)), PARTITION, list[float]()
    (await _leader(replicas)).open(partition, "topic")

    for _ in range(HAND_OVERS):
        group = await _leader(replicas)
        while any(partition not in one.group.partitions for one in replicas.values()):
            await asyncio.sleep(0.01)
        await asyncio.sleep(PAUSE_S)
        successor = next(node_id for node_id in IDS if node_id != group.driver.local_key.id)
        began, waiting = time.perf_counter(), Waiting()
        StorageGroupHandOver(group, successor, Way(replicas[successor].group, partition)).hold(waiting)
        await waiting.done
        took.append((time.perf_counter() - began) * 1000)
    await _stopped(replicas)
    return took


async def _produce(group: StorageGroup, partition: PartitionId, end: float, trips: list[float]) -> None:
    while (began := time.perf_counter()) < end:
        place = group.append(partition, memoryview(bytearray(BATCH)), leader_epoch=0)
        await group.acknowledged(partition, place.last_offset)
        trips.append((time.perf_counter() - began) * 1000)
