"""What a sender decides of each batch: when it goes, with which others, and what its answer means."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.errors import ConnectionFailedError, DeliveryTimedOutError
from penstock.client.producer.accumulator import Accumulator, PendingBatch
from penstock.client.producer.sender import Sender
from penstock.client.settings import ProducerSettings
from penstock.client.values import RecordMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from penstock.protocol.records import Record

PLACES = [TopicPartition("t", number) for number in range(4)]


class Paced(ProducerSettings, kw_only=True):
    def backoff_ms(self, attempt: int) -> float:
        return 1_000.0 * (attempt + 1)


class World:
    """Partitions 0 and 1 are led by node 1, 2 by node 2, and 3 by nobody. What is sent is noted and not answered."""

    def __init__(self, **settings: Any) -> None:
        self.leaders = {PLACES[0]: 1, PLACES[1]: 1, PLACES[2]: 2}
        self.settings = Paced(**{"linger_ms": 0, "acks": 1, "retry_backoff_ms": 250, **settings})
        self.accumulator = Accumulator(self.settings)
        self.sender = Sender(self, self.accumulator, self.settings)  # type: ignore[arg-type]
        self.sender._send = self.send  # type: ignore[method-assign]
        self.sent: list[tuple[int, list[TopicPartition]]] = []
        self.old: set[str] = set()
        self.refreshed: list[object] = []
        self.answers: list[Any] = []

    async def send(self, node_id: int, batches: Any) -> None:
        self.sent.append((node_id, [batch.partition for batch in batches]))

    @property
    def metadata(self) -> Any:
        def leader(partition: TopicPartition) -> Any:
            node = self.leaders.get(partition)
            return None if node is None else SimpleNamespace(leader=node)

        rows = {place.partition: SimpleNamespace(leader=-1) for place in PLACES}
        topic = SimpleNamespace(partitions=rows, error=ErrorCode.NONE)
        return SimpleNamespace(leader=leader, topics={"t": topic})

    def is_old(self, topics: list[str]) -> bool:
        return topics[0] in self.old

    async def refresh(self, topics: object) -> None:
        self.refreshed.append(topics)
        if self.answers:
            raise self.answers.pop(0)

    async def to_any(self, request: object, answer: object) -> Any:
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def add(self, place: TopicPartition, *sizes: int) -> list[asyncio.Future[RecordMetadata]]:
        loop = asyncio.get_running_loop()
        futures = []
        for size in sizes:
            futures.append(loop.create_future())
            record = Record(timestamp_ms=40 + len(futures), value=bytes(size))
            self.accumulator.append(place, record, size, futures[-1], loop.time() * 1000)
        return futures

    def taken(self, place: TopicPartition, *sizes: int) -> tuple[PendingBatch, list[asyncio.Future[RecordMetadata]]]:
        futures = self.add(place, *sizes)
        return self.accumulator.take(place), futures


# -- when it goes -----------------------------------------------------------------------------------------------------


async def test_what_is_ready_goes_to_its_leaders() -> None:
    world = World()
    for place in PLACES:
        world.add(place, 10)
    await world.sender._send_ready()
    await asyncio.sleep(0)
    assert world.sent == [(1, PLACES[:2]), (2, [PLACES[2]])]
    assert world.sender._in_flight == {1: 1, 2: 1}
    assert world.sender._failures[PLACES[3]] == "LEADER_NOT_AVAILABLE: partition t-3 has no leader now"
    assert world.refreshed == [["t"]], "as one has no leader"


@pytest.mark.parametrize(("under_way", "goes"), [(1, True), (2, False)])
async def test_so_many_requests_are_under_way_to_a_node(under_way: int, *, goes: bool) -> None:
    world = World(max_in_flight_requests_per_connection=2)
    world.sender._in_flight = {1: under_way}
    for place in (PLACES[0], PLACES[2]):
        world.add(place, 10)
    await world.sender._send_ready()
    await asyncio.sleep(0)
    assert world.sent == ([(1, [PLACES[0]])] if goes else []) + [(2, [PLACES[2]])]
    assert world.sender._in_flight == {1: under_way + goes, 2: 1}


@pytest.mark.parametrize(("limit", "together"), [(142, True), (141, False), (10, False)])
async def test_a_request_has_so_many_bytes_and_one_batch_at_least(limit: int, *, together: bool) -> None:
    world = World(max_request_size=limit)
    for place in PLACES[:2]:
        world.add(place, 10)  # 71 with the header
    await world.sender._send_ready()
    await asyncio.sleep(0)
    assert world.sent == [(1, PLACES[:2] if together else PLACES[:1])]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("error", [None, ConnectionFailedError("gone"), KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)])
async def test_leaders_are_looked_up_where_they_are_unknown_or_old(error: Exception | None, *, old: bool) -> None:
    world = World()
    world.add(PLACES[0], 10)
    world.old, world.answers = {"t"} if old else set(), [error] if error else []
    world.sender._failures[None] = "earlier"
    await world.sender._send_ready()
    await asyncio.sleep(0)
    assert world.refreshed == ([["t"]] if old else [])
    assert bool(world.sent) == (not old or error is None)
    assert world.sender._failures.get(None) == ("earlier" if not old else str(error) if error else None)


@pytest.mark.parametrize(("left_ms", "pause_s"), [(None, None), (500, 0.5), (0, 0.25), (-5, 0.25)])
async def test_how_long_it_waits_for_news(monkeypatch: pytest.MonkeyPatch, left_ms: int | None, pause_s: float) -> None:
    world = World()
    monkeypatch.setattr(world.sender, "_now_ms", lambda: 7_000.0)
    assert world.sender._pause_s(None if left_ms is None else 7_000 + left_ms) == pause_s


# -- who it is --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "drops"),
    [
        (ConnectionFailedError("gone"), False),
        (InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), False),
        (InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), True),
    ],
)
async def test_without_a_producer_id_nothing_goes(answer: Any, *, drops: bool) -> None:
    world = World(acks=-1)
    (sent,) = world.add(PLACES[0], 10)
    world.answers = [answer]
    assert not await world.sender._has_identity()
    assert (sent.done(), bool(world.accumulator)) == (drops, not drops)
    assert (world.sender._sequences.identity, None in world.sender._failures) == (None, True)
    world.answers = [InitProducerIdResponse(producer_id=7, producer_epoch=2)]
    assert await world.sender._has_identity()
    assert await world.sender._has_identity(), "it is asked for once"
    assert (world.sender._sequences.identity, world.sender._failures) == ((7, 2), {})


async def test_a_transactions_id_comes_with_its_end() -> None:
    world = World(acks=-1, transactional_id="x")
    world.add(PLACES[0], 10)
    assert not await world.sender._has_identity()
    world.sender._sequences.begin((7, 2))
    assert await world.sender._has_identity()
    assert world.accumulator


@pytest.mark.parametrize("error", [ConnectionFailedError("gone"), KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
async def test_what_cannot_belong_to_a_transaction_fails_it(error: Exception) -> None:
    world = World(acks=-1, transactional_id="x")
    (sent,) = world.add(PLACES[0], 10)
    transactions: Any = world.sender.transactions
    added: list[Any] = []

    async def add(partitions: Any) -> None:
        added.append(list(partitions))
        if len(added) == 2:
            raise error

    transactions.add, transactions.is_open = add, True
    assert await world.sender._belong([PLACES[0]])
    assert not sent.done()
    assert not await world.sender._belong([PLACES[0]])
    assert (added, transactions.failure) == ([[PLACES[0]]] * 2, error)
    assert (sent.exception(), bool(world.accumulator)) == (error, False)
    assert await World().sender._belong(PLACES)


class Connection:
    """Answers `answer`; without one it is not reached."""

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.address, self.asked = answer, "h:1", list[Any]()

    async def writable(self) -> None:
        if isinstance(self.answer, Exception):
            raise self.answer

    def send_without_answer(self, request: Any, *, newest: int) -> None:
        self.asked.append((request, newest))

    async def request(self, request: Any, answer: object, *, newest: int) -> Any:
        self.asked.append((request, newest))
        return self.answer


def reached(world: World, connection: Connection, learned: set[TopicPartition]) -> list[Any]:
    told: list[Any] = []

    async def connect(node_id: int) -> Connection:
        assert node_id == 1
        return connection

    def learn(*what: Any) -> set[TopicPartition]:
        told.append(what)
        return learned

    world.connection, world.learn = connect, learn  # type: ignore[attr-defined]
    return told


@pytest.mark.parametrize(
    ("error", "moved"),
    [(ConnectionFailedError("gone"), 2), (KafkaError(ErrorCode.INVALID_REQUEST), 2), (ValueError("ours"), 0)],
)
async def test_what_cannot_be_sent_fails_with_its_leader_looked_up(error: Exception, moved: int) -> None:
    world = World(retries=0)
    (first, one), (second, other) = world.taken(PLACES[0], 10), world.taken(PLACES[1], 10)
    reached(world, Connection(error), set())
    assert await world.sender._deliver(1, [first, second]) == PLACES[:moved]
    assert [future.exception() for future in (*one, *other)] == [error] * 2
    assert not world.accumulator


async def test_what_nobody_acknowledges_is_sent_and_done() -> None:
    world = World(acks=0)
    batch, futures = world.taken(PLACES[0], 10, 10)
    connection = Connection()
    reached(world, connection, set())
    assert await world.sender._deliver(1, [batch]) == []
    assert [future.result().offset for future in futures] == [-1, -1]
    ((request, newest),) = connection.asked
    assert (request.acks, newest, request.timeout_ms) == (0, 12, 30_000)


async def test_each_batch_has_its_part_of_the_answer() -> None:
    world = World(retries=5)
    taken = [world.taken(place, 10) for place in PLACES]
    codes = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH]
    rows = [PartitionProduceResponse(index=number, error_code=code, base_offset=7) for number, code in enumerate(codes)]
    topic = SimpleNamespace(name="t", partition_responses=rows)
    connection = Connection(SimpleNamespace(responses=[topic], node_endpoints=["endpoint"]))
    told = reached(world, connection, {PLACES[1]})
    moved = await world.sender._exchange(1, connection, [batch for batch, _ in taken])  # type: ignore[arg-type]
    assert moved == [PLACES[2]], "of the one before the leader is known, and of the one behind nothing was said"
    assert told == [(1, {PLACES[1]: rows[1].current_leader, PLACES[2]: rows[2].current_leader}, ["endpoint"])]
    (_, (good,)), (learned, _), (refused, _), (silent, _) = taken
    assert good.result().offset == 7
    now_ms = asyncio.get_running_loop().time() * 1000
    assert learned.not_before_ms <= now_ms < refused.not_before_ms
    assert [batch.attempts for batch in (learned, refused, silent)] == [1, 1, 1]
    words = [world.sender._failures[place] for place in PLACES[1:]]
    assert words == [
        "NOT_LEADER_OR_FOLLOWER: record for t-1",
        "FENCED_LEADER_EPOCH: record for t-2",
        "h:1 did not answer for t-3",
    ]


# -- what became of it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "log_time_ms", "told"),
    [(5, -1, [(5, 41), (6, 42)]), (0, 0, [(0, 0), (1, 0)]), (-1, 9, [(-1, 9), (-1, 9)])],
)
async def test_each_record_is_told_its_offset_and_time(
    base: int, log_time_ms: int, told: list[tuple[int, int]]
) -> None:
    world = World()
    batch, futures = world.taken(PLACES[0], 10, 10)
    world.sender._failures[PLACES[0]] = "earlier"
    world.sender._succeed(batch, base, log_time_ms)
    assert [one.result() for one in futures] == [RecordMetadata("t", 0, offset, at_ms) for offset, at_ms in told]
    assert (bool(world.accumulator), world.sender._failures, world.sender._landed.is_set()) == (False, {}, True)


@pytest.mark.parametrize("pause_ms", [None, 0])
@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (ConnectionFailedError("gone"), True),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (KafkaError(ErrorCode.INVALID_RECORD), False),
    ],
)
@pytest.mark.parametrize(("attempts", "age_ms"), [(0, 0), (1, 99), (2, 0), (0, 100)])
async def test_a_failure_is_tried_again_if_it_may_pass_and_there_is_time(
    monkeypatch: pytest.MonkeyPatch, error: Any, attempts: int, age_ms: int, pause_ms: float | None, *, may_pass: bool
) -> None:
    world = World(retries=2, delivery_timeout_ms=100)
    batch, (sent,) = world.taken(PLACES[0], 10)
    batch.attempts, batch.created_ms = attempts, 5_000.0
    monkeypatch.setattr(world.sender, "_now_ms", lambda: 5_000.0 + age_ms)
    world.sender._fail(batch, error, pause_ms)
    assert world.sender._failures == {PLACES[0]: str(error)}
    if may_pass and attempts < 2 and age_ms < 100:
        assert (sent.done(), batch.attempts) == (False, attempts + 1)
        pause = 1_000.0 * (attempts + 1) if pause_ms is None else 0
        assert batch.not_before_ms == 5_000 + age_ms + pause
        assert world.accumulator.first(PLACES[0]) is batch
    else:
        is_late = may_pass and age_ms == 100
        assert type(sent.exception()) is (DeliveryTimedOutError if is_late else type(error))
        assert not world.accumulator


@pytest.mark.parametrize(
    ("of_partition", "of_all", "cause"),
    [(None, None, ""), ("mine", "all", "; the last failure: mine"), (None, "all", "; the last failure: all")],
)
async def test_who_waited_for_too_long_hears_of_the_last_failure(
    of_partition: str | None, of_all: str | None, cause: str
) -> None:
    world = World(delivery_timeout_ms=100)
    batch, _ = world.taken(PLACES[0], 10, 10)
    for place, text in ((PLACES[0], of_partition), (None, of_all), (PLACES[1], "another's")):
        if text is not None:
            world.sender._failures[place] = text
    told = f"2 records for t-0 could not be delivered within 100 ms{cause}"
    assert str(world.sender._timed_out(batch)) == told


async def test_what_a_refusal_makes_of_a_batchs_numbers() -> None:
    lost = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "UNKNOWN_SERVER_ERROR")
    for code in ErrorCode:
        if not code:
            continue
        world = World(acks=-1)
        world.sender._sequences.begin((7, 2))
        batch, (sent,) = world.taken(PLACES[0], 10)
        world.sender._sequences.number(batch)
        world.sender._refused(batch, PartitionProduceResponse(index=0, error_code=code))
        known = world.sender._sequences._partitions.get(PLACES[0])
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            assert (known, batch.base_sequence, batch.attempts, sent.done()) == (None, -1, 0, False)
        elif KafkaError(code).retriable:
            assert (known, batch.base_sequence, batch.attempts, sent.done()) == (((7, 2), 1), 0, 1, False)
        elif code.name in lost:
            assert (known, world.sender._sequences.identity, sent.done()) == (None, None, True)
        else:
            assert (known, world.sender._sequences.identity, sent.done()) == (((7, 2), 0), (7, 2), True)


@pytest.mark.parametrize(
    ("message", "details", "text"),
    [
        (None, [], "record for t-0"),
        ("so", [], "so"),
        ("so", [None, None], "so"),
        ("so", ["a", None, "b"], "so (a; ; b)"),
        (None, ["a"], "record for t-0 (a)"),
    ],
)
async def test_a_refusal_is_told_with_its_details(message: str | None, details: list[str | None], text: str) -> None:
    world = World()
    batch, (sent,) = world.taken(PLACES[0], 10)
    rows = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message=one) for one in details]
    code = ErrorCode.INVALID_RECORD
    world.sender._refused(batch, PartitionProduceResponse(error_code=code, error_message=message, record_errors=rows))
    assert str(sent.exception()) == f"INVALID_RECORD: {text}"


@pytest.mark.parametrize("count", [1, 2])
async def test_only_a_batch_of_several_records_is_halved(count: int) -> None:
    world = World()
    batch, futures = world.taken(PLACES[0], *[10] * count)
    world.sender._refused(batch, PartitionProduceResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE))
    assert [one.done() for one in futures] == [count == 1] * count
    assert bool(world.accumulator) == (count == 2)


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_numbers_in_topics_that_nobody_uses_are_forgotten_with_the_producers_id(
    *, is_transactional: bool
) -> None:
    world = World(acks=-1)
    gone, waits = TopicPartition("gone", 0), TopicPartition("gone", 1)
    sequences, world.old = world.sender._sequences, {"t"}
    for place in (PLACES[0], gone, waits):
        batch, _ = world.taken(place, 10)
        sequences.identity = 7, 2
        sequences.number(batch)
        if place is not waits:
            world.accumulator.done(batch)
    if is_transactional:
        world.sender.transactions = SimpleNamespace()  # type: ignore[assignment]
    assert await world.sender._know_leaders(PLACES[:1])
    if is_transactional:
        assert (list(sequences._partitions), sequences.identity) == ([PLACES[0], gone, waits], (7, 2))
        return
    assert (list(sequences._partitions), sequences.identity) == ([PLACES[0], waits], None)
    sequences.identity = 8, 0
    assert await world.sender._know_leaders(PLACES[:1])
    assert sequences.identity == (8, 0), "nothing was forgotten"
