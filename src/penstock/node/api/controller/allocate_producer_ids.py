"""AllocateProducerIds 0: a broker wants a block of ids to hand out to idempotent producers (KIP-730)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


@handles(ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0), needs=(Need.CLUSTER_ACTION,), pipelined=True)
def allocate_producer_ids(
    node: ControllerNode, context: RequestContext, request: AllocateProducerIdsRequest
) -> Awaitable[AllocateProducerIdsResponse]:
    """Answer when the block is committed."""
    reply: Awaitable[AllocateProducerIdsResponse] = node.controller.submit(request)
    return reply
