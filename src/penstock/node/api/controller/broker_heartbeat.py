"""BrokerHeartbeat 0-1: a broker lives, and learns whether it is fenced and whether it may stop (KIP-631)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


@handles(ApiKey.BROKER_HEARTBEAT, versions=(0, 1), needs=(Need.CLUSTER_ACTION,), pipelined=True)
def broker_heartbeat(
    node: ControllerNode, context: RequestContext, request: BrokerHeartbeatRequest
) -> Awaitable[BrokerHeartbeatResponse]:
    """Answer when what changes by it is committed."""
    reply: Awaitable[BrokerHeartbeatResponse] = node.controller.submit(request)
    return reply
