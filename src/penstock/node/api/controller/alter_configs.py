"""AlterConfigs 0-2: sets all configs of resources at once; what is not named falls back to its default."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@handles(
    ApiKey.ALTER_CONFIGS,
    versions=(0, 2),
    needs=(Need.ALTER_CLUSTER_CONFIGS, Need.ALTER_TOPIC_CONFIGS, Need.ALTER_GROUP_CONFIGS),
    pipelined=True,
)
def alter_configs(
    node: ControllerNode, context: RequestContext, request: AlterConfigsRequest
) -> Awaitable[AlterConfigsResponse]:
    """Answer when the change is committed."""
    reply: Awaitable[AlterConfigsResponse] = node.controller.submit(request)
    return reply
