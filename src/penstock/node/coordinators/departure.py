"""The groups, or transactions, of one partition go to another coordinator: clients hear of nothing but a short delay.

While the partition is handed over (`penstock.leadership.transfer`) requests wait here. Then they are sent on, each in
an envelope with its client, and the successor's answers go back: to requests that wait for other members each over a
connection of its own, as answers come in the order of the requests. What was parked here goes the same way.

| | requests | heartbeats |
| --- | --- | --- |
| held | wait | wait |
| forwarding | sent on | sent on until the successor serves; then NOT_COORDINATOR |
| over | find their way by themselves, most by NOT_COORDINATOR | likewise |

A client that is told NOT_COORDINATOR looks for the coordinator and goes on as the member that it is. With a heartbeat
that costs nothing; a commit that is refused may be told to its user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from penstock.client.connection import Connection
from penstock.client.errors import ClientError
from penstock.client.link import Link
from penstock.node.controlling.envelope import is_large, unwrap, wrap
from penstock.node.coordinators.hosted import Hosted
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import is_long
from penstock.node.serving.slices import Slices, now_or_later
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.envelope import EnvelopeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.own_apis import ForwardToCoordinatorRequest, ForwardToCoordinatorResponse
from penstock.protocol.schema import Message

MOST_WAITING: Final = 10_000
MOST_CONNECTIONS: Final = 500
"""Requests at a time whose answers may take long."""
HEARTBEATS: Final = (
    ApiKey.HEARTBEAT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
)
LONG: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


class _State(Enum):
    HELD = auto()
    FORWARDING = auto()
    OVER = auto()


class Departure:
    """What `PartitionHandOver` calls a resident. `connect` opens a connection to the successor."""

    def __init__(
        self,
        hosted: Hosted[Any],
        key_type: int,
        connect: Callable[[], Awaitable[Connection]],
        departures: dict[int, Departure],
    ) -> None:
        """Leaves `departures`, which are by the number of their partition, when it has ended."""
        self.hosted = hosted
        self._key_type = key_type
        self._connect = connect
        self._departures = departures
        self._state: _State | None = None
        self._waiting = self._connections = 0
        self._apart: dict[Connection, None] = {}
        self._decided = asyncio.Event()
        self._has_begun = False
        self._leader_epoch = -1
        self._shared = Link(connect)
        self._slices = Slices()

    # -- what `PartitionHandOver` calls -------------------------------------------------------------------------------

    def hold(self) -> None:
        self.hosted.pause()
        self._state = _State.HELD
        self._shared.open()

    def seal(self) -> None:
        self.hosted.report()
        self.hosted.put(self.hosted.machine.seal)

    def resume(self) -> None:
        self.hosted.go_on()
        self.refuse()

    def refuse(self) -> None:
        self._state = _State.OVER
        self._decided.set()

    async def forward(self, leader_epoch: int) -> None:
        self._leader_epoch = leader_epoch
        self._state = _State.FORWARDING
        self._decided.set()
        answer = await self._ask(self._forwarding(None))
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        self._has_begun = True

    def end(self) -> None:
        self.refuse()
        if self._departures.get(self._index) is self:
            del self._departures[self._index]
        self._hang_up()

    def stop(self) -> None:
        self.end()
        self._shared.give_up("this node ends")
        for connection in list(self._apart):
            connection.abort("this node ends")

    # -- what arrives -------------------------------------------------------------------------------------------------

    def takes(self, api_key: int) -> bool:
        if self._state is _State.HELD:
            return self._waiting < MOST_WAITING
        return self._state is _State.FORWARDING and not (self._has_begun and api_key in HEARTBEATS)

    async def answer(self, context: RequestContext, request: Message, ask_here: Callable[[], Any]) -> Any:
        """The successor's answer, or what `ask_here` says where there is none."""
        self._waiting += 1
        try:
            await self._decided.wait()
        finally:
            self._waiting -= 1
        if self._state is _State.FORWARDING:
            try:
                return await self._sent_on(context, request)
            except (ClientError, KafkaError, DecodeError):
                pass  # the client looks for the coordinator
        return await now_or_later(ask_here())

    async def _sent_on(self, context: RequestContext, request: Message) -> Message:
        wrapping = partial(wrap, request, context.api_version, context)
        wrapped = await self._slices.work(wrapping) if is_long(request) else wrapping()
        message = self._forwarding(encode(wrapped, 0))
        answer = await (self._ask_apart(message) if context.api_key in LONG else self._ask(message))
        if answer.envelope is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        envelope, _ = decode(EnvelopeResponse, 0, answer.envelope)
        unwrapping = partial(unwrap, envelope, request, context.api_version)
        return await self._slices.work(unwrapping) if is_large(envelope) else unwrapping()

    def _forwarding(self, envelope: bytes | None) -> ForwardToCoordinatorRequest:
        return ForwardToCoordinatorRequest(
            partition=self._index, leader_epoch=self._leader_epoch, envelope=envelope, key_type=self._key_type
        )

    # -- connections --------------------------------------------------------------------------------------------------

    @property
    def _index(self) -> int:
        return self.hosted.partition.index

    async def _ask(self, message: ForwardToCoordinatorRequest) -> ForwardToCoordinatorResponse:
        connection = await self._shared.opened()
        try:
            return await connection.request(message, ForwardToCoordinatorResponse)
        finally:
            self._hang_up()

    async def _ask_apart(self, message: ForwardToCoordinatorRequest) -> ForwardToCoordinatorResponse:
        """On a connection of its own. Only the client knows how long it will wait."""
        if self._connections >= MOST_CONNECTIONS:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self._connections += 1
        try:
            connection = await self._connect()
            self._apart[connection] = None
            try:
                return await connection.submit(message, ForwardToCoordinatorResponse)
            finally:
                del self._apart[connection]
                connection.abort("answered")
        finally:
            self._connections -= 1

    def _hang_up(self) -> None:
        connection = self._shared.connection
        if self._state is _State.OVER and (connection is None or not connection.in_flight):
            self._shared.give_up("handed over")
