"""Whatever bytes come to a controller listener, it answers, waits, or closes; and its quorum goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random
from uuid import UUID

import pytest
from tests.property.mutations import mutated, wild
from tests.unit.node.api.controller.quorum_of_core import CLUSTER, ME, Answering
from tests.unit.node.on_disk import PEER
from tests.unit.node.quorum.memory import HeldLog, MemoryState, Remembered, WrittenSnapshots
from tests.unit.node.quorum.scripted_peers import ScriptedPeers
from tests.unit.node.served_node import serving_node

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.api.commands import HANDED_ON
from penstock.node.controlling.envelope import wrap
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.ports import Clock, Member, Stores
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.dispatch import Dispatcher, Waiting
from penstock.node.serving.handler import CONTROLLER_HANDLERS, CloseConnection, load_handlers
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages import add_raft_voter, describe_quorum
from penstock.protocol.requests.api import api_of
from penstock.protocol.requests.framing import api_of_request, encode_request
from penstock.protocol.schema import Message
from penstock.raft import kafka_requests as write
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import BeginEpoch, EndEpoch, Fetch, FetchSnapshot, UpdateVoter, Vote
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

FRAMES = 10_000
FRAMES_OF_ONE_NODE = 250
FRAMES_OVER_SOCKETS = 1_500
AT = (Endpoint("CONTROLLER", "127.0.0.1", 9093),)
VOTERS = [Voter(ReplicaKey(node_id, UUID(int=node_id)), AT) for node_id in (1, 2, 3)]
OTHER = VOTERS[1].key


class DeafPeers(ScriptedPeers):
    """Peers that never answer; addresses may be learned, and are forgotten."""

    def learn(self, node_id: int, endpoints: Sequence[Endpoint]) -> None:
        assert node_id >= 0


class LoneNode:
    """Node 1 with a real driver on stores in memory, alone or with two others that are silent."""

    def __init__(self, voters: int) -> None:
        self.application = Remembered()
        self.driver = QuorumDriver(
            Member(
                VOTERS[0],
                Quorum.of(VOTERS[:voters], DYNAMIC_VOTERS),
                RaftSettings(election_timeout_ms=1, election_backoff_max_ms=1),
            ),
            Stores(HeldLog(), WrittenSnapshots(), MemoryState()),
            DeafPeers(),
            self.application,
            Clock(lambda: 1_700_000_000_000),
            Random(1),
        )
        self.node = ControllerNode(
            config=BrokerConfig.embedded(),
            node_id=1,
            cluster_id=CLUSTER,
            image=ClusterImage(CLUSTER),
            controller=Answering(lambda command: KafkaError(ErrorCode.INVALID_REQUEST)),
            quorum=self.driver,
            handlers=load_handlers(CONTROLLER_HANDLERS),
        )


def good_requests(epoch: int) -> Iterator[Message]:
    """What peers send, as far as it is more than its defaults."""
    yield write.write_vote(Vote(epoch, OTHER, ME, 0, 0), CLUSTER)
    yield write.write_vote(Vote(epoch, OTHER, ME, 0, 0, pre_vote=True), CLUSTER)
    yield write.write_begin_epoch(BeginEpoch(epoch, 2, ME), CLUSTER, AT)
    yield write.write_end_epoch(EndEpoch(epoch, 2, (ME, OTHER)), CLUSTER, AT)
    yield write.write_fetch(Fetch(epoch, OTHER, 0, 0, 0, 500, 1 << 20), CLUSTER)
    yield write.write_fetch_snapshot(FetchSnapshot(epoch, OTHER, SnapshotId(0, 0), 0, 1 << 20), CLUSTER)
    yield write.write_update_voter(UpdateVoter(epoch, VOTERS[0]), CLUSTER)
    listener = add_raft_voter.Listener(name="CONTROLLER", host="h", port=1)
    yield add_raft_voter.AddRaftVoterRequest(
        cluster_id=CLUSTER, timeout_ms=10, voter_id=4, voter_directory_id=UUID(int=4), listeners=[listener]
    )
    partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    yield describe_quorum.DescribeQuorumRequest(topics=[topic])


def bad_frames(count: int, random: Random) -> Iterator[bytes]:
    """Frames whose bytes are wrong, and frames that are well formed and make no sense."""
    requests = good_requests_of_all()
    for number in range(count):
        request, version = requests[number % len(requests)]
        if random.random() < 0.5:
            yield framed(wild(request, random), version)
        else:
            yield mutated(framed(request, version), random)


def framed(request: Message, version: int) -> bytes:
    return encode_request(request, version, 1, "test")[4:]


def good_requests_of_all() -> list[tuple[Message, int]]:
    """Each API in every version, and more of those that have something in them."""
    handlers = load_handlers(CONTROLLER_HANDLERS).values()
    requests: list[tuple[Message, int]] = [
        (api_of(h.api_key).request_class(), v) for h in handlers for v in range(h.lowest, h.newest + 1)
    ]
    for request in good_requests(epoch=1):
        requests += [(request, version) for version in api_of_request(request).versions]
    forwarded = [(request, version) for request, version in requests if api_of_request(request).key in HANDED_ON]
    return requests + [(wrap(request, version), 0) for request, version in forwarded]


def _key(frame: bytes) -> int:
    return int.from_bytes(frame[:2], "big")


async def test_no_handler_of_a_controller_falls_over_garbage(caplog: pytest.LogCaptureFixture) -> None:
    random = Random(20261121)
    frames = bad_frames(FRAMES, random)
    taken: dict[int, int] = {}
    for number in range(FRAMES // FRAMES_OF_ONE_NODE):
        member = await started(voters=1 + number % 3)
        dispatcher = Dispatcher(member.node)
        for frame in islice(frames, FRAMES_OF_ONE_NODE):
            try:
                reply = dispatcher.dispatch(memoryview(bytearray(frame)), PEER)
                if isinstance(reply, Waiting):
                    await answer_of(dispatcher, reply)
            except (DecodeError, CloseConnection):
                continue
            taken[_key(frame)] = taken.get(_key(frame), 0) + 1
        assert member.driver.failure is None
        assert member.driver.is_running
        await member.driver.stop(resign=False)
    assert set(taken) == set(load_handlers(CONTROLLER_HANDLERS))
    assert all(count > 5 for count in taken.values()), taken
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def started(voters: int) -> LoneNode:
    """A member that leads if it is alone."""
    member = LoneNode(voters)
    await member.driver.start()
    if voters == 1:
        await member.application.until(lambda: (1, member.driver.epoch) in member.application.leaders)
    return member


async def answer_of(dispatcher: Dispatcher, waiting: Waiting) -> None:
    """What was answered in the same turn can be written, unless it is an order to close; what waits on is given up."""
    task = asyncio.ensure_future(waiting.answer)
    for _ in range(5):
        await asyncio.sleep(0)
    if task.done():
        dispatcher.encode(waiting.handler, waiting.context, task.result())
    else:
        task.cancel()


async def test_a_controller_listener_outlives_garbage(caplog: pytest.LogCaptureFixture) -> None:
    member = await started(voters=1)
    answered = 0
    async with serving_node(member.node, "CONTROLLER") as server, asyncio.timeout(60):
        for frame in bad_frames(FRAMES_OVER_SOCKETS, Random(4)):
            client = await server.connect()
            client.writer.write(len(frame).to_bytes(4, "big") + frame)
            client.writer.write_eof()
            answered += bool(await client.reader.read())
            client.writer.close()
        assert 0 < answered < FRAMES_OVER_SOCKETS
        assert await (await server.connect()).lives()
        assert member.driver.failure is None
    await member.driver.stop(resign=False)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
