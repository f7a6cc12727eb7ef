"""DeleteTopics 1-6: deletes topics, by name or, from version 6 on, by id."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


@handles(
    ApiKey.DELETE_TOPICS,
    versions=(1, 6),
    needs=(Need.DELETE_IN_CLUSTER, Need.DELETE_TOPIC, Need.DESCRIBE_TOPIC),
    pipelined=True,
)
def delete_topics(
    node: ControllerNode, context: RequestContext, request: DeleteTopicsRequest
) -> Awaitable[DeleteTopicsResponse]:
    """Answer when that is committed."""
    return carry_out(node, request, request.timeout_ms)
