"""ListConfigResources, versions 0 and 1: the names of what can be configured (KIP-1142).

Version 0 lists client metrics subscriptions; version 1 lists the types that are asked for, or all of them if none is.
Groups and subscriptions are listed when something is set for them.
"""

from collections.abc import Iterable

from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_CLUSTER_CONFIGS
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import NAMES_A_STEP, listed, times_named
from penstock.node.serving.rules import Whole
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from penstock.protocol.requests.api import ApiKey

_TYPES = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


@handles(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), rule=(Whole(DESCRIBE_CLUSTER_CONFIGS),))
def list_config_resources(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> Steps[ListConfigResourcesResponse]:
    if context.api_version == 0:
        wanted: list[int] = [ResourceType.CLIENT_METRICS]
    else:
        wanted = list((yield from times_named(request.resource_types))) or list(_TYPES)
    if any(kind not in _TYPES for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    answer, pace = ListConfigResourcesResponse(), Pace(NAMES_A_STEP)
    for kind in wanted:
        for name in (yield from _names(broker.image, ResourceType(kind))):
            answer.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            if pace.is_due():
                yield None
    return answer


def _names(image: ClusterImage, kind: ResourceType) -> Steps[Iterable[str]]:
    if kind is ResourceType.TOPIC:
        return (yield from listed(image.topics))
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in sorted(image.brokers)]
    names, pace = [], Pace(NAMES_A_STEP)
    for resource in list(image.configs):
        if resource.resource_type is kind:
            names.append(resource.name)
        if pace.is_due():
            yield None
    return sorted(names)
