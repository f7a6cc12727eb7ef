"""AlterConfigs and IncrementalAlterConfigs: each resource of a request is changed as a whole or refused by itself.

The older AlterConfigs replaces all that a resource has: what it does not name goes back to its default. The newer one
(KIP-339) sets, deletes, appends to and takes from single configs. Only what really changes becomes a record.

Who is told that users of PLAIN, or mechanisms, are changed knows that no broker in service lets anybody in by what was
before. What follows from a change is part of the decision (`min_isr`), or due at once where it may concern very many
partitions (`upkeep`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from penstock.controller.decision import (
    MAX_RECORDS_PER_DECISION,
    Allowance,
    ControllerState,
    Decision,
    decided_for_brokers,
)
from penstock.controller.delays import level_for
from penstock.controller.min_isr import after_change
from penstock.controller.partition_change import UNCLEAN_LEADER_ELECTION
from penstock.controller.policies import AlterConfigPolicy
from penstock.metadata.configs.definitions import is_true
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.metadata.features import CORDONED_LEVEL, METADATA_VERSION
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.metadata.replication_mode import DECIDED_AT_CREATION
from penstock.metadata.security import LOG_INS, is_gone_by
from penstock.metadata.topic_names import topic_name_error
from penstock.protocol.address import is_number
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages import alter_configs, incremental_alter_configs
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from penstock.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

AnswerT = TypeVar(
    "AnswerT", alter_configs.AlterConfigsResourceResponse, incremental_alter_configs.AlterConfigsResourceResponse
)
Settings = dict[str, str]
CORDONED: Final = "cordoned.log.dirs"


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def decide_alter_configs(
    state: ControllerState, request: AlterConfigsRequest, now_ms: int
) -> Decision[AlterConfigsResponse]:
    """With `validate_only` the reply is the same, but nothing changes."""
    records, answers = _decided(state, request.resources, alter_configs.AlterConfigsResourceResponse, _replacement)
    return _decision(state, request, records, AlterConfigsResponse(responses=answers))


def decide_incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest, now_ms: int
) -> Decision[IncrementalAlterConfigsResponse]:
    """With `validate_only` the reply is the same, but nothing changes."""
    answer_class = incremental_alter_configs.AlterConfigsResourceResponse
    records, answers = _decided(state, request.resources, answer_class, _amended)
    return _decision(state, request, records, IncrementalAlterConfigsResponse(responses=answers))


def _decision(state: ControllerState, request: Any, records: list[MetadataRecord], reply: Any) -> Decision[Any]:
    """A repetition that finds nothing left to do waits as well for what is about log-ins."""
    if request.validate_only:
        return Decision([], reply)
    named = ((asked.resource_type, config.name) for asked in request.resources for config in asked.configs)
    is_about_log_ins = any(kind == ResourceType.BROKER and name.endswith(LOG_INS) for kind, name in named)
    is_about_log_ins |= any(map(is_gone_by, records))
    return decided_for_brokers(state, records, reply) if is_about_log_ins else Decision(records, reply)


def _decided(
    state: ControllerState,
    resources: Sequence[Any],
    answer_class: Callable[..., AnswerT],
    wanted: Callable[[ControllerState, ConfigResource, Any], Settings],
) -> tuple[list[MetadataRecord], list[AnswerT]]:
    """`wanted` says what is set of a resource when that is done which a request asks for it."""
    times = Counter((asked.resource_type, asked.resource_name) for asked in resources)
    allowance = Allowance(MAX_RECORDS_PER_DECISION, "name at most {} resources and configs together")
    records: list[MetadataRecord] = []
    answers = []
    for asked in resources:
        answer = answer_class(error_message=None, resource_type=asked.resource_type, resource_name=asked.resource_name)
        try:
            _check_once(times[asked.resource_type, asked.resource_name])
            allowance.take(1 + len(asked.configs))
            resource = _resource(state, asked.resource_type, asked.resource_name)
            to_be = wanted(state, resource, asked.configs)
            changes = _changes(state, resource, to_be)
            _ask_policy(state, resource, [config.name for config in asked.configs], to_be)
            records += changes
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
        answers.append(answer)
    return records, answers


def _check_once(times: int) -> None:
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A request names each resource once")


def _changes(state: ControllerState, resource: ConfigResource, wanted: Settings) -> Sequence[MetadataRecord]:
    """Goes from what is set to what is wanted, once that is allowed."""
    present = state.image.configs.get(resource, {})
    changed: list[tuple[str, str | None]] = [(key, None) for key in present if key not in wanted]
    changed += [(key, value) for key, value in wanted.items() if present.get(key) != value]
    _check_mode(resource, changed)
    _check_delay(resource, present, changed)
    level = level_for(state.image, wanted, present) if resource.resource_type is ResourceType.TOPIC else []
    _check_level(state, resource, changed)
    state.settings.rules.check(state.image, resource, wanted)
    state.settings.rules.check_changes(resource, changed)
    state.unclean_is_due |= any(key == UNCLEAN_LEADER_ELECTION for key, _ in changed)
    return [
        *level,
        *(
            ConfigRecord(resource_type=resource.resource_type, resource_name=resource.name, name=key, value=value)
            for key, value in changed
        ),
        *after_change(state, resource, changed),
    ]


def _ask_policy(state: ControllerState, resource: ConfigResource, named: Sequence[str], wanted: Settings) -> None:
    """Raises KafkaError. What a replacement takes away without naming it is not asked about, as in Kafka."""
    if state.verdicts is None:
        return
    present = state.image.configs.get(resource, {})
    is_brokers = resource.resource_type is ResourceType.BROKER
    configs = {key: wanted.get(key) for key in named if is_brokers or wanted.get(key) != present.get(key)}
    state.verdicts.hear(AlterConfigPolicy.RequestMetadata(resource, MappingProxyType(configs)))


def _check_mode(resource: ConfigResource, changed: Sequence[tuple[str, str | None]]) -> None:
    for key, _ in changed:
        if key in DECIDED_AT_CREATION and resource.resource_type is ResourceType.TOPIC:
            message = f"{key}: it is decided when a topic is created, and a topic cannot change how it is replicated"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _check_delay(
    resource: ConfigResource, present: Mapping[str, str], changed: Sequence[tuple[str, str | None]]
) -> None:
    if resource.resource_type is not ResourceType.TOPIC or not is_true(present.get(DELAY_ENABLE)):
        return
    if any(key == DELAY_ENABLE and not is_true(value) for key, value in changed):
        message = f"{DELAY_ENABLE}: it stays on, as records may wait; a topic without it has to be a new one"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _check_level(state: ControllerState, resource: ConfigResource, changed: Sequence[tuple[str, str | None]]) -> None:
    if resource.resource_type is not ResourceType.BROKER or state.image.metadata_version >= CORDONED_LEVEL:
        return
    if any(key == CORDONED and value for key, value in changed):
        message = f"{CORDONED}: directories can be cordoned from level {CORDONED_LEVEL} of {METADATA_VERSION} on"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _replacement(
    state: ControllerState, resource: ConfigResource, configs: Sequence[alter_configs.AlterableConfig]
) -> Settings:
    """What is named and nothing else, but for what cannot change."""
    present = state.image.configs.get(resource, {})
    wanted: Settings = {}
    for config in configs:
        _check_key(config.name, wanted)
        wanted[config.name] = _text(config.name, config.value)
    return {key: present[key] for key in (*DECIDED_AT_CREATION, DELAY_ENABLE) if key in present} | wanted


def _amended(
    state: ControllerState, resource: ConfigResource, changes: Sequence[incremental_alter_configs.AlterableConfig]
) -> Settings:
    wanted = dict(state.image.configs.get(resource, {}))
    seen: Settings = {}
    for change in changes:
        _check_key(change.name, seen)
        seen[change.name] = ""
        if change.config_operation == Operation.DELETE:
            wanted.pop(change.name, None)
            continue
        value = _text(change.name, change.value)
        if change.config_operation == Operation.SET:
            wanted[change.name] = value
        elif change.config_operation in _LIST_OPERATIONS:
            wanted[change.name] = _list_changed(state, resource, change.name, value, change.config_operation)
        else:
            message = f"{change.name}: {change.config_operation} is no operation on a config"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return wanted


def _check_key(name: str, seen: Settings) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A config needs a name, this one is empty")
    if name in seen:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request names the config {name} twice")


def _text(name: str, value: str | None) -> str:
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name}: a value is missing")
    return value


def _list_changed(state: ControllerState, resource: ConfigResource, key: str, value: str, operation: int) -> str:
    rules = state.settings.rules
    if not rules.is_list(resource, key):
        message = f"{key}: it holds no list, so {Operation(operation).name} does not apply to it"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    present = _items(rules.value_of(state.image, resource, key) or "")
    return ",".join(_LIST_OPERATIONS[Operation(operation)](present, _items(value)))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _without(items: list[str], others: list[str]) -> list[str]:
    known = frozenset(others)
    return [item for item in items if item not in known]


_LIST_OPERATIONS: dict[Operation, Callable[[list[str], list[str]], list[str]]] = {
    Operation.APPEND: lambda present, items: present + _without(items, present),
    Operation.SUBTRACT: lambda present, items: _without(present, items),
}


def _resource(state: ControllerState, resource_type: int, name: str) -> ConfigResource:
    """Raises KafkaError if it is not there, or has no configs here."""
    checks = _RESOURCE_CHECKS.get(resource_type)
    if checks is None:
        message = f"The controller keeps no configs of resources of type {resource_type}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    checks(state, name)
    return ConfigResource(ResourceType(resource_type), name)


def _check_topic(state: ControllerState, name: str) -> None:
    problem = topic_name_error(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in state.image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'")
    check_allowed(name, Act.CONFIGURE)


def _check_broker(state: ControllerState, name: str) -> None:
    if not name:
        return  # the default of all brokers
    if not (is_number(name) and name == str(int(name))):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"'{name}' is no broker's id")
    if int(name) not in state.image.brokers:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {name}")


def _check_named(state: ControllerState, name: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A group or a subscription of client metrics needs a name")


_RESOURCE_CHECKS: dict[int, Callable[[ControllerState, str], None]] = {
    ResourceType.TOPIC: _check_topic,
    ResourceType.BROKER: _check_broker,
    ResourceType.GROUP: _check_named,
    ResourceType.CLIENT_METRICS: _check_named,
}
