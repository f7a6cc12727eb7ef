"""How a broker reaches the active controller, wherever that is: in this process (`local`), or on another (`remote`).

A request that meets no active controller, or loses its connection, is asked again: at once when another leader of the
quorum is heard of, otherwise after a pause that grows. So it may be carried out twice: a topic that was created may be
said to exist already. At its deadline the refusal is REQUEST_TIMED_OUT. A request to a node that leads no longer is
given up as soon as that is known, for the node may hang.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from penstock.node.controlling.commands import SIGNS_OF_LIFE, ReplyT
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import all_ended
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message
from penstock.raft.voters import Endpoint

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.5
"""Between two attempts, doubling; with 20 % of jitter."""

ASK_AGAIN: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION)
"""Refusals that another attempt may not meet: the node is not active, or no node was reached."""


Local = Callable[[Message, float, RequestContext | None], Awaitable[Message]]
"""The controller of this process: its reply to a request by a deadline (`local.answered_here`). Raises KafkaError."""


class LeaderLookup(Protocol):
    @property
    def leader_id(self) -> int | None: ...

    def endpoint_of(self, node_id: int) -> Endpoint | None: ...


class Remote(Protocol):
    async def ask(
        self, host: str, port: int, request: Message, deadline_s: float, context: RequestContext | None
    ) -> Message:
        """Raises KafkaError: of `ASK_AGAIN`, or why the node refuses."""

    def give_up(self) -> None: ...

    async def close(self) -> None: ...


class ControllerChannel:
    """`local` is None where this process has no controller; `connect` is called for a remote one."""

    def __init__(
        self,
        context: NodeContext,
        quorum: LeaderLookup,
        log: MetadataLog,
        local: Local | None,
        connect: Callable[[], Remote],
    ) -> None:
        self._node_id = context.node_id
        self._quorum = quorum
        self._local = local
        self._followers: list[Callable[[], Awaitable[None]]] = []
        self._connect = connect
        self._remote: Remote | None = None
        self._timeout_s = context.config.request_timeout_ms / 1000
        self._random = context.environment.random
        self._changed = asyncio.Event()
        self._under_way: dict[asyncio.Future[Any], None] = {}
        log.add_leader_listener(self._on_leader)

    def submit(
        self,
        request: Message,
        answer: type[ReplyT],
        *,
        deadline_s: float | None = None,
        context: RequestContext | None = None,
    ) -> asyncio.Future[ReplyT]:
        assert issubclass(answer, api_of_request(request).response_class)
        loop = asyncio.get_running_loop()
        if deadline_s is None:
            deadline_s = loop.time() + self._timeout_s
        asking = loop.create_task(self._ask_until(request, deadline_s, context))
        self._under_way[asking] = None
        asking.add_done_callback(self._under_way.pop)
        return cast("asyncio.Future[ReplyT]", asking)

    def await_follower(self, settled: Callable[[], Awaitable[None]]) -> None:
        """From now on no answer goes out before `settled` has returned: by then this node follows what it knows."""
        self._followers.append(settled)

    async def _followed(self) -> None:
        for settled in self._followers:
            await settled()

    async def stop(self) -> None:
        for asking in list(self._under_way):
            asking.cancel()
        try:
            await all_ended(self._under_way)
        finally:
            if self._remote is not None:
                await self._remote.close()

    # -- asking until there is an answer ------------------------------------------------------------------------------

    async def _ask_until(self, request: Message, deadline_s: float, context: RequestContext | None) -> Message:
        attempt = 0
        with suppress(TimeoutError):  # which has this task, and is not to be part of its error
            async with asyncio.timeout_at(deadline_s):
                while True:
                    changed = self._changed
                    try:
                        reply = await self._ask(request, deadline_s, context)
                    except KafkaError as error:
                        if error.code not in ASK_AGAIN:
                            raise
                    else:
                        if not isinstance(request, SIGNS_OF_LIFE):  # it lives, whether it follows what it knows or not
                            await self._followed()
                        return reply
                    pause_s = min(FIRST_PAUSE_S * (1 << min(attempt, 10)), LONGEST_PAUSE_S)
                    await _wait(changed, pause_s * self._random.uniform(0.8, 1.2))
                    attempt = 0 if changed.is_set() else attempt + 1
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "no active controller has answered in time: does a majority of them run?"
        )

    async def _ask(self, request: Message, deadline_s: float, context: RequestContext | None) -> Message:
        """The answer of the present leader. Raises KafkaError."""
        leader_id = self._quorum.leader_id
        if leader_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "nobody is known to lead the quorum")
        if self._local is not None and leader_id == self._node_id:
            return await self._local(request, deadline_s, context)
        endpoint = self._quorum.endpoint_of(leader_id)
        if endpoint is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"nobody knows where node {leader_id} listens")
        if self._remote is None:
            self._remote = self._connect()
        return await self._remote.ask(endpoint.host, endpoint.port, request, deadline_s, context)

    # -- who leads ----------------------------------------------------------------------------------------------------

    def _on_leader(self, leader_id: int | None, epoch: int) -> None:
        """Requests that wait for a leader go on; requests that wait for another node's answer are asked again."""
        if self._remote is not None:
            self._remote.give_up()
        self._changed.set()
        self._changed = asyncio.Event()


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass
