"""SaslHandshake and SaslAuthenticate where nobody logs in: on a listener without SASL, or not in their order.

A log-in itself is `serving/login.py`, before any handler.
"""

from typing import Any

from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.schema import Message


def out_of_turn(node: object, context: RequestContext, request: Message) -> Steps[Any]:
    yield None
    return api_of_request(request).response_class(error_code=ErrorCode.ILLEGAL_SASL_STATE)
