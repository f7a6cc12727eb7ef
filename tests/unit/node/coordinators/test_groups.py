import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.group_node import OFFSETS_ID, GroupNode, ask, with_topics

from penstock.coordinator.shards.groups import GroupShard
from penstock.log import record_checks
from penstock.log.config import LogConfig
from penstock.log.validation import AppendOrigin
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import (
    PartitionChangeRecord,
)
from penstock.node.api.broker.find_coordinator import find_coordinator
from penstock.node.api.broker.heartbeat import heartbeat
from penstock.node.api.broker.join_group import join_group
from penstock.node.api.broker.offset_commit import offset_commit
from penstock.node.api.broker.offset_fetch import offset_fetch
from penstock.node.api.broker.sync_group import sync_group
from penstock.node.coordinators import host
from penstock.node.coordinators.hosted import Hosted
from penstock.node.metrics.registry import Registry
from penstock.node.monitoring.groups import GroupSurvey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.records import Record, encode_batch


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[GroupNode]:
    node = GroupNode(tmp_path)
    yield node
    await node.stop()


def join_request(group: str = "orders", member: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01meta")],
    )


def commit_request(
    offset: int, group: str = "orders", topic: str = "flights", partition: int = 0
) -> OffsetCommitRequest:
    asked = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])])


async def committed(node: GroupNode, group: str = "orders") -> dict[tuple[str, int], int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (answer,) = (await ask(offset_fetch, node, 8, request)).groups
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, one.partition_index): one.committed_offset for topic in answer.topics for one in topic.partitions
    }


async def stable(node: GroupNode, group: str = "orders") -> JoinGroupResponse:
    """One member, joined and synced."""
    joined = await ask(join_group, node, 3, join_request(group))
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\xff\x00mine")]
    request = SyncGroupRequest(group_id=group, member_id=joined.member_id, generation_id=1, assignments=given)
    synced = await ask(sync_group, node, 3, request)
    assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"\xff\x00mine")
    assert isinstance(joined, JoinGroupResponse)
    return joined


async def test_the_first_need_creates_the_topic_once(node: GroupNode) -> None:
    request = FindCoordinatorRequest(key="orders")
    for _ in range(2):
        answer = await ask(find_coordinator, node, 2, request)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    joined = await ask(join_group, node, 3, join_request())
    assert joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await asyncio.sleep(0)
    (command,) = node.controller.commands
    assert isinstance(command, CreateTopicsRequest)
    (topic,) = command.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (CONSUMER_OFFSETS, 2, 1)
    configs = {config.name: config.value for config in topic.configs}
    assert configs == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}


async def test_a_failed_creation_is_tried_again(node: GroupNode) -> None:
    await ask(find_coordinator, node, 2, FindCoordinatorRequest(key="orders"))
    failure = CreatableTopicResult(name=CONSUMER_OFFSETS, error_code=ErrorCode.INVALID_REPLICATION_FACTOR)
    node.controller.reply.set_result(CreateTopicsResponse(topics=[failure]))
    while len(node.controller.commands) < 2:
        await asyncio.sleep(0)
        await ask(find_coordinator, node, 2, FindCoordinatorRequest(key="orders"))


@pytest.mark.parametrize("version", range(7))
async def test_anybody_can_say_who_coordinates(node: GroupNode, version: int) -> None:
    node.create_offsets_topic(leaders=(2, 1))  # "orders" belongs to partition 1, "weather" to 0; broker 2 is not there
    for group in ("orders", "weather"):
        request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
        answer = await ask(find_coordinator, node, version, request)
        found = answer.coordinators[0] if version >= 4 else answer
        if group == "orders":
            assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "127.0.0.1", 9092)
        else:
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


async def test_groups_of_others_are_sent_away(node: GroupNode) -> None:
    node.create_offsets_topic(leaders=(2, 2))
    joined = await ask(join_group, node, 3, join_request())
    assert joined.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_coordinator_without_a_lease_sends_its_groups_away(node: GroupNode) -> None:
    node.create_offsets_topic()
    node.groups.context = node.groups.context.replace(may_lead=lambda _: False)
    joined = await ask(join_group, node, 3, join_request())
    assert joined.error_code == ErrorCode.NOT_COORDINATOR


async def test_a_restart_changes_nothing_for_the_members(tmp_path: Path) -> None:
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    joined = await stable(before)
    answer = await ask(offset_commit, before, 8, commit_request(41, "reports"))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    await before.stop()

    after = with_topics(GroupNode(tmp_path))
    await after.ready()
    request = HeartbeatRequest(group_id="orders", member_id=joined.member_id, generation_id=1)
    assert (await ask(heartbeat, after, 4, request)).error_code == ErrorCode.NONE
    sync = SyncGroupRequest(group_id="orders", member_id=joined.member_id, generation_id=1)
    assert (await ask(sync_group, after, 3, sync)).assignment == b"\xff\x00mine"
    assert await committed(after, "reports") == {("flights", 0): 41}
    await after.stop()


async def test_reading_is_done_in_slices(tmp_path: Path) -> None:
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    for offset in range(3000):
        await ask(offset_commit, before, 8, commit_request(offset))
    await before.stop()

    after = with_topics(GroupNode(tmp_path))
    turns = 0
    with pytest.raises(KafkaError) as refused:
        after.groups.find("orders")
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert (await ask(join_group, after, 3, join_request())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    beat = HeartbeatRequest(group_id="orders", member_id="m", generation_id=1)
    assert (await ask(heartbeat, after, 4, beat)).error_code == ErrorCode.NONE
    while after.groups.is_loading:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 3
    assert await committed(after) == {("flights", 0): 2999}
    await after.stop()


async def test_only_the_last_record_of_a_key_is_made_something_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be millions that are not compacted yet."""
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    for offset in range(50):
        await ask(offset_commit, before, 8, commit_request(offset))
        if offset == 20:
            await ask(offset_commit, before, 8, commit_request(offset, partition=1))
    await before.stop()

    taken: list[bytes] = []
    read = GroupShard.read

    def watched(shard: GroupShard, key: bytes, value: bytes | None, offset: int) -> None:
        taken.append(key)
        read(shard, key, value, offset)

    monkeypatch.setattr(GroupShard, "read", watched)
    after = with_topics(GroupNode(tmp_path))
    await after.ready()
    partitions = [key[-1] for key in taken if b"flights" in key]
    assert partitions == [1, 0], "once each, in the order of what was written last"
    assert await committed(after) == {("flights", 0): 49, ("flights", 1): 20}
    await after.stop()


async def replicated(tmp_path: Path) -> tuple[GroupNode, Any]:
    """A node whose partitions have a follower, and a commit that waits for it."""
    node = with_topics(GroupNode(tmp_path, isr=(1, 2)))
    await node.ready()
    waiting = asyncio.ensure_future(ask(offset_commit, node, 8, commit_request(5)))
    await asyncio.sleep(0)
    assert await committed(node) == {}
    return node, waiting


async def test_an_offset_counts_when_the_followers_have_it(tmp_path: Path) -> None:
    node, waiting = await replicated(tmp_path)
    assert not waiting.done()
    for partition in node.table.held.values():
        assert partition.leader is not None
        partition.obey(1, PartitionImage(1, 0, 1, (1, 2), (1,)), 0)
    assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert await committed(node) == {("flights", 0): 5}
    await node.stop()


async def test_who_waits_is_sent_away_when_leadership_moves(tmp_path: Path) -> None:
    node, waiting = await replicated(tmp_path)
    for index, partition in enumerate(list(node.table.held.values())):
        partition.obey(1, PartitionImage(2, 1, 1, (1, 2), (2,)), 0)
        node.tell(PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=2))
    assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError) as refused:
        node.groups.find("orders")
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    await node.stop()


async def test_a_coordinator_says_nothing_more_when_the_metadata_name_another(node: GroupNode) -> None:
    node.create_offsets_topic()
    await node.ready()
    await ask(offset_commit, node, 8, commit_request(1))
    for index in range(2):  # very many partitions change with them: these follow later
        node.tell(PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=2))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="orders", topics=None)])
    (answer,) = (await ask(offset_fetch, node, 8, request)).groups
    assert answer.error_code == ErrorCode.NOT_COORDINATOR, "the other one may know of a later offset"


async def test_a_partition_that_comes_back_is_read_again(tmp_path: Path) -> None:
    node, _ = await replicated(tmp_path)
    for index, partition in enumerate(list(node.table.held.values())):
        partition.obey(1, PartitionImage(2, 1, 1, (1, 2), (2,)), 0)
        node.tell(PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=2))
        partition.obey(1, PartitionImage(1, 2, 2, (1, 2), (1,)), 0)
        node.tell(PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=1, isr=[1]))
    await node.ready()
    assert await committed(node) == {("flights", 0): 5}  # The follower is out of sync: what was appended is committed.
    await node.stop()


async def test_rebalances_are_counted_and_stay_so_when_the_partition_goes(node: GroupNode) -> None:
    with_topics(node)
    await node.ready()
    for group in ("orders", "billing"):
        await stable(node, group)
    survey, registry = GroupSurvey(node.broker), Registry()
    survey.register(registry)

    def told() -> dict[str, Any]:
        wanted = "group-completed-rebalance-count", "consumer-group-rebalance-count", "GroupRebalanceTime"
        return {metric.name: dict(metric.samples()) for metric in registry if metric.name in wanted}

    before = told()
    assert before["group-completed-rebalance-count"] == {(): 2}
    assert before["consumer-group-rebalance-count"] == {(): 0}
    for hosted in node.groups.led():
        node.groups._resign(hosted.partition.index)
    assert told() == before


async def test_an_append_that_fails_is_answered(node: GroupNode) -> None:
    with_topics(node)
    await node.ready()
    for partition in node.table.held.values():
        partition.obey(1, PartitionImage(1, 0, 1, (1, 2), (1,)), 0)
        partition.min_insync_replicas = 2
    answer = await ask(offset_commit, node, 8, commit_request(5))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await committed(node) == {}


async def test_a_partition_that_could_not_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    await ask(offset_commit, before, 8, commit_request(41))
    await before.stop()

    failures = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is away")] * 2
    read = Hosted._take_last

    def read_or_fail(*arguments: Any) -> int:
        if failures:
            raise failures.pop()
        return read(*arguments)

    monkeypatch.setattr(Hosted, "_take_last", read_or_fail)
    monkeypatch.setattr(host, "LOAD_RETRY_S", 0)
    after = with_topics(GroupNode(tmp_path))
    async with asyncio.timeout(10):
        await after.ready()
    assert await committed(after) == {("flights", 0): 41}
    await after.stop()


async def test_who_has_stopped_leads_nothing_anew(tmp_path: Path) -> None:
    node = with_topics(GroupNode(tmp_path))
    await node.ready()
    await node.groups.stop()
    node.tell(PartitionChangeRecord(partition_id=0, topic_id=OFFSETS_ID, isr=[1]))
    assert node.groups.serving() == []
    await node.stop()


async def test_records_of_groups_are_not_unpacked_to_be_checked(
    node: GroupNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_topics(node)
    await node.ready()
    for partition in node.table.held.values():
        partition.log.config = LogConfig(cleanup_policy=frozenset({"compact"}))
    monkeypatch.setattr(record_checks, "_check_contents", None)
    answer = await ask(offset_commit, node, 8, commit_request(5))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


async def test_a_commit_that_takes_too_long_is_answered_and_counts_all_the_same(tmp_path: Path) -> None:
    node = with_topics(GroupNode(tmp_path, isr=(1, 2), settings={"offsets.commit.timeout.ms": "1"}))
    await node.ready()
    answer = await ask(offset_commit, node, 8, commit_request(5))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await committed(node) == {}
    for partition in node.table.held.values():
        assert partition.leader is not None
        partition.obey(1, PartitionImage(1, 0, 1, (1, 2), (1,)), 0)
    assert await committed(node) == {("flights", 0): 5}
    await node.stop()


async def test_a_leader_that_was_away_within_one_change_of_metadata_reads_again(tmp_path: Path) -> None:
    node, waiting = await replicated(tmp_path)
    for index, partition in enumerate(list(node.table.held.values())):
        partition.obey(1, PartitionImage(2, 1, 1, (1, 2), (2,)), 0)
        partition.obey(1, PartitionImage(1, 2, 2, (1, 2), (1,)), 0)
        node.tell(
            PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=2),
            PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=1, isr=[1]),
        )
    assert node.groups.is_loading
    assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    await node.stop()


async def test_one_partition_that_waits_for_its_replicas_holds_up_no_other(tmp_path: Path) -> None:
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    for group in ("orders", "weather"):  # in partitions 1 and 0
        await ask(offset_commit, before, 8, commit_request(3, group))
    await before.stop()
    after = with_topics(GroupNode(tmp_path, isr=(1, 2)))
    after.table.held[CONSUMER_OFFSETS, 1].obey(1, PartitionImage(1, 0, 1, (1, 2), (1,)), 0)
    hosted = after.groups.hosted(1)
    assert hosted is not None
    while not hosted.is_serving:
        await asyncio.sleep(0)
    assert await committed(after, "orders") == {("flights", 0): 3}
    assert after.groups.is_loading
    await after.stop()


async def test_what_is_asked_for_while_a_machine_ends_is_not_written(tmp_path: Path) -> None:
    node = GroupNode(tmp_path, isr=(1, 2))
    node.create_offsets_topic()
    await node.ready()
    joined = await ask(join_group, node, 3, join_request())
    given = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")]
    request = SyncGroupRequest(group_id="orders", member_id=joined.member_id, generation_id=1, assignments=given)
    waiting = asyncio.ensure_future(ask(sync_group, node, 3, request))
    await asyncio.sleep(0)
    ends = [partition.log.log_end_offset for partition in node.table.held.values()]
    await node.groups.stop()
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert [partition.log.log_end_offset for partition in node.table.held.values()] == ends
    await node.stop()


async def test_a_machine_of_an_earlier_epoch_writes_nothing(node: GroupNode) -> None:
    """The partition has followed the metadata already, its coordinator not yet, and a request comes in between."""
    with_topics(node)
    await node.ready()
    for index in range(2):
        partition = node.table.held[CONSUMER_OFFSETS, index]
        partition.obey(1, PartitionImage(1, 2, 2, (1,), (1,)), 0)
    ends = [partition.log.log_end_offset for partition in node.table.held.values()]
    waiting = asyncio.ensure_future(ask(offset_commit, node, 8, commit_request(5)))
    await asyncio.sleep(0)
    assert [partition.log.log_end_offset for partition in node.table.held.values()] == ends
    for index in range(2):
        node.tell(PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=1))
    assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    await node.ready()
    assert await committed(node) == {}


async def test_markers_of_transactions_are_not_taken_for_records_of_groups(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A directory on which Apache Kafka ran has them: offsets may be committed within a transaction."""
    before = GroupNode(tmp_path)
    before.create_offsets_topic()
    await before.ready()
    commit_marker = Record(timestamp_ms=0, key=b"\x00\x00\x00\x01", value=b"\x00\x00\x00\x00\x00\x00")
    marker = encode_batch([commit_marker], producer_id=1, producer_epoch=0, is_transactional=True, is_control=True)
    for partition in before.table.held.values():
        partition.append(memoryview(marker), acks=1, now_ms=0, origin=AppendOrigin.COORDINATOR)
    await before.stop()
    after = GroupNode(tmp_path)
    after.create_offsets_topic()
    await after.ready()
    assert [[*hosted.machine.list_groups()] for hosted in after.groups.serving()] == [[], []]
    assert "left out" not in caplog.text
    await after.stop()
