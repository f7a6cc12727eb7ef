"""A controller over the consensus core itself, on a disk in memory: what the core raises reaches the handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any
from uuid import UUID

from tests.simulation.memory import MemoryLog, MemorySnapshots

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import CONTROLLER_HANDLERS, load_handlers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.schema import Message
from penstock.raft import requests as ask
from penstock.raft.describe import QuorumDescription
from penstock.raft.effects import Effect, ElectionState, Flush, Reply, Send
from penstock.raft.leader import Leader
from penstock.raft.machine import Raft
from penstock.raft.requests import VoteAnswer
from penstock.raft.settings import RaftSettings
from penstock.raft.voters import DYNAMIC_VOTERS, Endpoint, Quorum, ReplicaKey, Voter

Answer = Message | KafkaError | asyncio.Future[Message]
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
LISTENER = "CONTROLLER"
ME = ReplicaKey(1, UUID(int=1))


def voter(node_id: int) -> Voter:
    endpoint = Endpoint(LISTENER, f"host{node_id}", 9000 + node_id)
    return Voter(ReplicaKey(node_id, UUID(int=node_id)), (endpoint,))


def quorum(*ids: int) -> Quorum:
    return Quorum.of([voter(node_id) for node_id in ids], DYNAMIC_VOTERS)


class CoreQuorum:
    """Node 1 of a quorum; time stands still, and peers are what the test says."""

    def __init__(self, *ids: int) -> None:
        self.snapshots = MemorySnapshots()
        self.log = MemoryLog()
        self.raft = Raft(voter(1), quorum(*ids), RaftSettings(), self.log, self.snapshots, Random(1), ElectionState())
        self.now_ms = 1_000
        self.learned: dict[int, tuple[str, int]] = {}
        self.is_stopped = False
        self.told: list[ask.PeerRequest] = []
        """What was said to the peers when it resigned."""
        self.asked = asyncio.Event()
        self._carry_out(self.raft.start(self.now_ms))

    def lead(self) -> None:
        """Win an election: one voter besides this one, if there are any, says yes each time it is asked."""
        self.now_ms = max(self.now_ms, self.raft.deadline_ms)
        effects = self.raft.tick(self.now_ms)
        while (to_and_request := next(_votes_asked(effects), None)) is not None:
            self._carry_out(effects)
            to, request = to_and_request
            yes = VoteAnswer(ErrorCode.NONE, None, request.epoch, granted=True)
            effects = self.raft.answered(to, request, yes, self.now_ms)
        self._carry_out(effects)

    @property
    def local_key(self) -> ReplicaKey:
        return ME

    @property
    def leader_id(self) -> int | None:
        return self.raft.leader_id

    @property
    def epoch(self) -> int:
        return self.raft.epoch

    def is_leader(self, epoch: int) -> bool:
        return isinstance(self.raft.role, Leader) and self.raft.epoch == epoch

    def resign(self, successor_id: int | None = None) -> None:
        effects = self.raft.resign(self.now_ms, successor_id)
        self.told = [effect.request for effect in effects if isinstance(effect, Send)]
        self._carry_out(effects)

    @property
    def quorum(self) -> Quorum:
        return self.raft.quorum

    def request(self, request: ask.Request) -> asyncio.Future[ask.Answer]:
        token: asyncio.Future[ask.Answer] = asyncio.get_running_loop().create_future()
        self.asked.set()
        if self.is_stopped:
            token.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "stopped"))
        else:
            self._carry_out(self.raft.received(request, token, self.now_ms))
        return token

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self._carry_out(self.raft.tick(self.now_ms))

    def describe(self) -> QuorumDescription:
        return self.raft.describe(self.now_ms)

    def hears(self, node_id: int) -> bool:
        return True

    def endpoint_of(self, node_id: int, listener: str | None = None) -> Endpoint | None:
        found = self.quorum.voter(node_id)
        return None if found is None else found.endpoints[0]

    def learn_endpoints(self, node_id: int, endpoints: Sequence[Endpoint]) -> None:
        self.learned[node_id] = (endpoints[0].host, endpoints[0].port)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Reply):
                assert isinstance(effect.token, asyncio.Future)
                if not effect.token.done():
                    effect.token.set_result(effect.answer)
            elif isinstance(effect, Flush):
                self.log.flush()
                self._carry_out(self.raft.flushed(self.now_ms))


def _votes_asked(effects: list[Effect]) -> Iterator[tuple[int, ask.Vote]]:
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.request, ask.Vote):
            yield effect.to, effect.request


class Answering:
    """A controller that answers or refuses every command as the test says, and remembers them."""

    def __init__(self, answer: Callable[[Message], Answer]) -> None:
        self.answer = answer
        self.is_active = False
        self.commands: list[Message] = []

    def submit(
        self, command: Message, deadline_s: float, *, asker: str = "", unheard: object = None
    ) -> asyncio.Future[Any]:
        self.commands.append(command)
        answer = self.answer(command)
        if isinstance(answer, asyncio.Future):
            return answer
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(answer, KafkaError):
            reply.set_exception(answer)
        else:
            reply.set_result(answer)
        return reply


def controller_node(member: CoreQuorum, answer: Callable[[Message], Answer]) -> ControllerNode:
    return ControllerNode(
        config=BrokerConfig.embedded(),
        node_id=1,
        cluster_id=CLUSTER,
        image=ClusterImage(CLUSTER),
        controller=Answering(answer),
        quorum=member,
        handlers=load_handlers(CONTROLLER_HANDLERS),
    )
