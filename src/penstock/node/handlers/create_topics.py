"""CreateTopics, versions 2 to 7: creates topics, or says what would happen (`validate_only`). The controller decides.

The answer goes out when the topics can be used on this node, or with REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.commands import carry_out
from penstock.node.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


@handles(ApiKey.CREATE_TOPICS, versions=(2, 7))
def create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> Awaitable[CreateTopicsResponse]:
    """Answers when the topics are committed."""
    return carry_out(broker, request, request.timeout_ms)
