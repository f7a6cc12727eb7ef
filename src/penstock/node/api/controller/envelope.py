"""Envelope 0: a broker hands on what a client asked of it, and gets the answer for the client (KIP-590).

Only what brokers hand on is opened; the rest is INVALID_REQUEST. If this controller is not active, the envelope itself
says so, and the broker looks for the one that is and asks again.
"""

import logging

from penstock.node.api.commands import HANDED_ON, refused_whole
from penstock.node.api.local_controller import answered_here
from penstock.node.controlling.commands import deadline_of
from penstock.node.controlling.envelope import closed_in_time, opened_in_time
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.handler import CloseConnection, RequestContext, handles
from penstock.node.serving.rules import BETWEEN_NODES
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

logger = logging.getLogger(__name__)


@handles(ApiKey.ENVELOPE, versions=(0, 0), rule=BETWEEN_NODES, pipelined=True, carries=True)
async def envelope(node: ControllerNode, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    try:
        enclosed, asked = await opened_in_time(request, node, HANDED_ON, context)
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    try:
        return await _answered(node, enclosed, asked)
    except CloseConnection:
        raise
    except Exception:  # the connection is that of a whole broker, which would bring the same request again
        logger.exception("a request of API key %d, which a broker handed on, failed", enclosed.api_key)
        return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


async def _answered(node: ControllerNode, context: RequestContext, request: Message) -> EnvelopeResponse:
    deadline_s = deadline_of(request, node.config.request_timeout_ms)
    try:
        reply = await answered_here(node, request, deadline_s, context)
    except KafkaError as error:
        if error.code == ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=error.code)
        reply = await refused_whole(node, request, error)
    return await closed_in_time(reply, node, context)
