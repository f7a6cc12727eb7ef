"""What a broker asks of the controller on another node, on real sockets: what waits there holds up nothing else."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.api.controller.quorum_of_core import CLUSTER, LISTENER, Answer, CoreQuorum, controller_node
from tests.unit.node.served_node import serving_node
from tests.unit.node.turns import until

from penstock.client.settings import ClientSettings
from penstock.node.api.commands import OF_NODES
from penstock.node.controlling import envelope, remote
from penstock.node.controlling.remote import RemoteController
from penstock.node.serving.parts import LONG
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="flights")], timeout_ms=60_000)
DELETE = DeleteTopicsRequest(topic_names=["delays"])
RENEW = RenewDelegationTokenRequest(hmac=b"of ada's")
ADD_VOTER = AddRaftVoterRequest(
    cluster_id=CLUSTER,
    timeout_ms=60_000,
    voter_id=9,
    voter_directory_id=UUID(int=9),
    listeners=[Listener(name=LISTENER, host="nowhere", port=9)],
)


class Served:
    """A controller behind a listener, and the way to it."""

    def __init__(self, *answers: Answer) -> None:
        self.quorum = CoreQuorum(1)
        self.quorum.lead()
        self.answers = list(answers)
        self.node = controller_node(self.quorum, self._answer)
        self.asked: list[Message] = []
        self.remote = RemoteController(ClientSettings(), own_timeout_ms=10_000, of_nodes=OF_NODES)
        self.port = 0

    def _answer(self, command: Message) -> Answer:
        self.asked.append(command)
        return self.answers.pop(0)

    async def ask(self, request: Message, within_s: float = 30.0) -> Message:
        deadline_s = asyncio.get_running_loop().time() + within_s
        return await self.remote.ask("127.0.0.1", self.port, request, deadline_s, None)


@asynccontextmanager
async def served(*answers: Answer) -> AsyncIterator[Served]:
    one = Served(*answers)
    async with serving_node(one.node, LISTENER) as server:
        one.port = server.endpoint.port
        try:
            yield one
        finally:
            await one.remote.close()


async def test_a_voter_that_is_slow_to_join_holds_up_nothing_else() -> None:
    async with served(CreateTopicsResponse(), BrokerHeartbeatResponse()) as controller:
        joining = asyncio.ensure_future(controller.ask(ADD_VOTER))
        await controller.quorum.asked.wait()
        assert isinstance(await controller.ask(CREATE), CreateTopicsResponse)
        assert isinstance(await controller.ask(BrokerHeartbeatRequest()), BrokerHeartbeatResponse)
        assert isinstance(await controller.ask(DescribeQuorumRequest()), DescribeQuorumResponse)
        assert not joining.done(), "the voter has not answered yet"
        joining.cancel()


@pytest.mark.parametrize(("topics", "apart"), [(1, False), (LONG + 1, True)])
async def test_large_commands_and_answers_are_taken_apart_by_threads(
    monkeypatch: pytest.MonkeyPatch, topics: int, apart: bool
) -> None:
    """At the broker and at the controller; neither has anything else to do with what is in them."""
    loops, threads = threading.get_ident(), dict[str, int]()

    def noted(name: str, of: ModuleType) -> None:
        function = getattr(of, name)

        def call(*arguments: Any) -> Any:
            threads[name] = threading.get_ident()
            return function(*arguments)

        monkeypatch.setattr(of, name, call)

    for name in ("version_for", "wrap", "unwrap"):
        noted(name, remote)
    for name in ("opened", "closed"):
        noted(name, envelope)
    names = [f"flights-{'x' * 200}-{number}" for number in range(topics)]
    told = CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_message=None) for name in names])
    async with served(told) as controller:
        asked = CREATE.replace(topics=[CreatableTopic(name=name) for name in names])
        answer = await controller.ask(asked)
    assert isinstance(answer, CreateTopicsResponse)
    assert [topic.name for topic in answer.topics] == names
    assert len(threads) == 5
    assert {thread != loops for thread in threads.values()} == {apart}


async def test_a_large_command_to_the_controller_from_before_leaves_the_link_to_the_present_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other becomes the controller while a thread puts the command into an envelope."""
    wrap, is_wrapping, goes_on = envelope.wrap, threading.Event(), threading.Event()

    def held(request: Message, *others: Any) -> Any:
        if isinstance(request, CreateTopicsRequest) and len(request.topics) > LONG:
            is_wrapping.set()
            goes_on.wait(60)
        return wrap(request, *others)

    monkeypatch.setattr(remote, "wrap", held)
    slow: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    async with served() as before, served(slow) as present:
        present.remote = before.remote
        large = CREATE.replace(topics=[CreatableTopic(name=f"flights-{number}") for number in range(LONG + 1)])
        late = asyncio.ensure_future(before.ask(large))
        await until(is_wrapping.is_set)
        before.remote.give_up()
        asking = asyncio.ensure_future(present.ask(CREATE))
        await until(lambda: present.asked)
        goes_on.set()
        with pytest.raises(KafkaError, match="NETWORK_EXCEPTION"):
            await late
        slow.set_result(CreateTopicsResponse())
        assert isinstance(await asking, CreateTopicsResponse)
        assert before.asked == []


async def test_what_waits_for_a_majority_holds_up_no_heartbeat() -> None:
    loop = asyncio.get_running_loop()
    slow: list[asyncio.Future[Message]] = [loop.create_future(), loop.create_future()]
    async with served(*slow, BrokerHeartbeatResponse()) as controller:
        waiting = [asyncio.ensure_future(controller.ask(command)) for command in (AlterPartitionRequest(), CREATE)]
        while len(controller.asked) < len(waiting):
            await asyncio.sleep(0)
        assert isinstance(await controller.ask(BrokerHeartbeatRequest()), BrokerHeartbeatResponse)
        for one in waiting:
            assert not one.done()
            one.cancel()


@pytest.mark.parametrize(
    ("slow", "other"), [(CREATE, DELETE), (RENEW, CREATE), (CREATE, RENEW)], ids=lambda it: type(it).__name__
)
async def test_a_command_that_waits_for_policies_or_brokers_holds_up_no_others(slow: Message, other: Message) -> None:
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    async with served(never, api_of_request(other).response_class()) as controller:
        waiting = asyncio.ensure_future(controller.ask(slow))
        await until(lambda: controller.asked)
        assert isinstance(await controller.ask(other), api_of_request(other).response_class)
        assert not waiting.done()
        waiting.cancel()


async def test_the_controller_there_is_told_how_much_time_is_left() -> None:
    async with served(CreateTopicsResponse(), CreateTopicsResponse()) as controller:
        for within_s in (20.0, -1.0):
            await controller.ask(CREATE, within_s)
        left_ms = [command.timeout_ms for command in controller.asked if isinstance(command, CreateTopicsRequest)]
    assert 10_000 < left_ms[0] <= 20_000
    assert left_ms[1] == 1, "0 would be as long as it takes"


@pytest.mark.parametrize("command", [CREATE, BrokerHeartbeatRequest()], ids=["in an envelope", "as it is"])
async def test_one_that_is_not_active_refuses(command: Message) -> None:
    async with served(KafkaError(ErrorCode.NOT_CONTROLLER)) as controller:
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await controller.ask(command)


async def test_one_that_cannot_be_reached_is_a_refusal_as_well() -> None:
    async with served() as controller:
        port = controller.port
    controller = Served()
    controller.port = port
    with pytest.raises(KafkaError, match="NETWORK_EXCEPTION"):
        await controller.ask(CREATE)
    await controller.remote.close()
