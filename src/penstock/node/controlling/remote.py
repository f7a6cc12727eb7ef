"""The active controller on another node, over connections on which answers come in the order of the requests.

| what travels                                           | how                            | its connection            |
| ------------------------------------------------------ | ------------------------------ | ------------------------- |
| signs of life: registration, heartbeats                | as they are                    | theirs: nothing delays it |
| what brokers ask for themselves: producer ids, the ISR | as it is                       | one for all of that       |
| commands of clients, which wait for a majority         | in an Envelope with the client | one for each API of them  |
| questions and orders to the quorum, answered at once   | so, too                        | one for all of them       |
| changes of voters, which wait for the voter to be      | so, too                        | one for them              |

Commands of some APIs wait longer: for policies, as CreateTopics, or until all brokers go by a change of rules, users or
tokens. What is behind them on a connection is of the same API, and would mostly wait for the same.
"""

import asyncio
import logging
from collections.abc import Container
from functools import partial
from typing import Final

from penstock.client.connection import connect
from penstock.client.errors import ClientError
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.controller.decisions import DECISIONS, is_command
from penstock.node.controlling.commands import SIGNS_OF_LIFE, check_active, version_for
from penstock.node.controlling.envelope import is_large, unwrap, wrap
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import is_long
from penstock.node.serving.slices import Slices
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.requests.api import AnyApiKey, ApiKey
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message

logger = logging.getLogger(__name__)

CHANGES_OF_VOTERS: Final = (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)


def _wrapped(request: Message, context: RequestContext | None) -> tuple[int, EnvelopeRequest]:
    version = version_for(request)
    return version, wrap(request, version, context)


class RemoteController:
    """`settings` bound each request and the opening of a connection. `of_nodes` are the keys of what travels as it is.

    What the node says itself, its heartbeats above all, waits for `own_timeout_ms` at most: then the connection is
    taken for broken, and another one is tried while the broker's session lasts.
    """

    def __init__(self, settings: ClientSettings, own_timeout_ms: int, of_nodes: Container[int]) -> None:
        self._of_nodes = of_nodes
        own = settings.replace(request_timeout_ms=own_timeout_ms)
        self._life, self._own = (Link(partial(connect, settings=own)) for _ in range(2))
        self._questions, self._voters = (Link(partial(connect, settings=settings)) for _ in range(2))
        self._commands: dict[AnyApiKey, Link] = {key: Link(partial(connect, settings=settings)) for key in DECISIONS}
        self._slices = Slices()
        """What is large is put into an envelope, and taken out of one, in a thread."""
        self._links = (self._life, self._own, self._questions, self._voters, *self._commands.values())

    async def ask(
        self, host: str, port: int, request: Message, deadline_s: float, context: RequestContext | None
    ) -> Message:
        """Raises KafkaError: NETWORK_EXCEPTION, NOT_CONTROLLER if not active, or why an envelope is refused."""
        address = Address(host, port)
        try:
            if api_of_request(request).key in self._of_nodes:
                connection = await self._link_for(request).opened(address)
                reply: Message = await connection.request(request, api_of_request(request).response_class)
            else:
                reply = await self._handed_on(address, request, deadline_s, context)
        except (ClientError, DecodeError) as error:
            logger.debug("the controller at %s could not be asked: %s", address, error)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the controller at {address}: {error}") from error
        check_active(reply)
        return reply

    async def _handed_on(
        self, address: Address, request: Message, deadline_s: float, context: RequestContext | None
    ) -> Message:
        # While a thread wraps the request, another node may become the controller: then this connection is given up.
        connection = await self._link_for(request).opened(address)
        if "timeout_ms" in request.__fields__:
            left_ms = int((deadline_s - asyncio.get_running_loop().time()) * 1000)
            request = request.replace(timeout_ms=max(left_ms, 1))
        wrapping = partial(_wrapped, request, context)
        version, envelope = await self._slices.work(wrapping) if is_long(request) else wrapping()
        response = await connection.request(envelope, EnvelopeResponse)
        unwrapping = partial(unwrap, response, request, version)
        return await self._slices.work(unwrapping) if is_large(response) else unwrapping()

    def _link_for(self, request: Message) -> Link:
        key = api_of_request(request).key
        if key in self._of_nodes:
            return self._life if isinstance(request, SIGNS_OF_LIFE) else self._own
        if is_command(request):
            return self._commands[key]
        return self._voters if key in CHANGES_OF_VOTERS else self._questions

    def give_up(self) -> None:
        """Another node leads now: requests that wait for an answer fail."""
        for link in self._links:
            link.give_up("another node is the controller now")

    async def close(self) -> None:
        for link in self._links:
            await link.close()
