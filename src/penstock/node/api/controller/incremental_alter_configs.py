"""IncrementalAlterConfigs 0-1: sets, deletes, appends to and takes from single keys (KIP-339)."""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.controller_node import ControllerNode
from penstock.node.serving.access import Need
from penstock.node.serving.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=(0, 1),
    needs=(Need.ALTER_CLUSTER_CONFIGS, Need.ALTER_TOPIC_CONFIGS, Need.ALTER_GROUP_CONFIGS),
    pipelined=True,
)
def incremental_alter_configs(
    node: ControllerNode, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    """Answer when the change is committed."""
    reply: Awaitable[IncrementalAlterConfigsResponse] = node.controller.submit(request)
    return reply
