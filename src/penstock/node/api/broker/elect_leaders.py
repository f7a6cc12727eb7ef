"""ElectLeaders 0-2: partitions get their preferred leader, or any that is left (KIP-460). The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


@handles(ApiKey.ELECT_LEADERS, versions=(0, 2), needs=(Need.ALTER_CLUSTER,))
def elect_leaders(
    broker: Broker, context: RequestContext, request: ElectLeadersRequest
) -> Awaitable[ElectLeadersResponse]:
    """Answer when the elections are committed."""
    return carry_out(broker, request, request.timeout_ms, context)
