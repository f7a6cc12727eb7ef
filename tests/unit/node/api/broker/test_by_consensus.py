"""What clients get from a partition that a storage group replicates, here one with a single voter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.api.broker.fetches import fetch_of, told_of
from tests.unit.node.lone_group import CONFIG, start_alone
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, batch, node_on, produce_request, topic_records

from penstock.log.directories.directory import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.partitions.consensus_partition import ConsensusPartition
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.storage_groups.group import StorageGroup
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.fetch import FetchResponse, PartitionData
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.schema import Message
from penstock.replication.storage_groups.entries import PartitionId
from penstock.replication.storage_groups.proposer import ProposalSettings

ORDERS = PartitionId(TOPIC_ID, 0)
OTHER_NODE = 2


class Logs:
    """The partitions' logs lie beside the others of the node."""

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories

    def open(self, partition: PartitionId, topic: str) -> PartitionLog:
        return self._directories.create(topic, partition.number, partition.topic_id, CONFIG)

    def remove(self, log: PartitionLog) -> None:
        self._directories.delete(log, 0)

    def threads_of(self, log: PartitionLog) -> Executor:
        return self._directories.threads_of(log)

    def is_removed(self, topic_id: UUID, since: int) -> bool:
        return False


class Served:
    """A node that leads one partition of a storage group, in leader epoch 3."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.group = StorageGroup(Logs(node.directories), _nobody, ProposalSettings(), wall_clock_ms)
        self.group.member_changed.listen(lambda partition: node.replicas.on_group(*partition))
        node.replicas._groups = self  # type: ignore[assignment]  # as much of it as is used here

    def group_of(self, topic_id: UUID) -> StorageGroup | None:
        return self.group if topic_id == TOPIC_ID else None

    def is_member(self, log: PartitionLog) -> bool:
        return any(member.log is log for member in self.group.partitions.values())

    async def begin(self) -> None:
        self.node.commit(*topic_records(replication_mode="consensus", storage_group="0"))
        await start_alone(self.group, self.node.directories)
        self.group.open(ORDERS, "orders")
        while ORDERS not in self.group.partitions:
            await asyncio.sleep(0)

    @property
    def replica(self) -> ConsensusPartition:
        found = self.node.broker.partition("orders", 0)
        assert isinstance(found, ConsensusPartition)
        return found

    def name(self, leader: int) -> None:
        """The metadata name another leader."""
        self.node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=leader))

    async def ask(self, message: Message, version: int) -> Message:
        """The answer, whenever it comes."""
        parts = self.node.dispatch(message, version)
        if isinstance(parts, list):
            return self.node.decode(message, version, parts)
        return await self.node.wait(message, version, parts)

    async def produce(self, request: ProduceRequest, version: int = 12) -> PartitionProduceResponse:
        answer = await self.ask(request, version)
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0]

    async def fetch(self, offset: int, max_wait_ms: int = 0) -> PartitionData:
        answer = await self.ask(fetch_of(offset, max_wait_ms=max_wait_ms), 17)
        assert isinstance(answer, FetchResponse)
        return told_of(answer)

    async def delete_records(self, offset: int) -> tuple[int, int]:
        """What DeleteRecords answers."""
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name="orders", partitions=[asked])
        answer = await self.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=60_000), 2)
        assert isinstance(answer, DeleteRecordsResponse)
        told = answer.topics[0].partitions[0]
        return told.error_code, told.low_watermark

    async def end(self) -> tuple[int, int]:
        """What ListOffsets tells of the end."""
        topic = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        answer = await self.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 9)
        assert isinstance(answer, ListOffsetsResponse)
        told = answer.topics[0].partitions[0]
        return told.error_code, told.offset


async def _nobody(node_id: int, partition: PartitionId, offset: int) -> tuple[int, bytes]:
    raise AssertionError("there is nobody to copy from")


@asynccontextmanager
async def serving_on(directory: Path) -> AsyncIterator[Served]:
    with node_on(directory) as node:
        served = Served(node)
        await served.begin()
        yield served
        await served.group.stop()


@pytest.mark.parametrize("acks", [1, -1])
async def test_a_batch_is_acknowledged_when_it_is_committed(tmp_path: Path, acks: int) -> None:
    async with serving_on(tmp_path) as served:
        parts = served.node.dispatch(request := produce_request(batch(b"a", b"b"), acks=acks), 12)
        assert not isinstance(parts, list), "nothing is on any disk yet"
        assert served.replica.log.log_end_offset == 0
        answer = await served.node.wait(request, 12, parts)
        assert isinstance(answer, ProduceResponse)
        (told,) = answer.responses[0].partition_responses
        assert (told.error_code, told.base_offset) == (ErrorCode.NONE, 0)
        assert served.replica.high_watermark == served.replica.log.log_end_offset == 2
        assert (await served.produce(produce_request(batch(b"c")))).base_offset == 2
        assert await served.end() == (ErrorCode.NONE, 3)
        found = await served.fetch(1)
        assert (found.high_watermark, found.last_stable_offset) == (3, 3)
        assert served.replica.log.leader_epochs.entries == [(3, 0)]


async def test_without_acks_nobody_waits(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        waiting = served.fetch(0, max_wait_ms=60_000)
        assert served.node.dispatch(produce_request(batch(b"a"), acks=0), 9) == []
        assert not served.replica.committed.waits
        assert (await waiting).records, "a reader hears of it"


async def test_a_batch_that_comes_again_has_its_place(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        served.replica.log.config = CONFIG.replace(message_timestamp_type="LogAppendTime")
        again = encode_batch([Record(value=b"x")] * 3, producer_id=7, producer_epoch=0, base_sequence=0)
        first, second = await asyncio.gather(*(served.produce(produce_request(bytes(again))) for _ in range(2)))
        third = await served.produce(produce_request(bytes(again)))
        assert first.log_append_time_ms > 0
        for told in (first, second, third):
            assert (told.error_code, told.base_offset) == (ErrorCode.NONE, 0)
            assert told.log_append_time_ms == first.log_append_time_ms
        assert served.replica.log.log_end_offset == 3


async def test_whoever_waits_hears_that_the_lead_is_lost(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a")))
        reading = asyncio.ensure_future(served.fetch(1, max_wait_ms=60_000))
        writing = asyncio.ensure_future(served.produce(produce_request(batch(b"b"))))
        await asyncio.sleep(0)
        served.group.driver.resign()
        told = await writing
        assert told.error_code == (await reading).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (NODE_ID, 3)


async def test_the_lead_needs_the_metadata_as_well(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        served.name(OTHER_NODE)
        told = await served.produce(produce_request(batch(b"a")))
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert told.current_leader.leader_id == OTHER_NODE
        assert (await served.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await served.end())[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        served.name(NODE_ID)
        assert (await served.produce(produce_request(batch(b"a")))).error_code == ErrorCode.NONE
        assert served.replica.log.leader_epochs.entries == [(5, 0)]


async def test_a_new_epoch_of_the_metadata_takes_nobodys_answer(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        waiting = asyncio.ensure_future(served.produce(produce_request(batch(b"a"))))
        await asyncio.sleep(0)
        served.name(NODE_ID)
        assert (await waiting).error_code == ErrorCode.NONE
        assert await served.end() == (ErrorCode.NONE, 1)


async def test_without_its_lease_it_tells_consumers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a")))
        assert (await served.fetch(0)).records
        monkeypatch.setattr(QuorumDriver, "holds_lease", lambda driver, epoch: False)
        assert (await served.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await served.end())[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_any_replica_answers_who_compares_them(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a")))
        served.name(OTHER_NODE)
        assert (await served.fetch(0)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = await served.ask(fetch_of(0, replica=-2), 17)
        assert isinstance(answer, FetchResponse)
        told = told_of(answer)
        assert (told.error_code, told.high_watermark) == (ErrorCode.NONE, 1)
        assert told.records


async def test_a_start_keeps_the_log_of_a_group_that_comes_here(tmp_path: Path) -> None:
    """The metadata give what is in it to this node when it votes; it has copied it before."""
    groups, away = UUID(int=77), [OTHER_NODE]
    group = PartitionRecord(partition_id=0, topic_id=groups, replicas=[OTHER_NODE, NODE_ID], isr=away, leader=2)
    orders = topic_records(replication_mode="consensus", storage_group="0", partitions=0)
    orders.append(PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=away, isr=away, leader=2))
    with node_on(tmp_path, TopicRecord(name="__storage_group", topic_id=groups), group, *orders) as node:
        node.directories.create("orders", 0, TOPIC_ID, CONFIG)
        await node.replicas.open_all()
        assert (tmp_path / "orders-0").exists()
        node.image.apply(PartitionChangeRecord(topic_id=groups, partition_id=0, replicas=away))
        await node.replicas.open_all()
        assert not (tmp_path / "orders-0").exists()


async def test_what_a_storage_group_does_not_do_is_refused(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a")))
        with pytest.raises(KafkaError, match="stay where they are"):
            served.node.broker.moves.move(served.replica, "/elsewhere")


async def test_records_are_deleted(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a", b"b", b"c")))
        assert await served.delete_records(1) == (ErrorCode.NONE, 1)
        assert await served.delete_records(0) == (ErrorCode.NONE, 1)
        assert await served.delete_records(4) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert (await served.fetch(0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await served.delete_records(-1) == (ErrorCode.NONE, 3)
        assert await served.end() == (ErrorCode.NONE, 3)
        waiting = asyncio.ensure_future(served.delete_records(-1))
        await served.produce(produce_request(batch(b"d")))
        assert await waiting == (ErrorCode.NONE, 3)


async def test_a_deletion_ends_with_the_lead(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a")))
        deleting = asyncio.ensure_future(served.delete_records(1))
        await asyncio.sleep(0)
        served.group.driver.resign()
        assert await deleting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_a_replica_is_there_when_its_group_has_it(tmp_path: Path) -> None:
    with node_on(tmp_path) as node:
        node.commit(*topic_records(replication_mode="consensus", storage_group="0"))
        assert node.produce(b"a") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert not node.directories.logs
    async with serving_on(tmp_path / "another") as served:
        assert list(served.node.table) == [served.replica]
        assert served.replica.committed is served.group.partition(ORDERS).committed
        assert served.node.broker.partition(TOPIC_ID, 0) is served.replica


async def test_a_group_may_be_ahead_of_the_metadata(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving_on(tmp_path) as served:
        served.group.open(new := PartitionId(TOPIC_ID, 1), "orders")
        while new not in served.group.partitions:
            await asyncio.sleep(0)
        assert not caplog.records
        served.node.commit(*topic_records(partitions=2)[-1:])
        assert served.node.broker.partition("orders", 1).leader is not None


async def test_the_group_removes_the_log_of_a_topic_that_is_gone(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        await served.produce(produce_request(batch(b"a")))
        served.node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
        assert not list(served.node.table)
        assert (tmp_path / "orders-0").exists()
        served.group.close(ORDERS)
        while ORDERS in served.group.partitions:
            await asyncio.sleep(0)
        await served.group.snapshot()
        assert not (tmp_path / "orders-0").exists()


async def test_a_replica_goes_with_its_place_in_the_group(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        before = served.replica
        served.group.close(ORDERS)
        while ORDERS in served.group.partitions:
            await asyncio.sleep(0)
        assert not list(served.node.table)
        served.group.open(ORDERS, "orders")
        while ORDERS not in served.group.partitions:
            await asyncio.sleep(0)
        assert served.replica is not before
        assert served.replica.leader is not None


async def test_a_start_sets_no_log_aside_that_a_group_has(tmp_path: Path) -> None:
    async with serving_on(tmp_path) as served:
        served.node.image.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
        await served.node.replicas.open_all()
        assert (tmp_path / "orders-0").exists()
        assert (tmp_path / "__storage_group-0").exists()
        del served.group.partitions[ORDERS]
        await served.node.replicas.open_all()
        assert not (tmp_path / "orders-0").exists()


def test_what_a_group_says_of_a_topic_that_is_not_in_it_is_passed_over(tmp_path: Path) -> None:
    with node_on(tmp_path) as node:
        node.commit(*topic_records())
        before = node.broker.partition("orders", 0)
        node.replicas.on_group(TOPIC_ID, 0)
        assert node.broker.partition("orders", 0) is before
        assert node.produce(b"a") == (ErrorCode.NONE, 0)
