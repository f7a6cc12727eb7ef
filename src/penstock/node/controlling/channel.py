"""How a broker reaches the active controller, wherever that is: in this process, or on another node.

| what is asked                                             | how it travels to another node                         |
| --------------------------------------------------------- | ------------------------------------------------------ |
| what nodes say themselves: registration, heartbeats       | as it is                                               |
| what clients ask                                          | in an Envelope, with who asked (KIP-590)               |

A request that meets no active controller, or loses its connection, is asked again: at once when another leader of the
quorum is heard of, otherwise after a pause that grows. So it may be carried out twice: a topic that was created may be
said to exist already. After `request.timeout.ms` the answer is REQUEST_TIMED_OUT in the layout of the response; to a
client a little earlier, for it waits no longer itself; about the quorum soon, for whoever asks wants to know. A
request to a node that leads no longer is given up as soon as that is known, for the node may hang.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any, Final, Protocol

from penstock.controller.decisions import is_command
from penstock.controller.refusals import refusal
from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.commands import has_error, version_for
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.handler import CONTROLLER_HANDLERS, RequestContext, load_handlers
from penstock.node.serving.peer import Peer
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.framing import api_of_request
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.messages.describe_quorum import DescribeQuorumRequest
from penstock.protocol.schema import Message

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.5
"""Between two attempts, doubling; with 20 % of jitter."""

CLIENTS_SHARE: Final = 0.9
"""Of `request.timeout.ms`, which is as long for clients: an answer that comes later is one that nobody hears."""
QUORUM_LIMIT_S: Final = 5.0
"""So long a question about the quorum waits for a leader: an election takes less."""

SIGNS_OF_LIFE: Final = (BrokerRegistrationRequest, BrokerHeartbeatRequest)
"""What must not wait until this node follows what it knows: it lives all the same."""

ITSELF: Final = Peer("127.0.0.1", -1, "", -1)
"""Who asks if it is no client but this node."""

ASK_AGAIN: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Answers of a node that is not the active controller; the second one is the quorum's, to what is no decision."""


class LeaderLookup(Protocol):
    """What the channel needs to know of the quorum (`QuorumDriver`)."""

    @property
    def leader_id(self) -> int | None:
        """Who leads, if that is known."""

    def endpoint_of(self, node_id: int) -> Any:
        """Where a node listens for its peers, if that is known: something with `host` and `port`."""


class LocalController:
    """The controller in this process."""

    def __init__(self, node: ControllerNode) -> None:
        self.node_id = node.node_id
        self._node = node

    async def answer(self, command: Message, context: RequestContext | None) -> Any:
        """What it says: to a command, or as a handler of its listeners does."""
        node = self._node
        if is_command(command):
            return await node.controller.submit(command)
        key, version = api_of_request(command).key, version_for(command)
        if context is None:
            context = RequestContext(key, version, 0, None, ITSELF)
        if not node.handlers:  # a node without listeners for controllers needs them only here
            node.handlers = load_handlers(CONTROLLER_HANDLERS)
        reply = node.handlers[key].function(node, replace(context, api_version=version), command)
        return await reply if hasattr(reply, "__await__") else reply


class Remote(Protocol):
    """The active controller on another node (`RemoteController`)."""

    async def ask(self, host: str, port: int, command: Message, context: RequestContext | None) -> Any:
        """The answer of the node there; None if it cannot be reached. Raises KafkaError."""

    def give_up(self) -> None:
        """Waits no longer for the answer of a node that leads no longer."""

    async def close(self) -> None:
        """Closes the connections."""


class ControllerChannel:
    """See the module. `local` is None where this process has no controller; `connect` is called for a remote one."""

    def __init__(
        self,
        quorum: LeaderLookup,
        log: MetadataLog,
        local: LocalController | None,
        connect: Callable[[], Remote],
        *,
        timeout_ms: int,
        random: Random,
    ) -> None:
        self._quorum = quorum
        self._local = local
        self.settled: Callable[[], Awaitable[None]] = _nothing_to_settle
        """Is awaited before the answer to a client goes out: by then this node follows what it knows."""
        self._connect = connect
        self._remote: Remote | None = None
        self._timeout_s = timeout_ms / 1000
        self._random = random
        self._changed = asyncio.Event()
        self._under_way: dict[asyncio.Future[Any], None] = {}
        log.add_leader_listener(self._on_leader)

    def submit(self, command: Message, context: RequestContext | None = None) -> asyncio.Future[Any]:
        """Asks the active controller; the future's result is the response message of the command's API.

        It never fails: what goes wrong stands in the response as an error code. `context` says who asked this node.
        """
        loop = asyncio.get_running_loop()
        asking = loop.create_task(self._ask_until(command, context, loop.time() + self._limit_s(command, context)))
        self._under_way[asking] = None
        asking.add_done_callback(self._under_way.pop)
        return asking

    def _limit_s(self, command: Message, context: RequestContext | None) -> float:
        if isinstance(command, DescribeQuorumRequest):
            return min(QUORUM_LIMIT_S, self._timeout_s)
        return self._timeout_s if context is None else self._timeout_s * CLIENTS_SHARE

    async def stop(self) -> None:
        """Asks nobody any more; what is still asked is cancelled."""
        for asking in list(self._under_way):
            asking.cancel()
        if self._under_way:
            await asyncio.wait(list(self._under_way))
        if self._remote is not None:
            await self._remote.close()

    # -- asking until there is an answer ------------------------------------------------------------------------------

    async def _ask_until(self, command: Message, context: RequestContext | None, deadline_s: float) -> Any:
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline_s):
                    reply = await self._ask(command, context)
                    if reply is not None and not _is_of_no_controller(command, reply):
                        if not isinstance(command, SIGNS_OF_LIFE):
                            await self.settled()
                        return reply
            except TimeoutError:
                pass
            except KafkaError as error:
                if error.code not in ASK_AGAIN:
                    return refusal(command, error)
            if loop.time() >= deadline_s:
                late = KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "no active controller has answered in time: does a majority of them run?",
                )
                return refusal(command, late)
            pause_s = min(FIRST_PAUSE_S * (1 << min(attempt, 10)), LONGEST_PAUSE_S) * self._random.uniform(0.8, 1.2)
            await _wait(changed, min(pause_s, deadline_s - loop.time()))
            attempt = 0 if changed.is_set() else attempt + 1

    async def _ask(self, command: Message, context: RequestContext | None) -> Any:
        """The answer of whoever leads now; None if that is nobody, or if it cannot be reached."""
        leader_id = self._quorum.leader_id
        if leader_id is None:
            return None
        if self._local is not None and leader_id == self._local.node_id:
            return await self._local.answer(command, context)
        endpoint = self._quorum.endpoint_of(leader_id)
        if endpoint is None:
            return None
        if self._remote is None:
            self._remote = self._connect()
        return await self._remote.ask(endpoint.host, endpoint.port, command, context)

    # -- who leads ----------------------------------------------------------------------------------------------------

    def _on_leader(self, leader_id: int | None, epoch: int) -> None:
        """Whoever waits for a leader is woken; whoever waits for the answer of another one asks again."""
        if self._remote is not None:
            self._remote.give_up()
        self._changed.set()
        self._changed = asyncio.Event()


async def _nothing_to_settle() -> None:
    """What `settled` is on a node without a broker."""


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    """Waits until that is set, but not longer than this."""
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass


def _is_of_no_controller(command: Message, reply: Message) -> bool:
    """Whether a response says that another node should have been asked."""
    words = ASK_AGAIN[:1] if is_command(command) else ASK_AGAIN
    return any(has_error(reply, code) for code in words)
