"""CreatePartitions, versions 0 to 3: lets topics grow. The controller decides; its answer lists every topic."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


@handles(ApiKey.CREATE_PARTITIONS, versions=(0, 3), needs=(Need.ALTER_TOPIC,))
def create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse]:
    """Answers when the partitions can be used on this node, or with REQUEST_TIMED_OUT."""
    return carry_out(broker, request, request.timeout_ms, context)
