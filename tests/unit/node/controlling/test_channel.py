"""A broker finds the active controller, here or on another node, and asks again when it was not the right one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
from tests.unit.node.contexts import embedded, node_context

from penstock.metadata.image import ClusterImage
from penstock.node.controlling.channel import ControllerChannel
from penstock.node.controlling.commands import check_active, clients_deadline, version_for
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.assign_replicas_to_dirs import (
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
from penstock.raft.voters import Endpoint

LOCAL = 1
OTHER = 2
HEARTBEAT = BrokerHeartbeatRequest(broker_id=LOCAL)
ALIVE = BrokerHeartbeatResponse(is_fenced=False)


class Quorum:
    """Says who leads."""

    def __init__(self, leader_id: int | None) -> None:
        self.leader_id = leader_id

    def endpoint_of(self, node_id: int) -> Endpoint:
        return Endpoint("CONTROLLER", f"node-{node_id}", 9093)


class Controller:
    """Answers as it is told: a message, an error, or a future of one of them."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.given_up = 0
        self.closed = False
        self.was_asked = asyncio.Event()

    async def ask(
        self, host: str, port: int, request: Message, deadline_s: float, context: RequestContext | None
    ) -> Any:
        return await self._next(host)

    async def answer(self, request: Message, deadline_s: float, context: RequestContext | None) -> Any:
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
        node_context(embedded(LOCAL, request_timeout_ms=str(timeout_ms)), log.image, random=Random(1)),
        quorum,
        log,
        None if local is None else local.answer,
        lambda: remote,
    )
    yield made, log
    await made.stop()


def lead(quorum: Quorum, log: MetadataLog, leader_id: int | None, epoch: int = 2) -> None:
    quorum.leader_id = leader_id
    log.leader_changed(leader_id, epoch)


async def test_the_controller_of_this_process_is_asked_without_the_wire() -> None:
    local, remote = Controller(ALIVE), Controller()
    async with channel(Quorum(LOCAL), local, remote) as (asking, _):
        assert await asking.submit(HEARTBEAT, BrokerHeartbeatResponse) == ALIVE
    assert (local.asked, remote.asked) == (["local"], [])


async def test_the_controller_on_another_node_is_asked_over_the_wire() -> None:
    local, remote = Controller(), Controller(ALIVE)
    async with channel(Quorum(OTHER), local, remote) as (asking, _):
        assert await asking.submit(HEARTBEAT, BrokerHeartbeatResponse) == ALIVE
    assert (local.asked, remote.asked) == ([], ["node-2"])
    assert remote.closed


async def test_who_is_asked_before_there_is_a_leader_waits_for_one() -> None:
    quorum, local = Quorum(None), Controller(ALIVE)
    async with channel(quorum, local, Controller()) as (asking, log):
        reply = asking.submit(HEARTBEAT, BrokerHeartbeatResponse)
        await asyncio.sleep(0)
        assert local.asked == []
        lead(quorum, log, LOCAL)
        assert await reply == ALIVE


async def test_one_that_is_not_active_any_more_or_cannot_be_reached_is_asked_again() -> None:
    not_active, lost = KafkaError(ErrorCode.NOT_CONTROLLER), KafkaError(ErrorCode.NETWORK_EXCEPTION)
    remote = Controller(not_active, lost, not_active, ALIVE)
    async with channel(Quorum(OTHER), None, remote) as (asking, _):
        assert await asking.submit(HEARTBEAT, BrokerHeartbeatResponse) == ALIVE
    assert len(remote.asked) == 4


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_both_words_for_it_at_the_top_of_an_answer_say_that_another_node_is_to_be_asked(code: ErrorCode) -> None:
    for answer in (BrokerHeartbeatResponse(error_code=code), DescribeQuorumResponse(error_code=code)):
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            check_active(answer)


def test_beside_a_replica_the_word_of_the_quorum_is_the_answer() -> None:
    not_mine = AssignReplicasToDirsResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = AssignReplicasToDirsResponseTopicData(partitions=[not_mine])
    check_active(AssignReplicasToDirsResponse(directories=[AssignReplicasToDirsResponseDirectoryData(topics=[topic])]))
    check_active(CreateTopicsResponse())


async def test_a_request_to_a_node_that_hangs_is_given_up_when_another_leads() -> None:
    quorum, local = Quorum(OTHER), Controller(ALIVE)
    hanging: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    remote = Controller(hanging)
    async with channel(quorum, local, remote) as (asking, log):
        reply = asking.submit(HEARTBEAT, BrokerHeartbeatResponse)
        await remote.was_asked.wait()
        lead(quorum, log, LOCAL)
        assert remote.given_up == 1
        hanging.set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION))  # what the broken connection makes of it
        assert await reply == ALIVE


async def test_in_the_end_the_refusal_is_that_the_time_is_over() -> None:
    async with channel(Quorum(None), None, Controller(), timeout_ms=10) as (asking, _):
        with pytest.raises(KafkaError, match="does a majority of them run") as caught:
            await asking.submit(HEARTBEAT, BrokerHeartbeatResponse)
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_the_deadline_is_that_of_who_asks() -> None:
    hanging: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with channel(Quorum(LOCAL), Controller(hanging), Controller()) as (asking, _):
        soon_s = asyncio.get_running_loop().time() + 0.001
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            await asking.submit(HEARTBEAT, BrokerHeartbeatResponse, deadline_s=soon_s)


@pytest.mark.parametrize(
    ("request_", "limit_s"),
    [
        (CreateTopicsRequest(timeout_ms=5_000), 5.0),
        (CreateTopicsRequest(timeout_ms=60_000), 27.0),
        (CreateTopicsRequest(timeout_ms=-1), 27.0),
        (AlterConfigsRequest(), 27.0),
        (DescribeQuorumRequest(), 5.0),
    ],
)
async def test_who_asks_for_a_client_answers_before_the_client_gives_up(request_: Message, limit_s: float) -> None:
    now_s = asyncio.get_running_loop().time()
    assert clients_deadline(request_, 30_000) - now_s == pytest.approx(limit_s, abs=1)


async def test_other_refusals_are_for_who_asked() -> None:
    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    unsupported = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    async with channel(Quorum(OTHER), None, Controller(stale, unsupported)) as (asking, _):
        assert await asking.submit(HEARTBEAT, BrokerHeartbeatResponse) == stale
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
            await asking.submit(HEARTBEAT, BrokerHeartbeatResponse)


async def test_the_answer_to_a_client_waits_until_this_node_follows_what_it_knows() -> None:
    followed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    create, done = CreateTopicsRequest(topics=[CreatableTopic(name="a")]), CreateTopicsResponse(topics=[])
    remote = Controller(done, ALIVE)
    async with channel(Quorum(OTHER), None, remote) as (asking, _):
        asking.await_follower(lambda: followed)
        reply = asking.submit(create, CreateTopicsResponse)
        await remote.was_asked.wait()
        assert await asking.submit(HEARTBEAT, BrokerHeartbeatResponse) == ALIVE, "it lives meanwhile"
        assert not reply.done()
        followed.set_result(None)
        assert await reply == done


async def test_a_stop_waits_for_nobody() -> None:
    async with channel(Quorum(None), None, Controller()) as (asking, _):
        reply = asking.submit(HEARTBEAT, BrokerHeartbeatResponse)
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
