"""Commits and fetches of offsets that come while their coordinator takes over."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.coordinators.test_groups import commit_request, committed, join_request
from tests.unit.node.group_node import FLIGHTS_ID, OFFSETS_ID, GroupNode, ask, with_topics

from penstock.log.disk import OpenFile
from penstock.metadata.image import PartitionImage
from penstock.metadata.records import PartitionChangeRecord, RemoveTopicRecord
from penstock.node.api.broker.join_group import join_group
from penstock.node.api.broker.offset_commit import offset_commit
from penstock.node.api.broker.offset_fetch import offset_fetch
from penstock.node.coordinators import host
from penstock.node.coordinators.hosted import Hosted
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

FETCH = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="orders", topics=None)])


async def taking_over(tmp_path: Path, settings: dict[str, str] | None = None) -> GroupNode:
    """A node whose log ends with a commit that its follower has not fetched yet."""
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    await ask(offset_commit, before, 8, commit_request(41))
    await before.stop()
    node = with_topics(GroupNode(tmp_path, isr=(1, 2), settings=settings))
    for _ in range(10):  # what can be read is read
        await asyncio.sleep(0)
    assert node.groups.is_loading
    return node


async def under_way(*asked: Any) -> list[asyncio.Future[Any]]:
    waiting = [asyncio.ensure_future(one) for one in asked]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    return waiting


def follower_falls_out(node: GroupNode) -> None:
    """What the leader has is committed from now on."""
    for partition in node.table.held.values():
        partition.obey(1, PartitionImage(1, 0, 1, (1, 2), (1,)), 0)


async def test_commits_and_fetches_wait_until_the_coordinator_has_taken_over(tmp_path: Path) -> None:
    node = await taking_over(tmp_path)
    assert (await ask(join_group, node, 3, join_request())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fetched, committed = await under_way(
        ask(offset_fetch, node, 8, FETCH), ask(offset_commit, node, 8, commit_request(42, partition=1))
    )
    follower_falls_out(node)
    async with asyncio.timeout(10):
        (group,) = (await fetched).groups
        assert (await committed).topics[0].partitions[0].error_code == ErrorCode.NONE
    (topic,) = group.topics
    assert (group.error_code, topic.partitions[0].committed_offset) == (ErrorCode.NONE, 41)
    assert node.groups.load_time.count, "of each partition"
    await node.stop()


async def test_offsets_in_a_topic_that_goes_meanwhile_go_too(tmp_path: Path) -> None:
    node = await taking_over(tmp_path)
    node.tell(RemoveTopicRecord(topic_id=FLIGHTS_ID))
    follower_falls_out(node)
    async with asyncio.timeout(10):
        while node.groups.is_loading:
            await asyncio.sleep(0)
        while await committed(node):
            await asyncio.sleep(0)
    await node.stop()


async def test_they_wait_no_longer_than_a_commit_may_take(tmp_path: Path) -> None:
    node = await taking_over(tmp_path, {"offsets.commit.timeout.ms": "1"})
    async with asyncio.timeout(10):
        answer = await ask(offset_commit, node, 8, commit_request(42))
        (group,) = (await ask(offset_fetch, node, 8, FETCH)).groups
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await node.stop()


async def test_they_are_sent_away_when_leadership_moves_on(tmp_path: Path) -> None:
    node = await taking_over(tmp_path)
    (waiting,) = await under_way(ask(offset_commit, node, 8, commit_request(42)))
    for index, partition in enumerate(list(node.table.held.values())):
        partition.obey(1, PartitionImage(2, 1, 1, (1, 2), (2,)), 0)
        node.tell(PartitionChangeRecord(partition_id=index, topic_id=OFFSETS_ID, leader=2))
    async with asyncio.timeout(10):
        assert (await waiting).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    await node.stop()


async def test_they_are_sent_away_when_the_node_stops(tmp_path: Path) -> None:
    node = await taking_over(tmp_path)
    (waiting,) = await under_way(ask(offset_commit, node, 8, commit_request(42)))
    async with asyncio.timeout(10):
        await node.stop()
        answer = await waiting
    assert answer.topics[0].partitions[0].error_code in (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )


async def test_a_disk_that_cannot_be_read_takes_its_directory_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: OpenFile, length: int, position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    node = await taking_over(tmp_path)
    (hosted,) = [hosted for hosted in node.groups._led.values() if hosted.partition.log.log_end_offset]
    with monkeypatch.context() as patch:
        patch.setattr(OpenFile, "read_at", fail)
        with pytest.raises(KafkaError, match="Input/output error") as refusal:
            await hosted.read()
    assert refusal.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    health = hosted.partition.log.health
    assert health.failure is not None
    health.failure = None  # it is whole again when the node closes it
    await node.stop()


async def test_they_wait_for_another_try_of_a_load_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is away")] * 2
    take_over = Hosted.take_over

    async def take_over_or_fail(hosted: Hosted[Any]) -> None:
        await take_over(hosted)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(Hosted, "take_over", take_over_or_fail)
    monkeypatch.setattr(host, "LOAD_RETRY_S", 0)
    node = with_topics(GroupNode(tmp_path))
    async with asyncio.timeout(10):
        answer = await ask(offset_commit, node, 8, commit_request(42))
    assert (answer.topics[0].partitions[0].error_code, failures) == (ErrorCode.NONE, [])
    await node.stop()
