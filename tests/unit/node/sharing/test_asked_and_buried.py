"""What goes together to share coordinators, what their answers are taken for, and how dead letters end, by tables."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.metadata.image import NOBODY
from penstock.node.metrics.counts import OTHER
from penstock.node.partitions.partition import Later
from penstock.node.sharing import dead_letters as letters_module
from penstock.node.sharing import persister as module
from penstock.node.sharing.dead_letters import DeadLetterWriter, LettersCounted
from penstock.node.sharing.letter_batches import Letter
from penstock.node.sharing.persister import JITTER, Epochs, Persister
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import produce
from penstock.protocol.messages import read_share_group_state_summary as summarizing
from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from penstock.replication.waits import Waits
from penstock.sharing.dead_letters import Cause, DeadLetter
from penstock.sharing.in_flight import RecordState
from penstock.sharing.keys import ShareKey
from penstock.sharing.values import NOT_WRITTEN, StateBatch, Status, Write

TOPIC_ID = UUID(int=7)
KEY = ShareKey("g", TOPIC_ID, 0)
FIRST, SECOND = Epochs(3, 5), Epochs(4, 5)


def queue_of(*waiting: tuple[Epochs, int]) -> Any:
    """Writes of these epochs, of so many batches each."""
    queue = module._Queue(KEY)
    for number, (epochs, count) in enumerate(waiting):
        batches = [StateBatch(at, at, RecordState.ACKNOWLEDGED, 1, at * 10) for at in range(count)]
        queue.waiting.append((epochs, Write(number, number + 100, number + 200, batches), cast("Any", None)))
    return queue


@pytest.mark.parametrize(
    ("waiting", "count", "batches"),
    [
        ([(FIRST, 1)], 1, 1),
        ([(FIRST, 9)], 1, 9),
        ([(FIRST, 2), (FIRST, 1)], 2, 3),
        ([(FIRST, 2), (FIRST, 2)], 1, 2),
        ([(FIRST, 3), (FIRST, 0)], 2, 3),
        ([(FIRST, 1), (SECOND, 1)], 1, 1),
        ([(SECOND, 1), (SECOND, 1), (FIRST, 1)], 2, 2),
        ([(FIRST, 1), (FIRST, 1), (FIRST, 1), (FIRST, 1)], 3, 3),
    ],
)
def test_how_many_writes_of_a_share_partition_go_together(
    monkeypatch: pytest.MonkeyPatch, waiting: list[tuple[Epochs, int]], count: int, batches: int
) -> None:
    monkeypatch.setattr(module, "MOST_BATCHES", 3)
    queue = queue_of(*waiting)
    assert (queue.count, queue.batches) == (count, batches)
    data = module._together(queue)
    last = queue.waiting[count - 1][0]
    assert (data.state_epoch, data.leader_epoch) == (last.state_epoch, last.leader_epoch)
    assert (data.start_offset, data.delivery_complete_count) == (count + 99, count + 199)
    told = [(it.first_offset, it.last_offset, it.held_until_ms) for it in data.state_batches]
    assert told == [(at, at, at * 10) for _, of in waiting[:count] for at in range(of)]


def persister(**parts: Any) -> Any:
    it = cast("Any", object.__new__(Persister))
    it._reading = asyncio.Semaphore(1)
    it._node_id, it._has_stopped, it._queues, it._due = 1, False, {}, {}
    it._random = SimpleNamespace(uniform=lambda least, most: parts.get("lot", 0.0))
    for name, part in parts.items():
        setattr(it, name, part)
    return it


@pytest.mark.parametrize(
    ("sizes", "at_once", "left"),
    [([1], 1, 0), ([4], 1, 0), ([2, 1], 2, 0), ([2, 2], 1, 1), ([4, 1], 1, 1), ([0, 0, 0], 2, 1), ([1, 1, 1], 2, 1)],
)
def test_how_much_of_what_is_due_one_turn_takes(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], at_once: int, left: int
) -> None:
    monkeypatch.setattr(module, "MOST_BATCHES", 3)
    monkeypatch.setattr(module, "MOST_TOGETHER", 2)
    queues = [queue_of((FIRST, size)) for size in sizes]
    it = persister(_due={9: list(queues)})
    assert it._taken(9) == queues[:at_once]
    assert it._due == ({9: queues[at_once:]} if left else {})


@pytest.mark.parametrize(("attempt", "pause_s"), [(0, 0.1), (1, 0.2), (5, 3.2), (6, 5), (60, 5)])
@pytest.mark.parametrize("lot", [-JITTER, 0, JITTER])
def test_pauses_double_up_to_the_longest_and_are_not_all_the_same(attempt: int, pause_s: float, lot: float) -> None:
    it = persister()
    it._random = SimpleNamespace(uniform=lambda least, most: min(max(lot, least), most))
    assert it._pause_s(attempt) == pytest.approx(pause_s * (1 + lot))


def summary(*, code: int = 0, start: int = 3, leader: int = 8, state: int = 5) -> summarizing.PartitionResult:
    return summarizing.PartitionResult(error_code=code, start_offset=start, leader_epoch=leader, state_epoch=state)


@pytest.mark.parametrize(
    ("told", "anew"),
    [
        (summary(), False),
        (summary(start=NOT_WRITTEN), True),
        (summary(leader=7), True),
        (summary(leader=9), True),
        (summary(state=4), True),
        (summary(code=ErrorCode.NOT_COORDINATOR, start=NOT_WRITTEN), False),
        (KafkaError(ErrorCode.NETWORK_EXCEPTION), False),
    ],
)
async def test_whether_a_group_has_begun_anew(told: Any, anew: bool) -> None:
    async def ask_broker(coordinator: int, request: Any, answer: type[Any]) -> Any:
        assert coordinator == 2
        ((data,),) = ([*topic.partitions] for topic in request.topics)
        assert (request.group_id, data.partition, data.leader_epoch) == ("g", 0, 8)
        if isinstance(told, KafkaError):
            raise told
        return answer(results=[summarizing.ReadStateSummaryResult(topic_id=TOPIC_ID, partitions=[told])])

    it = persister(_known=lambda key: 2, _errands=SimpleNamespace(ask_broker=ask_broker))
    assert await it.has_begun_anew(KEY, 8, 5) is anew


@pytest.mark.parametrize(
    ("known", "told", "found"),
    [
        (4, [], 4),
        (NOBODY, [(3, ErrorCode.NONE)], 3),
        (NOBODY, [(3, ErrorCode.NOT_COORDINATOR)], ErrorCode.NOT_COORDINATOR),
        (NOBODY, [(3, 12_345)], ErrorCode.UNKNOWN_SERVER_ERROR),
        (NOBODY, [], ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_who_coordinates(known: int, told: list[tuple[int, int]], found: int | ErrorCode) -> None:
    asked: list[tuple[int, int, list[str]]] = []

    async def ask_broker(node_id: int, request: Any, answer: type[Any]) -> Any:
        asked.append((node_id, request.key_type, request.coordinator_keys))
        return FindCoordinatorResponse(coordinators=[Coordinator(node_id=it, error_code=code) for it, code in told])

    it = persister(_known=lambda key: known, _errands=SimpleNamespace(ask_broker=ask_broker))
    if isinstance(found, ErrorCode):
        with pytest.raises(KafkaError) as refused:
            await it._find(KEY)
        assert refused.value.code == found
    else:
        assert await it._find(KEY) == found
    assert asked == ([(1, 2, [KEY.text])] if known == NOBODY else [])


async def test_attempts_are_those_of_what_is_asked_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    later: list[float] = []
    loop = SimpleNamespace(call_later=lambda pause_s, *_: later.append(pause_s))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    sent: list[Any] = []
    it = persister(_send_later=sent.append, _pause_s=lambda attempt: attempt)
    queue = queue_of((FIRST, 1), (SECOND, 1))
    done: list[Any] = []
    for number, (epochs, write, _) in enumerate(list(queue.waiting)):
        told: Any = SimpleNamespace(
            set_result=lambda _, at=number: done.append((at, None)),
            set_exception=lambda error, at=number: done.append((at, error.code)),
        )
        queue.waiting[number] = epochs, write, told
    it._queues[KEY] = queue
    again, held = KafkaError(ErrorCode.NOT_COORDINATOR), KafkaError(ErrorCode.NONE)
    for error, pauses, ends, sends in (
        (again, [0], [], 0),
        (again, [0, 1], [], 0),
        (again, [0, 1], [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)], 1),
        (again, [0, 1, 0], [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)], 1),
        (held, [0, 1, 0], [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE), (1, None)], 1),
    ):
        it._answered(queue, 1, error)
        assert (later, done, len(sent)) == (pauses, ends, sends)
    assert it._queues == {}


# dead letters


def writer(**parts: Any) -> Any:
    it = cast("Any", object.__new__(DeadLetterWriter))
    it.counted, it._said, it._waiting = LettersCounted(), {}, {}
    for name, part in parts.items():
        setattr(it, name, part)
    return it


def sharing(status: Status = Status.ACTIVE, **partition: Any) -> Any:
    of = SimpleNamespace(**{"topic": "orders", "log_start_offset": 0, "high_watermark": 9, **partition})
    return SimpleNamespace(
        key=SimpleNamespace(group_id="g", partition=0, text="g:orders:0"),
        machine=SimpleNamespace(status=status),
        partition=of,
    )


def dead(first: int, last: int) -> DeadLetter:
    return DeadLetter(first, last, 1, Cause.REJECTED, None)


@pytest.mark.parametrize("ends", [False, True])
async def test_letters_go_as_long_as_the_share_partition_is_led(ends: bool) -> None:
    shared, tried = sharing(), list[list[int]]()

    async def some(_: Any, letters: Any) -> int:
        tried.append([it.offset for it in letters])
        if ends:
            shared.machine.status = Status.FENCED
        return 2

    it, told = writer(_write_some=some), [dead(4, 5), dead(1, 2)]
    await it._bury(shared, told)
    assert tried == ([[1, 2, 4, 5]] if ends else [[1, 2, 4, 5], [4, 5]])


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.FENCED])
async def test_letters_that_cannot_be_written_are_counted_and_told_no_sooner_than_that(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, status: Status
) -> None:
    clock: Any = SimpleNamespace(now_s=1_000.0)
    clock.time = lambda: clock.now_s
    monkeypatch.setattr(letters_module, "asyncio", SimpleNamespace(get_running_loop=lambda: clock))
    it, shared, bad = writer(), sharing(status), KafkaError(ErrorCode.INVALID_CONFIG, "bad")
    other = KafkaError(ErrorCode.INVALID_CONFIG, "other")
    again_s = letters_module.SAY_AGAIN_S
    for after_s, error, says in (
        (0.0, bad, True),
        (0.0, bad, False),
        (1.0, other, True),
        (again_s - 2, bad, False),
        (1.0, bad, True),
        (0.0, other, False),
        (1.0, other, True),
    ):
        clock.now_s += after_s
        caplog.clear()
        it._give_up(shared, 3, 17, error)
        assert len(caplog.records) == says
        if says:
            assert "3 records of orders-0 from offset 17 on were given up without a dead letter" in caplog.text
    assert it.counted.failed == {"g": 7}
    assert len(it._said) == 2


@pytest.mark.parametrize(
    ("code", "status", "attempts"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Status.ACTIVE, 5),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Status.FENCED, 1),
        (ErrorCode.MESSAGE_TOO_LARGE, Status.ACTIVE, 1),
    ],
)
async def test_what_passes_is_tried_so_many_times(code: ErrorCode, status: Status, attempts: int) -> None:
    tried, pauses = list[bool](), list[int]()

    async def attempt(shared: Any, letters: Any, *, may_repeat: bool) -> int:
        tried.append(may_repeat)
        raise KafkaError(code)

    def pause_s(number: int) -> float:
        pauses.append(number)
        return 0.0

    it = writer(_try=attempt, _pause_s=pause_s)
    with pytest.raises(KafkaError):
        await it._write_some(sharing(status), [Letter(0, dead(0, 0))])
    assert tried == [number > 0 for number in range(attempts)]
    assert pauses == list(range(1, attempts))


@pytest.mark.parametrize("laters", [0, 1, 4, 5, 9])
async def test_what_is_read_in_later_is_waited_for_so_often(laters: int) -> None:
    waits, asked = Waits(), list[Any]()
    found = SimpleNamespace()

    def comes() -> None:
        for here in waits.take_due(5):
            here()

    def read(offset: int, most: int, **how: Any) -> Any:
        asked.append((offset, most, how))
        if len(asked) > laters:
            return found
        asyncio.get_running_loop().call_soon(comes)
        return Later(waits, 5)

    log = SimpleNamespace(bytes_of=lambda it: b"data" if it is found else b"?")
    text = await writer()._read(sharing(read=read, log=log), 3)
    assert text == (b"data" if laters < letters_module.ATTEMPTS else b"")
    how = {"upper_offset": 9, "at_least_one_batch": True}
    assert asked == [(3, letters_module.MOST_READ, how)] * min(laters + 1, letters_module.ATTEMPTS)


async def test_what_cannot_be_read_is_not_copied() -> None:
    def read(*_: Any, **__: Any) -> Any:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    assert await writer()._read(sharing(read=read), 3) == b""


@pytest.mark.parametrize(
    ("copies", "offsets", "begin", "some"),
    [
        (False, [1, 2], 5, [1, 2]),
        (True, [1, 2, 5, 6], 5, [1, 2]),
        (True, [5, 6], 5, [5, 6]),
        (True, [4, 5], 5, [4]),
    ],
)
async def test_what_the_log_has_no_longer_goes_first_without_copies(
    copies: bool, offsets: list[int], begin: int, some: list[int]
) -> None:
    async def read(shared: Any, offset: int) -> bytes:
        assert offset == begin
        return b""

    settings = SimpleNamespace(of=lambda group: SimpleNamespace(copies_dead_letters=copies))
    it = writer(_settings=settings, _read=read)
    letters = [Letter(at, dead(at, at)) for at in offsets]
    found, records = await it._sources(sharing(log_start_offset=begin), letters)
    assert ([one.offset for one in found], records) == (some, {})


LETTERS_ID = UUID(int=8)


@pytest.mark.parametrize(
    ("partitions", "text", "place"),
    [
        (None, None, None),
        (0, None, None),
        (1, None, (0, 0)),
        (2, "77", (1, 77)),
        (3, "77", (0, 77)),
        (5, "77", (3, 77)),
    ],
)
async def test_where_the_letters_of_a_partition_go(
    monkeypatch: pytest.MonkeyPatch, partitions: int | None, text: str | None, place: tuple[int, int] | None
) -> None:
    made = list[str]()

    async def create(name: str, errands: object) -> None:
        made.append(name)

    monkeypatch.setattr(letters_module, "create", create)
    monkeypatch.setattr(letters_module, "why_not", lambda *_: None)
    monkeypatch.setattr(letters_module, "topic_text", lambda *_: text)
    topic = SimpleNamespace(topic_id=LETTERS_ID, partitions=[None] * (partitions or 0))
    image = SimpleNamespace(topics={} if partitions is None else {"dlq": topic}, config_of=lambda *_: {})
    errands = SimpleNamespace(leader_of=lambda name, index: 40 + index)
    it = writer(
        _context=SimpleNamespace(image=image, errands=errands),
        _config=SimpleNamespace(layers=()),
        _settings=SimpleNamespace(of=lambda group: SimpleNamespace(dead_letter_topic="dlq")),
    )
    shared = sharing()
    shared.key.partition = 3
    if place is None:
        with pytest.raises(KafkaError, match="LEADER_NOT_AVAILABLE: the topic dlq was made just now"):
            await it._place(shared)
    else:
        index, most = place
        assert await it._place(shared) == ("dlq", LETTERS_ID, index, 40 + index, most)
    assert made == (["dlq"] if partitions is None else [])


@pytest.mark.parametrize(
    ("told", "raises"),
    [
        ([(0, None)], None),
        ([(ErrorCode.MESSAGE_TOO_LARGE, "so large")], "the topic dlq takes no dead letter: so large"),
        ([(ErrorCode.MESSAGE_TOO_LARGE, None)], "the topic dlq takes no dead letter"),
        ([], "broker 2 does not say what it has written"),
    ],
)
async def test_what_a_broker_says_of_a_letter(told: list[tuple[int, str | None]], raises: str | None) -> None:
    asked: list[Any] = []

    async def ask_broker(leader: int, request: Any, answer: type[Any], *, lane: str) -> Any:
        asked.append((leader, lane, request.acks, request.topic_data[0].partition_data[0].index))
        parts = [produce.PartitionProduceResponse(error_code=code, error_message=text) for code, text in told]
        return answer(responses=[produce.TopicProduceResponse(partition_responses=parts)])

    errands = SimpleNamespace(ask_broker=ask_broker)
    it = writer(_context=SimpleNamespace(errands=errands))
    place = letters_module._Place("dlq", TOPIC_ID, 1, 2, 99)
    if raises is None:
        await it._produce(place, b"batch")
    else:
        with pytest.raises(KafkaError) as refused:
            await it._produce(place, b"batch")
        assert refused.value.message == raises
    assert asked == [(2, "dead letters", -1, 1)]


def test_letters_are_counted_by_the_names_of_so_many_groups_and_a_total_never_falls() -> None:
    counted, totals = LettersCounted(most=2), []
    for group in ("a", "b", "a", "c", "long" * 64, "long" * 64 + "er", "b"):
        counted.records[counted.name_of(group)] += 3
        totals.append(counted.records.total())
    assert totals == [3, 6, 9, 12, 15, 18, 21]
    assert counted.records == {"long" * 64: 3, "b": 3, OTHER: 15}
