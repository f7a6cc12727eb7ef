"""What clients may do with the cluster's own topics, by each command of the controller."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, create

from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.protocol.internal_topics import INTERNAL_TOPICS, Act, refusal_of
from penstock.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.schema import Message

COMMANDS: dict[str, tuple[Act, Callable[[str], Message], Callable[[Any], Any]]] = {
    "CreateTopics": (Act.CREATE, create, lambda reply: reply.topics[0]),
    "CreatePartitions": (
        Act.ADD_PARTITIONS,
        lambda name: CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=2)]),
        lambda reply: reply.results[0],
    ),
    "DeleteTopics": (
        Act.DELETE,
        lambda name: DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]),
        lambda reply: reply.responses[0],
    ),
    "AlterConfigs": (
        Act.CONFIGURE,
        lambda name: AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name=name)]),
        lambda reply: reply.responses[0],
    ),
    "AlterPartitionReassignments": (
        Act.MOVE,
        lambda name: AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])]
        ),
        lambda reply: reply.responses[0].partitions[0],
    ),
    "ElectLeaders": (
        Act.MOVE,
        lambda name: ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[0])]),
        lambda reply: reply.replica_election_results[0].partition_result[0],
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_a_command_refuses_what_the_table_of_internal_topics_refuses(name: str, command: str) -> None:
    act, ask, answer_of = COMMANDS[command]
    controller = active_controller()
    if act is not Act.CREATE:
        controller.apply(
            [
                TopicRecord(name=name, topic_id=UUID(int=500)),
                PartitionRecord(partition_id=0, topic_id=UUID(int=500), replicas=[1], isr=[1], leader=1),
            ]
        )
    decision = controller.decide(ask(name), 0)
    answer, refused = answer_of(decision.reply), refusal_of(name, act)
    if refused is None:
        assert all(answer.error_message != it.reason for it in INTERNAL_TOPICS[name].refusals.values())
    else:
        assert (answer.error_code, answer.error_message, decision.records) == (refused.code, refused.reason, [])


def test_no_act_of_the_controller_lacks_a_command_here() -> None:
    on_brokers = {Act.AUTO_CREATE, Act.USE, Act.PRODUCE, Act.DELETE_RECORDS}
    assert {act for act, _, _ in COMMANDS.values()} == set(Act) - on_brokers
    assert carry_out(active_controller(), create("flights")).topics[0].error_code == 0
