import asyncio
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.unit.node.lone_group import CONFIG, start_alone
from tests.unit.node.turns import until

from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.environment.tasks import Threads
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.storage_groups import group as storage_group
from penstock.node.storage_groups.copying import copy_missing, flush_all
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.group_partition import GroupPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.storage_groups.proposer import Place, ProposalSettings

ORDERS = PartitionId(UUID(int=10), 0)
PAYMENTS = PartitionId(UUID(int=20), 0)


class Node:
    """The only replica of a group, on real files."""

    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.directories = LogDirectories([str(path)], node_id=1, random=Random(1), cluster_id="test")
        self.directories.open_all(lambda topic: CONFIG)
        self.directories.begin()
        self.group = StorageGroup(self, self._nobody, ProposalSettings(), wall_clock_ms)
        self.removed: list[str] = []
        self.deleted: set[UUID] = set()

    async def __aenter__(self) -> StorageGroup:
        try:
            await start_alone(self.group, self.directories)
        except Exception:
            self.directories.abandon()
            raise
        return self.group

    async def __aexit__(self, *_: object) -> None:
        await self.group.stop()
        self.directories.close()
        timers = [one for one in asyncio.get_running_loop()._scheduled if not one.cancelled()]  # type: ignore[attr-defined]
        assert timers == [], "nothing comes after the end"

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        return self.directories.create(topic, partition.number, partition.topic_id, CONFIG)

    def remove(self, log: PartitionLog) -> None:
        self.removed.append(log.topic)
        self.directories.delete(log, 0)

    def threads_of(self, log: PartitionLog) -> Executor:
        return self.directories.threads_of(log)

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        return topic_id in self.deleted

    async def _nobody(self, node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
        raise AssertionError("there is nobody to copy from")


async def opened(group: StorageGroup, *partitions: PartitionId) -> None:
    for partition in partitions:
        group.open(partition, "orders" if partition is ORDERS else "payments")
    await group.driver.barrier(group.driver.epoch)
    await until(lambda: all(partition in group.partitions for partition in partitions))


def append(group: StorageGroup, partition: PartitionId, count: int = 1) -> Place:
    batch = encode_batch([Record(timestamp_ms=wall_clock_ms(), value=b"x" * 100) for _ in range(count)])
    return group.append(partition, memoryview(batch), leader_epoch=0)


async def produce(group: StorageGroup, partition: PartitionId, count: int = 1) -> Place:
    place = append(group, partition, count)
    await there(group, partition, place)
    return place


async def there(group: StorageGroup, partition: PartitionId, place: Place) -> None:
    acknowledged = group.acknowledged(partition, place.last_offset)
    await until(acknowledged.done)
    await acknowledged


async def test_what_is_appended_in_one_turn_is_one_proposal(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS, PAYMENTS)
        before, end_offset = group.proposer.proposals, group.driver.log_end_offset
        places = [(partition, append(group, partition, 2)) for partition in (ORDERS, PAYMENTS, ORDERS)]
        await asyncio.gather(*(there(group, partition, place) for partition, place in places))
        assert [place.first_offset for _, place in places] == [0, 0, 2]
        assert group.proposer.proposals == before + 1
        assert group.driver.log_end_offset == end_offset + 3, "three entries in one batch"
        assert group.partition(ORDERS).committed.high_watermark == group.partition(ORDERS).log.log_end_offset == 4


async def test_what_is_collected_lingers_until_there_is_enough(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        group.proposer.settings = ProposalSettings(linger_ms=3_600_000, max_bytes=400)
        before = group.proposer.proposals
        for _ in range(3):
            place = append(group, ORDERS)
            await asyncio.sleep(0)
        await there(group, ORDERS, place)
        assert group.proposer.proposals == before + 1


async def test_a_group_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        await produce(group, ORDERS, 5)
    async with Node(tmp_path) as group:
        assert (await produce(group, ORDERS)).first_offset == 5


async def test_its_log_is_forgotten_behind_what_the_partitions_have(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS, PAYMENTS)
        for _ in range(10):
            await produce(group, ORDERS, 5)
        await group.snapshot()
        assert group.driver.log_start_offset == group.driver.applied_offset
        assert group.partition(ORDERS).log.recovery_point == 50
    async with Node(tmp_path) as group:
        assert (await produce(group, ORDERS)).first_offset == 50
        assert (await produce(group, PAYMENTS)).first_offset == 0


async def test_a_partition_that_is_closed_is_removed_when_no_snapshot_needs_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with node as group:
        await opened(group, ORDERS, PAYMENTS)
        await produce(group, ORDERS)
        waiting = group.acknowledged(ORDERS, 1)
        group.close(ORDERS)
        await until(waiting.done)
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert list(group.partitions) == [PAYMENTS]
        assert node.removed == []
        await group.snapshot()
        assert node.removed == ["orders"]
    async with Node(tmp_path) as group:
        assert list(group.partitions) == [PAYMENTS]


async def test_a_partition_that_is_opened_again_is_the_one_it_was(tmp_path: Path) -> None:
    """As a leader does that has not heard of it. Nor does one come back that was forgotten."""
    async with Node(tmp_path) as group:
        await opened(group, ORDERS, PAYMENTS)
        before = group.partitions[ORDERS]
        group.forget(PAYMENTS.topic_id)
        waiting = group.acknowledged(ORDERS, append(group, ORDERS).last_offset)
        group.open(ORDERS, "orders")
        group.open(PAYMENTS, "payments")
        await waiting
        await produce(group, ORDERS)
        assert (list(group.partitions), list(group.removed)) == ([ORDERS], [PAYMENTS])
        assert group.partitions[ORDERS] is before
        assert before.end_offset == 2


class Told:
    """Observes a partition, and waits for one of its deletions."""

    def __init__(self, group: StorageGroup) -> None:
        self.group = group
        self.leads: list[bool] = []

    def lead_changed(self) -> None:
        self.leads.append(self.group.leads)

    def proposed(self, batch: memoryview) -> None:
        pass


LOSES: dict[str, Callable[[StorageGroup], object]] = {
    "resigns": lambda group: group.driver.resign(),
    "another leads": lambda group: group.leader_changed(2, group.driver.epoch + 1),
    "nobody leads": lambda group: group.leader_changed(None, group.driver.epoch + 1),
    "its driver has failed": lambda group: group.ended(),
    "its driver takes nothing": lambda group: group._append(bytearray(), -1),
}


@pytest.mark.parametrize("how", LOSES)
async def test_who_waits_is_told_whatever_takes_the_lead(tmp_path: Path, how: str) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        group.proposer.settings = ProposalSettings(linger_ms=3_600_000)
        place, told, found = append(group, ORDERS), Told(group), group.partition(ORDERS)
        found.observe(told)
        group.lead_changed.listen(told.lead_changed)
        found.deletions.add(1, told.lead_changed)
        waiting = group.acknowledged(ORDERS, place.last_offset)
        with suppress(KafkaError):
            LOSES[how](group)
        for _ in range(100):
            await asyncio.sleep(0)
        assert waiting.done()
        with pytest.raises(KafkaError) as refused:
            await waiting
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert told.leads[:3] == [False] * 3


async def test_who_waits_is_told_when_the_disk_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(log: StoredLog) -> None:
        raise OSError("broken")

    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        monkeypatch.setattr(StoredLog, "flush", fail)
        with pytest.raises(KafkaError) as refused:
            await produce(group, ORDERS)
        assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        with pytest.raises(KafkaError):
            append(group, ORDERS)


async def test_what_is_deleted_stays_deleted(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        for _ in range(20):
            await produce(group, ORDERS)
        last = append(group, ORDERS)
        group.begin_at(ORDERS, 18)  # in one proposal
        await there(group, ORDERS, last)
        log = group.partition(ORDERS).log
        assert (log.log_start_offset, log.log_end_offset) == (18, 21)
        assert 0 < log.segments[0].base_offset < 18
        group.begin_at(ORDERS, 5)  # it began later already
        await produce(group, ORDERS)
        assert log.log_start_offset == 18
    forget_beginnings(tmp_path)
    async with Node(tmp_path) as group:  # its log says so again
        assert group.partition(ORDERS).log.log_start_offset == 18
        await group.snapshot()
    forget_beginnings(tmp_path)
    async with Node(tmp_path) as group:  # and so does the snapshot
        assert group.partition(ORDERS).log.log_start_offset == 18


def forget_beginnings(path: Path) -> None:
    """A power cut before a checkpoint of where logs begin."""
    (path / "log-start-offset-checkpoint").unlink()


async def test_what_lingers_when_a_group_stops_is_refused(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        group.proposer.settings = ProposalSettings(linger_ms=3_600_000)
        waiting = group.acknowledged(ORDERS, append(group, ORDERS).last_offset)
    with pytest.raises(KafkaError):
        await waiting
    async with Node(tmp_path) as group:
        assert (await produce(group, ORDERS)).first_offset == 0


async def test_another_replicas_snapshot_comes_before_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        await produce(group, ORDERS)
        own = asyncio.ensure_future(group.snapshot())
        await asyncio.sleep(0)
        monkeypatch.setattr(QuorumDriver, "log_start_offset", group.driver.applied_offset + 1)
        monkeypatch.setattr(QuorumDriver, "snapshot", None)
        await own


async def test_a_snapshot_stands_for_what_was_applied_when_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is applied while the disks work is in no log's flush and in none of the ends that the snapshot names."""
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        await produce(group, ORDERS)
        goes_on = threading.Event()

        def flush_late(logs: Sequence[PartitionLog]) -> None:
            goes_on.wait(60)
            flush_all(logs)

        monkeypatch.setattr(storage_group, "flush_all", flush_late)
        group.driver.threads = Threads()
        before = group.driver.applied_offset
        snapshot = asyncio.ensure_future(group.snapshot())
        await produce(group, ORDERS)
        goes_on.set()
        await snapshot
        assert group.driver.log_start_offset == before < group.driver.applied_offset


async def test_a_leader_whose_proposal_fails_leads_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was collected has its offsets already: a driver that led on would let nobody else lead this group."""

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")

    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        with monkeypatch.context() as full:
            full.setattr(StoredLog, "append", refuse)
            with pytest.raises(KafkaError) as refused:
                await produce(group, ORDERS)
            assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert group.driver.leader_id != group.driver.local_key.id
        await until(lambda: group.leads)
        assert (await produce(group, ORDERS)).first_offset == 0


async def test_a_lease_is_needed_for_what_is_read(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        await produce(group, ORDERS)
        assert group.can_be_read
        group.driver.resign()
        assert not group.can_be_read


async def test_batches_are_applied_once_and_in_their_order(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = GroupPartition(ORDERS, "orders", node.open(ORDERS, "orders"))
    batches = [bytes(encode_batch([Record(value=b"x")] * 2, base_offset=offset)) for offset in (0, 2, 4, 6)]
    partition.apply(batches[:2])
    partition.apply(batches[:3])
    assert partition.end_offset == 6
    partition.apply(batches)
    partition.apply([])
    assert partition.end_offset == 8
    for skipped in ([10], [8, 12]):
        with pytest.raises(KafkaError, match="orders-0 ends at"):
            partition.apply([bytes(encode_batch([Record(value=b"x")] * 2, base_offset=offset)) for offset in skipped])
    assert partition.end_offset == 8
    node.directories.close()


async def test_a_replica_copies_from_where_the_leaders_log_begins(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = GroupPartition(ORDERS, "orders", node.open(ORDERS, "orders"))
    asked: list[int] = []

    async def fetch(wanted: PartitionId, offset: int) -> tuple[int, bytes]:
        asked.append(offset)
        if len(asked) == 1:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        batch = encode_batch([Record(value=b"x"), Record(value=b"y")], base_offset=max(offset, 40))
        return 40, bytes(batch)

    await copy_missing([(partition, 43)], fetch, lambda partition: False, node.threads_of)
    assert asked == [0, 0, 40, 42]
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (40, 44)
    assert not partition.log.is_dirty
    node.directories.close()


async def test_a_replica_copies_from_the_middle_of_a_batch_on(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = GroupPartition(ORDERS, "orders", node.open(ORDERS, "orders"))

    async def fetch(wanted: PartitionId, offset: int) -> tuple[int, bytes]:
        batches = [bytes(encode_batch([Record(value=b"x")] * 10, base_offset=base)) for base in (40, 50)]
        return 45, b"".join(batches[0 if offset < 50 else 1 :])

    await copy_missing([(partition, 60)], fetch, lambda partition: False, node.threads_of)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (45, 60)
    node.directories.close()


async def test_what_is_said_of_a_deleted_topic_is_passed_over(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with node as group:
        await opened(group, ORDERS, PAYMENTS)
        await produce(group, ORDERS)
        under_way = append(group, ORDERS)
        waiting = group.acknowledged(ORDERS, under_way.last_offset)
        node.directories.delete(group.partition(ORDERS).log, 0)
        node.deleted.add(ORDERS.topic_id)
        group.forget(ORDERS.topic_id)
        with pytest.raises(KafkaError):
            await waiting
        assert (await produce(group, PAYMENTS)).first_offset == 0
        assert (list(group.partitions), list(group.removed)) == ([PAYMENTS], [ORDERS])
        await group.snapshot()
    node = Node(tmp_path)
    node.deleted.add(ORDERS.topic_id)
    async with node as group:
        assert (list(group.partitions), list(group.removed)) == ([PAYMENTS], [ORDERS])
        group.close(ORDERS)
        await group.driver.barrier(group.driver.epoch)
        await produce(group, PAYMENTS)
        assert group.removed == {}


async def test_a_log_that_was_forgotten_is_not_missed_where_its_topic_was_deleted(tmp_path: Path) -> None:
    async with Node(tmp_path) as group:
        await opened(group, ORDERS)
        await produce(group, ORDERS)
        await group.snapshot()
        await produce(group, ORDERS)
    shutil.rmtree(tmp_path / "orders-0")
    node = Node(tmp_path)
    node.deleted.add(ORDERS.topic_id)
    async with node as group:
        assert (list(group.partitions), list(group.removed)) == ([], [ORDERS])


async def test_a_topic_that_is_deleted_is_copied_no_further(tmp_path: Path) -> None:
    node = Node(tmp_path)
    partition = GroupPartition(ORDERS, "orders", node.open(ORDERS, "orders"))

    async def fetch(wanted: PartitionId, offset: int) -> tuple[int, bytes]:
        node.deleted.add(wanted.topic_id)
        return 0, bytes(encode_batch([Record(value=b"x")], base_offset=offset))

    await copy_missing(
        [(partition, 43)], fetch, lambda one: node.is_removed(one.id.topic_id, one.since), node.threads_of
    )
    assert partition.end_offset == 0
    node.directories.close()
