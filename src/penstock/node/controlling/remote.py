"""The active controller on another node: a connection for what this node says itself, and one for what clients ask.

What clients ask waits for a majority, and must not hold up heartbeats.
"""

import logging
from dataclasses import replace
from typing import Any, Final

from penstock.client.address import Address
from penstock.client.errors import ClientError
from penstock.client.settings import ClientSettings
from penstock.node.controlling.commands import version_for
from penstock.node.controlling.envelope import unwrap, wrap
from penstock.node.controlling.link import ControllerLink
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import DecodeError
from penstock.protocol.framing import api_of_request
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest
from penstock.protocol.messages.controller_registration import ControllerRegistrationRequest
from penstock.protocol.messages.envelope import EnvelopeResponse
from penstock.protocol.schema import Message

logger = logging.getLogger(__name__)

DIRECT: Final = (
    BrokerRegistrationRequest,
    BrokerHeartbeatRequest,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControllerRegistrationRequest,
    AssignReplicasToDirsRequest,
)
"""What nodes themselves say to the active controller."""


class RemoteController:
    """See the module. `settings` bound each request and the opening of a connection.

    What the node says itself, its heartbeats above all, waits for `own_timeout_ms` at most: then the connection is
    taken for broken, and another one is tried while the broker's session lasts.
    """

    def __init__(self, settings: ClientSettings, own_timeout_ms: int) -> None:
        self._own = ControllerLink(replace(settings, request_timeout_ms=own_timeout_ms))
        self._forwarding = ControllerLink(settings)

    async def ask(self, host: str, port: int, command: Message, context: RequestContext | None) -> Any:
        """The answer of the node there; None if it cannot be reached. Raises KafkaError if it refuses an envelope."""
        address = Address(host, port)
        try:
            return await self._over(address, command, context)
        except (ClientError, DecodeError) as error:
            logger.debug("the controller at %s could not be asked: %s", address, error)
            return None

    async def _over(self, address: Address, command: Message, context: RequestContext | None) -> Any:
        if isinstance(command, DIRECT):
            connection = await self._own.opened(address)
            return await connection.request(command, api_of_request(command).response_class)
        connection = await self._forwarding.opened(address)
        version = version_for(command)
        response = await connection.request(wrap(command, version, context), EnvelopeResponse)
        return unwrap(response, command, version)

    def give_up(self) -> None:
        """Another node leads now: whoever waits for an answer is told that there is none."""
        for link in (self._own, self._forwarding):
            link.give_up()

    async def close(self) -> None:
        """Closes the connections."""
        for link in (self._own, self._forwarding):
            await link.close()
