"""CreatePartitions 0-3: topics get more partitions."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


@handles(ApiKey.CREATE_PARTITIONS, versions=(0, 3), needs=(Need.ALTER_TOPIC,), pipelined=True)
def create_partitions(
    node: ControllerNode, context: RequestContext, request: CreatePartitionsRequest
) -> Awaitable[CreatePartitionsResponse]:
    """Answer when the partitions are committed."""
    return carry_out(node, request, request.timeout_ms)
