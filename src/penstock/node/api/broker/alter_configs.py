"""AlterConfigs, versions 0 to 2: replaces all that is set for a resource. The controller decides.

Levels of loggers are changed with IncrementalAlterConfigs only: the controller refuses their type, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(
    ApiKey.ALTER_CONFIGS,
    versions=(0, 2),
    needs=(Need.ALTER_CLUSTER_CONFIGS, Need.ALTER_TOPIC_CONFIGS, Need.ALTER_GROUP_CONFIGS),
)
def alter_configs(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> Awaitable[AlterConfigsResponse]:
    """Answer when the change is committed."""
    reply: Awaitable[AlterConfigsResponse] = broker.controller.submit(request, context)
    return reply
