"""DeleteTopics, versions 1 to 6: deletes topics by name, from version 6 on by id as well. The controller decides.

The answer goes out when the topics are gone from this node, or with REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


@handles(ApiKey.DELETE_TOPICS, versions=(1, 6), needs=(Need.DELETE_IN_CLUSTER, Need.DELETE_TOPIC, Need.DESCRIBE_TOPIC))
def delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> Awaitable[DeleteTopicsResponse]:
    """Answers when the deletion is committed."""
    return carry_out(broker, request, request.timeout_ms, context)
