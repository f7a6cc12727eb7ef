"""Fetches where another node leads (KIP-951), and reads from a replica that is nearer than the leader (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.api.broker.fetches import fetch_of, told, told_of
from tests.unit.node.on_disk import TOPIC_ID, Node, batch, node_on

from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NodeEndpoint,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.replication.read_replica import RACK_AWARE

US, NEAR, ALSO_NEAR = 1, 2, 3
EPOCH = 3
RACKS = {US: "a", NEAR: "b", ALSO_NEAR: "b"}
NO_REPLICA = -1


def replica_records() -> list[MetadataRecord]:
    """A topic whose partition 0 lies on all three brokers and is led here; partition 1 lies on another one."""
    brokers = [
        RegisterBrokerRecord(
            broker_id=node_id,
            rack=rack,
            fenced=False,
            end_points=[NodeEndpoint(name="PLAINTEXT", host=f"host{node_id}", port=9092)],
        )
        for node_id, rack in RACKS.items()
    ]
    everywhere, elsewhere = (
        PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
            leader_epoch=EPOCH,
            partition_epoch=EPOCH,
        )
        for index, replicas in enumerate(([US, NEAR, ALSO_NEAR], [NEAR]))
    )
    return [*brokers, TopicRecord(name="orders", topic_id=TOPIC_ID), everywhere, elsewhere]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Followers have all of partition 0, which has two records."""
    with node_on(tmp_path, *replica_records(), replica_selector_class=RACK_AWARE) as node:
        node.produce(b"a", b"b")
        follow(node, NEAR, 2)
        follow(node, ALSO_NEAR, 2)
        yield node


def follow(node: Node, replica: int, offset: int, start_offset: int = 0) -> None:
    """A follower is so far."""
    node.partition().on_fetched(replica, offset, -1, node.now_ms, start_offset)


def lead_elsewhere(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=NEAR))


def preferred(node: Node, offset: int = 0, rack: str = "b", version: int = 18) -> int:
    """Where the reader is sent; it gets either that or records."""
    got = told_of(told(node, fetch_of(offset, rack=rack), version))
    assert got.error_code == ErrorCode.NONE
    assert bool(got.records) == (got.preferred_read_replica == NO_REPLICA and offset < 2)
    return got.preferred_read_replica


# -- who leads instead -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [12, 15, 16, 18])
@pytest.mark.parametrize(
    ("index", "epoch", "code"),
    [
        (1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (0, EPOCH + 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_leads_instead_and_where_is_told(node: Node, version: int, index: int, epoch: int, code: ErrorCode) -> None:
    lead_elsewhere(node)
    answer = told(node, fetch_of(0, index=index, leader_epoch=epoch), version)
    got = told_of(answer)
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
    leader = got.current_leader.leader_id, got.current_leader.leader_epoch
    assert got.error_code == code
    if version >= 16 and code != ErrorCode.UNKNOWN_LEADER_EPOCH:
        assert (leader, nodes) == ((NEAR, EPOCH + (index == 0)), [(NEAR, "host2", 9092, "b")])
    else:
        assert (leader, nodes) == ((-1, -1), [])


def test_before_the_beginning_of_the_log_nobody_is_told_where_logs_part(node: Node) -> None:
    """As in Kafka: the reader has to begin anew, whatever its epoch is."""
    node.produce(b"c")
    for replica in (NEAR, ALSO_NEAR):
        follow(node, replica, 3)
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=US))
    node.produce(b"d")
    node.partition().log.advance_log_start(2)
    asked = fetch_of(1)
    asked.topics[0].partitions[0].last_fetched_epoch = EPOCH + 9
    assert told_of(told(node, asked)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    asked.topics[0].partitions[0].last_fetched_epoch = EPOCH - 1
    got = told_of(told(node, asked))
    assert (got.error_code, got.diverging_epoch.end_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "code"),
    [
        (1, EPOCH, ErrorCode.NONE),
        (2, EPOCH, ErrorCode.NONE),
        (3, EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, EPOCH + 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (1, EPOCH - 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_a_replica_tells_no_consumer_where_logs_part(
    node: Node, offset: int, last_fetched_epoch: int, code: ErrorCode
) -> None:
    """It may have lost what the leader has."""
    lead_elsewhere(node)
    asked = fetch_of(offset, leader_epoch=EPOCH + 1)
    asked.topics[0].partitions[0].last_fetched_epoch = last_fetched_epoch
    got = told_of(told(node, asked))
    assert (got.error_code, got.diverging_epoch.end_offset) == (code, -1)


# -- a replica that is nearer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(11, 19))
def test_a_consumer_is_sent_to_the_replica_in_its_rack_that_is_ahead(node: Node, version: int) -> None:
    assert preferred(node, version=version) == ALSO_NEAR  # both are as far: the greater number
    node.produce(b"c")
    follow(node, NEAR, 3)
    assert preferred(node, version=version) == NEAR


@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
def test_who_has_no_replica_nearer_reads_from_the_leader(node: Node, rack: str) -> None:
    assert preferred(node, rack=rack) == NO_REPLICA


def test_old_consumers_cannot_be_sent_elsewhere(node: Node) -> None:
    assert preferred(node, version=10) == NO_REPLICA


def test_nobody_is_sent_elsewhere_without_a_selector(tmp_path: Path) -> None:
    with node_on(tmp_path, *replica_records()) as node:
        node.produce(b"a", b"b")
        follow(node, NEAR, 2)
        follow(node, ALSO_NEAR, 2)
        assert preferred(node) == NO_REPLICA


def test_a_replica_must_be_in_sync_reachable_and_have_the_offset(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[US, NEAR]))
    assert preferred(node) == NEAR
    follow(node, NEAR, 2, start_offset=1)
    assert preferred(node) == NO_REPLICA
    assert preferred(node, 1) == NEAR
    assert preferred(node, 2) == NEAR
    node.produce(b"c")
    assert preferred(node, 3) == NO_REPLICA
    node.commit(BrokerRegistrationChangeRecord(broker_id=NEAR, fenced=1))
    assert preferred(node, 1) == NO_REPLICA


def test_a_consumer_with_nothing_to_read_is_sent_to_a_replica_that_comes_in_sync(node: Node) -> None:
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[US]))
    opened = told(node, fetch_of(2, rack="b", session=(0, 0)))
    later = FetchRequest(session_id=opened.session_id, session_epoch=1, max_bytes=1 << 20, rack_id="b")
    assert told(node, later).responses == []
    node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[US, NEAR]))
    later.session_epoch = 2
    assert told_of(told(node, later)).preferred_read_replica == NEAR


# -- at a follower -----------------------------------------------------------------------------------------------------


@pytest.fixture
def following(node: Node) -> Node:
    """This node follows, has four records and knows that two of them are committed."""
    lead_elsewhere(node)
    node.partition().append_fetched(batch_at(2, b"c", b"d"), 2, 0)
    return node


def batch_at(base_offset: int, *values: bytes) -> bytes:
    """A batch as a leader has it."""
    sent = bytearray(batch(*values))
    sent[:8] = base_offset.to_bytes(8, "big")
    sent[12:16] = (EPOCH + 1).to_bytes(4, "big")
    return bytes(sent)


async def poll(node: Node, asked: FetchRequest) -> asyncio.Task[FetchResponse]:
    """A fetch that waits."""
    found = node.dispatch(asked, 18)
    assert isinstance(found, Waiting)

    async def wait() -> FetchResponse:
        answer = await node.wait(asked, 18, found)
        assert isinstance(answer, FetchResponse)
        return answer

    return asyncio.create_task(wait())


def test_a_follower_gives_what_it_knows_to_be_committed(following: Node) -> None:
    got = told_of(told(following, fetch_of(0, leader_epoch=EPOCH + 1)))
    assert (got.error_code, got.high_watermark, got.log_start_offset) == (ErrorCode.NONE, 2, 0)
    assert len(got.records or b"") == len(batch(b"a", b"b"))


@pytest.mark.parametrize(
    ("offset", "code"), [(2, ErrorCode.NONE), (4, ErrorCode.NONE), (5, ErrorCode.OFFSET_OUT_OF_RANGE)]
)
def test_what_a_follower_has_and_does_not_know_to_be_committed_is_not_given(
    following: Node, offset: int, code: ErrorCode
) -> None:
    got = told_of(told(following, fetch_of(offset)))
    assert (got.error_code, got.records) == (code, b"")


def test_a_follower_refuses_old_consumers_and_other_followers(following: Node) -> None:
    assert told_of(told(following, fetch_of(0), 10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert told_of(told(following, fetch_of(0, replica=ALSO_NEAR))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_long_poll_at_a_follower_ends_when_it_hears_that_more_is_committed(following: Node) -> None:
    waiting = await poll(following, fetch_of(2, max_wait_ms=60_000))
    following.partition().append_fetched(b"", 4, 0)
    async with asyncio.timeout(10):
        assert told_of(await waiting).records


async def test_a_long_poll_at_a_follower_ends_with_its_epoch(following: Node) -> None:
    waiting = await poll(following, fetch_of(2, max_wait_ms=60_000, leader_epoch=EPOCH + 1))
    following.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=ALSO_NEAR))
    async with asyncio.timeout(10):
        assert told_of(await waiting).error_code == ErrorCode.FENCED_LEADER_EPOCH


# -- what followers hear -----------------------------------------------------------------------------------------------


def test_who_is_no_replica_cannot_follow(node: Node) -> None:
    assert told_of(told(node, fetch_of(2, replica=9))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    got = told_of(told(node, fetch_of(2, replica=9, leader_epoch=EPOCH)))
    assert got.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_follower_hears_at_once_that_more_is_committed(node: Node) -> None:
    node.produce(b"c")
    opened = told(node, fetch_of(3, replica=NEAR, session=(0, 0)))
    assert told_of(opened).high_watermark == 2
    later = fetch_of(3, replica=NEAR, session=(opened.session_id, 1), max_wait_ms=60_000)
    later.topics.clear()
    waiting = await poll(node, later)
    follow(node, ALSO_NEAR, 3)
    async with asyncio.timeout(10):
        assert told_of(await waiting).high_watermark == 3
    later.session_epoch = 2
    again = await poll(node, later)  # told once
    again.cancel()
