"""DescribeCluster, versions 0 to 2: the cluster's id, its controller and its brokers.

Brokers are told as the listener sees them that the request came by; fenced ones only if asked for (version 2). The
controllers' own endpoints (`endpoint_type` 2) are not told by a broker: MISMATCHED_ENDPOINT_TYPE.
"""

from penstock.metadata.image import BrokerImage, ClusterImage
from penstock.node.api.endpoint_types import BROKERS, wrong_endpoint_type
from penstock.node.api.partition_views import ListenerView
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import NOT_ASKED
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import OPERATIONS, Nothing
from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.requests.api import ApiKey


@handles(ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), rule=(Nothing(), OPERATIONS))
def describe_cluster(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return wrong_endpoint_type(request, broker.cluster_id, "a broker describes brokers (endpoint type 1) only")
    image: ClusterImage = broker.image
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=ListenerView(image, context.session.listener).controller_id(
            broker.active_controller_id, broker.node_id
        ),
        brokers=[
            described
            for _, known_broker in sorted(image.brokers.items())
            if (request.include_fenced_brokers or not known_broker.fenced)
            and (described := _described(known_broker, context.session.listener)) is not None
        ],
        cluster_authorized_operations=context.cluster_operations if asked else NOT_ASKED,
    )


def _described(broker: BrokerImage, listener: str) -> DescribeClusterBroker | None:
    endpoint = broker.endpoint(listener)
    if endpoint is None:
        return None
    return DescribeClusterBroker(
        broker_id=broker.node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
    )
