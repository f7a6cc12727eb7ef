"""AlterPartitionReassignments 0-1: partitions begin to move to other replicas, or stop moving (KIP-455)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.controlling.commands import carry_out
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), needs=(Need.ALTER_CLUSTER,), pipelined=True)
def alter_partition_reassignments(
    node: ControllerNode, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Awaitable[AlterPartitionReassignmentsResponse]:
    """Answer when the beginning is committed."""
    return carry_out(node, request, request.timeout_ms)
