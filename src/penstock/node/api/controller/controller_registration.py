"""ControllerRegistration 0: a controller says where it listens and what it supports (KIP-919)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


@handles(ApiKey.CONTROLLER_REGISTRATION, versions=(0, 0), needs=(Need.CLUSTER_ACTION,), pipelined=True)
def controller_registration(
    node: ControllerNode, context: RequestContext, request: ControllerRegistrationRequest
) -> Awaitable[ControllerRegistrationResponse]:
    """Answer when the registration is committed."""
    reply: Awaitable[ControllerRegistrationResponse] = node.controller.submit(request)
    return reply
