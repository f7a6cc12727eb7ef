"""DescribeMetrics 0, an API of our own: what this node says of itself in numbers."""

from penstock.node.api.metric_rows import metric_rows
from penstock.node.roles.broker import Broker
from penstock.node.roles.controller_node import ControllerNode
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import DescribeMetricsRequest, DescribeMetricsResponse


@handles(OwnApiKey.DESCRIBE_METRICS, versions=(0, 0), rule=(Whole(DESCRIBE_CLUSTER),))
def describe_metrics(
    node: Broker | ControllerNode, context: RequestContext, request: DescribeMetricsRequest
) -> DescribeMetricsResponse:
    return DescribeMetricsResponse(node_id=node.node_id, metrics=metric_rows(node.metrics))
