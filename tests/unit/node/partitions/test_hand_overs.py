"""A broker that stops hands over what others can lead, to whom the controller would elect, and nothing else."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.contexts import broker_context
from tests.unit.node.on_disk import NODE_ID, Node, node_on

from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.node.partitions import hand_overs as module
from penstock.node.partitions.hand_overs import HandOvers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import HandOverLeaderRequest, HandOverLeaderResponse

ID = UUID(int=8)
REPLICAS = ([NODE_ID, 2, 3], [NODE_ID, 3, 2], [NODE_ID], [2, NODE_ID, 3])


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """It leads the first three partitions."""
    brokers = [RegisterBrokerRecord(broker_id=broker_id, broker_epoch=9, fenced=False) for broker_id in (2, 3)]
    partitions = [
        PartitionRecord(
            partition_id=index, topic_id=ID, replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0
        )
        for index, replicas in enumerate(REPLICAS)
    ]
    with node_on(tmp_path, *brokers, TopicRecord(name="copied", topic_id=ID), *partitions) as node:
        for index in range(len(REPLICAS)):
            node.partition("copied", index)
        yield node


class Asked:
    """The controller, which does what it is asked for; `silent` as long as it answers nothing."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.requests: list[HandOverLeaderRequest] = []
        self.silent = False
        self.hand_overs = HandOvers(broker_context(node.context.node, self), node.table, self)

    async def connect(self, broker_id: int) -> Any:
        raise AssertionError("nothing is held, so there is no way to be opened")

    def group(self, number: int) -> None:
        return None

    def resident_of(self, partition: object, connect: object) -> None:
        return None

    async def prepare(self, partition: object) -> None:
        pass

    def submit(self, request: Any, answer: Any, **_: Any) -> asyncio.Future[Any]:
        self.requests.append(request)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if request.is_stopping:
            future.set_result(HandOverLeaderResponse())
        elif not self.silent:
            future.set_result(HandOverLeaderResponse())
            change = PartitionChangeRecord(partition_id=request.partition, topic_id=ID, leader=request.successor)
            self.node.commit(change)
        return future

    @property
    def handed(self) -> dict[int, int]:
        """Who was named for which partition."""
        return {one.partition: one.successor for one in self.requests if not one.is_stopping}

    def give_away(self) -> None:
        async def scene() -> None:
            await self.hand_overs.give_away()
            await self.hand_overs.settle()
            await self.hand_overs.stop()

        asyncio.run(scene())


def test_each_goes_to_the_first_in_sync_that_may_lead(node: Node) -> None:
    asked = Asked(node)
    asked.give_away()
    assert [request.is_stopping for request in asked.requests] == [True, False, False], "it says so before"
    assert asked.handed == {0: 2, 1: 3}


def test_who_is_on_its_way_out_gets_nothing(node: Node) -> None:
    node.commit(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=9, in_controlled_shutdown=1))
    asked = Asked(node)
    asked.give_away()
    assert asked.handed == {0: 3, 1: 3}


def test_who_is_out_of_sync_gets_nothing(node: Node) -> None:
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[NODE_ID, 3]))
    asked = Asked(node)
    asked.give_away()
    assert asked.handed == {0: 3, 1: 3}


def test_who_leads_nothing_that_others_could_lead_asks_nobody(node: Node) -> None:
    for index in (0, 1):
        node.commit(PartitionChangeRecord(partition_id=index, topic_id=ID, isr=[NODE_ID]))
    asked = Asked(node)
    asked.give_away()
    assert asked.requests == []


def test_it_takes_no_longer_than_it_may(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GIVE_AWAY_S", 0.01)
    asked = Asked(node)
    asked.silent = True
    asked.give_away()
    assert asked.handed == {0: 2, 1: 3}
    assert node.partition("copied", 0).hand_over is None


def test_without_a_controller_nothing_is_held(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(node)

    async def submit(request: HandOverLeaderRequest) -> HandOverLeaderResponse:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    monkeypatch.setattr(asked.hand_overs, "_submit", submit)
    asked.give_away()
    assert asked.hand_overs.open == []
