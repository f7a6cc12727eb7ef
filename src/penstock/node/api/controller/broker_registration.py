"""BrokerRegistration 0-4: a broker joins the cluster, or comes back, and gets the epoch of this life (KIP-631)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


@handles(ApiKey.BROKER_REGISTRATION, versions=(0, 4), needs=(Need.CLUSTER_ACTION,), pipelined=True)
def broker_registration(
    node: ControllerNode, context: RequestContext, request: BrokerRegistrationRequest
) -> Awaitable[BrokerRegistrationResponse]:
    """Answer when the registration is committed."""
    reply: Awaitable[BrokerRegistrationResponse] = node.controller.submit(request)
    return reply
