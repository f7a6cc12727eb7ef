"""ResignController 0, an API of our own: the active controller lays down its office (C18, C19)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import OwnApiKey
from penstock.protocol.own_apis import ResignControllerRequest, ResignControllerResponse


@handles(OwnApiKey.RESIGN_CONTROLLER, versions=(0, 0), needs=(Need.ALTER_CLUSTER,))
def resign_controller(
    broker: Broker, context: RequestContext, request: ResignControllerRequest
) -> Awaitable[ResignControllerResponse]:
    """Hand it on."""
    reply: Awaitable[ResignControllerResponse] = broker.controller.submit(request, context)
    return reply
