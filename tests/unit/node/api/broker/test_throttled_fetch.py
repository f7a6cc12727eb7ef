"""Fetch of followers that are throttled (KIP-73): who is held back, and what counts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.api.broker.fetching import BATCH_BYTES, ID, offsets, request
from tests.unit.node.api.broker.test_fetch import read
from tests.unit.node.on_disk import Node, node_on, topic_records

from penstock.metadata.records import ConfigRecord, PartitionChangeRecord
from penstock.metadata.resources import ResourceType
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.serving.dispatch import Waiting

OUT_OF_SYNC, IN_SYNC, HERE = 2, 3, 1


def throttled(node: Node, replica_id: int, *, offset: int = 0, session: tuple[int, int] = (0, -1)) -> list[int]:
    """What a follower gets of partition 0, one batch at a time."""
    asked = request((0, offset), partition_max_bytes=1, session=session)
    asked.replica_state.replica_id = replica_id
    return offsets(read(node, asked, 17))


@pytest.fixture
def leading(tmp_path: Path) -> Iterator[Node]:
    """Partition 0 has two followers, of which one is in sync; leaders may give half a batch a second."""
    with node_on(tmp_path, *topic_records()) as node:
        for value in (b"a", b"b", b"c"):
            node.produce(value, value)
        throttle(node)
        yield node


def throttle(node: Node) -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=ID, replicas=[HERE, OUT_OF_SYNC, IN_SYNC])
    change.isr = [HERE, IN_SYNC]
    setting = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="orders", name="leader.replication.throttled.replicas"
    )
    setting.value = f"0:{HERE},1:7"
    node.commit(change, setting)
    node.throttles.leader.bytes_per_s = BATCH_BYTES // 2
    node.broker.now_ms = lambda: node.now_ms


def test_a_follower_out_of_sync_gets_nothing_while_the_limit_is_exceeded(leading: Node) -> None:
    assert throttled(leading, OUT_OF_SYNC) == [0, 1]
    leading.now_ms += 1_900
    assert throttled(leading, OUT_OF_SYNC, offset=2) == []
    leading.now_ms += 200
    assert throttled(leading, OUT_OF_SYNC, offset=2) == [2, 3]


def test_a_follower_in_sync_and_a_consumer_are_not_held_back(leading: Node) -> None:
    for replica_id in (OUT_OF_SYNC, IN_SYNC, -1, IN_SYNC):
        assert throttled(leading, replica_id) == [0, 1]
    assert throttled(leading, OUT_OF_SYNC) == []


def test_a_follower_that_is_about_to_come_in_sync_is_not_held_back(leading: Node) -> None:
    leading.throttles.leader.record(100 * BATCH_BYTES, leading.now_ms)
    partition = leading.partition()
    assert isinstance(partition, IsrPartition)
    assert throttled(leading, OUT_OF_SYNC) == []
    partition.on_joining([OUT_OF_SYNC])
    assert throttled(leading, OUT_OF_SYNC) == [0, 1], "what is committed waits for it"
    partition.on_joining([])
    assert throttled(leading, OUT_OF_SYNC) == []
    assert partition.leader is not None
    partition.leader.on_proposed([HERE, IN_SYNC, OUT_OF_SYNC])
    assert throttled(leading, OUT_OF_SYNC) == [0, 1]


def test_what_a_follower_in_sync_takes_counts_and_what_a_consumer_takes_does_not(leading: Node) -> None:
    for _ in range(10):
        throttled(leading, -1)
    assert throttled(leading, OUT_OF_SYNC) == [0, 1], "consumers do not count"
    leading.now_ms += 60_000
    assert throttled(leading, IN_SYNC) == [0, 1]
    assert throttled(leading, OUT_OF_SYNC) == [], "in sync replicas do"


def test_a_held_back_follower_counts_as_having_what_it_says(leading: Node) -> None:
    throttled(leading, OUT_OF_SYNC)
    throttled(leading, OUT_OF_SYNC, offset=2)
    leader = leading.partition().leader
    assert leader is not None
    assert leader.followers[OUT_OF_SYNC].log_end_offset == 2


def test_the_limit_ends_with_the_topics_setting(leading: Node) -> None:
    throttled(leading, OUT_OF_SYNC)
    setting = ConfigRecord(
        resource_type=ResourceType.TOPIC, resource_name="orders", name="leader.replication.throttled.replicas"
    )
    setting.value = None
    leading.commit(setting)
    assert throttled(leading, OUT_OF_SYNC, offset=2) == [2, 3]


async def test_a_long_poll_counts_what_it_answers_and_not_what_it_looks_at(leading: Node) -> None:
    asked = request((0, 4), partition_max_bytes=BATCH_BYTES, min_bytes=10 * BATCH_BYTES, max_wait_ms=60_000)
    asked.replica_state.replica_id = IN_SYNC
    waiting = leading.dispatch(asked, 17)
    assert isinstance(waiting, Waiting)
    for value in (b"d", b"e"):
        leading.produce(value, value)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not leading.throttles.leader.is_exceeded(leading.now_ms)
