"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, appends to and takes from single keys (KIP-339).

The controller decides, but for the levels of this broker's loggers, which concern no other node (KIP-412). What only
this broker can judge of its own configs, it refuses before that (`own`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.metadata.configs.effective import broker_text
from penstock.metadata.resources import ResourceType
from penstock.node.api.broker_loggers import change_loggers
from penstock.node.api.commands import handed_on
from penstock.node.api.configs.own import A_STEP, Change, apart, is_of_one_broker, items, with_own_answers
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import has_any
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
) -> Steps[IncrementalAlterConfigsResponse]:
    if not (yield from has_any(request.resources, _is_of_one_broker)):
        response: IncrementalAlterConfigsResponse
        response = yield handed_on(broker, context, request, IncrementalAlterConfigsResponse)
        return response

    def change_its_loggers(resource: AlterConfigsResource) -> Steps[None]:
        if resource.resource_name != str(broker.node_id):
            message = f"this broker changes its own loggers, those of {broker.node_id}, only"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        yield from change_loggers(resource.configs, validate_only=request.validate_only)

    return (
        yield from with_own_answers(
            broker,
            context,
            request,
            IncrementalAlterConfigsResponse(),
            AlterConfigsResourceResponse,
            _changes,
            decide=lambda resource: change_its_loggers if _is_logger(resource) else None,
        )
    )


def _is_of_one_broker(resource: AlterConfigsResource) -> bool:
    return _is_logger(resource) or is_of_one_broker(resource)


def _is_logger(resource: AlterConfigsResource) -> bool:
    return resource.resource_type == ResourceType.BROKER_LOGGER


def _changes(broker: Broker, configs: Sequence[AlterableConfig]) -> Steps[list[Change]]:
    changes, pace = [], Pace(A_STEP)
    for config in configs:
        if pace.is_due(1 + len(config.value or "") // AS_ONE):
            yield None
        given = (config.value or "") if config.config_operation in _ADDING else ""
        then = yield from _text_then(broker, config)
        changes.append(Change(config.name, given, then))
    return changes


def _text_then(broker: Broker, change: AlterableConfig) -> Steps[str | None]:
    """What a key of this broker will be set to."""
    if change.config_operation == _DELETE:
        return broker_text(broker.config.layers[1:], change.name)
    if change.config_operation in (_APPEND, _SUBTRACT):
        put_together = _appended if change.config_operation == _APPEND else _subtracted
        text: str = yield from apart(partial(put_together, broker.config.text(change.name) or ""), change.value or "")
        return text
    return change.value


def _appended(present: str, given: str) -> str:
    listed = items(present)
    known = frozenset(listed)
    return ",".join([*listed, *(item for item in items(given) if item not in known)])


def _subtracted(present: str, given: str) -> str:
    taken = frozenset(items(given))
    return ",".join(item for item in items(present) if item not in taken)
