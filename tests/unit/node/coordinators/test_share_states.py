"""A request about the share partitions of a group goes to all who coordinate some, and comes back as one answer."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.contexts import broker_context, node_context

from penstock.coordinator.effects import AtShareCoordinators
from penstock.coordinator.share.records import SharePartitionKey
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.node.coordinators import share_states
from penstock.node.coordinators.share_states import ShareStates
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)

TOPICS = (UUID(int=5), UUID(int=6))
STATE_PARTITIONS = 4
DOWN = 3
NOBODY = -1


class Brokers:
    """Answer each what they were asked; one does not."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[tuple[UUID, int]]]] = []

    async def ask_broker(self, broker_id: int, request: Any, answer: Any) -> Any:
        places = [(topic.topic_id, one.partition) for topic in request.topics for one in topic.partitions]
        self.asked.append((broker_id, places))
        if broker_id == DOWN:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return answer(
            results=[
                InitializeStateResult(
                    topic_id=topic.topic_id,
                    partitions=[PartitionResult(partition=one.partition) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )


class Controller:
    def __init__(self) -> None:
        self.commands: list[CreateTopicsRequest] = []

    async def submit(self, command: Any, *_: Any, **__: Any) -> CreateTopicsResponse:
        self.commands.append(command)
        return CreateTopicsResponse()


def job(partitions: int) -> AtShareCoordinators:
    request = InitializeShareGroupStateRequest(
        group_id="g",
        topics=[
            InitializeStateData(topic_id=topic, partitions=[PartitionData(partition=n) for n in range(partitions)])
            for topic in TOPICS
        ],
    )
    return AtShareCoordinators(request, InitializeShareGroupStateResponse)


def made(leaders: tuple[int, ...]) -> tuple[ShareStates, Brokers, Controller]:
    image = ClusterImage()
    if leaders:
        image.apply(TopicRecord(name=SHARE_GROUP_STATE, topic_id=UUID(int=9)))
    for number, leader in enumerate(leaders):
        image.apply(PartitionRecord(partition_id=number, topic_id=UUID(int=9), replicas=[1], isr=[1], leader=leader))
    brokers, controller = Brokers(), Controller()
    context = broker_context(node_context(BrokerConfig.embedded({}), image), cast("Any", controller))
    return ShareStates(context, brokers), brokers, controller


def leader_of(topic: UUID, partition: int, leaders: tuple[int, ...]) -> int:
    return leaders[coordinator_partition(SharePartitionKey("g", topic, partition).text, len(leaders))]


async def test_each_is_asked_for_what_it_coordinates_and_what_is_missing_has_an_error() -> None:
    leaders = (1, 2, DOWN, NOBODY)
    states, brokers, _ = made(leaders)
    answer: Any = await states.done(job(20))
    assert [topic.topic_id for topic in answer.results] == list(TOPICS)
    wanted = {1: 0, 2: 0, DOWN: ErrorCode.NETWORK_EXCEPTION, NOBODY: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    for topic in answer.results:
        assert [one.partition for one in topic.partitions] == list(range(20))
        for one in topic.partitions:
            assert one.error_code == wanted[leader_of(topic.topic_id, one.partition, leaders)]
    assert sorted(broker_id for broker_id, _ in brokers.asked) == [1, 2, DOWN]
    for broker_id, places in brokers.asked:
        assert all(leader_of(*place, leaders) == broker_id for place in places)


async def test_very_many_are_asked_about_in_parts() -> None:
    share_states_most, share_states.MOST_PARTITIONS = share_states.MOST_PARTITIONS, 7  # type: ignore[misc]
    try:
        states, brokers, _ = made((1,))
        answer: Any = await states.done(job(10))
    finally:
        share_states.MOST_PARTITIONS = share_states_most  # type: ignore[misc]
    assert [len(places) for _, places in brokers.asked] == [7, 7, 6]
    assert not any(one.error_code for topic in answer.results for one in topic.partitions)


async def test_others_have_their_turn_while_coordinators_of_very_many_are_looked_up() -> None:
    states, _, _ = made((1,))
    asking, turns = states.done(job(1_000)), 0
    try:
        while asking.send(None) is None:
            turns += 1
    except StopIteration:
        pytest.fail("it waits for the brokers in the end")
    asking.close()
    assert turns == 10


async def test_the_first_that_is_asked_creates_the_topic() -> None:
    states, brokers, controller = made(())
    answer: Any = await states.done(job(1))
    (command,) = controller.commands
    (topic,) = command.topics
    configs = {one.name: one.value for one in topic.configs}
    assert (topic.name, topic.num_partitions) == (SHARE_GROUP_STATE, 50)
    assert (configs["cleanup.policy"], configs["retention.ms"], configs["retention.bytes"]) == ("delete", "-1", "-1")
    assert {one.error_code for found in answer.results for one in found.partitions} == {
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    }
    assert brokers.asked == []


async def test_a_topic_without_partitions_is_not_created_and_has_no_coordinator() -> None:
    states, brokers, controller = made((1,))
    states._context.image.topics[SHARE_GROUP_STATE].partitions.clear()
    answer: Any = await states.done(job(1))
    assert (brokers.asked, controller.commands) == ([], [])
    codes = {one.error_code for found in answer.results for one in found.partitions}
    assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_a_request_about_nothing_asks_nobody() -> None:
    states, brokers, controller = made(())
    answer: Any = await states.done(
        AtShareCoordinators(InitializeShareGroupStateRequest(), InitializeShareGroupStateResponse)
    )
    assert (answer.results, brokers.asked, controller.commands) == ([], [], [])
