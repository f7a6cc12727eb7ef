"""CreateTopics 2-7: creates topics, or says what would happen (`validate_only`)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


@handles(
    ApiKey.CREATE_TOPICS,
    versions=(2, 7),
    needs=(Need.CREATE_IN_CLUSTER, Need.CREATE_TOPIC, Need.DESCRIBE_TOPIC_CONFIGS),
    pipelined=True,
)
def create_topics(
    node: ControllerNode, context: RequestContext, request: CreateTopicsRequest
) -> Awaitable[CreateTopicsResponse]:
    """Answer when the topics are committed."""
    return carry_out(node, request, request.timeout_ms)
