"""A follower's session: what did not change is neither looked at nor waited for anew at each poll."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.on_disk import NODE_ID, TOPIC_ID, Node, batch, node_on
from tests.unit.node.turns import until

from penstock.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.node.api.broker.fetch import WIDE
from penstock.node.api.fetching import FetchReader
from penstock.node.partitions import fetch_sessions
from penstock.node.partitions.fetch_sessions import LOOK_AT_ALL_S, FetchSessions, Wanted
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

FOLLOWER = 2


@pytest.fixture(params=[12, 2 * WIDE], ids=["few", "very many"])
def partitions(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def node(tmp_path: Path, partitions: int) -> Iterator[Node]:
    replicas = [NODE_ID, FOLLOWER]
    records = [
        PartitionRecord(
            partition_id=index, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, leader=NODE_ID, leader_epoch=0
        )
        for index in range(partitions)
    ]
    broker = RegisterBrokerRecord(broker_id=FOLLOWER, fenced=False)
    with node_on(tmp_path, broker, TopicRecord(name="orders", topic_id=TOPIC_ID), *records) as node:
        yield node


class Follower:
    """A follower's polls, one after the other."""

    def __init__(self, node: Node, replica: int = FOLLOWER) -> None:
        self._node = node
        self._replica = replica
        self._session = (0, 0)

    async def poll(
        self, *offsets: tuple[int, int], max_wait_ms: int = 0, forget: tuple[int, ...] = (), last_epoch: int = -1
    ) -> Any:
        """What it is told, by partition; it says how far it is in these."""
        asked = [
            FetchPartition(partition=i, fetch_offset=o, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20)
            for i, o in offsets
        ]
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._replica, replica_epoch=-1),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self._session[0],
            session_epoch=self._session[1],
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=asked)] if asked else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=list(forget))] if forget else [],
        )
        found = self._node.dispatch(request, 17)
        if isinstance(found, Waiting):
            answer = await self._node.wait(request, 17, found)
        else:
            answer = self._node.decode(request, 17, found)
        assert isinstance(answer, FetchResponse)
        self._session = (answer.session_id, self._session[1] + 1)
        return {one.partition_index: one for topic in answer.responses for one in topic.partitions}

    async def opened(self) -> Follower:
        """With a session in which everything is quiet."""
        await self.poll(*((index, 0) for index in range(len(list(self._node.table)))))
        for _ in range(2):
            await self.wait()
        return self

    async def wait(self) -> Any:
        """A poll that has waited for a moment: only such a one stands where it is."""
        return await self.poll(max_wait_ms=1)


def append(node: Node, index: int) -> None:
    node.partition(index=index).append(memoryview(bytearray(batch(b"x"))), acks=1, now_ms=node.now_ms)


def waits(node: Node) -> int:
    leaders = [partition.leader for partition in node.table if partition.leader is not None]
    return sum(len(leader.appended) + len(leader.committed.waits) for leader in leaders)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are looked at from now on."""
    found: list[int] = []
    read = FetchReader.read

    def noted(reader: FetchReader, asked: list[Wanted]) -> None:
        asked = list(asked)
        found.extend(wanted.request.index for wanted in asked)
        read(reader, asked)

    monkeypatch.setattr(FetchReader, "read", noted)
    return found


async def test_what_did_not_change_is_not_looked_at(node: Node, looked_at: list[int], partitions: int) -> None:
    follower = await Follower(node).opened()
    assert waits(node) == partitions
    looked_at.clear()
    assert await follower.poll() == {}
    assert looked_at == []
    append(node, 7)
    assert list(await follower.poll()) == [7]
    assert set(looked_at) == {7}
    assert list(await follower.poll((7, 1))) == [7], "the high watermark that its fetch has moved"
    looked_at.clear()
    assert await follower.wait() == {}
    assert set(looked_at) == {7}
    looked_at.clear()
    assert await follower.wait() == {}
    assert looked_at == []
    assert waits(node) == partitions


async def woken(poll: asyncio.Task[dict[int, PartitionData]]) -> dict[int, PartitionData]:
    async with asyncio.timeout(10):
        return await poll


async def test_a_poll_wakes_again_and_again(node: Node, looked_at: list[int]) -> None:
    follower = await Follower(node).opened()
    looked_at.clear()
    for offset in range(3):
        poll = asyncio.create_task(follower.poll(max_wait_ms=60_000))
        for _ in range(9):
            await asyncio.sleep(0)
        append(node, 5)
        got = await woken(poll)
        assert list(got) == [5]
        assert got[5].records
        await follower.poll((5, offset + 1))
    assert set(looked_at) == {5}


@pytest.mark.parametrize("partitions", [12], indirect=True)
async def test_what_comes_in_the_next_turn_goes_with_it(node: Node) -> None:
    follower = await Follower(node).opened()
    poll = asyncio.create_task(follower.poll(max_wait_ms=60_000))
    await asyncio.sleep(0)  # it waits
    append(node, 5)
    await asyncio.sleep(0)
    append(node, 6)
    assert sorted(await woken(poll)) == [5, 6]


@pytest.mark.parametrize("change", ["leader", "isr"])
async def test_a_change_of_the_metadata_is_noticed_at_once(node: Node, looked_at: list[int], change: str) -> None:
    follower = await Follower(node).opened()
    looked_at.clear()
    record = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=3)
    if change == "leader":
        record.leader = FOLLOWER
    else:
        record.isr = [NODE_ID]
    node.commit(record)
    await follower.poll()
    await follower.poll()
    assert looked_at == [3, 3], "one that is not in sync is looked at in every poll"


async def test_what_no_wait_tells_of_is_found_by_a_look_at_all(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = await Follower(node).opened()
    append(node, 9)
    await follower.poll()
    await follower.poll((9, 1))
    await follower.wait()
    assert await follower.poll() == {}
    node.partition(index=9).log.advance_log_start(1)
    assert await follower.poll() == {}
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now_s + LOOK_AT_ALL_S + 1)
    got = await follower.poll()
    assert [one.log_start_offset for one in got.values()] == [1]


async def test_a_divergence_is_told_until_the_follower_is_cut(node: Node) -> None:
    follower = await Follower(node).opened()
    append(node, 4)
    told = [await follower.poll((4, 9), last_epoch=0), await follower.poll(), await follower.wait()]
    assert [got[4].diverging_epoch.end_offset for got in told] == [1, 1, 1]
    assert (await follower.poll((4, 0)))[4].records


async def test_waits_go_with_what_is_forgotten_and_with_the_session(node: Node, partitions: int) -> None:
    follower = await Follower(node).opened()
    await follower.poll(forget=(1, 2))
    assert waits(node) == partitions - 2
    append(node, 1)
    assert await follower.poll() == {}
    sessions: FetchSessions = node.broker.fetch_sessions
    follower._session = (follower._session[0], -1)
    await follower.poll(*((index, 0) for index in range(partitions)))
    assert len(sessions) == 0
    async with asyncio.timeout(10):
        while waits(node):
            await asyncio.sleep(0)


@pytest.mark.parametrize("replica", [FOLLOWER, -1], ids=["follower", "consumer"])
async def test_of_a_topic_that_has_gone_an_idle_session_keeps_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch, replica: int
) -> None:
    """Its client may come in an hour, or never: with the logs of very many topics that was half a gigabyte."""
    monkeypatch.setattr(fetch_sessions, "LET_GO_S", 0)
    sessions = node.broker.fetch_sessions
    node.replicas.dropped.listen(node.broker.on_dropped)
    await Follower(node, replica).opened()
    (session,) = sessions._sessions.values()
    assert {one.partition for one in session.wanted.values()} == set(node.table)
    node.commit(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert len(sessions.tasks) == 1, "for all partitions"
    await node.replicas.settled()
    await until(lambda: not sessions.tasks)
    assert not [one for one in session.wanted.values() if one.partition is not None or one.role is not None]


async def test_what_is_led_elsewhere_for_a_moment_is_looked_up_anew(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "LET_GO_S", 0)
    follower = await Follower(node).opened()
    node.partition(index=3).resign()
    node.broker.on_dropped(node.partition(index=3))
    await until(lambda: not node.broker.fetch_sessions.tasks)
    assert [one.error_code for one in (await follower.poll()).values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
