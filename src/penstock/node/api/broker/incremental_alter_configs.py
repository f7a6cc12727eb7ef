"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, appends to and takes from single keys (KIP-339).

The controller decides, but for the levels of this broker's loggers, which concern no other node (KIP-412).
"""

from collections.abc import Awaitable
from typing import Final

from penstock.metadata.resources import ResourceType
from penstock.node.api.broker_loggers import change_loggers
from penstock.node.api.commands import handed_on
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import ALTER_CLUSTER_CONFIGS, CLUSTER_NAME
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.requests.api import ApiKey


def _is_logger(resource: AlterConfigsResource) -> bool:
    return resource.resource_type == ResourceType.BROKER_LOGGER


LOGGERS: Final = Each(
    lambda _, resource: ALTER_CLUSTER_CONFIGS if _is_logger(resource) else None,
    ("resources",),
    "responses",
    lambda *_: CLUSTER_NAME,
    words=f"{ALTER_CLUSTER_CONFIGS} for loggers; the controller asks for the rest",
)


@handles(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=(0, 1),
    rule=(LOGGERS,),
)
def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse]:
    if any(_is_logger(resource) for resource in request.resources):
        return _with_loggers(broker, context, request)
    return handed_on(broker, context, request, IncrementalAlterConfigsResponse)


async def _with_loggers(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Let the controller answer for what is not a logger, then change the loggers; the answers come in that order."""
    others = [resource for resource in request.resources if not _is_logger(resource)]
    response = IncrementalAlterConfigsResponse()
    if others:
        response = await handed_on(broker, context, request.replace(resources=others), IncrementalAlterConfigsResponse)
    response.responses += [
        _change(broker, resource, validate_only=request.validate_only)
        for resource in request.resources
        if _is_logger(resource)
    ]
    return response


def _change(broker: Broker, resource: AlterConfigsResource, *, validate_only: bool) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        if resource.resource_name != str(broker.node_id):
            message = f"this broker changes its own loggers, those of {broker.node_id}, only"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        change_loggers(resource.configs, validate_only=validate_only)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer
