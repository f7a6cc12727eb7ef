"""IncrementalAlterConfigs, versions 0 and 1: sets, deletes, appends to and takes from single keys (KIP-339).

The controller decides, but for the levels of this broker's loggers, which concern no other node (KIP-412). What only
this broker can judge, it refuses before that: cordoned directories that it does not have (KIP-1066), listeners that do
not go with those of its file (KIP-226), and keys and certificates that a listener with TLS cannot use.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from penstock.metadata.configs.broker_rules import LISTENERS_KEY, MAP_KEY, added_listeners, check_cordoned
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.effective import broker_text
from penstock.metadata.configs.listeners import WITH_SASL, WITH_TLS
from penstock.metadata.resources import ResourceType
from penstock.node.api.broker_loggers import change_loggers
from penstock.node.api.commands import audited, handed_on
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import ALTER_CLUSTER_CONFIGS
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.acls import CLUSTER_NAME
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.requests.api import ApiKey

CORDONED: Final = "cordoned.log.dirs"
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_ADDING: Final = (_SET, _APPEND)


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
    if any(_is_logger(resource) or _is_own(broker, resource) for resource in request.resources):
        return _with_own_answers(broker, context, request)
    return handed_on(broker, context, request, IncrementalAlterConfigsResponse)


def _is_own(broker: Broker, resource: AlterConfigsResource) -> bool:
    return resource.resource_type == ResourceType.BROKER and resource.resource_name == str(broker.node_id)


async def _wrong_here(broker: Broker, context: RequestContext, resource: AlterConfigsResource) -> KafkaError | None:
    """What speaks against a change of this broker's configs that only it can know, and tells who may change them."""
    if not _is_own(broker, resource) or not context.shows(ALTER_CLUSTER_CONFIGS, CLUSTER_NAME):
        return None
    try:
        for change in resource.configs:
            if change.name == CORDONED and change.config_operation in _ADDING and change.value:
                check_cordoned(tuple(_items(change.value)), broker.config.log_dirs)
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_CONFIG, str(error))
    try:
        changes = {it.name: it for it in resource.configs}

        def text(key: str) -> str | None:
            return _text_then(broker, changes[key]) if key in changes else broker.config.text(key)

        asks_for_listeners = LISTENERS_KEY in changes or MAP_KEY in changes
        added = added_listeners(broker.config, text) if asks_for_listeners else ()
        _check_log_ins([one.name for one in added if one.security_protocol in WITH_SASL], text)
        with_tls = [one.name for one in added if one.security_protocol in WITH_TLS]
        if any("ssl." in key for key in changes):
            with_tls += broker.config.listeners_with_tls
        await _check_keys(broker, with_tls, {key: _text_then(broker, it) for key, it in changes.items()})
    except ConfigError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))
    return None


def _check_log_ins(listeners: list[str], text: Callable[[str], str | None]) -> None:
    """ConfigError where nobody could log in on a listener that is added."""
    if listeners:
        from penstock.metadata.configs.sasl import sasl_of

        for listener in listeners:
            sasl_of(listener, text)


async def _check_keys(broker: Broker, listeners: list[str], then: Mapping[str, str | None]) -> None:
    """ConfigError where a listener with TLS could not use its keys; `then` is what settings change to."""
    if listeners:
        from penstock.node.api.changed_keys import check_keys

        layers = broker.config.layers
        await asyncio.get_running_loop().run_in_executor(None, check_keys, layers, listeners, then)


def _text_then(broker: Broker, change: AlterableConfig) -> str | None:
    """What a key of this broker will be set to."""
    if change.config_operation == _DELETE:
        return broker_text(broker.config.layers[1:], change.name)
    items, given = _items(broker.config.text(change.name) or ""), _items(change.value or "")
    if change.config_operation == _APPEND:
        return ",".join([*items, *(item for item in given if item not in items)])
    if change.config_operation == _SUBTRACT:
        return ",".join(item for item in items if item not in given)
    return change.value


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


async def _with_own_answers(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Let the controller answer for what is not this broker's, then change its loggers; the answers come in that
    order.
    """
    answers: dict[int, AlterConfigsResourceResponse] = {}
    for number, resource in enumerate(request.resources):
        wrong = await _wrong_here(broker, context, resource)
        if wrong is not None or _is_logger(resource):
            answers[number] = _change(broker, resource, wrong, validate_only=request.validate_only)
    others = [resource for number, resource in enumerate(request.resources) if number not in answers]
    response = IncrementalAlterConfigsResponse()
    if others:
        response = await handed_on(broker, context, request.replace(resources=others), IncrementalAlterConfigsResponse)
    ours = [resource for number, resource in enumerate(request.resources) if number in answers]
    own = IncrementalAlterConfigsResponse(responses=list(answers.values()))
    await audited(broker, context, request.replace(resources=ours), own)
    response.responses += own.responses
    return response


def _change(
    broker: Broker, resource: AlterConfigsResource, wrong: KafkaError | None, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    answer = AlterConfigsResourceResponse(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        if wrong is not None:
            raise wrong
        if resource.resource_name != str(broker.node_id):
            message = f"this broker changes its own loggers, those of {broker.node_id}, only"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        change_loggers(resource.configs, validate_only=validate_only)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.message
    return answer
