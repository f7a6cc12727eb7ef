"""What groups hear of topics, and what becomes of offsets in those that are gone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.coordinators.test_groups import commit_request, committed
from tests.unit.node.group_node import FLIGHTS_ID, GroupNode, ask, with_topics

from penstock.coordinator.effects import Effect
from penstock.coordinator.group import removal
from penstock.coordinator.shards.groups import GroupShard
from penstock.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from penstock.node.api.broker.offset_commit import offset_commit
from penstock.protocol.hashing import coordinator_partition


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[GroupNode]:
    node = GroupNode(tmp_path)
    yield node
    await node.stop()


async def test_offsets_go_with_their_topic(node: GroupNode) -> None:
    with_topics(node)
    await node.ready()
    await ask(offset_commit, node, 8, commit_request(5))
    node.delete_flights()
    async with asyncio.timeout(10):
        while await committed(node):
            await asyncio.sleep(0)


async def test_offsets_go_also_where_their_topic_is_made_again_at_once(node: GroupNode) -> None:
    with_topics(node)
    await node.ready()
    request = commit_request(5)
    request.topics[0].topic_id = FLIGHTS_ID
    assert (await ask(offset_commit, node, 10, request)).topics[0].partitions[0].error_code == 0
    node.tell(RemoveTopicRecord(topic_id=FLIGHTS_ID), TopicRecord(name="flights", topic_id=UUID(int=9)))
    async with asyncio.timeout(10):
        while await committed(node):
            await asyncio.sleep(0)


async def test_one_coordinator_at_a_time_takes_away_what_went_with_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have their turn in between; each takes two turns here."""
    monkeypatch.setattr(removal, "TOMBSTONES_AT_ONCE", 2)
    node = GroupNode(tmp_path)
    node.create_flights()
    node.create_offsets_topic((1,) * 8)
    await node.ready()
    groups = {coordinator_partition(f"group-{number}", 8): f"group-{number}" for number in range(99)}
    assert len(groups) == 8
    for group in groups.values():
        for partition in range(3):
            await ask(offset_commit, node, 8, commit_request(5, group, partition=partition))
    wake, woken = GroupShard.wake, [0]

    def noted(shard: GroupShard, now_ms: int) -> list[Effect]:
        effects = wake(shard, now_ms)
        woken[-1] += bool(effects)
        return effects

    monkeypatch.setattr(GroupShard, "wake", noted)
    node.delete_flights()
    async with asyncio.timeout(10):
        while sum(woken) < 16:
            woken.append(0)
            await asyncio.sleep(0)
    assert max(woken) == 1
    assert not any([await committed(node, group) for group in groups.values()])
    await node.stop()


async def test_offsets_in_a_topic_that_went_while_nobody_served_them_go_too(tmp_path: Path) -> None:
    """Its coordinator may have ended before it had come to them, or could not write that they are gone."""
    before = with_topics(GroupNode(tmp_path))
    await before.ready()
    await ask(offset_commit, before, 8, commit_request(5))
    await before.stop()
    after = GroupNode(tmp_path)
    after.create_offsets_topic()
    await after.ready()
    async with asyncio.timeout(10):
        while await committed(after):
            await asyncio.sleep(0)
    await after.stop()


async def test_groups_look_again_at_topics_that_have_changed_and_at_all_if_a_broker_has_another_rack(
    node: GroupNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they look at takes long to be reckoned anew."""
    with_topics(node)
    await node.ready()
    told: list[object] = []
    monkeypatch.setattr(GroupShard, "topics_changed", lambda _, topics, *, new_topics: told.append(topics))

    def tell(*records: MetadataRecord) -> list[object]:
        told.clear()
        node.tell(*records)
        return told[:1]

    def registered(rack: str | None) -> MetadataRecord:
        return RegisterBrokerRecord(broker_id=2, rack=rack, incarnation_id=UUID(int=len(told)))

    moved = PartitionChangeRecord(topic_id=FLIGHTS_ID, partition_id=0, replicas=[1])
    assert tell(registered("here")) == [None]
    assert tell(registered("here")) == []
    assert tell(registered("here"), moved) == [{FLIGHTS_ID}]
    assert tell(PartitionChangeRecord(topic_id=FLIGHTS_ID, partition_id=0, isr=[1])) == []
    assert tell(registered("there"), moved) == [None]
    assert tell(UnregisterBrokerRecord(broker_id=2)) == [None]
    assert tell(registered(None)) == []
