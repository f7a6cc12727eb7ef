"""ElectLeaders 0-2: partitions get their preferred leader, or any that is left (KIP-460)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


@handles(ApiKey.ELECT_LEADERS, versions=(0, 2), needs=(Need.ALTER_CLUSTER,), pipelined=True)
def elect_leaders(
    node: ControllerNode, context: RequestContext, request: ElectLeadersRequest
) -> Awaitable[ElectLeadersResponse]:
    """Answer when the elections are committed."""
    return carry_out(node, request, request.timeout_ms)
