"""A follower's long poll does not outlast the moment in which this node begins to lead what it follows, too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, node_on

from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from penstock.node.api.broker.fetch import WIDE
from penstock.node.partitions.awaited_followers import PATIENCE_MS, SHORT_MS
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState

FOLLOWER, LAGGARD = 2, 3
LONG_MS = 600_000
ENOUGH_S = 60
EPOCH = 1


@pytest.fixture(params=[1, WIDE + 1], ids=["few", "very many"])
def led(request: pytest.FixtureRequest) -> int:
    """So many partitions are led here from the beginning; one more is led by the follower, and the last one is ours."""
    return int(request.param)


@pytest.fixture
def node(tmp_path: Path, led: int) -> Iterator[Node]:
    replicas = [NODE_ID, FOLLOWER, LAGGARD]
    records = [
        PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=replicas,
            isr=[NODE_ID, FOLLOWER],
            leader=NODE_ID if index < led else FOLLOWER,
            leader_epoch=0,
        )
        for index in range(led + 1)
    ]
    brokers = [RegisterBrokerRecord(broker_id=replica, fenced=False) for replica in (FOLLOWER, LAGGARD)]
    with node_on(tmp_path, *brokers, TopicRecord(name="orders", topic_id=TOPIC_ID), *records) as node:
        node.now_ms += PATIENCE_MS
        yield node


def asked(indexes: range, replica: int) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in indexes]
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=-1),
        max_wait_ms=LONG_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)],
    )


def fetch(node: Node, indexes: range, replica: int = FOLLOWER) -> asyncio.Task[FetchResponse]:
    """A long poll of these partitions, which are empty."""
    request = asked(indexes, replica)
    found = node.dispatch(request, 17)
    assert isinstance(found, Waiting)

    async def answered() -> FetchResponse:
        answer = await node.wait(request, 17, found)
        assert isinstance(answer, FetchResponse)
        return answer

    return asyncio.ensure_future(answered())


async def polled(poll: asyncio.Task[FetchResponse]) -> FetchResponse:
    async with asyncio.timeout(ENOUGH_S):
        return await poll


async def looked_at(node: Node, last: int) -> None:
    """A poll has looked at everything up to that partition, and waits."""
    leader = node.partition(index=last).leader
    assert leader is not None
    while not leader.appended:
        await asyncio.sleep(0)


def lead(node: Node, index: int) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, leader=NODE_ID))


async def test_a_poll_that_waits_is_answered_when_there_is_more_to_ask_for(node: Node, led: int) -> None:
    poll = fetch(node, range(led))
    await looked_at(node, led - 1)
    lead(node, led)
    assert (await polled(poll)).error_code == 0


async def test_polls_are_short_until_it_asks_for_all_that_it_should(node: Node, led: int) -> None:
    lead(node, led)
    assert (await polled(fetch(node, range(led)))).error_code == 0
    assert node.replicas.awaited.wait_ms(FOLLOWER, LONG_MS) == SHORT_MS
    everything = fetch(node, range(led + 1))
    await looked_at(node, led)
    assert node.replicas.awaited.wait_ms(FOLLOWER, LONG_MS) == LONG_MS
    assert not everything.done()
    everything.cancel()


async def test_it_has_its_time_and_no_longer(node: Node, led: int) -> None:
    lead(node, led)
    node.now_ms += PATIENCE_MS - 1
    assert node.replicas.awaited.wait_ms(FOLLOWER, LONG_MS) == SHORT_MS
    node.now_ms += 1
    assert node.replicas.awaited.wait_ms(FOLLOWER, LONG_MS) == LONG_MS


async def test_when_another_one_leads_nobody_is_awaited_here(node: Node, led: int) -> None:
    lead(node, led)
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=led, leader=FOLLOWER))
    assert node.replicas.awaited.wait_ms(FOLLOWER, LONG_MS) == LONG_MS


async def test_a_replica_that_is_not_in_sync_keeps_nobody_waiting(node: Node, led: int) -> None:
    poll = fetch(node, range(led), LAGGARD)
    await looked_at(node, led - 1)
    lead(node, led)
    assert node.replicas.awaited.wait_ms(LAGGARD, LONG_MS) == LONG_MS
    await asyncio.sleep(0)
    assert not poll.done()
    poll.cancel()


async def test_polls_that_are_over_are_forgotten(node: Node, led: int) -> None:
    given_up = fetch(node, range(led))
    await looked_at(node, led - 1)
    given_up.cancel()
    await asyncio.wait([given_up])
    lead(node, led)
    await polled(fetch(node, range(led)))
    assert not node.replicas.awaited._polls


async def test_a_follower_that_asks_no_more_is_awaited_no_longer_than_its_time(node: Node, led: int) -> None:
    """What it was awaited for would stay, though it is deleted."""
    lead(node, led)
    assert list(node.replicas.awaited._awaited) == [FOLLOWER]
    assert node.replicas.awaited.wait_ms(LAGGARD, LONG_MS) == LONG_MS
    assert list(node.replicas.awaited._awaited) == [FOLLOWER]
    node.now_ms += PATIENCE_MS
    assert node.replicas.awaited.wait_ms(LAGGARD, LONG_MS) == LONG_MS
    assert not node.replicas.awaited._awaited
