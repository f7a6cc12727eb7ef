"""CreatePartitions: a topic can grow, never shrink; the answer lists every topic of the request."""

from collections import Counter
from collections.abc import Sequence

from penstock.controller.assignments import check_replicas, new_partition
from penstock.controller.decision import MAX_RECORDS_PER_DECISION, Allowance, ControllerState, Decision
from penstock.controller.placement import place
from penstock.controller.storage_groups import (
    check_voters,
    partition_in_group,
)
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topics import TopicImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def decide_create_partitions(
    state: ControllerState, request: CreatePartitionsRequest, now_ms: int
) -> Decision[CreatePartitionsResponse]:
    """With `validate_only` the reply is the same, but nothing is created."""
    records: list[MetadataRecord] = []
    allowance = Allowance(MAX_RECORDS_PER_DECISION, "create at most {} partitions")
    results = []
    times = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"The request names topic '{topic.name}' more than once")
            created = _create(state, topic, allowance)
        except KafkaError as error:
            results.append(
                CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            )
        else:
            records += created
            results.append(CreatePartitionsTopicResult(name=topic.name, error_message=None))
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _create(state: ControllerState, asked: CreatePartitionsTopic, allowance: Allowance) -> Sequence[MetadataRecord]:
    topic = state.image.topics.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{asked.name}'")
    check_allowed(asked.name, Act.ADD_PARTITIONS)
    present = len(topic.partitions)
    if asked.count <= present:
        message = f"Topic '{asked.name}' has {present} partitions and can only grow, so not to {asked.count}"
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    added = asked.count - present
    allowance.take(added)
    if topic.storage_group is not None:
        return _in_its_group(state, topic, asked, added)
    replication_factor = len(topic.partitions[0].replicas)
    if asked.assignments:
        replicas = _named_by_hand(state, asked.assignments, added, replication_factor)
    else:
        replicas = place(state.image.brokers.values(), added, replication_factor, state.chance)
    return _records(state, topic, replicas)


def _in_its_group(
    state: ControllerState, topic: TopicImage, asked: CreatePartitionsTopic, added: int
) -> Sequence[MetadataRecord]:
    number, first = topic.storage_group, len(topic.partitions)
    assert number is not None
    group = state.image.storage_groups[number]
    replicas = [list(group.replicas)] * added
    if asked.assignments:
        replicas = _named_by_hand(state, asked.assignments, added, len(group.replicas))
        for brokers in replicas:
            check_voters(number, group, brokers)
    return [
        partition_in_group(state.image, topic.topic_id, first + i, brokers, group) for i, brokers in enumerate(replicas)
    ]


def _records(state: ControllerState, topic: TopicImage, replicas: list[list[int]]) -> Sequence[MetadataRecord]:
    first = len(topic.partitions)
    return [new_partition(state.image, topic.topic_id, first + i, brokers) for i, brokers in enumerate(replicas)]


def _named_by_hand(
    state: ControllerState, assignments: Sequence[CreatePartitionsAssignment], added: int, replication_factor: int
) -> list[list[int]]:
    if len(assignments) != added:
        message = f"Replicas are named for {len(assignments)} partitions, but {added} are to be created"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    for assignment in assignments:
        check_replicas(state.image, assignment.broker_ids, replication_factor)
    return [list(assignment.broker_ids) for assignment in assignments]
