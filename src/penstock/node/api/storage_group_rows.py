"""The requests of the consensus core that the listeners of brokers serve, for the logs of storage groups.

The log's replica is looked up in the node; the handlers are those of controllers, whose log is the metadata's. They
are told to nodes alone: to a client of Kafka's a broker that serves them is a strange one.
"""

from collections.abc import Awaitable
from typing import Any, Final

from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import Handler, RequestContext
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.fetch import FetchFrame
from penstock.protocol.schema import Message

VERSIONS: Final = {
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
}


async def _ask(broker: Broker, context: RequestContext, request: Message) -> Message:
    from penstock.node.api.storage_group_requests import ask  # a single node starts without the code for peers

    return await ask(broker, context, request)


def fetched_by_replica(
    broker: Broker, context: RequestContext, request: FetchFrame, frame: memoryview, position: int
) -> Awaitable[list[Any]] | None:
    """The answer to a fetch that names its cluster; None if it is nothing that a replica of a group asks."""
    from penstock.node.api.storage_group_requests import fetch, is_of_replica

    return fetch(broker, context, bytes(frame), position) if is_of_replica(broker, request) else None


HANDLERS: Final = {
    int(key): Handler(key, *versions, _ask, BETWEEN_NODES, for_nodes=True) for key, versions in VERSIONS.items()
}
