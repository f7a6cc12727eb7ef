"""What all groups have consumed goes from the partitions that are led here, once every coordinator has answered."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.on_disk import TOPIC_ID, Node, node_on, topic_records

from penstock.metadata.image import ResourceType
from penstock.metadata.records import ConfigRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from penstock.node.coordinators.consumed_retention import ConsumedRetention, _may_begin_later
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from penstock.protocol.requests.own_apis import (
    CommittedPositionsRequest,
    CommittedPositionsResponse,
    CoordinatedPositions,
    DescribeHoldersRequest,
    DescribeHoldersResponse,
    PositionOfGroup,
    PositionsOfGroup,
)

OFFSETS_ID = UUID(int=9)
COORDINATORS = {0: 1, 1: 2}
"""The broker that leads each partition of `__consumer_offsets`."""


class Coordinators:
    """Answer for all brokers, in the place of the network."""

    def __init__(self) -> None:
        self.groups: dict[int, dict[str, int]] = {0: {"a": 2}, 1: {"b": 1}}
        """By partition of `__consumer_offsets`, the groups and their offsets; -1 for none."""
        self.epochs = {0: 4, 1: 4}
        self.homes = dict(COORDINATORS)
        self.silent: list[int] = []
        self.asked: list[int] = []
        self.meanwhile: Any = None

    async def ask_broker(self, broker_id: int, request: Any, answer: Any, **_: Any) -> CommittedPositionsResponse:
        assert request == CommittedPositionsRequest(topic_id=TOPIC_ID)
        self.asked.append(broker_id)
        await asyncio.sleep(0)
        if self.meanwhile is not None:
            self.meanwhile()
        if broker_id in self.silent:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return CommittedPositionsResponse(
            partition_count=len(COORDINATORS),
            coordinated=[
                CoordinatedPositions(
                    partition=index,
                    leader_epoch=self.epochs[index],
                    groups=[
                        PositionsOfGroup(
                            group_id=name, positions=[PositionOfGroup(partition=0, offset=offset)] * (offset >= 0)
                        )
                        for name, offset in self.groups[index].items()
                    ],
                )
                for index, broker in self.homes.items()
                if broker == broker_id
            ],
        )


def records(**configs: Any) -> list[Any]:
    return [
        *topic_records(**{"retention_consumed": "true", **configs}),
        TopicRecord(name=CONSUMER_OFFSETS, topic_id=OFFSETS_ID),
        *(
            PartitionRecord(
                partition_id=index, topic_id=OFFSETS_ID, replicas=[2], isr=[2], leader=leader, leader_epoch=4
            )
            for index, leader in COORDINATORS.items()
        ),
    ]


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    with node_on(tmp_path, *records(**getattr(request, "param", {}))) as node:
        yield node


@pytest.fixture
def coordinators(node: Node, monkeypatch: pytest.MonkeyPatch) -> Coordinators:
    coordinators = Coordinators()
    monkeypatch.setattr(node.broker.groups.context.errands, "ask_broker", coordinators.ask_broker)
    return coordinators


async def looked_at(node: Node) -> int:
    """Where the log begins when that is done."""
    for value in (b"a", b"b", b"c"):
        node.produce(value)
    node.upkeep.kept_until_consumed.listen(node.broker.consumed.look_at)
    node.upkeep.watch(node.partition(), due_ms=node.now_ms)
    await node.upkeep.run_due()
    await node.broker.consumed._tasks.settle()
    return node.partition().log.log_start_offset


async def test_what_the_slowest_group_has_consumed_goes(node: Node, coordinators: Coordinators) -> None:
    assert await looked_at(node) == 1
    assert sorted(coordinators.asked) == [1, 2]
    del coordinators.groups[1]["b"]
    assert await looked_at(node) == 2


async def test_nothing_goes_beyond_the_end(node: Node, coordinators: Coordinators) -> None:
    coordinators.groups = {0: {"a": 99}, 1: {}}
    assert await looked_at(node) == 3


async def test_nothing_goes_while_a_coordinator_is_silent_or_an_old_one(node: Node, coordinators: Coordinators) -> None:
    coordinators.silent = [2]
    assert await looked_at(node) == 0
    coordinators.silent, coordinators.epochs[1] = [], 3
    assert await looked_at(node) == 0


async def test_a_coordinator_that_followed_while_others_were_asked_is_waited_for(
    node: Node, coordinators: Coordinators
) -> None:
    def follow() -> None:
        coordinators.meanwhile = None
        node.image.apply(PartitionChangeRecord(partition_id=0, topic_id=OFFSETS_ID, leader=2))

    coordinators.meanwhile = follow
    assert await looked_at(node) == 0
    coordinators.epochs[0], coordinators.homes[0] = 5, 2
    assert await looked_at(node) == 1


async def test_who_leads_no_more_deletes_nothing(node: Node, coordinators: Coordinators) -> None:
    coordinators.meanwhile = node.partition().resign
    assert await looked_at(node) == 0


async def test_a_new_group_keeps_everything_until_its_grace_is_over(
    node: Node, coordinators: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinators.groups[1] = {"new": -1}
    assert await looked_at(node) == 0
    node.commit(
        ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name="orders", name="retention.consumed.grace.ms", value="0"
        )
    )
    assert await looked_at(node) == 2


@pytest.mark.parametrize(
    "node", [{"retention_consumed": "false"}, {"cleanup_policy": "compact"}], indirect=True, ids=["off", "compacted"]
)
async def test_other_topics_keep_what_was_consumed(node: Node, coordinators: Coordinators) -> None:
    assert await looked_at(node) == 0
    assert coordinators.asked == []


async def test_who_keeps_how_many_bytes(node: Node, coordinators: Coordinators) -> None:
    coordinators.groups[1] = {"b": 1, "new": -1}
    for value in (b"a", b"b", b"c"):
        node.produce(value)
    request = DescribeHoldersRequest(topic="orders")
    waiting = node.dispatch(request, 0)
    assert not isinstance(waiting, list)
    answer = await node.wait(request, 0, waiting)
    assert isinstance(answer, DescribeHoldersResponse)
    size = node.partition().log.size_bytes
    assert {group.group_id: [(p.offset, p.held_bytes) for p in group.partitions] for group in answer.groups} == {
        "a": [(2, size // 3)],
        "b": [(1, size * 2 // 3)],
        "new": [(-1, size)],
    }


async def test_who_keeps_what_is_not_known_while_a_coordinator_is_silent(
    node: Node, coordinators: Coordinators
) -> None:
    coordinators.silent = [1]
    request = DescribeHoldersRequest(topic="orders")
    waiting = node.dispatch(request, 0)
    assert not isinstance(waiting, list)
    answer = await node.wait(request, 0, waiting)
    assert isinstance(answer, DescribeHoldersResponse)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert f"{CONSUMER_OFFSETS}-0" in (answer.error_message or "")


async def test_what_was_heard_is_forgotten_where_this_node_leads_no_more(
    node: Node, coordinators: Coordinators, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed, moved = node.broker.consumed, list[int]()
    monkeypatch.setattr(consumed, "_on_log_start_moved", lambda partition: moved.append(partition.index))
    assert await looked_at(node) == 1
    (heard,) = consumed._heard.values()
    assert moved == [0]
    coordinators.groups[0] = {"a": 1}
    assert await looked_at(node) == 1
    assert moved == [0], "its start is where it was"
    assert list(consumed._heard.values()) == [heard], "what was heard in this epoch is remembered"
    partition = node.partition()
    consumed._heard[partition] = (heard[0] - 1, heard[1])
    await looked_at(node)
    epoch, known = consumed._heard[partition]
    assert (epoch, known is heard[1]) == (heard[0], False), "of an epoch before nothing counts"
    coordinators.meanwhile = partition.resign
    await looked_at(node)
    assert consumed._heard == {}


@pytest.mark.parametrize(
    ("otherwise", "may"),
    [
        ({}, True),
        ({"retention_consumed": False}, False),
        ({"deletes": False}, False),
        ({"is_internal": True}, False),
        ({"leader": None}, False),
    ],
)
def test_only_a_leader_of_such_a_topic_looks(otherwise: dict[str, Any], may: bool) -> None:
    as_usual: dict[str, Any] = {"retention_consumed": True, "deletes": True, "is_internal": False, "leader": object()}
    said = as_usual | otherwise
    config = SimpleNamespace(retention_consumed=said["retention_consumed"], deletes=said["deletes"])
    partition: Any = SimpleNamespace(
        log=SimpleNamespace(config=config), is_internal=said["is_internal"], leader=said["leader"]
    )
    assert _may_begin_later(partition) is may


@pytest.mark.parametrize(
    ("is_there", "leader", "may_lead", "leads"),
    [
        (True, object(), True, True),
        (False, object(), True, False),
        (True, None, True, False),
        (True, object(), False, False),
    ],
)
async def test_who_leads(is_there: bool, leader: object, may_lead: bool, leads: bool) -> None:
    partition: Any = SimpleNamespace(topic_id=TOPIC_ID, index=0, leader=leader)
    table = SimpleNamespace(get=lambda topic_id, index: partition if is_there else object())
    context: Any = SimpleNamespace(partitions=table, may_lead=lambda _: may_lead, now_ms=lambda: 0)
    assert ConsumedRetention(context, lambda _: None)._leads(partition) is leads


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("deletes", [True, False])
async def test_what_a_partition_is_by_the_time_of_the_answer_decides(
    node: Node, coordinators: Coordinators, monkeypatch: pytest.MonkeyPatch, *, leads: bool, deletes: bool
) -> None:
    consumed, partition = node.broker.consumed, node.partition()
    node.produce(b"a")
    node.produce(b"b")
    positions = await consumed.positions(TOPIC_ID)
    if not deletes:
        consumed_stays = ConfigRecord(
            resource_type=ResourceType.TOPIC, resource_name="orders", name="retention.consumed", value="false"
        )
        node.commit(consumed_stays)
    monkeypatch.setattr(consumed, "_leads", lambda _: leads)
    consumed._follow(partition, positions)
    assert partition.log.log_start_offset == (leads and deletes)
    assert list(consumed._heard) == [partition] * (leads and deletes)


async def test_of_a_topic_about_which_nothing_is_known_nothing_goes_and_the_others_have_their_turn(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumed, asked, followed = node.broker.consumed, list[UUID](), list[int]()
    first, second = UUID(int=1), UUID(int=2)

    async def positions(topic_id: UUID) -> Any:
        asked.append(topic_id)
        if topic_id == first:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(consumed, "positions", positions)
    monkeypatch.setattr(consumed, "_follow", lambda partition, _: followed.append(partition.index))
    for topic_id, index in ((first, 0), (first, 1), (second, 2), (second, 3)):
        partition: Any = SimpleNamespace(topic="t", index=index)
        consumed._wanted.setdefault(topic_id, {})[index] = partition
    await consumed._look()
    assert (asked, followed, consumed._wanted) == ([first, second], [2, 3], {})


async def test_coordinators_are_asked_by_the_keys_that_they_have(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    async def ask_broker(broker_id: int, request: Any, answer: Any) -> CommittedPositionsResponse:
        asked.append((broker_id, request.key_type))
        return CommittedPositionsResponse()

    for record in (
        TopicRecord(name=SHARE_GROUP_STATE, topic_id=UUID(int=8)),
        PartitionRecord(partition_id=0, topic_id=UUID(int=8), replicas=[3], isr=[3], leader=3),
    ):
        node.image.apply(record)
    monkeypatch.setattr(node.broker.groups.context.errands, "ask_broker", ask_broker)
    with pytest.raises(KafkaError, match="has not answered"):
        await node.broker.consumed.positions(TOPIC_ID)
    assert sorted(asked) == [(1, 0), (2, 0), (3, 2)]
