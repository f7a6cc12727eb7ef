"""DescribeConfigs, versions 1 to 4."""

from penstock.node.api.commands import on_configs
from penstock.node.api.configs.described import described
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_CLUSTER_CONFIGS
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.slices import Steps
from penstock.protocol.acls import Operation
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.DESCRIBE_CONFIGS,
    versions=(1, 4),
    rule=(on_configs(Operation.DESCRIBE_CONFIGS, "results", loggers=DESCRIBE_CLUSTER_CONFIGS),),
)
def describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> Steps[DescribeConfigsResponse]:
    return (yield from described(broker, request))
