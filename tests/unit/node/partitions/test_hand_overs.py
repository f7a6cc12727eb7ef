"""A broker that stops hands over what others can lead, to whom the controller would elect, and nothing else; one whose
disk is full what it cannot write."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.contexts import broker_context
from tests.unit.node.on_disk import NODE_ID, Node, node_on

from penstock.leadership.transfer import Answer
from penstock.log.disk import Disk, OpenFile
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
from penstock.protocol.internal_topics import STORAGE_GROUPS
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
        if request.is_stopping or request.successor < 0:
            future.set_result(HandOverLeaderResponse())
        elif not self.silent:
            future.set_result(HandOverLeaderResponse())
            change = PartitionChangeRecord(partition_id=request.partition, topic_id=ID, leader=request.successor)
            self.node.commit(change)
        return future

    @property
    def handed(self) -> dict[int, int]:
        """Who was named for which partition."""
        return {one.partition: one.successor for one in self.requests if one.successor >= 0}

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


def test_those_that_are_over_are_not_kept(node: Node) -> None:
    asked = Asked(node)
    over: Any = SimpleNamespace(is_over=True)
    asked.hand_overs.open.append(over)
    asked.give_away()
    assert asked.handed == {0: 2, 1: 3}
    assert over not in asked.hand_overs.open


def test_without_a_controller_nothing_is_held(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(node)

    async def submit(request: HandOverLeaderRequest) -> HandOverLeaderResponse:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    monkeypatch.setattr(asked.hand_overs, "_submit", submit)
    asked.give_away()
    assert asked.hand_overs.open == []


# a full disk


def refuse(*_: object) -> None:
    raise OSError(28, "No space left on device")


def give_up(asked: Asked) -> None:
    async def scene() -> None:
        await asked.hand_overs._give_up_unwritable()
        await asked.hand_overs.stop()

    asyncio.run(scene())


def test_what_cannot_be_written_goes_to_a_replica_in_sync(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(node)
    node.replicas.in_sync.unwritable.listen(asked.hand_overs.on_unwritable)
    assert node.produce(b"a", topic="copied", index=1)[0] == ErrorCode.NONE
    with monkeypatch.context() as full:
        full.setattr(OpenFile, "write_at", refuse)
        for index in range(3):
            assert node.produce(b"a", topic="copied", index=index)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.setattr(module, "FULL_S", 0)
    node.commit(PartitionChangeRecord(partition_id=1, topic_id=ID, isr=[NODE_ID]))
    give_up(asked)
    assert asked.handed == {0: 2}, "the others are in no other replica"
    assert asked.requests[0].has_no_room
    give_up(asked)
    assert len(asked.requests) == 1, "until another append is refused"


def test_who_hands_over_looks_at_once_when_something_cannot_be_written(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SOON_S", 0)
    monkeypatch.setattr(module, "PAUSE_S", 1_000_000)
    asked = Asked(node)
    partition, looks = node.partition("copied", 0), list[bool]()
    partition.log.health.is_full = True
    monkeypatch.setattr(asked.hand_overs.full, "look", lambda: looks.append(True))

    async def scene() -> None:
        asked.hand_overs.start()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not asked.requests
        asked.hand_overs.on_unwritable(partition)
        while not asked.requests:
            await asyncio.sleep(0)
        seen = len(looks)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(looks) == seen, "it waits again"
        await asked.hand_overs.stop()

    asyncio.run(scene())
    assert asked.handed == {0: 2}


@pytest.mark.parametrize("is_moved", [True, False])
def test_the_controller_is_asked_while_it_would_have_another_lead(
    node: Node, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    monkeypatch.setattr(module, "SOON_S", 0)
    monkeypatch.setattr(module, "PAUSE_S", 0)
    if is_moved:
        node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=2))
    else:
        node.commit(PartitionChangeRecord(partition_id=3, topic_id=ID, leader=2))
    asked, looks = Asked(node), list[bool]()
    monkeypatch.setattr(asked.hand_overs.full, "look", lambda: looks.append(True))

    async def scene() -> None:
        asked.hand_overs.start()
        while len(looks) < 4:
            await asyncio.sleep(0)
        await asked.hand_overs.stop()

    asyncio.run(scene())
    assert bool(asked.requests) is is_moved


def test_a_directory_has_room_when_it_had_some_for_a_while(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    health = node.directories.roots.for_data[0].health
    asked, free = Asked(node), 0
    monkeypatch.setattr(Disk, "space", lambda *_: (100 << 30, free))
    health.is_full = True
    give_up(asked)
    free = 1 << 30
    give_up(asked)
    assert health.is_full, "it was so a moment ago"
    monkeypatch.setattr(module, "FULL_S", 0)
    free -= 1
    give_up(asked)
    assert health.is_full, "there is hardly any"
    free += 1
    give_up(asked)
    assert not health.is_full


# what may be handed over, and what the controller says to it


@pytest.mark.parametrize(
    ("epoch", "successor", "change", "can"),
    [
        (0, 2, None, True),
        (0, 3, None, True),
        (1, 2, None, False),
        (0, NODE_ID, None, False),
        (0, 9, None, False),
        (0, 2, {"isr": [NODE_ID, 3]}, False),
        (0, 2, {"leader": 2}, False),
        (1, 3, {"leader": NODE_ID}, True),
    ],
)
def test_only_who_is_in_sync_gets_what_is_led_in_that_epoch(
    node: Node, epoch: int, successor: int, change: dict[str, Any] | None, can: bool
) -> None:
    if change is not None:
        node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, **change))
    hand_overs, partition = Asked(node).hand_overs, node.partition("copied", 0)
    assert hand_overs._can(partition, epoch, successor) is can
    partition.hand_over = cast("Any", object())
    assert not hand_overs._can(partition, epoch, successor), "it is handed over already"


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (ErrorCode.NONE, Answer.MADE),
        *((code, Answer.UNKNOWN) for code in module.NOBODY_KNOWS),
        *((code, Answer.CHANGED) for code in module.ELSEWHERE),
        (ErrorCode.INVALID_REQUEST, Answer.REFUSED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Answer.REFUSED),
    ],
)
@pytest.mark.parametrize("is_raised", [True, False])
def test_what_the_answer_of_the_controller_means(node: Node, code: ErrorCode, answer: Answer, is_raised: bool) -> None:
    asked = Asked(node)

    def submit(request: Any, answer: Any, **_: Any) -> asyncio.Future[Any]:
        asked.requests.append(request)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if is_raised and code:
            future.set_exception(KafkaError(code))
        else:
            future.set_result(HandOverLeaderResponse(error_code=code))
        return future

    asked.submit = submit  # type: ignore[method-assign]
    partition = node.partition("copied", 1)
    assert asyncio.run(asked.hand_overs._asked(partition, 4, 3, True, 7)) is answer
    (request,) = asked.requests
    assert (request.topic_id, request.partition, request.successor) == (ID, 1, 3)
    assert (request.leader_epoch, request.partition_epoch, request.has_no_room) == (4, 7, True)
    assert (request.broker_id, request.is_stopping) == (NODE_ID, False)


@pytest.mark.parametrize(
    ("told", "handed"),
    [
        ({"partition": 1, "successor": 3}, {1: 3}),
        ({"partition": 1, "successor": -1}, {}),
        ({"partition": 7, "successor": 3}, {}),
        ({"partition": 1, "successor": 3, "leader_epoch": 9}, {}),
        ({"partition": 1, "successor": 3, "topic_id": UUID(int=9)}, {}),
    ],
)
def test_what_the_controller_names_is_handed_over(node: Node, told: dict[str, Any], handed: dict[int, int]) -> None:
    asked = Asked(node)
    submit = asked.submit

    def first(request: Any, answer: Any, **how: Any) -> asyncio.Future[Any]:
        if request.successor >= 0:
            return submit(request, answer, **how)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(HandOverLeaderResponse(topic_id=ID, leader_epoch=0).replace(**told))
        return future

    asked.submit = first  # type: ignore[method-assign]

    async def scene() -> bool:
        was_tried = await asked.hand_overs._hand_over()
        await asked.hand_overs.stop()
        return was_tried

    assert asyncio.run(scene()) is bool(handed)
    assert asked.handed == handed


# storage groups


class GroupHandOver:
    """One that is decided at once; `refusal` is why none begins."""

    made: list["GroupHandOver"]
    refusal: KafkaError | None = None

    def __init__(self, group: object, successor: int, way: object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.successor, self.is_over, self.ends = successor, False, list[str]()
        self.is_decided = asyncio.Event()
        self.is_decided.set()
        self.made.append(self)

    async def settle(self) -> None:
        self.ends.append("settled")

    async def stop(self) -> None:
        self.ends.append("stopped")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[GroupHandOver]:
    monkeypatch.setattr(GroupHandOver, "made", [], raising=False)
    monkeypatch.setattr("penstock.node.storage_groups.hand_over.StorageGroupHandOver", GroupHandOver)
    return GroupHandOver.made


def names_group(asked: Asked, groups_id: UUID) -> None:
    """The controller says: hand group 3 over to node 2."""

    def submit(request: Any, answer: Any, **_: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_result(HandOverLeaderResponse(topic_id=groups_id, partition=3, successor=2))
        return future

    asked.submit = submit  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("is_here", "refusal", "was_tried"),
    [(True, None, True), (False, None, False), (True, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), False)],
)
async def test_a_group_that_the_controller_names_is_handed_over(
    node: Node,
    made: list[GroupHandOver],
    monkeypatch: pytest.MonkeyPatch,
    is_here: bool,
    refusal: KafkaError | None,
    was_tried: bool,
) -> None:
    monkeypatch.setattr(GroupHandOver, "refusal", refusal)
    groups_id = UUID(int=77)
    node.commit(TopicRecord(name=STORAGE_GROUPS, topic_id=groups_id))
    asked = Asked(node)
    asked.group = lambda number: cast("Any", (number == 3 and is_here) or None)  # type: ignore[method-assign]
    names_group(asked, groups_id)
    assert await asked.hand_overs._hand_over() is was_tried
    assert [one.successor for one in made] == ([2] if was_tried else [])


async def test_hand_overs_of_groups_are_settled_and_stopped_until_they_are_over(
    node: Node, made: list[GroupHandOver]
) -> None:
    hand_overs = Asked(node).hand_overs
    for successor in (2, 3):
        assert await hand_overs.hand_over_group(cast("Any", object()), successor)
    made[0].is_over = True
    assert await hand_overs.hand_over_group(cast("Any", object()), 4)
    await hand_overs.settle_groups()
    await hand_overs.stop()
    assert [one.ends for one in made] == [[], ["settled", "stopped"], ["settled", "stopped"]]
