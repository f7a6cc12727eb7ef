"""A broker finds the active controller, here or on another node, and asks again when it was not the right one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pytest

from penstock.controller.refusals import refusal
from penstock.metadata.image import ClusterImage
from penstock.node.controlling import channel as controller_channel
from penstock.node.controlling.channel import ControllerChannel, LocalController
from penstock.node.controlling.commands import version_for
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.peer import Peer
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.framing import api_of_request
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from penstock.protocol.schema import Message

LOCAL = 1
OTHER = 2
HEARTBEAT = BrokerHeartbeatRequest(broker_id=LOCAL)
ALIVE = BrokerHeartbeatResponse(is_fenced=False)


@dataclass
class Place:
    """Where a node listens."""

    host: str
    port: int


class Quorum:
    """Says who leads."""

    def __init__(self, leader_id: int | None) -> None:
        self.leader_id = leader_id

    def endpoint_of(self, node_id: int) -> Place:
        return Place(f"node-{node_id}", 9093)


class Controller:
    """Answers as it is told: a message, an error, None (it cannot be reached), or a future of one of them."""

    node_id = LOCAL

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.given_up = 0
        self.closed = False
        self.was_asked = asyncio.Event()

    async def ask(self, host: str, port: int, command: Message, context: RequestContext | None) -> Any:
        return await self._next(host)

    async def answer(self, command: Message, context: RequestContext | None) -> Any:
        return await self._next("local")

    async def _next(self, who: str) -> Any:
        self.asked.append(who)
        self.was_asked.set()
        answer = self.answers.pop(0)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def give_up(self) -> None:
        self.given_up += 1

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def channel(
    quorum: Quorum, local: Controller | None, remote: Controller, timeout_ms: int = 30_000
) -> AsyncIterator[tuple[ControllerChannel, MetadataLog]]:
    log = MetadataLog(ClusterImage("cluster"), lambda: 0)
    made = ControllerChannel(
        quorum,
        log,
        cast("LocalController | None", local),
        lambda: remote,
        timeout_ms=timeout_ms,
        random=Random(1),
    )
    yield made, log
    await made.stop()


def lead(quorum: Quorum, log: MetadataLog, leader_id: int | None, epoch: int = 2) -> None:
    quorum.leader_id = leader_id
    log.leader_changed(leader_id, epoch)


async def test_the_controller_of_this_process_is_asked_without_the_wire() -> None:
    local, remote = Controller(ALIVE), Controller()
    async with channel(Quorum(LOCAL), local, remote) as (asking, _):
        assert await asking.submit(HEARTBEAT) == ALIVE
    assert (local.asked, remote.asked) == (["local"], [])


async def test_the_controller_on_another_node_is_asked_over_the_wire() -> None:
    local, remote = Controller(), Controller(ALIVE)
    async with channel(Quorum(OTHER), local, remote) as (asking, _):
        assert await asking.submit(HEARTBEAT) == ALIVE
    assert (local.asked, remote.asked) == ([], ["node-2"])
    assert remote.closed


async def test_who_is_asked_before_there_is_a_leader_waits_for_one() -> None:
    quorum, local = Quorum(None), Controller(ALIVE)
    async with channel(quorum, local, Controller()) as (asking, log):
        reply = asking.submit(HEARTBEAT)
        await asyncio.sleep(0)
        assert local.asked == []
        lead(quorum, log, LOCAL)
        assert await reply == ALIVE


async def test_one_that_is_not_active_any_more_or_cannot_be_reached_is_asked_again() -> None:
    not_here = BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
    refuses = KafkaError(ErrorCode.NOT_CONTROLLER)
    remote = Controller(not_here, None, refuses, ALIVE)
    async with channel(Quorum(OTHER), None, remote) as (asking, _):
        assert await asking.submit(HEARTBEAT) == ALIVE
    assert len(remote.asked) == 4


async def test_not_controller_beside_an_item_counts_as_well() -> None:
    create = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])
    not_here = refusal(create, KafkaError(ErrorCode.NOT_CONTROLLER))
    assert isinstance(not_here, CreateTopicsResponse)
    assert [topic.error_code for topic in not_here.topics] == [ErrorCode.NOT_CONTROLLER] * 2
    done = CreateTopicsResponse(topics=[])
    async with channel(Quorum(OTHER), None, Controller(not_here, done)) as (asking, _):
        assert await asking.submit(create) == done


async def test_the_quorum_has_another_word_for_it_which_the_controller_uses_for_replicas() -> None:
    not_mine = AssignReplicasToDirsResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = AssignReplicasToDirsResponseTopicData(partitions=[not_mine])
    answer = AssignReplicasToDirsResponse(directories=[AssignReplicasToDirsResponseDirectoryData(topics=[topic])])
    leads_no_longer = DescribeQuorumResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    described = DescribeQuorumResponse()
    async with channel(Quorum(OTHER), None, Controller(answer, leads_no_longer, described)) as (asking, _):
        assert await asking.submit(AssignReplicasToDirsRequest()) == answer
        assert await asking.submit(DescribeQuorumRequest()) is described


async def test_a_request_to_a_node_that_hangs_is_given_up_when_another_leads() -> None:
    quorum, local = Quorum(OTHER), Controller(ALIVE)
    hanging: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    remote = Controller(hanging)
    async with channel(quorum, local, remote) as (asking, log):
        reply = asking.submit(HEARTBEAT)
        await remote.was_asked.wait()
        lead(quorum, log, LOCAL)
        assert remote.given_up == 1
        hanging.set_result(None)  # what the broken connection makes of it
        assert await reply == ALIVE


async def test_in_the_end_the_answer_is_that_the_time_is_over() -> None:
    async with channel(Quorum(None), None, Controller(), timeout_ms=10) as (asking, _):
        assert (await asking.submit(HEARTBEAT)).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await asking.submit(DescribeQuorumRequest())).error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("command", "is_of_client", "share"),
    [
        (HEARTBEAT, False, 1.0),
        (CreateTopicsRequest(), True, controller_channel.CLIENTS_SHARE),
        (DescribeQuorumRequest(), True, controller_channel.QUORUM_LIMIT_S / 30),
    ],
)
async def test_who_asks_for_a_client_answers_before_the_client_gives_up(
    command: Message, is_of_client: bool, share: float
) -> None:
    limits: list[float] = []
    context = (
        RequestContext(api_of_request(command).key, 0, 0, None, Peer("127.0.0.1", 1234, "", 1))
        if is_of_client
        else None
    )
    async with channel(Quorum(None), None, Controller(), timeout_ms=30_000) as (asking, _):
        limits.append(asking._limit_s(command, context))
    assert limits == [30 * share]


async def test_other_refusals_are_answers() -> None:
    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    unsupported = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    async with channel(Quorum(OTHER), None, Controller(stale, unsupported)) as (asking, _):
        assert await asking.submit(HEARTBEAT) == stale
        assert (await asking.submit(HEARTBEAT)).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_the_answer_to_a_client_waits_until_this_node_follows_what_it_knows() -> None:
    followed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    create, done = CreateTopicsRequest(topics=[CreatableTopic(name="a")]), CreateTopicsResponse(topics=[])
    remote = Controller(done, ALIVE)
    async with channel(Quorum(OTHER), None, remote) as (asking, _):
        asking.settled = lambda: followed
        reply = asking.submit(create)
        await remote.was_asked.wait()
        assert await asking.submit(HEARTBEAT) == ALIVE, "it lives meanwhile"
        assert not reply.done()
        followed.set_result(None)
        assert await reply == done


async def test_a_stop_waits_for_nobody() -> None:
    async with channel(Quorum(None), None, Controller()) as (asking, _):
        reply = asking.submit(HEARTBEAT)
        await asyncio.sleep(0)
    assert reply.cancelled()


@pytest.mark.parametrize(
    ("command", "version"),
    [
        (CreateTopicsRequest(topics=[CreatableTopic(name="a")]), 7),
        (DeleteTopicsRequest(topic_names=["a"]), 5),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6),
    ],
)
def test_a_command_travels_in_the_newest_version_that_says_all_of_it(command: Message, version: int) -> None:
    assert version_for(command) == version
