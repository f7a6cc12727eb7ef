"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, appends to and takes from single keys (KIP-339).

The controller decides, but for the levels of this broker's loggers, which concern no other node (KIP-412). What only
this broker can judge of its own configs, it refuses before that (`own`).
"""

from collections.abc import Awaitable, Sequence
from typing import Final

from penstock.metadata.configs.effective import broker_text
from penstock.metadata.resources import ResourceType
from penstock.node.api.broker_loggers import change_loggers
from penstock.node.api.commands import handed_on
from penstock.node.api.configs.own import A_STEP, Change, is_of_one_broker, items, with_own_answers
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_ADDING: Final = (_SET, _APPEND)
AS_ONE: Final = 500
"""Characters of a list that take as long as a config."""


def incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Awaitable[IncrementalAlterConfigsResponse] | Steps[IncrementalAlterConfigsResponse]:
    if not any(_is_logger(resource) or is_of_one_broker(resource) for resource in request.resources):
        return handed_on(broker, context, request, IncrementalAlterConfigsResponse)

    def change_its_loggers(resource: AlterConfigsResource) -> None:
        if resource.resource_name != str(broker.node_id):
            message = f"this broker changes its own loggers, those of {broker.node_id}, only"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        change_loggers(resource.configs, validate_only=request.validate_only)

    return with_own_answers(
        broker,
        context,
        request,
        IncrementalAlterConfigsResponse(),
        AlterConfigsResourceResponse,
        _changes,
        decide=lambda resource: change_its_loggers if _is_logger(resource) else None,
    )


def _is_logger(resource: AlterConfigsResource) -> bool:
    return resource.resource_type == ResourceType.BROKER_LOGGER


def _changes(broker: Broker, configs: Sequence[AlterableConfig]) -> Steps[list[Change]]:
    changes, pace = [], Pace(A_STEP)
    for config in configs:
        if pace.is_due(1 + len(config.value or "") // AS_ONE):
            yield None
        given = (config.value or "") if config.config_operation in _ADDING else ""
        changes.append(Change(config.name, given, _text_then(broker, config)))
    return changes


def _text_then(broker: Broker, change: AlterableConfig) -> str | None:
    """What a key of this broker will be set to."""
    if change.config_operation == _DELETE:
        return broker_text(broker.config.layers[1:], change.name)
    present, given = items(broker.config.text(change.name) or ""), items(change.value or "")
    if change.config_operation == _APPEND:
        known = frozenset(present)
        return ",".join([*present, *(item for item in given if item not in known)])
    if change.config_operation == _SUBTRACT:
        taken = frozenset(given)
        return ",".join(item for item in present if item not in taken)
    return change.value
