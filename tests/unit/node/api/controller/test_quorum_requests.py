"""Requests of peers and of administrators on a controller listener, on real sockets, over the consensus core."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar
from uuid import UUID

import pytest
from tests.unit.node.api.controller.quorum_of_core import (
    CLUSTER,
    LISTENER,
    ME,
    CoreQuorum,
    controller_node,
    voter,
)
from tests.unit.node.served_node import RawClient, serving_node

from penstock.node.api.quorum_answers import MAX_ANSWER_BYTES
from penstock.node.metrics.counts import NodeCounts
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import add_raft_voter, describe_cluster, describe_quorum, fetch, remove_raft_voter
from penstock.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from penstock.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.protocol.messages.update_raft_voter import UpdateRaftVoterResponse
from penstock.protocol.messages.vote import VoteResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.refusals import refusal
from penstock.protocol.schema import Message
from penstock.raft import kafka_requests as write
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import BeginEpoch, EndEpoch, Fetch, FetchSnapshot, UpdateVoter, Vote
from penstock.raft.voters import Endpoint

PEER = voter(2).key
ELSEWHERE = (Endpoint("CONTROLLER", "elsewhere", 4), Endpoint("OTHER", "nowhere", 5))
AnswerT = TypeVar("AnswerT", bound=Message)


class Client:
    def __init__(self, raw: RawClient, member: CoreQuorum, counts: NodeCounts) -> None:
        self.raw = raw
        self.member = member
        self.counts = counts

    async def ask(self, request: Message, version: int, answer: type[AnswerT]) -> AnswerT:
        self.raw.send(request, version)
        _, response = await self.raw.receive(api_of_request(request).key, version)
        assert isinstance(response, answer)
        return response


@asynccontextmanager
async def controller(*ids: int) -> AsyncIterator[Client]:
    member = CoreQuorum(*ids)
    not_active = KafkaError(ErrorCode.NOT_CONTROLLER)
    node = controller_node(member, lambda command: refusal(command, not_active))
    async with serving_node(node, LISTENER) as server:
        yield Client(await server.connect(), member, server.connections.counts)


def ballot(epoch: int = 5, *, pre_vote: bool = False) -> Vote:
    return Vote(epoch=epoch, candidate=PEER, voter=ME, last_epoch=0, end_offset=0, pre_vote=pre_vote)


def pull(epoch: int, offset: int, *, last_epoch: int = 0, max_wait_ms: int = 0) -> Fetch:
    return Fetch(epoch, PEER, offset, last_epoch, high_watermark=0, max_wait_ms=max_wait_ms, max_bytes=1 << 20)


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_vote_is_granted_once(version: int) -> None:
    async with controller(1, 2, 3) as client:
        response = await client.ask(write.write_vote(ballot(), CLUSTER), version, VoteResponse)
        (partition,) = response.topics[0].partitions
        assert (response.error_code, partition.vote_granted, partition.leader_epoch) == (0, True, 5)
        other = write.write_vote(ballot(), CLUSTER)
        other.topics[0].partitions[0].replica_id = 3
        refused = await client.ask(other, version, VoteResponse)
        assert not refused.topics[0].partitions[0].vote_granted


async def test_a_pre_vote_changes_nothing() -> None:
    async with controller(1, 2, 3) as client:
        response = await client.ask(write.write_vote(ballot(9, pre_vote=True), CLUSTER), 2, VoteResponse)
        assert response.topics[0].partitions[0].vote_granted
        assert client.member.raft.replica.state.voted is None


async def test_a_leader_is_believed_and_its_address_remembered_and_told() -> None:
    async with controller(1, 2, 3) as client:
        news = write.write_begin_epoch(BeginEpoch(4, 2, ME), CLUSTER, ELSEWHERE)
        response = await client.ask(news, 1, BeginQuorumEpochResponse)
        assert response.topics[0].partitions[0].leader_id == 2
        assert client.member.learned == {2: ("elsewhere", 4)}
        (endpoint,) = response.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (2, "host2", 9002)
        fetched = await client.ask(write.write_fetch(pull(4, 0), CLUSTER), 17, fetch.FetchResponse)
        (partition,) = fetched.responses[0].partitions
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 4)
        assert [(e.node_id, e.host) for e in fetched.node_endpoints] == [(2, "host2")]
        ended = write.write_end_epoch(EndEpoch(4, 2, (ME,)), CLUSTER, ())
        answer = await client.ask(ended, 1, EndQuorumEpochResponse)
        assert answer.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", [12, 13, 17, 18])
async def test_the_leaders_log_is_fetched(version: int) -> None:
    async with controller(1, 2) as client:
        client.member.lead()
        epoch = client.member.raft.epoch
        response = await client.ask(write.write_fetch(pull(epoch, 0), CLUSTER), version, fetch.FetchResponse)
        (partition,) = response.responses[0].partitions
        assert partition.error_code == 0
        assert partition.records == client.member.log.read(0, 1 << 20)


async def test_a_fetch_waits_until_its_time_is_over() -> None:
    async with controller(1, 2) as client:
        client.member.lead()
        epoch, end_offset = client.member.raft.epoch, client.member.log.end_offset
        request = write.write_fetch(pull(epoch, end_offset, last_epoch=epoch, max_wait_ms=500), CLUSTER)
        first = await client.ask(request, 18, fetch.FetchResponse)
        assert first.responses[0].partitions[0].high_watermark == end_offset
        request.topics[0].partitions[0].high_watermark = end_offset
        client.member.asked.clear()
        client.raw.send(request, 18)
        await client.member.asked.wait()
        client.member.pass_time(500)
        _, response = await client.raw.receive(ApiKey.FETCH, 18)
        assert isinstance(response, fetch.FetchResponse)
        assert response.responses[0].partitions[0].records == b""


@pytest.mark.parametrize(("version", "code"), [(12, "UNKNOWN_TOPIC_OR_PARTITION"), (18, "UNKNOWN_TOPIC_ID")])
async def test_only_the_metadata_log_is_fetched(version: int, code: str) -> None:
    async with controller(1) as client:
        partitions = [fetch.FetchPartition(partition=0)]
        topic = fetch.FetchTopic(topic="orders", topic_id=UUID(int=7), partitions=partitions)
        response = await client.ask(fetch.FetchRequest(topics=[topic]), version, fetch.FetchResponse)
        (partition,) = response.responses[0].partitions
        assert (response.error_code, partition.error_code) == (0, ErrorCode[code])
        nothing = await client.ask(fetch.FetchRequest(), version, fetch.FetchResponse)
        assert nothing.error_code == ErrorCode.INVALID_REQUEST


async def test_a_snapshot_is_fetched_piece_by_piece() -> None:
    async with controller(1, 2) as client:
        client.member.lead()
        snapshot, epoch = SnapshotId(3, 1), client.member.raft.epoch
        client.member.snapshots.store(snapshot, b"0123456789")
        request = FetchSnapshot(epoch, PEER, snapshot, position=4, max_bytes=3)
        response = await client.ask(write.write_fetch_snapshot(request, CLUSTER), 1, FetchSnapshotResponse)
        (partition,) = response.topics[0].partitions
        assert (partition.size, partition.position, partition.unaligned_records) == (10, 4, b"456")
        beyond = FetchSnapshot(epoch, PEER, snapshot, position=10, max_bytes=3)
        response = await client.ask(write.write_fetch_snapshot(beyond, CLUSTER), 1, FetchSnapshotResponse)
        assert response.topics[0].partitions[0].error_code == ErrorCode.POSITION_OUT_OF_RANGE


async def test_a_fetch_of_the_log_counts_as_one_of_a_node_also_while_it_waits() -> None:
    """A node that is both would tell of slow consumers else, as the quorum's fetches wait."""
    async with controller(1, 2) as client:
        for epoch in (4, 5):
            await client.ask(write.write_fetch(pull(epoch, 0), CLUSTER), 17, fetch.FetchResponse)
        of_clients = client.counts.apis[ApiKey.FETCH]
        of_nodes = of_clients.of_nodes
        assert (of_clients.count, of_clients.waiting, of_nodes.count, of_nodes.waiting) == (0, 0, 2, 0)


async def test_an_answer_has_a_limit_whatever_is_asked_for() -> None:
    async with controller(1, 2) as client:
        client.member.lead()
        snapshot, epoch = SnapshotId(3, 1), client.member.raft.epoch
        client.member.snapshots.store(snapshot, bytes(MAX_ANSWER_BYTES + 1))
        request = FetchSnapshot(epoch, PEER, snapshot, position=0, max_bytes=(1 << 31) - 1)
        response = await client.ask(write.write_fetch_snapshot(request, CLUSTER), 1, FetchSnapshotResponse)
        assert len(response.topics[0].partitions[0].unaligned_records or b"") == MAX_ANSWER_BYTES


async def test_peers_of_another_cluster_are_refused_as_a_whole() -> None:
    other = "another-cluster-id-123"
    requests: list[tuple[Message, int]] = [
        (write.write_vote(ballot(), other), 2),
        (write.write_begin_epoch(BeginEpoch(4, 2, ME), other, ELSEWHERE), 1),
        (write.write_end_epoch(EndEpoch(4, 2), other, ()), 1),
        (write.write_fetch(pull(0, 0), other), 18),
        (write.write_fetch_snapshot(FetchSnapshot(0, PEER, SnapshotId(0, 0), 0, 1), other), 1),
        (write.write_update_voter(UpdateVoter(0, voter(2)), other), 0),
        (add_raft_voter.AddRaftVoterRequest(cluster_id=other), 1),
        (remove_raft_voter.RemoveRaftVoterRequest(cluster_id=other), 0),
    ]
    async with controller(1, 2) as client:
        epoch = client.member.raft.epoch
        for request, version in requests:
            response = await client.ask(request, version, Message)
            assert getattr(response, "error_code") == ErrorCode.INCONSISTENT_CLUSTER_ID, request  # noqa: B009
        assert client.member.raft.epoch == epoch


async def test_numbers_that_no_replica_sends_are_refused() -> None:
    requests: list[tuple[Message, int]] = [
        (write.write_vote(ballot(-1), CLUSTER), 2),
        (write.write_vote(ballot((1 << 31) - 1), CLUSTER), 2),
        (write.write_begin_epoch(BeginEpoch(4, -2, ME), CLUSTER, ()), 1),
        (write.write_end_epoch(EndEpoch(-4, 2), CLUSTER, ()), 1),
        (write.write_fetch(pull(0, 0, max_wait_ms=-1), CLUSTER), 18),
        (write.write_fetch_snapshot(FetchSnapshot(0, PEER, SnapshotId(-1, 0), 0, 1), CLUSTER), 1),
        (write.write_update_voter(UpdateVoter(0, voter(2)), CLUSTER).replace(listeners=[]), 0),
        (add_raft_voter.AddRaftVoterRequest(cluster_id=CLUSTER, voter_id=2), 1),
    ]
    async with controller(1, 2) as client:
        for request, version in requests:
            response = await client.ask(request, version, Message)
            assert getattr(response, "error_code") == ErrorCode.INVALID_REQUEST, request  # noqa: B009


async def test_a_voter_has_the_listener_by_which_voters_talk() -> None:
    listener = add_raft_voter.Listener(name="OTHER", host="h", port=1)
    add = add_raft_voter.AddRaftVoterRequest(cluster_id=CLUSTER, voter_id=4, listeners=[listener])
    async with controller(1, 2) as client:
        response = await client.ask(add, 1, add_raft_voter.AddRaftVoterResponse)
        assert (response.error_code, response.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "voters talk to each other by CONTROLLER, which is not among OTHER",
        )


async def test_voters_are_changed_by_the_leader_only() -> None:
    listener = add_raft_voter.Listener(name="CONTROLLER", host="h", port=1)
    add = add_raft_voter.AddRaftVoterRequest(
        cluster_id=CLUSTER, voter_id=2, voter_directory_id=UUID(int=2), listeners=[listener], timeout_ms=1000
    )
    remove = remove_raft_voter.RemoveRaftVoterRequest(cluster_id=CLUSTER, voter_id=2, voter_directory_id=UUID(int=2))
    update = write.write_update_voter(UpdateVoter(0, voter(2)), CLUSTER)
    async with controller(1, 2) as client:
        response = await client.ask(add, 1, add_raft_voter.AddRaftVoterResponse)
        assert response.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        removed = await client.ask(remove, 0, remove_raft_voter.RemoveRaftVoterResponse)
        assert removed.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        await client.ask(write.write_begin_epoch(BeginEpoch(4, 2, ME), CLUSTER, ()), 1, BeginQuorumEpochResponse)
        update.current_leader_epoch = 4
        updated = await client.ask(update, 0, UpdateRaftVoterResponse)
        leader = updated.current_leader
        assert updated.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (leader.leader_id, leader.host, leader.port) == (2, "host2", 9002)
    async with controller(1) as client:
        client.member.lead()
        response = await client.ask(add.replace(voter_id=1), 1, add_raft_voter.AddRaftVoterResponse)
        assert response.error_code == ErrorCode.DUPLICATE_VOTER
        removed = await client.ask(remove, 0, remove_raft_voter.RemoveRaftVoterResponse)
        assert removed.error_code == ErrorCode.VOTER_NOT_FOUND
        last = remove.replace(voter_id=1, voter_directory_id=UUID(int=1))
        removed = await client.ask(last, 0, remove_raft_voter.RemoveRaftVoterResponse)
        assert (removed.error_code, removed.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "the last voter cannot be removed",
        )


def description(topic: str = "__cluster_metadata", partition: int = 0) -> describe_quorum.DescribeQuorumRequest:
    partitions = [describe_quorum.DescribeQuorumRequestPartitionData(partition_index=partition)]
    data = describe_quorum.DescribeQuorumRequestTopicData(topic_name=topic, partitions=partitions)
    return describe_quorum.DescribeQuorumRequest(topics=[data])


async def test_the_leader_describes_the_quorum() -> None:
    async with controller(1, 2) as client:
        answer = describe_quorum.DescribeQuorumResponse
        not_yet = await client.ask(description(), 2, answer)
        assert not_yet.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        client.member.lead()
        response = await client.ask(description(), 2, answer)
        (partition,) = response.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch) == (1, client.member.raft.epoch)
        assert [state.replica_id for state in partition.current_voters] == [1, 2]
        assert [(n.node_id, n.listeners[0].host) for n in response.nodes] == [(1, "host1"), (2, "host2")]


async def test_only_the_metadata_log_is_described() -> None:
    right, other = description().topics[0], description("orders").topics[0]
    async with controller(1, 2) as client:
        client.member.lead()
        for topics in ([other], [right, other], [right, right], []):
            asked = describe_quorum.DescribeQuorumRequest(topics=topics)
            response = await client.ask(asked, 2, describe_quorum.DescribeQuorumResponse)
            told = [(topic.topic_name, row.error_code) for topic in response.topics for row in topic.partitions]
            assert told == [(topic.topic_name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for topic in topics]
            assert response.error_code == ErrorCode.NONE


async def test_the_controllers_are_described_to_who_asks_for_controllers() -> None:
    async with controller(1, 2) as client:
        answer = describe_cluster.DescribeClusterResponse
        client.member.lead()
        response = await client.ask(describe_cluster.DescribeClusterRequest(endpoint_type=2), 2, answer)
        assert (response.controller_id, response.cluster_id, response.endpoint_type) == (1, CLUSTER, 2)
        assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "host1", 9001), (2, "host2", 9002)]
        brokers = await client.ask(describe_cluster.DescribeClusterRequest(endpoint_type=1), 2, answer)
        assert brokers.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
        unknown = await client.ask(describe_cluster.DescribeClusterRequest(endpoint_type=3), 2, answer)
        assert unknown.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


async def test_a_node_that_takes_no_part_any_longer_closes_the_connection() -> None:
    async with controller(1, 2) as client:
        client.member.is_stopped = True
        client.raw.send(write.write_vote(ballot(), CLUSTER), 2)
        assert await client.raw.closed()
