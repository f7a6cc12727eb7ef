"""AlterPartition 2-3: a leader says which of its followers are in sync (KIP-497)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


@handles(ApiKey.ALTER_PARTITION, versions=(2, 3), needs=(Need.CLUSTER_ACTION,), pipelined=True)
def alter_partition(
    node: ControllerNode, context: RequestContext, request: AlterPartitionRequest
) -> Awaitable[AlterPartitionResponse]:
    """Answer when the change is committed."""
    reply: Awaitable[AlterPartitionResponse] = node.controller.submit(request)
    return reply
