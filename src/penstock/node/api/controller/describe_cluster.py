"""DescribeCluster 0-2: the controllers of the cluster, as tools see them that bootstrap from controllers (KIP-919).

Controllers that have registered are told, and voters that have not yet; each by the listener that the request came by.
Brokers are not told here: a request for them (endpoint type 1) gets MISMATCHED_ENDPOINT_TYPE.
"""

from penstock.node.api.endpoint_types import CONTROLLERS, wrong_endpoint_type
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import ALTER_CLUSTER, NOT_ASKED
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import OPERATIONS, Whole
from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.requests.api import ApiKey

NOBODY = -1


@handles(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), rule=(Whole(ALTER_CLUSTER), OPERATIONS))
def describe_cluster(
    node: ControllerNode, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != CONTROLLERS:
        return wrong_endpoint_type(
            request, node.cluster_id, "a controller describes controllers (endpoint type 2) only"
        )
    asked = request.include_cluster_authorized_operations
    leader_id = node.quorum.leader_id
    return DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=node.cluster_id,
        controller_id=NOBODY if leader_id is None else leader_id,
        brokers=[
            DescribeClusterBroker(broker_id=node_id, host=host, port=port)
            for node_id, (host, port) in sorted(_addresses(node, context.session.listener).items())
        ],
        cluster_authorized_operations=context.cluster_operations if asked else NOT_ASKED,
    )


def _addresses(node: ControllerNode, listener: str) -> dict[int, tuple[str, int]]:
    found = {
        voter.key.id: (endpoint.host, endpoint.port)
        for voter in node.quorum.quorum.voters
        for endpoint in voter.endpoints
        if endpoint.name == listener
    }
    for controller in node.image.controllers.values():
        registered = controller.endpoints.get(listener)
        if registered is not None:
            found[controller.node_id] = (registered.host, registered.port)
    return found
