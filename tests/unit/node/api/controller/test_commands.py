"""What a controller listener takes for the controller's queue: each API in each of its versions, on real sockets."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.node.api.controller.quorum_of_core import LISTENER, Answering, CoreQuorum, controller_node
from tests.unit.node.served_node import serving_node

from penstock.controller.decisions import DECISIONS
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.node.serving.handler import CONTROLLER_HANDLERS, load_handlers
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.refusals import refusal

HANDLERS = load_handlers(CONTROLLER_HANDLERS)
COMMANDS = [(key, version) for key, h in HANDLERS.items() for version in range(h.lowest, h.newest + 1)]
NOT_ACTIVE = KafkaError(ErrorCode.NOT_CONTROLLER)


def test_each_decision_can_be_asked_for() -> None:
    assert set(HANDLERS) >= set(DECISIONS)


@pytest.mark.parametrize(("key", "version"), [(key, version) for key, version in COMMANDS if key in DECISIONS])
async def test_a_command_reaches_the_controller_and_its_answer_the_peer(key: int, version: int) -> None:
    node = controller_node(CoreQuorum(1, 2), lambda command: NOT_ACTIVE)
    request = api_of(key).request_class()
    async with serving_node(node, LISTENER) as server:
        client = await server.connect()
        client.send(request, version)
        _, response = await client.receive(key, version)
        assert isinstance(node.controller, Answering)
        (command,) = node.controller.commands
    assert command == decode(type(request), version, encode(request, version))[0]
    expected = refusal(request, NOT_ACTIVE)
    assert response == decode(type(expected), version, encode(expected, version))[0]


async def test_moves_are_told_by_the_active_controller_only() -> None:
    node = controller_node(CoreQuorum(1, 2), lambda command: NOT_ACTIVE)
    node.image.apply(TopicRecord(name="flights", topic_id=UUID(int=7)))
    node.image.apply(
        PartitionRecord(
            partition_id=0,
            topic_id=UUID(int=7),
            replicas=[1, 2],
            isr=[1],
            adding_replicas=[2],
            leader=1,
            leader_epoch=0,
        )
    )
    async with serving_node(node, LISTENER) as server:
        client = await server.connect()
        client.send(ListPartitionReassignmentsRequest(), 0)
        _, refused = await client.receive(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
        assert isinstance(refused, ListPartitionReassignmentsResponse)
        assert refused.error_code == ErrorCode.NOT_CONTROLLER
        assert isinstance(node.controller, Answering)
        node.controller.is_active = True
        client.send(ListPartitionReassignmentsRequest(), 0)
        _, response = await client.receive(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    assert isinstance(response, ListPartitionReassignmentsResponse)
    assert [(topic.name, topic.partitions[0].adding_replicas) for topic in response.topics] == [("flights", [2])]
