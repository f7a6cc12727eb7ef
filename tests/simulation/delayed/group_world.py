"""The same partition where a storage group replicates it: what its leader appends is proposed, and in its log later.

The group's own log is a list here, of which a new leader may lack what was not agreed on; consensus has simulations of
its own. A leader that was deposed may not know it for a while: what it proposes then comes to nothing. What is real is
the storage group without its driver, the partition, and the node's delivery.
"""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from tests.simulation.delayed import world
from tests.simulation.delayed.hosts import CONFIG, TOPIC_ID, Host, SteppedAlarm, SteppedTurns
from tests.simulation.delayed.world import NOBODY, Outcome, World
from tests.unit.log.logs import open_log

from penstock.log.partition_log import PartitionLog
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.node.storage_groups import group as group_module
from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.batch import read_header
from penstock.raft.voters import ReplicaKey
from penstock.replication.storage_groups.entries import (
    Entry,
    Kind,
    PartitionId,
    decode_proposals,
    encode_proposal,
    opened,
)
from penstock.replication.storage_groups.proposer import ProposalSettings

PARTITION = PartitionId(TOPIC_ID, 0)


class Driver:
    """What a storage group asks of the driver of its log."""

    def __init__(self, host: GroupHost, world: GroupWorld) -> None:
        self._host, self._world = host, world
        self.local_key = ReplicaKey(host.id, TOPIC_ID)

    async def start(self) -> None:
        pass

    def holds_lease(self, epoch: int) -> bool:
        return self._world.epoch == epoch

    def append(self, batch: bytearray, epoch: int) -> mock.Mock:
        for entry in decode_proposals(bytes(batch)):
            if isinstance(entry, Entry) and entry.kind is Kind.APPENDED:
                header = read_header(entry.content)
                self._world.ledger.is_timely(memoryview(entry.content), header, self._host.now_ms())
        if self._world.epoch == epoch:
            self._world.agreed.append(bytes(batch))
        return mock.Mock()


class GroupHost(Host):
    group: StorageGroup

    def __init__(self, number: int, path: Path, world: GroupWorld) -> None:
        super().__init__(number, path, lambda: world.time_ms)
        self._world = world
        self.applied = 0

    # The logs of a storage group.

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        return open_log(self._path, CONFIG, log_start_offset=self._start_offset)

    def is_removed(self, topic_id: object, since: int) -> bool:
        return False

    def threads_of(self, log: PartitionLog) -> Executor | None:
        return None

    def remove(self, log: PartitionLog) -> None:
        raise AssertionError("the partition stays")

    async def _copy(self, *_: object) -> tuple[int, bytes]:
        raise AssertionError("nothing is forgotten")

    # What happens.

    def boot(self) -> None:
        self.group = StorageGroup(self, self._copy, ProposalSettings(), self.now_ms)
        self.applied = self.recover()
        with suppress(StopIteration):
            self.group.start(self.driver()).send(None)
        self.apply(self._world.committed)
        member = self.group.partition(PARTITION)
        self.partition: Any = ConsensusPartition("t", 0, TOPIC_ID, self.group, member)
        self.obey(self._world.image)

    def recover(self) -> int:
        """What the group's log does not say any more; how many of its entries that is."""
        return 0

    def driver(self) -> Any:
        return Driver(self, self._world)

    def apply(self, end: int) -> None:
        for number in range(self.applied, end):
            self.group.committed(self._world.agreed[number], number, number)
        self.applied = max(self.applied, end)

    def obey(self, image: PartitionImage) -> None:
        self.partition.obey(self.id, image, self.now_ms())
        self.partition.deliver(SteppedTurns(self.now_ms))

    def retain(self) -> None:
        self.partition.retain(self.now_ms())


class GroupWorld(World):
    def __init__(self, seed: int, path: Path) -> None:
        self.agreed = [bytes(encode_proposal([opened(PARTITION, "t", 0)], 0))]
        """The group's log as its leader has it."""
        self.committed = 1
        self._epoch = 0
        self._controller = Random(seed)
        self._unaware: dict[int, None] = {}
        """Those that have not heard of the present leader, nor of what it has proposed."""
        self.image = PartitionImage(NOBODY, 0, 0, (0,), (0,))
        super().__init__(seed, path)

    def host(self, number: int, path: Path) -> Host:
        return GroupHost(number, path, self)

    @property
    def epoch(self) -> int:
        return self._epoch

    def elect(self) -> None:
        """Of those that live one, which has all that was agreed on and may have more."""
        live = [host for host in self._hosts if host.partition is not None]
        if not live:
            self.image = self.image._replace(leader=NOBODY)
            return
        leader = self.random.choice(live)
        if leader.id in self._unaware:
            leader.group.leader_changed(None, self._epoch)
        if leader.id != self.image.leader:
            del self.agreed[self.random.randrange(self.committed, len(self.agreed) + 1) :]
        self._epoch += 1
        self.committed = len(self.agreed)
        self._unaware = {host.id: None for host in live if host is not leader}
        leader.apply(self.committed)
        leader.group.leader_changed(leader.id, self._epoch)
        if leader.id != self.image.leader or self.random.random() < 0.5:
            self._name(leader)
        if self.random.random() < 0.5:
            self._tell()

    def _name(self, leader: GroupHost) -> None:
        """In the metadata, of which the group hears later than of its own elections."""
        epoch = self.image.leader_epoch + 1
        self.image = self.image._replace(leader=leader.id, leader_epoch=epoch, partition_epoch=epoch)
        leader.obey(self.image)

    def _tell(self) -> None:
        for number in self._unaware:
            host = self._hosts[number]
            if host.partition is not None:
                host.group.leader_changed(self.image.leader, self._epoch)
                host.obey(self.image)
        self._unaware = {}

    @property
    def _hosts(self) -> list[GroupHost]:
        return [host for host in self.hosts if isinstance(host, GroupHost)]

    def kill(self, host: Host) -> None:
        host.kill()
        if self.image.leader == host.id:
            self.elect()

    def boot(self, host: Host) -> None:
        host.boot()
        if self.image.leader == NOBODY:
            self.elect()
        else:
            self._unaware[host.id] = None

    def replicate(self) -> None:
        if self.leader is None:
            return
        if self._unaware and self.random.random() < 0.3:
            self._tell()
        if self._controller.random() < 0.02:  # the controller took its leader for gone: no other was elected
            self._name(self._hosts[self.image.leader])
        self.committed = self.random.randrange(self.committed, len(self.agreed) + 1)
        for host in self._hosts:
            if host.partition is not None and host.id not in self._unaware and self.random.random() < 0.8:
                host.apply(self.random.randrange(host.applied, self.committed + 1))

    def look_for_early(self, before: int, leader: Host) -> None:
        """It is looked for when it is proposed."""


def simulate(seed: int) -> Outcome:
    """As `world.simulate`."""
    with mock.patch.object(group_module, "Alarm", SteppedAlarm):
        return world.simulate(seed, GroupWorld)
