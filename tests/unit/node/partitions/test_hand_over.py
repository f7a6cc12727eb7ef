"""A partition is handed over: what arrives is held, and appended once, by the new leader or by the old one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.unit.log.transactions import written
from tests.unit.node.on_disk import NODE_ID, Node, batch, node_on, produce_request

from penstock.client.errors import ConnectionFailedError
from penstock.leadership.transfer import Answer, Limits, State
from penstock.metadata.records import PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from penstock.node.links import hand_over as links
from penstock.node.links.successor import SucceedingBroker
from penstock.node.partitions import hand_over as module
from penstock.node.partitions.hand_over import PartitionHandOver, Resident
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response

OTHER = NODE_ID + 1
ID = UUID(int=8)
VERSION, OLD = 12, 9
PATIENT = Limits(catch_up_ms=60_000, hold_ms=60_000, forward_ms=60_000)
"""However slow the machine is."""


class Successor:
    """The connection to the new leader, which answers as the test says."""

    def __init__(self) -> None:
        self.got: asyncio.Queue[tuple[ProduceRequest, asyncio.Future[Any]]] = asyncio.Queue()
        self.closed = False
        self.sent: list[tuple[str | None, int]] = []
        """The transactional id of each request, and its newest version."""

    def submit(self, request: ProduceRequest, answer: type[ProduceResponse], *, newest: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.got.put_nowait((request, future))
        self.sent.append((request.transactional_id, newest))
        return future

    async def answered(self, future: asyncio.Future[Any]) -> Any:
        return await future

    async def request(self, request: ProduceRequest, answer: type[ProduceResponse], *, newest: int) -> Any:
        return await self.submit(request, answer, newest=newest)

    def abort(self, why: str) -> None:
        self.closed = True

    async def close(self) -> None:
        self.closed = True

    async def answer(self, base_offset: int = -1, code: ErrorCode = ErrorCode.NONE) -> bytes | None:
        """Answer the next request; what it was to append."""
        request, future = await self.got.get()
        row = PartitionProduceResponse(base_offset=base_offset, error_code=code)
        future.set_result(ProduceResponse(responses=[TopicProduceResponse(partition_responses=[row])]))
        return request.topic_data[0].partition_data[0].records


class Giving:
    """Broker 1 leads, and has begun to hand over to broker 2."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.partition = node.partition("copied")
        self.successor = Successor()
        self.asked: asyncio.Queue[tuple[int, asyncio.Future[Answer]]] = asyncio.Queue()
        self.connecting: asyncio.Future[None] | None = None
        """What the way there waits for."""
        way, resident = SucceedingBroker(self._connect), self._resident()
        self.hand_over = PartitionHandOver(self.partition, OTHER, PATIENT, self._ask, way, resident)

    def _resident(self) -> Resident | None:
        return None

    async def _connect(self) -> Any:
        if self.connecting is not None:
            await self.connecting
        return self.successor

    async def _ask(self, partition_epoch: int) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait((partition_epoch, future))
        return await future

    def follow(self, offset: int) -> None:
        """Broker 2 has all before that."""
        self.partition.on_fetched(OTHER, offset, 9, self.node.now_ms)

    async def answer(self, answer: Answer) -> int:
        """The controller answers; the partition epoch that it was asked with."""
        partition_epoch, future = await self.asked.get()
        future.set_result(answer)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return partition_epoch

    def produce(self, value: bytes, acks: int = 1) -> asyncio.Task[PartitionProduceResponse]:
        request = produce_request(batch(value), topic="copied", acks=acks)
        found = self.node.dispatch(request, VERSION)
        assert isinstance(found, Waiting)
        return self.answered(request, found)

    def answered(self, request: ProduceRequest, found: Any) -> asyncio.Task[PartitionProduceResponse]:
        """What becomes of a request, now or later."""

        async def answered() -> PartitionProduceResponse:
            frame = b"".join(found if isinstance(found, list) else await found.answer)
            _, response = decode_response(ApiKey.PRODUCE, VERSION, frame[4:])
            assert isinstance(response, ProduceResponse)
            return response.responses[0].partition_responses[0]

        return asyncio.get_running_loop().create_task(answered())

    def lead(self, leader: int) -> None:
        self.node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, leader=leader))


@contextmanager
def replicated_node(directory: Path, **settings: str) -> Iterator[Node]:
    """A node that leads a partition of two replicas."""
    copied = [
        RegisterBrokerRecord(broker_id=OTHER, broker_epoch=9, fenced=False),
        TopicRecord(name="copied", topic_id=ID),
        PartitionRecord(
            partition_id=0,
            topic_id=ID,
            replicas=[NODE_ID, OTHER],
            isr=[NODE_ID, OTHER],
            leader=NODE_ID,
            leader_epoch=0,
            partition_epoch=4,
        ),
    ]
    directory.mkdir(exist_ok=True)
    with node_on(directory, *copied, **settings) as node:
        yield node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with replicated_node(tmp_path) as node:
        yield node


def test_what_arrives_goes_to_the_new_leader_in_its_order_and_is_answered_once(node: Node) -> None:
    async def scene() -> None:
        node.produce(b"before", topic="copied")
        giving = Giving(node)
        assert giving.partition.appender is not None
        giving.follow(1)
        assert giving.partition.appender is None
        held = [giving.produce(b"1"), giving.produce(b"2", acks=-1), giving.produce(b"3")]
        assert giving.partition.log.log_end_offset == 1
        assert await giving.answer(Answer.MADE) == 4
        giving.lead(OTHER)
        assert await giving.successor.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER) == batch(b"1"), "too early"
        assert await giving.successor.answer(1) == batch(b"1")
        assert [await giving.successor.answer(2), await giving.successor.answer(3)] == [batch(b"2"), batch(b"3")]
        answers = [await task for task in held]
        assert [(it.error_code, it.base_offset) for it in answers] == [(0, 1), (0, 2), (0, 3)]
        assert (answers[0].current_leader.leader_id, answers[0].current_leader.leader_epoch) == (OTHER, 1)
        late = giving.produce(b"late")
        assert await giving.successor.answer(4) == batch(b"late")
        assert (await late).base_offset == 4
        assert giving.partition.log.log_end_offset == 1
        giving.lead(NODE_ID)
        assert giving.hand_over.machine.state is State.OVER
        assert node.produce(b"again", topic="copied")[0] == ErrorCode.NONE
        assert giving.successor.closed

    asyncio.run(scene())


def test_a_batch_of_a_transaction_is_sent_on_as_one(node: Node) -> None:
    """In a version that says no more of its client than the client's own."""

    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        request = produce_request(bytes(written(8, 0)), topic="copied")
        request.transactional_id = "payments"
        found = node.dispatch(request, OLD)
        assert isinstance(found, Waiting)
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        await giving.successor.answer(7)
        await found.answer
        assert giving.successor.sent[-1] == ("payments", OLD)

    asyncio.run(scene())


def test_a_refusal_lets_the_old_leader_append_what_it_held(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = [giving.produce(b"1"), giving.produce(b"2", acks=-1)]
        await giving.answer(Answer.REFUSED)
        assert (await held[0]).base_offset == 0
        assert giving.partition.log.log_end_offset == 2
        assert not held[1].done()
        giving.follow(2)
        assert (await held[1]).base_offset == 1
        assert giving.partition.hand_over is None
        assert node.produce(b"3", topic="copied") == (ErrorCode.NONE, 2)

    asyncio.run(scene())


def test_a_connection_that_breaks_leaves_no_request_without_an_answer(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = [giving.produce(b"1"), giving.produce(b"2"), giving.produce(b"3")]
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        await giving.successor.answer(0)
        for _ in range(2):
            _, future = await giving.successor.got.get()
            future.set_exception(ConnectionFailedError("gone"))
        codes = [(await task).error_code for task in held]
        assert codes == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT]
        assert giving.hand_over.machine.state is State.OVER
        assert node.produce(b"4", topic="copied")[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())


def test_what_is_held_is_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MOST_BYTES", 200)

    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = [giving.produce(bytes(100)), giving.produce(bytes(100))]
        assert [(await task).error_code for task in held] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        assert node.produce(b"3", topic="copied")[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert giving.partition.log.log_end_offset == 0

    asyncio.run(scene())


def test_what_the_successor_has_answered_is_not_held_any_more(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than may be held at once goes by, one after the other."""
    monkeypatch.setattr(links, "MOST_BYTES", 200)

    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        first = giving.produce(bytes(100))
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        await giving.successor.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for offset in range(5):
            task = giving.produce(bytes(100)) if offset else first
            await giving.successor.answer(offset)
            assert (await task).base_offset == offset
        assert giving.hand_over._bytes == 0

    asyncio.run(scene())


def test_another_change_of_the_partition_ends_it(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = giving.produce(b"1")
        node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[NODE_ID]))
        assert giving.hand_over.machine.state is not State.OVER, "it was not asked for anything yet"
        await asyncio.sleep(0)
        await giving.answer(Answer.CHANGED)
        node.commit(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[NODE_ID, OTHER]))
        assert (await held).base_offset == 0

    asyncio.run(scene())


def test_who_waits_no_longer_is_forgotten(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = [giving.produce(b"1"), giving.produce(b"2")]
        await asyncio.sleep(0)
        held[0].cancel()
        await asyncio.sleep(0)
        await giving.answer(Answer.REFUSED)
        assert (await held[1]).base_offset == 0
        assert giving.partition.log.log_end_offset == 1

    asyncio.run(scene())


def test_a_node_that_stops_refuses_what_it_holds(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = giving.produce(b"1")
        await giving.hand_over.stop()
        assert (await held).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert giving.partition.log.log_end_offset == 0

    asyncio.run(scene())


def test_a_node_that_is_about_to_end_sends_on_what_it_holds_and_refuses_what_comes_then(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER_S", 0)
    monkeypatch.setattr(links, "SETTLE_S", 60)

    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = [giving.produce(b"1"), giving.produce(b"2")]
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        settling = asyncio.create_task(giving.hand_over.settle())
        while giving.hand_over.takes:
            await asyncio.sleep(0)
        assert await giving.successor.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER) == batch(b"1"), "too early"
        assert node.produce(b"3", topic="copied")[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [await giving.successor.answer(0), await giving.successor.answer(1)] == [batch(b"1"), batch(b"2")]
        await settling
        assert [(await task).base_offset for task in held] == [0, 1]
        await giving.hand_over.stop()

    asyncio.run(scene())


def test_a_connection_that_is_being_opened_when_it_ends_is_given_up(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.connecting = asyncio.get_running_loop().create_future()
        giving.follow(0)
        held = giving.produce(b"1")
        await giving.answer(Answer.REFUSED)
        assert (await held).base_offset == 0
        with pytest.raises(asyncio.CancelledError):
            await giving.connecting

    asyncio.run(scene())


def test_what_cannot_be_sent_in_time_is_refused(node: Node) -> None:
    """The first one, too: it is not under way before there is a connection."""

    async def scene() -> None:
        giving = Giving(node)
        giving.connecting = asyncio.get_running_loop().create_future()
        giving.follow(0)
        held = [giving.produce(b"1"), giving.produce(b"2")]
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        await asyncio.sleep(0)
        await giving.hand_over.stop()
        assert [(await task).error_code for task in held] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2

    asyncio.run(scene())


def test_who_leaves_while_the_successor_does_not_lead_yet_opens_the_way_for_no_other(node: Node) -> None:
    async def scene() -> None:
        giving = Giving(node)
        giving.follow(0)
        held = [giving.produce(b"1"), giving.produce(b"2"), giving.produce(b"3")]
        await giving.answer(Answer.MADE)
        giving.lead(OTHER)
        _, first = await giving.successor.got.get()
        held[0].cancel()
        await asyncio.sleep(0)
        row = PartitionProduceResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        first.set_result(ProduceResponse(responses=[TopicProduceResponse(partition_responses=[row])]))
        assert await giving.successor.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER) == batch(b"2")
        assert giving.successor.got.empty(), "it goes alone"
        assert [await giving.successor.answer(0), await giving.successor.answer(1)] == [batch(b"2"), batch(b"3")]
        assert [(await task).base_offset for task in held[1:]] == [0, 1]

    asyncio.run(scene())


class Late:
    """What was held back a moment too late."""

    size = 1

    def __init__(self) -> None:
        self.codes: list[ErrorCode] = []

    def append(self) -> None:
        raise AssertionError("who leads now appends")

    def refused(self, error: KafkaError) -> None:
        self.codes.append(error.code)


def test_what_comes_when_it_has_ended_is_refused_and_opens_nothing(node: Node) -> None:
    async def scene() -> None:
        giving, late = Giving(node), Late()
        giving.connecting = asyncio.get_running_loop().create_future()
        giving.follow(0)
        await giving.answer(Answer.REFUSED)
        giving.hand_over.hold(late)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert late.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        giving.connecting.set_result(None)
        await giving.hand_over.stop()
        assert not giving.successor.closed, "there is no connection"

    asyncio.run(scene())
