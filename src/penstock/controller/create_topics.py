"""CreateTopics: each topic of a request is created or refused by itself."""

from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from penstock.controller.assignments import check_replicas, new_partition
from penstock.controller.decision import MAX_RECORDS_PER_DECISION, Allowance, ControllerState, Decision
from penstock.controller.delays import level_for
from penstock.controller.placement import place
from penstock.controller.policies import AlterConfigPolicy, CreateTopicPolicy
from penstock.controller.storage_groups import (
    Asked,
    Found,
    StorageGroups,
    check_voters,
    partition_in_group,
)
from penstock.metadata.image import ConfigResource, ResourceType
from penstock.metadata.records import ConfigRecord, MetadataRecord, TopicRecord
from penstock.metadata.replication_mode import STORAGE_GROUP, asks_for_consensus, storage_group_in
from penstock.metadata.topic_names import metric_name, topic_name_error
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DEFAULT = -1
"""Stands for the default number of partitions or replicas, and must stand there when replicas are named by hand."""


@dataclass(slots=True)
class _Creation:
    """One request on its way: how often it names each topic, what it may still ask for, and what it yields so far."""

    state: ControllerState
    asked: Counter[str]
    groups: StorageGroups
    allowance: Allowance
    records: list[MetadataRecord] = field(default_factory=list)


def decide_create_topics(
    state: ControllerState, request: CreateTopicsRequest, now_ms: int
) -> Decision[CreateTopicsResponse]:
    """With `validate_only` the reply is the same, but nothing is created."""
    allowance = Allowance(MAX_RECORDS_PER_DECISION, "create at most {} topics, configs and partitions together")
    asked = Counter(topic.name for topic in request.topics)
    creation = _Creation(state, asked, StorageGroups(state), allowance)
    results = [_result(creation, topic) for topic in {topic.name: topic for topic in request.topics}.values()]
    records = [] if request.validate_only else creation.records
    return Decision(records, CreateTopicsResponse(topics=results))


def _result(creation: _Creation, topic: CreatableTopic) -> CreatableTopicResult:
    try:
        return _create(creation, topic)
    except KafkaError as error:
        return CreatableTopicResult(
            name=topic.name,
            error_code=error.code,
            error_message=error.message,
            num_partitions=-1,
            replication_factor=-1,
        )


def _create(creation: _Creation, topic: CreatableTopic) -> CreatableTopicResult:
    state = creation.state
    _check_name(creation, topic.name)
    creation.allowance.take(1 + len(topic.configs))  # before they are looked at
    settings = _settings_of(state, topic)
    partitions, factor = _size_of(state, topic)
    creation.allowance.take(partitions)  # before any is placed
    found = None
    if asks_for_consensus(settings):
        found, assignments = _in_a_group(creation, topic, settings, partitions, factor)
        settings = settings | {STORAGE_GROUP: str(found.number)}
    else:
        assignments = _assignments_of(state, topic, partitions, factor)
    _ask_policies(state, topic, assignments)
    topic_id = state.new_topic_id()
    records = level_for(state.image, settings)
    records += () if found is None else found.records
    creation.allowance.take(len(records) + (found is not None))
    records.append(TopicRecord(name=topic.name, topic_id=topic_id))
    records += [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=key, value=value)
        for key, value in settings.items()
    ]
    records += [
        new_partition(state.image, topic_id, index, replicas)
        if found is None
        else partition_in_group(state.image, topic_id, index, replicas, found.group)
        for index, replicas in enumerate(assignments)
    ]
    creation.records += records
    if found is not None:
        creation.groups.take(found, len(assignments))
    return _created(state, topic.name, topic_id, assignments, settings)


def _ask_policies(state: ControllerState, topic: CreatableTopic, assignments: list[list[int]]) -> None:
    """Raises KafkaError. As in Kafka a topic with configs is a matter of either policy."""
    if state.verdicts is None:
        return
    configs = MappingProxyType({config.name: config.value or "" for config in topic.configs})
    if configs:
        state.verdicts.hear(AlterConfigPolicy.RequestMetadata(ConfigResource(ResourceType.TOPIC, topic.name), configs))
    by_hand = bool(topic.assignments)
    state.verdicts.hear(
        CreateTopicPolicy.RequestMetadata(
            topic=topic.name,
            num_partitions=None if by_hand else len(assignments),
            replication_factor=None if by_hand else len(assignments[0]),
            replicas_assignments=MappingProxyType(dict(enumerate(map(tuple, assignments)))) if by_hand else None,
            configs=configs,
        )
    )


def _created(
    state: ControllerState, name: str, topic_id: UUID, assignments: list[list[int]], settings: dict[str, str]
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=None if entry.sensitive else entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in state.settings.rules.topic_entries(state.image, settings)
        ],
    )


def _check_name(creation: _Creation, name: str) -> None:
    """Raises KafkaError. As in Kafka one request may create two names that differ only in '.' and '_'."""
    image = creation.state.image
    if creation.asked[name] > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request names topic '{name}' more than once")
    check_allowed(name, Act.CREATE)
    problem = topic_name_error(name)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"There is a topic '{name}' already")
    for other in image.colliding_names.get(metric_name(name), ()):
        message = f"Metrics could not tell '{name}' from the topic '{other}': they differ only in '.' and '_'"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def _settings_of(state: ControllerState, topic: CreatableTopic) -> dict[str, str]:
    settings: dict[str, str] = {}
    for config in topic.configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"The config {config.name} of a new topic has no value")
        settings[config.name] = config.value
    state.settings.rules.check(state.image, ConfigResource(ResourceType.TOPIC, topic.name), settings)
    return settings


def _assignments_of(state: ControllerState, topic: CreatableTopic, partitions: int, factor: int) -> list[list[int]]:
    if topic.assignments:
        return _named_by_hand(state, topic)
    return place(state.image.brokers.values(), partitions, factor, state.chance)


def _in_a_group(
    creation: _Creation, topic: CreatableTopic, settings: dict[str, str], partitions: int, factor: int
) -> tuple[Found, list[list[int]]]:
    """The replicas of each partition are the group's, in any order."""
    state, number = creation.state, storage_group_in(settings)
    if topic.assignments:
        assignments = _named_by_hand(state, topic)
        found = creation.groups.find(Asked(len(assignments), number, replicas=tuple(assignments[0])))
        for replicas in assignments:
            check_voters(found.number, found.group, replicas)
        return found, assignments
    leaves_it = topic.replication_factor == DEFAULT and number is not None
    found = creation.groups.find(Asked(partitions, number, None if leaves_it else factor))
    return found, [list(found.group.replicas)] * partitions


def _size_of(state: ControllerState, topic: CreatableTopic) -> tuple[int, int]:
    """(partitions, replicas of each); where replicas are named by hand, as many partitions as are named."""
    if topic.assignments:
        return len(topic.assignments), DEFAULT
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        message = f"The replication factor must be at least 1, or -1 for the default, not {topic.replication_factor}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        message = f"The number of partitions must be at least 1, or -1 for the default, not {topic.num_partitions}"
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    settings = state.settings
    partitions = settings.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    replicas = settings.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    return partitions, replicas


def _named_by_hand(state: ControllerState, topic: CreatableTopic) -> list[list[int]]:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        message = "Where replicas are named, the number of partitions and the replication factor must both be -1"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    named: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in named:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The replicas of partition {index} are named twice")
        factor = len(next(iter(named.values()))) if named else None
        check_replicas(state.image, assignment.broker_ids, factor)
        named[index] = list(assignment.broker_ids)
    if sorted(named) != list(range(len(named))):
        message = f"Partitions are numbered from 0 without a gap, not {sorted(named)}"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return [named[index] for index in range(len(named))]
