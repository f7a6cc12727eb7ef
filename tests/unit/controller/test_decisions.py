"""Each command finds the function that decides on it, and only commands do."""

from inspect import signature
from uuid import UUID

import pytest

from penstock.controller.decision import Decision
from penstock.controller.decisions import DECISIONS, MANY, decision_on, is_command, is_large
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.requests.api import ApiKey, api_of
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
    parts = list(Decision(records, None).parts())
    assert [record for part in parts for record in part] == records
    assert all(isinstance(part[0], TopicRecord) for part in parts)
    assert len(parts) == 8
    assert list(Decision([], None).parts()) == [[]]
