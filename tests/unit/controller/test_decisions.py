"""Each command finds the function that decides on it, and only commands do."""

from inspect import signature
from uuid import UUID

import pytest

from penstock.controller.decision import MANY_RECORDS, Decision
from penstock.controller.decisions import DECISIONS, MANY, PARTS, decision_on, is_command, is_large, parts_of
from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.protocol.messages.alter_configs import AlterConfigsRequest
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey, api_of
from penstock.protocol.schema import Message


@pytest.mark.parametrize("key", DECISIONS, ids=lambda key: key.name)
def test_each_command_finds_its_decision(key: ApiKey) -> None:
    command = api_of(key).request_class()
    decide = decision_on(command)
    state, request, now = signature(decide, eval_str=True).parameters.values()
    assert (state.name, request.annotation, now.annotation) == ("state", type(command), int)
    assert is_command(command)


def test_other_requests_are_no_commands() -> None:
    assert not is_command(HeartbeatRequest())
    with pytest.raises(AssertionError, match="HeartbeatRequest is no command"):
        decision_on(HeartbeatRequest())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (CreateTopicsRequest(topics=[CreatableTopic(num_partitions=MANY - 1)]), False),
        (CreateTopicsRequest(topics=[CreatableTopic(num_partitions=MANY)]), True),
        (CreateTopicsRequest(topics=[CreatableTopic(num_partitions=-1)] * MANY), False),
        (CreateTopicsRequest(topics=[CreatableTopic(num_partitions=-1)] * (MANY + 1)), True),
        (DeleteTopicsRequest(topic_names=["large"]), True),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="large")]), True),
        (DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UUID(int=1))]), True),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="small")]), False),
        (ElectLeadersRequest(topic_partitions=None), False),
        (ElectLeadersRequest(topic_partitions=[TopicPartitions(partitions=list(range(MANY)))]), True),
    ],
)
def test_what_takes_long_to_decide(command: Message, expected: bool) -> None:
    image = ClusterImage("cluster")
    for number, (name, partitions) in enumerate({"large": MANY, "small": 1}.items(), 1):
        image.apply(TopicRecord(name=name, topic_id=UUID(int=number)))
        for index in range(partitions):
            image.apply(PartitionRecord(partition_id=index, topic_id=UUID(int=number), replicas=[1], isr=[1], leader=1))
    assert is_large(command, image) == expected


def test_a_large_decision_is_cut_where_another_topic_begins() -> None:
    topics = [(TopicRecord(name=f"t{n}", topic_id=UUID(int=n)), n) for n in range(10)]
    records: list[MetadataRecord] = []
    for topic, n in topics:
        records += [topic, *(PartitionRecord(topic_id=topic.topic_id, partition_id=index) for index in range(n * 20))]
    parts = list(parts_of(CreateTopicsRequest(), Decision(records, None)))
    assert [record for part in parts for record in part] == records
    assert all(isinstance(part[0], TopicRecord) for part in parts)
    assert len(parts) == 8
    assert list(parts_of(CreateTopicsRequest(), Decision([], None))) == [[]]


MAY_COME_IN_PARTS: dict[AnyApiKey, type[MetadataRecord] | None] = {
    ApiKey.CREATE_TOPICS: TopicRecord,
    ApiKey.DELETE_TOPICS: RemoveTopicRecord,
    ApiKey.CREATE_PARTITIONS: None,  # numbered without a gap
    ApiKey.ALTER_CONFIGS: ConfigRecord,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ConfigRecord,
    ApiKey.ALLOCATE_PRODUCER_IDS: None,
    ApiKey.BROKER_REGISTRATION: None,  # with what its crash has cost
    ApiKey.BROKER_HEARTBEAT: None,  # with what it leads no more
    ApiKey.CONTROLLER_REGISTRATION: None,
    ApiKey.UNREGISTER_BROKER: None,  # with what it leads no more
    ApiKey.UNREGISTER_CONTROLLER: None,
    ApiKey.ALTER_PARTITION: PartitionChangeRecord,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: PartitionChangeRecord,
    ApiKey.ELECT_LEADERS: PartitionChangeRecord,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: PartitionChangeRecord,
    OwnApiKey.BALANCE_LEADERS: None,
    OwnApiKey.HAND_OVER_LEADER: None,
    OwnApiKey.CLAIM_STORAGE_GROUP: None,  # the group's own partition has its place
    OwnApiKey.CREATE_STORAGE_GROUP: None,
    ApiKey.CREATE_ACLS: None,
    ApiKey.DELETE_ACLS: None,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: None,
    ApiKey.ALTER_CLIENT_QUOTAS: None,
    ApiKey.CREATE_DELEGATION_TOKEN: None,
    ApiKey.RENEW_DELEGATION_TOKEN: None,
    ApiKey.EXPIRE_DELEGATION_TOKEN: None,
    ApiKey.UPDATE_FEATURES: None,
}
"""A new command says here whether what it asks for may come to hold in parts, and what begins one."""


def test_each_command_says_whether_it_may_be_done_in_parts() -> None:
    assert {key: PARTS.get(key) for key in DECISIONS} == MAY_COME_IN_PARTS
    assert PARTS.keys() <= DECISIONS.keys()


def changes(count: int) -> list[MetadataRecord]:
    return [PartitionChangeRecord(topic_id=UUID(int=1), partition_id=index) for index in range(count)]


@pytest.mark.parametrize("key", DECISIONS, ids=lambda key: key.name)
def test_a_decision_is_cut_only_where_another_thing_that_was_asked_for_begins(key: AnyApiKey) -> None:
    """A registration with many changes of partitions is one batch, as in Kafka; many reassignments are not."""
    records: list[MetadataRecord] = [RegisterBrokerRecord(broker_id=1), *changes(3 * MANY_RECORDS)]
    parts = list(parts_of(api_of(key).request_class(), Decision(records, None)))
    assert [record for part in parts for record in part] == records
    assert len(parts) == (4 if MAY_COME_IN_PARTS[key] is PartitionChangeRecord else 1)


@pytest.mark.parametrize("command", [AlterConfigsRequest(), IncrementalAlterConfigsRequest()])
def test_what_follows_from_a_config_holds_with_it(command: Message) -> None:
    """Partitions without a leader keep the eligible leaders that a topic forgets."""
    records: list[MetadataRecord] = []
    for n in range(5):
        config = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=f"t{n}", name="min.insync.replicas")
        records += [config, config.replace(name="retention.ms")]
        records += [ClearElrRecord(topic_name=f"t{n}"), *changes(MANY_RECORDS)]
    parts = list(parts_of(command, Decision(records, None)))
    assert [record for part in parts for record in part] == records
    assert [(type(part[0]), len(part)) for part in parts] == [(ConfigRecord, MANY_RECORDS + 3)] * 5
