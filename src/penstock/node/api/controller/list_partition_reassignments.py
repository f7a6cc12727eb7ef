"""ListPartitionReassignments 0: which partitions are on their way to other replicas (KIP-455).

The active controller tells what is committed.
"""

from penstock.controller.reassignments import list_reassignments
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.refusals import refusal


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), rule=(Whole(DESCRIBE_CLUSTER),))
def list_partition_reassignments(
    node: ControllerNode, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not node.controller.is_active:
        refused: ListPartitionReassignmentsResponse = refusal(request, KafkaError(ErrorCode.NOT_CONTROLLER))
        return refused
    return list_reassignments(node.image, request)
