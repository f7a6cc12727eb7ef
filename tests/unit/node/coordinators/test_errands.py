"""What machines have done elsewhere comes back to them, as an answer or as a refusal."""

import asyncio
import threading
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.coordinator.tally import Tally
from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.coordinators.test_hosted import led

from penstock.client.errors import ConnectionFailedError
from penstock.coordinator.effects import Calculation, Effect, Job, ToController, ToLeader
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from penstock.node.coordinators.errands import Errands, Tell
from penstock.node.coordinators.hosted import Hosted
from penstock.node.environment.alarm import Turns
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Elsewhere:
    """Stands for brokers and for the controller: answers what a test says, or raises it."""

    def __init__(self, result: object = None) -> None:
        self.result = result
        self.connected: list[int] = []
        self.closed = False
        self.in_flight = 0

    async def connect(self, broker_id: int) -> Any:
        self.connected.append(broker_id)
        return self

    async def request(self, request: object, answer: object) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    submit = request

    async def close(self) -> None:
        self.closed = True

    def abort(self, why: str) -> None:
        self.closed = True


def to_leader(topic: str = "t", partition: int = 0) -> ToLeader:
    return ToLeader(topic, partition, HeartbeatRequest(), HeartbeatResponse)


def errands(elsewhere: Elsewhere) -> Errands:
    """`t-0` is led by broker 4, `t-1` by none."""
    image = ClusterImage("test")
    image.apply(TopicRecord(name="t", topic_id=UUID(int=9)))
    for number, leader in ((0, 4), (1, -1)):
        image.apply(PartitionRecord(partition_id=number, topic_id=UUID(int=9), replicas=[4], isr=[4], leader=leader))
    context = broker_context(node_context(BrokerConfig.embedded({}), image), elsewhere)
    return Errands(context, cast("Any", elsewhere.connect))


async def test_a_leader_is_asked_over_a_connection_that_stays() -> None:
    elsewhere = Elsewhere("answer")
    made = errands(elsewhere)
    assert [await made.done(to_leader()) for _ in range(2)] == ["answer", "answer"]
    assert elsewhere.connected == [4]
    await made.stop()
    assert elsewhere.closed


@pytest.mark.parametrize("by_snapshot", [False, True])
async def test_the_connection_to_a_broker_that_was_unregistered_goes(by_snapshot: bool) -> None:
    elsewhere = Elsewhere("answer")
    made = errands(elsewhere)
    image = made._context.image
    image.apply(RegisterBrokerRecord(broker_id=4))
    await made.done(to_leader())
    await made.ask_broker(4, HeartbeatRequest(), HeartbeatResponse, lane="markers")

    def hears(record: MetadataRecord) -> list[int]:
        image.apply(record)
        if by_snapshot:
            made.on_new_image()
        else:
            made.on_metadata([record])
        return [broker for broker, _ in made._links]

    assert hears(RegisterBrokerRecord(broker_id=5)) == [4, 4]
    assert hears(UnregisterBrokerRecord(broker_id=5)) == [4, 4]
    assert hears(UnregisterBrokerRecord(broker_id=4)) == []
    assert elsewhere.closed
    await made.stop()


@pytest.mark.parametrize(
    ("job", "result", "code"),
    [
        (to_leader("u"), None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (to_leader("t", 2), None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (to_leader("t", 1), None, ErrorCode.LEADER_NOT_AVAILABLE),
        (to_leader(), ConnectionFailedError("gone"), ErrorCode.NETWORK_EXCEPTION),
        (to_leader(), DecodeError("nonsense"), ErrorCode.NETWORK_EXCEPTION),
        (
            ToController(HeartbeatRequest(), HeartbeatResponse),
            KafkaError(ErrorCode.NOT_CONTROLLER),
            ErrorCode.NOT_CONTROLLER,
        ),
    ],
)
async def test_what_cannot_be_done_has_a_code(job: Job, result: object, code: ErrorCode) -> None:
    made = errands(Elsewhere(result))
    with pytest.raises(KafkaError) as raised:
        await made.done(job)
    assert raised.value.code is code
    await made.stop()


async def test_what_clients_make_long_is_calculated_in_turn_and_holds_nothing_else_up() -> None:
    made, may_end, at_once = errands(Elsewhere()), threading.Event(), list[int]()

    def long() -> None:
        at_once.append(1)
        assert may_end.wait(30)

    turns = [asyncio.ensure_future(made.done(Calculation(long, in_turn=True))) for _ in range(50)]
    try:
        async with asyncio.timeout(20):
            assert await made.done(Calculation(lambda: 42)) == 42
        assert len(at_once) <= 1
    finally:
        may_end.set()
    await asyncio.gather(*turns)
    await made.stop()


@pytest.fixture
async def hosted(tmp_path: Path) -> Hosted[Tally]:
    made = Hosted(await led(tmp_path), Tally(), Turns(lambda: 0), Compression.NONE, errands(Elsewhere("found")))
    await made.read()
    await made.take_over()
    return made


def failing() -> object:
    raise ValueError("our own fault")


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (Calculation(lambda: 42), 42),
        (ToController(HeartbeatRequest(), HeartbeatResponse), "found"),
        (to_leader(), "found"),
        (to_leader("u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Calculation(failing), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_machine_hears_what_came_of_it(hosted: Hosted[Tally], job: Job, told: object) -> None:
    answer = hosted.ask(hosted.machine.fetch, job)
    async with asyncio.timeout(20):
        assert await answer == told
    hosted.resign()


async def test_a_machine_whose_partition_has_gone_hears_nothing_more(hosted: Hosted[Tally]) -> None:
    begun = asyncio.get_running_loop().create_future()

    async def done(_: Errands, job: Job, tell: Tell) -> object:
        begun.set_result(None)
        return 42

    hosted._errands = cast("Any", type("Slow", (), {"done": done})())
    answer = hosted.ask(hosted.machine.fetch, Calculation(lambda: 42))
    hosted.resign()
    await asyncio.sleep(0)
    assert await answer == ErrorCode.NOT_COORDINATOR
    assert not begun.done()


class Listening(Tally):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def came_in_part(self, errand_id: int, answer: object, now_ms: int) -> list[Effect]:
        self.heard.append(answer)
        return []


async def test_what_comes_in_parts_is_heard_as_it_comes_while_it_is_not_paused(tmp_path: Path) -> None:
    async def done(_: Errands, job: Job, tell: Tell) -> object:
        for part in ("a", "b"):
            await tell(part)
        return "c"

    machine = Listening()
    slow = cast("Any", type("Slow", (), {"done": done})())
    hosted = Hosted(await led(tmp_path), machine, Turns(lambda: 0), Compression.NONE, slow)
    hosted.pause()
    answer = hosted.ask(machine.fetch, Calculation(lambda: 42))
    for _ in range(20):
        await asyncio.sleep(0)
    assert machine.heard == []
    hosted.go_on()
    async with asyncio.timeout(20):
        assert await answer == "c"
    assert machine.heard == ["a", "b"]
    hosted.resign()


async def test_while_it_is_paused_a_machine_hears_nothing_and_then_all(hosted: Hosted[Tally]) -> None:
    hosted.pause()
    answer = hosted.ask(hosted.machine.fetch, to_leader())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not answer.done()
    hosted.go_on()
    async with asyncio.timeout(20):
        assert await answer == "found"
    hosted.resign()


TOPIC_ID = UUID(int=9)


@pytest.mark.parametrize(
    ("records", "follows"),
    [
        ([], False),
        ([RemoveTopicRecord(topic_id=TOPIC_ID)], True),
        ([PartitionChangeRecord(topic_id=TOPIC_ID, leader=3)], True),
        ([PartitionChangeRecord(topic_id=TOPIC_ID)], False),
        ([TopicRecord(name="t", topic_id=TOPIC_ID)], False),
        ([TopicRecord(name="t", topic_id=TOPIC_ID), PartitionChangeRecord(topic_id=TOPIC_ID, leader=-1)], True),
    ],
)
def test_markers_under_way_follow_leaders_that_change(records: list[Any], follows: bool) -> None:
    class Followed:
        count = 0

        def follow(self) -> None:
            self.count += 1

    made = errands(Elsewhere())
    made.on_metadata(records)  # nobody sends markers
    made.on_new_image()
    made._markers = markers = cast("Any", Followed())
    made.on_metadata(records)
    assert markers.count == follows
    made.on_new_image()
    assert markers.count == follows + 1
