"""A storage group whose replicas let go of its log: who is behind that, or has a new disk, copies the partition's log.

Snapshots, and what is copied and when it counts, are those of the storage group. Who copies may be killed meanwhile,
and goes on with what it has.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from tests.simulation.delayed import world
from tests.simulation.delayed.group_world import Driver, GroupHost, GroupWorld
from tests.simulation.delayed.hosts import MOST_BYTES, Host, SteppedAlarm
from tests.simulation.delayed.world import NOBODY, Outcome

from penstock.log.partition_log import PartitionLog
from penstock.node.quorum.ports import Reading
from penstock.node.storage_groups import group as group_module
from penstock.node.storage_groups.copying import read_for_copy
from penstock.raft.ports import SnapshotId
from penstock.raft.voters import Quorum
from penstock.replication.storage_groups.entries import PartitionId

SNAPSHOT, NEW_DISK, KILLED_IN_A_COPY = 0.03, 0.01, 0.1


class KilledError(Exception):
    """While it copied."""

    def __init__(self, host: CopyHost) -> None:
        super().__init__(host.id)
        self.host = host


class AtOnce(Executor):
    """The threads of a disk."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **words: Any) -> Future[Any]:
        done = Future[Any]()
        done.set_result(work(*args, **words))
        return done

    async def do(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)


class CopyDriver(Driver):
    """Knows snapshots, too."""

    log_start_offset = 0

    def __init__(self, host: CopyHost, world: CopyWorld) -> None:
        super().__init__(host, world)
        self._replica, self._copies = host, world
        self.threads = AtOnce()

    @property
    def leader_id(self) -> int:
        return self._copies.image.leader

    @property
    def applied_offset(self) -> int:
        return self._replica.applied

    def quorum_at(self, end_offset: int) -> Quorum:
        return Quorum()

    def snapshot_id_at(self, end_offset: int) -> SnapshotId:
        return SnapshotId(end_offset, self._copies.epoch)

    async def snapshot(self, chunks: Iterable[bytes], end_offset: int) -> None:
        self._replica.snapshot = end_offset, b"".join(chunks)


class CopyHost(GroupHost):
    def __init__(self, number: int, path: Path, world: CopyWorld) -> None:
        super().__init__(number, path, world)
        self._copies = world
        self.snapshot: tuple[int, bytes] | None = None
        self.is_new = False
        """Its disk has nothing yet of what the group has forgotten."""
        self._opened: PartitionLog | None = None

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        self._opened = super().open(partition, topic)
        return self._opened

    def threads_of(self, log: PartitionLog) -> Executor:
        return AtOnce()

    def driver(self) -> Any:
        return CopyDriver(self, self._copies)

    def recover(self) -> int:
        if self.snapshot is None:
            return 0
        self._read(*self.snapshot)
        return self.snapshot[0]

    def apply(self, end: int) -> None:
        leader = self._copies.copied_from(self)
        if leader is not None and leader.snapshot is not None and leader.snapshot[0] > self.applied:
            self._read(*leader.snapshot)
            self.applied, self.snapshot = leader.snapshot[0], leader.snapshot
            self._copies.copies += 1
        self.is_new = False
        super().apply(end)

    def _read(self, end: int, content: bytes) -> None:
        asyncio.run(_taken(self.group.read_snapshot(content, SnapshotId(end, 0))))

    async def _copy(self, leader: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:  # type: ignore[override]
        if self._copies.operator.random() < KILLED_IN_A_COPY and not self._copies.is_calm:
            raise KilledError(self)
        return read_for_copy(self._copies.hosts[leader].log, offset, MOST_BYTES)

    def give_up(self) -> None:
        """Killed before it had a partition."""
        assert self._opened is not None
        self._start_offset = self._opened.log_start_offset
        self._opened.abandon()
        self.alarms.clear()

    def lose_disk(self) -> None:
        """It was killed before."""
        shutil.rmtree(self._path)
        self._path.mkdir()
        self._start_offset, self.snapshot, self.is_new = 0, None, True


async def _taken(reading: Reading) -> None:
    put_in_place: Callable[[], None] | None = None
    while put_in_place is None:
        try:
            future = next(reading)
        except StopIteration as end:
            put_in_place = end.value
        else:
            assert future is not None
            await asyncio.wait([future])
    put_in_place()


class CopyWorld(GroupWorld):
    def __init__(self, seed: int, path: Path) -> None:
        self.operator = Random(seed)
        self.is_calm = self._elects = False
        super().__init__(seed, path)

    def host(self, number: int, path: Path) -> Host:
        return CopyHost(number, path, self)

    def copied_from(self, host: CopyHost) -> CopyHost | None:
        """The leader, if that is another one that lives; who is to lead has all that was agreed on."""
        leader = None if self._elects or self.image.leader in (NOBODY, host.id) else self.hosts[self.image.leader]
        return leader if isinstance(leader, CopyHost) and leader.partition is not None else None

    def elect(self) -> None:
        self._elects = True
        super().elect()
        self._elects = False

    def boot(self, host: Host) -> None:
        assert isinstance(host, CopyHost)
        if host.is_new and self.copied_from(host) is None:
            return
        try:
            super().boot(host)
        except KilledError:
            host.give_up()

    def replicate(self) -> None:
        try:
            super().replicate()
        except KilledError as error:
            self.kill(error.host)

    def event(self) -> None:
        live = [host for host in self.hosts if isinstance(host, CopyHost) and host.partition is not None]
        if live and self.operator.random() < SNAPSHOT:
            asyncio.run(self.operator.choice(live).group.snapshot())
        others = [host for host in live if self.copied_from(host) is not None]
        if others and self.operator.random() < NEW_DISK:
            host = self.operator.choice(others)
            self.kill(host)
            host.lose_disk()
        super().event()

    def heal(self) -> None:
        self.is_calm = True
        for _ in self.hosts:  # one with a new disk needs another that leads
            for host in self.hosts:
                if host.partition is None:
                    self.boot(host)
        super().heal()


def simulate(seed: int) -> Outcome:
    """As `world.simulate`."""
    with mock.patch.object(group_module, "Alarm", SteppedAlarm):
        return world.simulate(seed, CopyWorld)
