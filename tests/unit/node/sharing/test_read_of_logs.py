"""What is read of the log for a share group: when its oldest record came, keys in their order, copies of records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.log_slice import LogSlice
from penstock.node.partitions.partition import Later
from penstock.node.sharing import letter_batches, ordered
from penstock.node.sharing.dead_letters import DeadLetterWriter, LettersCounted
from penstock.node.sharing.letter_batches import OF_A_HEADER, OF_A_RECORD, Letter, records_in
from penstock.node.sharing.ordered import OrderedShared, keys_of
from penstock.node.sharing.progress import UNKNOWN_MS, Oldest, came_ms
from penstock.protocol.batch import HEADER_SIZE
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.replication.waits import Waits
from penstock.sharing.dead_letters import Cause, DeadLetter
from penstock.sharing.values import Status

BATCH = bytes(encode_batch([Record(timestamp_ms=70, value=b"v"), Record(timestamp_ms=90, value=b"w")]))
APPENDED = bytes(encode_batch([Record(timestamp_ms=70, value=b"v")], log_append_time_ms=95))


class Log:
    """A log in memory from an offset on; `found` is what a read brings."""

    def __init__(self, found: Any, *, data: bytes = BATCH, begin: int = 5) -> None:
        self.found = found
        self.log = SimpleNamespace(bytes_of=lambda it: data[it.position : it.position + it.length])
        self.log_start_offset, self.high_watermark, self.last_stable_offset = begin, 20, 15
        self.asked: list[tuple[Any, ...]] = []

    def read(self, offset: int, max_bytes: int, *, upper_offset: int, at_least_one_batch: bool) -> Any:
        self.asked.append((offset, max_bytes, upper_offset, at_least_one_batch))
        if isinstance(self.found, KafkaError):
            raise self.found
        return self.found


def some(length: int) -> LogSlice:
    return LogSlice(cast("Any", "file"), 0, length, 9)


@pytest.mark.parametrize(
    ("found", "data", "told"),
    [
        (some(len(BATCH)), BATCH, 70),
        (some(len(APPENDED)), APPENDED, 95),
        (some(HEADER_SIZE), BATCH, 70),
        (some(HEADER_SIZE - 1), BATCH, UNKNOWN_MS),
        (some(0), BATCH, UNKNOWN_MS),
        (Later(Waits(), 5), BATCH, UNKNOWN_MS),
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), BATCH, UNKNOWN_MS),
    ],
)
@pytest.mark.parametrize(("offset", "reads"), [(4, 5), (5, 5), (6, 6)])
def test_when_a_record_came(found: Any, data: bytes, told: int, offset: int, reads: int) -> None:
    log = Log(found, data=data)
    assert came_ms(cast("Any", log), offset) == told
    assert log.asked == [(reads, 1, 20, True)]


def test_it_is_looked_up_once_and_only_if_it_may() -> None:
    log = Log(some(len(BATCH)))
    oldest = Oldest(cast("Any", log))
    assert oldest.came_ms(6, may_look=False) == UNKNOWN_MS
    for offset, may_look, is_known, looks in ((6, True, True, 1), (6, True, True, 1), (7, False, False, 1)):
        assert oldest.came_ms(offset, may_look=may_look) == 70
        assert (oldest.is_known(offset), len(log.asked)) == (is_known, looks)
    assert oldest.came_ms(7) == 70
    assert len(log.asked) == 2


def batch(*keys: str, base: int, codec: Compression = Compression.NONE, **how: Any) -> bytes:
    records = [Record(key=key.encode() or None, value=key.encode()) for key in keys]
    return bytes(encode_batch(records, base_offset=base, compression=codec, **how))


CONTROL = batch("c", base=2, is_control=True)


@pytest.mark.parametrize("control_at", [0, 1, 2])
def test_copies_are_of_all_batches_but_markers(control_at: int) -> None:
    plain = [batch("a", "b", base=0), batch("d", "e", base=3)]
    data = b"".join([*plain[:control_at], CONTROL, *plain[control_at:]])
    found, last = records_in(data, [0, 2, 4])
    assert {offset: record.value for offset, record in found.items()} == {0: b"a", 4: b"e"}
    assert last == (2 if control_at == 2 else 4)


@pytest.mark.parametrize(("most", "found"), [(33, [0]), (34, [0, 1]), (67, [0, 1]), (68, [0, 1, 2])])
def test_no_further_batch_is_copied_once_there_is_so_much(
    monkeypatch: pytest.MonkeyPatch, most: int, found: list[int]
) -> None:
    """Each takes 34 bytes: what is beside the texts, a key and a value."""
    monkeypatch.setattr(letter_batches, "MOST_UNPACKED", most)
    data = b"".join(batch(key, base=base) for base, key in enumerate("abcd"))
    records, last = records_in(data, [0, 1, 2, 3])
    assert ([*records], last) == (found, found[-1])


def test_what_a_record_takes_is_never_told_too_small() -> None:
    headers: list[tuple[str, bytes | None]] = [("ä", b"12"), ("b", None)]
    size = letter_batches._size(Record(key=b"key", value=b"value", headers=headers))
    assert size == OF_A_RECORD + 3 + 5 + (OF_A_HEADER + 2 + 2) + (OF_A_HEADER + 1)
    assert letter_batches._size(Record()) == OF_A_RECORD


@pytest.mark.parametrize("begin", [0, 1, 3, 4, 6])
def test_keys_are_of_all_batches_from_an_offset_on(monkeypatch: pytest.MonkeyPatch, begin: int) -> None:
    monkeypatch.setattr(ordered, "MOST_KEYS", 5)
    data = batch("a", "b", base=0) + CONTROL + batch("d", "", "f", base=3) + batch("g", "h", base=6)
    keys = {0: "a", 1: "b", 3: "d", 4: "", 5: "f", 6: "g", 7: "h"}
    last = min(begin + 4, 7)
    read = [one for one in keys_of(data, begin, None) if one.last >= begin]
    found = {offset: key for one in read for offset, key in one.keys.items()}
    wanted = {at: hash(key.encode()) if key else None for at, key in keys.items() if begin <= at <= last}
    assert found == wanted
    assert [(one.first, one.last) for one in read] == [
        (max(first, begin), min(end, last))
        for first, end in ((0, 1), (2, 2), (3, 5), (6, 7))
        if end >= begin and first <= last
    ]


def test_what_was_aborted_has_no_keys() -> None:
    aborts: Any = SimpleNamespace(has=lambda header: header.base_offset == 0)
    first, second = keys_of(batch("a", "b", base=0) + batch("c", base=2), 0, aborts)
    assert ((first.first, first.last, first.keys), second.keys) == ((0, 1, {}), {2: hash(b"c")})


class Ordered:
    """A share partition that may read ahead."""

    def __init__(self, log: Log, **machine: Any) -> None:
        self.started: list[str] = []
        self.it: Any = cast("Any", object.__new__(OrderedShared))
        it = self.it
        it.partition, it.reads_committed, it._reading = log, False, None
        it.key = SimpleNamespace(text="g:t:0")
        it._machine = it.machine = SimpleNamespace(
            **{"status": Status.ACTIVE, "wants_keys": True, "keyed_to": 7, **machine}
        )
        it._tasks = SimpleNamespace(start=self.start)

    def start(self, work: Any, name: str) -> str:
        work.close()
        self.started.append(name)
        return "task"


@pytest.mark.parametrize(
    ("machine", "is_reading", "reads"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"wants_keys": False}, False, False),
        ({"keyed_to": 20}, False, False),
        ({"keyed_to": 19}, False, True),
        ({"keyed_to": 21}, False, False),
    ],
)
def test_it_reads_ahead_once_while_keys_are_wanted(machine: dict[str, Any], is_reading: bool, reads: bool) -> None:
    log = Log(some(len(BATCH)))
    shared = Ordered(log, **machine)
    if is_reading:
        shared.it._reading = "another"
    shared.it._read_ahead()
    begin = machine.get("keyed_to", 7)
    assert log.asked == ([(begin, ordered.READ_BYTES, 20, True)] if reads else [])
    assert shared.started == (["keys of g:t:0"] if reads else [])
    assert shared.it._reading == ("task" if reads else "another" if is_reading else None)


def test_it_waits_for_what_is_elsewhere_and_reads_nothing_of_nothing() -> None:
    waits = Waits()
    shared = Ordered(Log(Later(waits, 8)))
    shared.it._read_ahead()
    assert (shared.started, list(waits.take_due(7)), list(waits.take_due(8))) == ([], [], [shared.it.has_news])
    shared = Ordered(Log(some(0)))
    shared.it._read_ahead()
    assert (shared.started, shared.it._reading) == ([], None)


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.FENCED])
async def test_keys_that_come_too_late_are_not_taken(status: Status) -> None:
    admitted: list[Any] = []
    shared = Ordered(Log(some(0)), status=status, admit=admitted.extend)
    news: list[str] = []

    async def work(do: Any) -> Any:
        return do()

    async def each(items: Any, most: int, do: Any) -> None:
        assert most == ordered.TOGETHER
        do(items)

    shared.it._slices = SimpleNamespace(work=work, each=each)
    shared.it._reading = "task"
    shared.it.has_news = lambda: news.append("news")
    await shared.it._read(lambda: ["a", "b"])
    is_active = status is Status.ACTIVE
    assert (admitted, news, shared.it._reading) == (["a", "b"] * is_active, ["news"] * is_active, None)


@pytest.mark.parametrize("may_repeat", [False, True])
async def test_one_attempt_writes_a_batch_and_counts_what_is_in_it(
    monkeypatch: pytest.MonkeyPatch, may_repeat: bool
) -> None:
    made: list[Any] = []
    produced: list[Any] = []

    def letter_batch(letters: Any, found: Any, origin: Any, now_ms: int, most: int, *, may_repeat: bool) -> Any:
        made.append((len(letters), found, origin.clock_ms, now_ms, most, may_repeat))
        return b"batch", 2

    async def place(shared: object) -> Any:
        return SimpleNamespace(max_bytes=99)

    async def sources(shared: object, letters: Any) -> Any:
        return letters[:3], {1: "record"}

    async def produce(place: object, batch: bytes) -> None:
        produced.append(batch)

    monkeypatch.setattr("penstock.node.sharing.dead_letters.letter_batch", letter_batch)
    it: Any = cast("Any", object.__new__(DeadLetterWriter))
    it.counted, it._context = LettersCounted(), SimpleNamespace(now_ms=lambda: 5_000)
    it._place, it._sources, it._produce = place, sources, produce
    shared: Any = SimpleNamespace(
        key=SimpleNamespace(group_id="g", partition=3), partition=SimpleNamespace(topic="t"), now_ms=lambda: 1_200
    )
    letters = [Letter(at, DeadLetter(at, at, 1, Cause.REJECTED, None)) for at in range(4)]
    assert await it._try(shared, letters, may_repeat=may_repeat) == 2
    assert made == [(3, {1: "record"}, 3_800, 5_000, 99, may_repeat)]
    assert (produced, it.counted.requests, it.counted.records) == ([b"batch"], {"g": 1}, {"g": 2})
