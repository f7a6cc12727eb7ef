"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, appends to and takes from single keys (KIP-339).

The controller decides. Levels of loggers cannot be changed yet: it refuses their type with INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.node.broker import Broker
from penstock.node.handler import RequestContext, handles
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1))
def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    """Answer when the change is committed."""
    reply: Awaitable[IncrementalAlterConfigsResponse] = broker.controller.submit(request)
    return reply
