"""UnregisterBroker 0: a broker that will not come back is forgotten (KIP-631). The controller decides."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@handles(ApiKey.UNREGISTER_BROKER, versions=(0, 0), needs=(Need.ALTER_CLUSTER,))
def unregister_broker(
    broker: Broker, context: RequestContext, request: UnregisterBrokerRequest
) -> Awaitable[UnregisterBrokerResponse]:
    """Answer when that is committed."""
    reply: Awaitable[UnregisterBrokerResponse] = broker.controller.submit(request, context)
    return reply
