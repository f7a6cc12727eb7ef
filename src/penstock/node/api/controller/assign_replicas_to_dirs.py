"""AssignReplicasToDirs 0: a broker says in which of its log directories replicas lie (KIP-858)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse


@handles(ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions=(0, 0), needs=(Need.CLUSTER_ACTION,), pipelined=True)
def assign_replicas_to_dirs(
    node: ControllerNode, context: RequestContext, request: AssignReplicasToDirsRequest
) -> Awaitable[AssignReplicasToDirsResponse]:
    """Answer when that is committed."""
    reply: Awaitable[AssignReplicasToDirsResponse] = node.controller.submit(request)
    return reply
