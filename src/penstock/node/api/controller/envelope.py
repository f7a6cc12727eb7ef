"""Envelope 0: a broker hands on what a client asked of it, and gets the answer for the client (KIP-590).

Only what brokers hand on is opened; the rest is INVALID_REQUEST. NOT_CONTROLLER, wherever it stands in the answer, is
said by the envelope itself, so that the broker looks for the active controller and asks again.
"""

from __future__ import annotations

import logging
from typing import Any

from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.envelope import closed, opened
from penstock.node.serving.access import Need
from penstock.node.serving.handler import CloseConnection, RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

logger = logging.getLogger(__name__)


@handles(ApiKey.ENVELOPE, versions=(0, 0), needs=(Need.CLUSTER_ACTION,), pipelined=True)
async def envelope(node: ControllerNode, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Call the handler of what is in the envelope."""
    try:
        enclosed = opened(request, node.handlers, context)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    try:
        reply: Any = enclosed.handler.function(node, enclosed.context, enclosed.request)
        if hasattr(reply, "__await__"):
            reply = await reply
        return closed(enclosed, reply)
    except CloseConnection:
        raise
    except Exception:  # the connection is that of a whole broker, which would bring the same request again
        logger.exception("a request of API key %d, which a broker handed on, failed", enclosed.context.api_key)
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
