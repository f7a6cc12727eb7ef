"""How leaders have share coordinators write: what goes together, what is asked again, and what is told."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.sharing.stand_in import COORDINATOR, STATES_ID, StandIn, standing_in

from penstock.coordinator.share.records import SharePartitionKey
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord, TopicRecord
from penstock.node.controlling.commands import NoController
from penstock.node.coordinators.errands import Errands
from penstock.node.coordinators.shares import ShareCoordinator
from penstock.node.sharing import persister as module
from penstock.node.sharing.persister import Epochs, Persister
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import SHARE_GROUP_STATE
from penstock.protocol.messages import read_share_group_state as reading
from penstock.protocol.messages import write_share_group_state as writing
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from penstock.sharing.in_flight import RecordState
from penstock.sharing.keys import ShareKey
from penstock.sharing.values import StateBatch, Write, Written

TOPIC_ID = UUID(int=7)
KEY = ShareKey("g", TOPIC_ID, 0)
EPOCHS = Epochs(leader_epoch=3, state_epoch=5)


def write(number: int, *, start_offset: int = 0) -> Write:
    return Write(number, start_offset, number, [StateBatch(number, number, RecordState.ACKNOWLEDGED, 1)])


def no_coordinator() -> ShareCoordinator:
    raise AssertionError("another node coordinates")


class Asking:
    def __init__(self, stand_in: StandIn, *, has_topic: bool = True) -> None:
        self.stand_in = stand_in
        self.image = image = ClusterImage("test")
        if has_topic:
            image.apply(TopicRecord(name=SHARE_GROUP_STATE, topic_id=STATES_ID))
            who = [COORDINATOR]
            image.apply(PartitionRecord(partition_id=0, topic_id=STATES_ID, replicas=who, isr=who, leader=COORDINATOR))
        context = broker_context(node_context(BrokerConfig.embedded({}), image), NoController())
        self.errands = Errands(context, stand_in.connect)
        self.persister = Persister(1, image, self.errands, Random(1), no_coordinator)

    async def stop(self) -> None:
        await self.persister.stop()
        await self.errands.stop()

    @property
    def requests(self) -> list[WriteShareGroupStateRequest]:
        return [it for it in self.stand_in.asked if isinstance(it, WriteShareGroupStateRequest)]


@pytest.fixture
async def asking(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asking]:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.0)
    async with standing_in() as stand_in:
        made = Asking(stand_in)
        yield made
        await made.stop()


async def test_what_is_due_in_one_turn_goes_together_by_group(asking: Asking) -> None:
    keys = [KEY, ShareKey("g", TOPIC_ID, 1), ShareKey("h", TOPIC_ID, 0)]
    await asyncio.gather(*(asking.persister.write(key, EPOCHS, write(number)) for number, key in enumerate(keys)))
    assert [(it.group_id, len(it.topics[0].partitions)) for it in asking.requests] == [("g", 2), ("h", 1)]
    assert asking.stand_in.connected == [COORDINATOR], "one connection is enough"


async def test_a_partition_has_one_write_under_way_and_the_rest_goes_with_the_next(asking: Asking) -> None:
    stand_in = asking.stand_in
    stand_in.held.clear()
    first = asking.persister.write(KEY, EPOCHS, write(1))
    while not stand_in.asked:
        await asyncio.sleep(0)
    others = [asking.persister.write(KEY, EPOCHS, write(number, start_offset=number)) for number in (2, 3)]
    stand_in.held.set()
    await asyncio.gather(first, *others)
    assert [[batch.first_offset for batch in it.state_batches] for it in stand_in.written] == [[1], [2, 3]]
    assert (stand_in.written[-1].start_offset, stand_in.written[-1].delivery_complete_count) == (3, 3)


async def test_a_leaders_writes_do_not_go_with_those_of_its_next_term(asking: Asking) -> None:
    later = Epochs(leader_epoch=4, state_epoch=5)
    writes = [asking.persister.write(KEY, epochs, write(1)) for epochs in (EPOCHS, EPOCHS, later)]
    await asyncio.gather(*writes)
    assert [(it.leader_epoch, len(it.state_batches)) for it in asking.stand_in.written] == [(3, 2), (4, 1)]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
)
async def test_what_passes_is_asked_again(asking: Asking, code: ErrorCode) -> None:
    asking.stand_in.refusals += [code, code]
    await asking.persister.write(KEY, EPOCHS, write(1))
    assert len(asking.requests) == 3
    asking.stand_in.refusals += [code]
    assert await asking.persister.read(KEY, 3) == Written(0, 5, [StateBatch(1, 1, RecordState.ACKNOWLEDGED, 1)])


async def test_it_is_not_asked_for_ever(asking: Asking) -> None:
    asking.stand_in.refusals += [ErrorCode.NOT_COORDINATOR] * module.ATTEMPTS
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await asking.persister.write(KEY, EPOCHS, write(1))
    assert len(asking.requests) == module.ATTEMPTS
    await asking.persister.write(KEY, EPOCHS, write(2))
    asking.stand_in.refusals += [ErrorCode.NOT_COORDINATOR] * module.ATTEMPTS
    with pytest.raises(KafkaError, match="COORDINATOR_NOT_AVAILABLE"):
        await asking.persister.read(KEY, 3)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_others_are_told(asking: Asking, code: ErrorCode, told: ErrorCode) -> None:
    asking.stand_in.refusals += [code, code]
    for asked in (asking.persister.write(KEY, EPOCHS, write(1)), asking.persister.read(KEY, 3)):
        with pytest.raises(KafkaError) as refused:
            await asked
        assert refused.value.code == told


@pytest.mark.parametrize("results", [[], [(UUID(int=8), 0)], [(TOPIC_ID, 1)], [(UUID(int=8), 0), (TOPIC_ID, 1)]])
def test_an_answer_about_something_else_is_an_error(results: list[tuple[UUID, int]]) -> None:
    told = [
        reading.ReadStateResult(topic_id=topic_id, partitions=[reading.PartitionResult(partition=partition)])
        for topic_id, partition in results
    ]
    with pytest.raises(KafkaError, match="UNKNOWN_SERVER_ERROR: the share coordinator does not say"):
        module._read(reading.ReadShareGroupStateResponse(results=told), KEY)


async def test_a_coordinator_that_cannot_be_reached(asking: Asking) -> None:
    address, asking.stand_in.address = asking.stand_in.address, Address("127.0.0.1", 1)
    written = asking.persister.write(KEY, EPOCHS, write(1))
    while not asking.stand_in.connected:
        await asyncio.sleep(0)
    asking.stand_in.address = address
    await written
    assert asking.stand_in.written


async def test_the_first_question_has_the_topic_made() -> None:
    async with standing_in() as stand_in:
        asking = Asking(stand_in, has_topic=False)
        await asyncio.gather(
            asking.persister.write(KEY, EPOCHS, write(1)), asking.persister.write(KEY, EPOCHS, write(2))
        )
        (asked,) = (it for it in stand_in.asked if isinstance(it, FindCoordinatorRequest))
        assert (asked.key_type, asked.coordinator_keys) == (2, [KEY.text])
        assert stand_in.connected == [1, COORDINATOR]
        await asking.stop()


async def test_who_stops_leaves_nothing_behind(asking: Asking) -> None:
    asking.stand_in.held.clear()
    written = asking.persister.write(KEY, EPOCHS, write(1))
    while not asking.stand_in.asked:
        await asyncio.sleep(0)
    await asking.persister.stop()
    assert not asking.persister._senders
    asking.stand_in.held.set()
    with pytest.raises(KafkaError, match="this broker stops"):
        await written


async def test_not_too_many_batches_go_together(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BATCHES", 3)
    await asyncio.gather(*(asking.persister.write(KEY, EPOCHS, write(number)) for number in range(1, 8)))
    batches = [len(request.topics[0].partitions[0].state_batches) for request in asking.requests]
    assert batches == [3, 3, 1]


SIZES = [2, 1, 1, 5, 0, 3]
IN_TURNS = [[2, 1], [1], [5], [0, 3]]
"""With three batches at most."""


def writes_of(persister: Persister) -> Iterator[asyncio.Future[None]]:
    """One of each size, each to a share partition of its own."""
    for index, size in enumerate(SIZES):
        batches = [StateBatch(at, at, RecordState.ACKNOWLEDGED, 1) for at in range(size)]
        yield persister.write(ShareKey("g", TOPIC_ID, index), EPOCHS, Write(size, 0, 0, batches))


async def test_one_request_has_no_more_batches_than_one_share_partition_has_together(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BATCHES", 3)
    await asyncio.gather(*writes_of(asking.persister))
    asked = [request.topics[0].partitions for request in asking.requests]
    assert [[len(data.state_batches) for data in partitions] for partitions in asked] == IN_TURNS


class Own:
    """The share coordinator of this node: what was put to its machines, and what they say."""

    def __init__(self) -> None:
        self.machine = self
        self.asked: list[list[tuple[SharePartitionKey, writing.PartitionData]]] = []
        self.said: deque[ErrorCode | asyncio.Future[Any]] = deque()
        self.refusals: deque[ErrorCode] = deque()

    def find(self, key: str) -> Own:
        if self.refusals:
            raise KafkaError(self.refusals.popleft())
        return self

    def write(self) -> None: ...

    def ask(self, event: object, asked: list[tuple[SharePartitionKey, writing.PartitionData]]) -> Any:
        assert event == self.write
        self.asked.append(asked)
        said = self.said.popleft() if self.said else ErrorCode.NONE
        return said if isinstance(said, asyncio.Future) else self.results(said, len(asked))

    def results(self, code: ErrorCode, count: int = 1) -> list[writing.PartitionResult]:
        return [writing.PartitionResult(error_code=code) for _ in range(count)]


class AskingItself(Asking):
    """A node that is its own share coordinator."""

    def __init__(self, stand_in: StandIn) -> None:
        super().__init__(stand_in)
        self.own = Own()
        self.persister = Persister(COORDINATOR, self.image, self.errands, Random(1), lambda: cast("Any", self.own))


@pytest.fixture
async def asking_itself(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AskingItself]:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.0)
    async with standing_in() as stand_in:
        made = AskingItself(stand_in)
        yield made
        await made.stop()
        assert not stand_in.asked, "no request was needed"


async def test_who_coordinates_itself_is_not_sent_a_request(asking_itself: AskingItself) -> None:
    keys = [KEY, ShareKey("h", TOPIC_ID, 1)]
    own, persister = asking_itself.own, asking_itself.persister
    await asyncio.gather(*(persister.write(key, EPOCHS, write(number)) for number, key in enumerate(keys)))
    (asked,) = own.asked
    assert [tuple(key.__fields__) for key, _ in asked] == [("group_id", "topic_id", "partition")] * 2
    assert [(key.group_id, key.partition, data.partition) for key, data in asked] == [("g", 0, 0), ("h", 1, 1)]
    assert [batch.first_offset for _, data in asked for batch in data.state_batches] == [0, 1]


async def test_what_its_own_machines_write_later_is_waited_for_one_write_at_a_time(asking_itself: AskingItself) -> None:
    own, persister = asking_itself.own, asking_itself.persister
    later: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    own.said.append(later)
    first = persister.write(KEY, EPOCHS, write(1))
    await asyncio.sleep(0)
    others = [persister.write(KEY, EPOCHS, write(number)) for number in (2, 3)]
    await asyncio.sleep(0)
    assert len(own.asked) == 1
    assert not first.done()
    later.set_result(own.results(ErrorCode.NONE))
    await asyncio.gather(first, *others)
    assert [[it.first_offset for it in data.state_batches] for ((_, data),) in own.asked] == [[1], [2, 3]]


async def test_what_passes_is_asked_of_its_own_machines_again(asking_itself: AskingItself) -> None:
    own, persister = asking_itself.own, asking_itself.persister
    own.refusals.append(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    own.said.append(ErrorCode.NOT_COORDINATOR)
    await persister.write(KEY, EPOCHS, write(1))
    assert len(own.asked) == 2
    own.said.append(ErrorCode.FENCED_LEADER_EPOCH)
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        await persister.write(KEY, EPOCHS, write(1))


async def test_very_much_that_is_due_is_put_to_its_own_machines_in_turns(
    asking_itself: AskingItself, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_TOGETHER", 2)
    own, persister = asking_itself.own, asking_itself.persister
    await asyncio.gather(*(persister.write(ShareKey("g", TOPIC_ID, at), EPOCHS, write(1)) for at in range(5)))
    assert [len(asked) for asked in own.asked] == [2, 2, 1]


async def test_one_turn_of_the_loop_takes_no_more_batches_than_one_share_partition_has_together(
    asking_itself: AskingItself, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BATCHES", 3)
    await asyncio.gather(*writes_of(asking_itself.persister))
    asked = asking_itself.own.asked
    assert [[len(data.state_batches) for _, data in partitions] for partitions in asked] == IN_TURNS


async def test_who_stops_has_nothing_written_any_more(asking_itself: AskingItself) -> None:
    persister = asking_itself.persister
    written = persister.write(KEY, EPOCHS, write(1))
    await persister.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # nothing asks for another turn
    assert not asking_itself.own.asked
    with pytest.raises(KafkaError, match="this broker stops"):
        await written


async def test_who_stops_hears_nothing_of_its_own_machines(asking_itself: AskingItself) -> None:
    own, persister = asking_itself.own, asking_itself.persister
    later: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    own.said.append(later)
    first = persister.write(KEY, EPOCHS, write(1))
    await asyncio.sleep(0)
    second = persister.write(ShareKey("h", TOPIC_ID, 0), EPOCHS, write(1))
    await persister.stop()
    later.set_result(own.results(ErrorCode.NONE))
    for written in (first, second):
        with pytest.raises(KafkaError, match="this broker stops"):
            await written
    assert len(own.asked) == 1
