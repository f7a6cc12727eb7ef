"""What the rules of simulated transactions find, and what they leave alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest
from tests.simulation.whole_nodes.test_transactions import THREE
from tests.stand_in import stand_in

from penstock.client.errors import ConnectionFailedError
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.testing.simulator import transactions
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.transactions import CommittedReader, Fate, TransactingClient, _Transaction
from penstock.testing.simulator.two_phases import TwoPhaseClient

COMMITTED, ABORTED, UNKNOWN = Fate.COMMITTED, Fate.ABORTED, Fate.UNKNOWN
PLACES = [TopicPartition("c", 0), TopicPartition("c", 1)]


class Rules:
    """A client, and what it was found to have broken."""

    def __init__(self, kind: type[TransactingClient] = TransactingClient, *, may_lose: bool = False) -> None:
        self.found: list[str] = []
        self.notes: list[str] = []
        self.now_s = 0.0
        self.world = World(
            cast("Any", SimpleNamespace(now_ms=lambda: 0)),
            ["h:1"],
            cast("Any", SimpleNamespace(violated=self.found.append, lossy_crashes=int(may_lose))),
            cast("Any", SimpleNamespace(note=lambda _, what: self.notes.append(what))),
        )
        self.client = kind(self.world, "c", Random(1), THREE)

    def did(self, number: int, fate: Fate, *values: bytes, commits_offset: bool = False) -> None:
        self.client._transactions[number] = _Transaction(fate, dict.fromkeys(values), commits_offset)


ONE, TWO, THREE_B = b"c:1:0.0", b"c:1:1.0", b"c:2:0.1"
TWICE = "c: c:1:0.0 is there twice"
ABORTED_IS_READ = "c: transaction 1 was aborted, and c:1:0.0 is read"
ABORTED_IN_PART = "c: of transaction 1, which is ABORTED, [b'c:1:1.0'] is missing"


@pytest.mark.parametrize(
    ("fate", "acknowledged", "there", "found"),
    [
        (COMMITTED, [ONE, TWO], [ONE, TWO], []),
        (COMMITTED, [ONE, TWO], [TWO, ONE, THREE_B], []),
        (COMMITTED, [ONE], [ONE, TWO], []),
        (COMMITTED, [ONE, TWO], [ONE], ["c: of transaction 1, which is COMMITTED, [b'c:1:1.0'] is missing"]),
        (COMMITTED, [ONE], [], ["c: of transaction 1, which is COMMITTED, [b'c:1:0.0'] is missing"]),
        (COMMITTED, [ONE], [ONE, ONE], [TWICE]),
        (UNKNOWN, [ONE, TWO], [], []),
        (UNKNOWN, [ONE, TWO], [ONE, TWO], []),
        (UNKNOWN, [ONE, TWO], [ONE], ["c: of transaction 1, which is UNKNOWN, [b'c:1:1.0'] is missing"]),
        (ABORTED, [ONE], [], []),
        (ABORTED, [ONE], [ONE], [ABORTED_IS_READ]),
        (
            ABORTED,
            [ONE, TWO],
            [ONE],
            [ABORTED_IS_READ, ABORTED_IN_PART],
        ),
    ],
)
@pytest.mark.parametrize("may_lose", [False, True])
def test_what_is_there_in_the_end(
    fate: Fate, acknowledged: Sequence[bytes], there: list[bytes], found: list[str], may_lose: bool
) -> None:
    rules = Rules(may_lose=may_lose)
    rules.did(1, fate, *acknowledged)
    rules.client.compare(there)
    assert rules.found == ([one for one in found if one == TWICE] if may_lose else found)


def test_every_transaction_is_compared() -> None:
    rules = Rules()
    rules.did(1, COMMITTED, ONE)
    rules.did(2, COMMITTED, THREE_B)
    rules.did(3, UNKNOWN)
    assert rules.client.ended == 2
    rules.client.compare([])
    assert [one[:19] for one in rules.found] == ["c: of transaction 1", "c: of transaction 2"]


@pytest.mark.parametrize("may_lose", [False, True])
async def test_what_was_aborted_is_never_read_before_or_after(may_lose: bool) -> None:
    rules = Rules(may_lose=may_lose)
    for number, fate in ((1, ABORTED), (2, UNKNOWN), (3, COMMITTED), (4, UNKNOWN)):
        rules.did(number, fate)

    async def coordinated(*_: object, **__: object) -> Any:
        return SimpleNamespace(producer_id=1, producer_epoch=2)

    rules.client._coordinated = coordinated  # type: ignore[method-assign]
    for number in (1, 2, 3):
        rules.client.seen(b"c:%d:0.0" % number)
    expected = [] if may_lose else [ABORTED_IS_READ]
    assert rules.found == expected
    await rules.client._end(3, is_commit=True)
    assert (rules.found, rules.notes.pop()) == (expected, "transaction 3 is committed")
    for number in (2, 4):
        await rules.client._end(number, is_commit=False)
        assert rules.client._transactions[number].fate is ABORTED
    assert rules.found == expected + ([] if may_lose else ["c: transaction 2 was aborted, and c:2:0.0 is read"])
    assert rules.notes == ["transaction 2 is aborted", "transaction 4 is aborted"]


@pytest.mark.parametrize(
    ("found", "known", "last"),
    [
        (0, [], None),
        (0, [(COMMITTED, True)], 1),
        (1, [(COMMITTED, True)], None),
        (0, [(COMMITTED, False)], None),
        (1, [(COMMITTED, False)], None),
        (0, [(UNKNOWN, True)], None),
        (1, [(UNKNOWN, True)], None),
        (1, [(ABORTED, True)], 0),
        (0, [(ABORTED, True)], None),
        (1, [(COMMITTED, True), (COMMITTED, True)], 2),
        (2, [(COMMITTED, True), (COMMITTED, True)], None),
        (1, [(COMMITTED, True), (UNKNOWN, True)], None),
        (2, [(COMMITTED, True), (UNKNOWN, False)], None),
        (1, [(UNKNOWN, True), (COMMITTED, True)], 2),
        (1, [(COMMITTED, True), (ABORTED, True)], None),
        (2, [(COMMITTED, True), (ABORTED, True)], 1),
        (7, [(COMMITTED, True)], 1),
    ],
)
@pytest.mark.parametrize("may_lose", [False, True])
async def test_the_offset_is_that_of_the_last_one_that_is_known(
    monkeypatch: pytest.MonkeyPatch, found: int, known: list[tuple[Fate, bool]], last: int | None, may_lose: bool
) -> None:
    rules = Rules(may_lose=may_lose)
    for number, (fate, commits_offset) in enumerate(known, 1):
        rules.did(number, fate, commits_offset=commits_offset)

    async def committed(_: Any, group: str, places: Any, *, require_stable: bool) -> Any:
        assert (group, places, require_stable) == ("group of c", PLACES[:1], not may_lose)
        return {PLACES[0]: OffsetAndMetadata(found)} if found else {}

    monkeypatch.setattr(transactions, "fetch_committed", committed)
    await rules.client._look_at_offset()
    is_found = last is not None and not may_lose
    assert rules.found == [f"c: the offset is {found}, transaction {last} has committed its own"] * is_found


class Consumer:
    """One of committed records, or of all; each poll gives one value."""

    stable: ClassVar[dict[TopicPartition, list[int]]] = {}
    ends: ClassVar[dict[TopicPartition, list[int]]] = {}
    calls: ClassVar[list[Any]] = []

    def __init__(self, bootstrap: str, settings: Any) -> None:
        assert bootstrap == "h:1"
        self.settings = settings
        self.at = 0
        self.place = PLACES[0]

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.calls.append("it goes")

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        assert places == PLACES
        said = self.stable if self.settings.isolation_level == "read_committed" else self.ends
        assert (self.settings.enable_auto_commit, self.settings.auto_offset_reset) == (False, "earliest")
        return {place: of.pop(0) if len(of) > 1 else of[0] for place, of in said.items()}

    async def assign(self, places: list[TopicPartition]) -> None:
        assert (self.settings.enable_auto_commit, self.settings.auto_offset_reset) == (False, "earliest")
        assert self.settings.isolation_level == "read_committed"
        self.calls.append(("assign", places))
        (self.place, *_) = places

    def seek(self, place: TopicPartition, offset: int) -> None:
        assert (place, offset) == (self.place, 0)
        self.at = offset

    async def position(self, place: TopicPartition) -> int:
        assert place == self.place
        return self.at

    async def poll(self, wait_ms: int) -> list[Any]:
        self.calls.append(("poll", wait_ms))
        self.at += 1
        return [SimpleNamespace(value=b"c:%d:%d.0" % (self.at, self.place.partition)), SimpleNamespace(value=None)][
            : 1 + (self.at == 2)
        ]


@pytest.mark.parametrize(
    ("stable", "ends", "sleeps", "found"),
    [
        ([2], [2], 0, []),
        ([1, 1, 2], [2], 2, []),
        ([1], [2], 100, ["c-0 is stable up to 1, and ends at 2"]),
    ],
)
@pytest.mark.parametrize("may_lose", [False, True])
async def test_readers_of_committed_records_see_as_far_as_all_others(
    monkeypatch: pytest.MonkeyPatch, stable: list[int], ends: list[int], sleeps: int, found: list[str], may_lose: bool
) -> None:
    rules = Rules(may_lose=may_lose)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        rules.now_s += seconds + 1e-9

    clock = SimpleNamespace(time=lambda: rules.now_s)
    monkeypatch.setattr(transactions, "asyncio", stand_in(asyncio, sleep=sleep, get_running_loop=lambda: clock))
    monkeypatch.setattr(transactions, "Consumer", Consumer)
    Consumer.stable = {PLACES[0]: list(stable), PLACES[1]: [3]}
    Consumer.ends = {PLACES[0]: list(ends), PLACES[1]: [3]}
    Consumer.calls = []
    values = await rules.client._read_committed()
    assert slept == ([] if may_lose else [0.1] * sleeps)
    assert rules.found == ([] if may_lose else found)
    first = stable[0] if may_lose else min(stable[-1], 2)
    expected = [b"c:1:0.0", b"c:2:0.0", b""][: 1 if first == 1 else 3]
    assert values == [*expected, b"c:1:1.0", b"c:2:1.0", b"", b"c:3:1.0"]
    assert [one for one in Consumer.calls if one[0] == "assign"] == [("assign", PLACES[:1]), ("assign", PLACES[1:])]
    assert {one for one in Consumer.calls if one[0] == "poll"} == {("poll", 1000)}


class Cluster:
    def __init__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_what_was_left_open_is_ended_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.did(1, COMMITTED, ONE)
    steps: list[str] = []

    async def begin() -> None:
        assert isinstance(rules.client._cluster, Cluster)
        steps.append("begin")
        if len(steps) == 1:
            raise ConnectionFailedError("away")

    async def look() -> None:
        steps.append("look")
        if steps.count("look") == 1:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    async def read() -> list[bytes]:
        steps.append("read")
        return []

    async def sleep(seconds: float) -> None:
        steps.append(f"sleep {seconds}")

    monkeypatch.setattr(transactions, "asyncio", stand_in(asyncio, sleep=sleep))
    monkeypatch.setattr(transactions, "ClusterClient", Cluster)
    for name, call in (("_begin_life", begin), ("_look_at_offset", look), ("_read_committed", read)):
        monkeypatch.setattr(rules.client, name, call)
    await rules.client.settle()
    assert steps == [*("begin", "sleep 0.1", "begin", "look", "sleep 0.1", "begin", "look", "read")]
    assert rules.found == ["c: of transaction 1, which is COMMITTED, [b'c:1:0.0'] is missing"]
    assert rules.notes[0].startswith("failed: ConnectionFailedError")


async def test_who_does_not_get_to_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()

    async def hang() -> None:
        raise TimeoutError

    monkeypatch.setattr(rules.client, "_settle", hang)
    await rules.client.settle()
    assert rules.found == ["c: readers of committed records do not get to the end"]


@pytest.mark.parametrize(("is_made", "stops_at", "polls"), [(False, 99, 0), (True, 99, 3), (True, 1, 1), (True, 0, 0)])
async def test_a_reader_reads_for_a_time(
    monkeypatch: pytest.MonkeyPatch, is_made: bool, stops_at: int, polls: int
) -> None:
    rules = Rules()
    rules.client.is_made = is_made
    seen: list[bytes] = []
    monkeypatch.setattr(rules.client, "seen", seen.append)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    class Timed(Consumer):
        async def poll(self, wait_ms: int) -> list[Any]:
            rules.now_s += 1.0
            rules.world.stopping = self.at + 1 >= stops_at
            assert wait_ms == 200
            return await super().poll(wait_ms)

    rules.world.stopping = stops_at == 0
    clock = SimpleNamespace(time=lambda: rules.now_s)
    monkeypatch.setattr(transactions, "asyncio", stand_in(asyncio, sleep=sleep, get_running_loop=lambda: clock))
    monkeypatch.setattr(transactions, "Consumer", Timed)
    Consumer.calls = []
    random = cast("Any", SimpleNamespace(uniform=lambda low, high: low + high - 6.0, sample=lambda those, _: those))
    await CommittedReader(rules.world, rules.client, random)._live()
    assert slept == ([] if is_made else [0.1])
    assert seen == [b"c:1:0.0", b"c:2:0.0", b"", b"c:3:0.0"][: {0: 0, 1: 1, 3: 4}[polls]]
    assert [one for one in Consumer.calls if one[0] == "assign"] == [("assign", PLACES)] * is_made


@pytest.mark.parametrize(
    ("prepared", "kept", "may_lose", "found"),
    [
        ((-1, -1), (-1, -1), False, False),
        ((-1, -1), (9, 1), False, False),
        ((9, 1), (9, 1), False, False),
        ((9, 1), (9, 2), False, True),
        ((9, 1), (-1, -1), False, True),
        ((9, 1), (-1, -1), True, False),
    ],
)
async def test_what_is_prepared_is_found_as_it_was(
    prepared: tuple[int, int], kept: tuple[int, int], may_lose: bool, found: bool
) -> None:
    rules = Rules(TwoPhaseClient, may_lose=may_lose)
    client = cast("Any", rules.client)
    rules.did(1, COMMITTED)
    client._prepared, client._decided = prepared, 1
    ended: list[Any] = []

    async def coordinated(request: Any, answer: type, *, newest: int) -> Any:
        assert (request.enable2_pc, request.keep_prepared_txn, answer, newest) == (
            True,
            True,
            InitProducerIdResponse,
            6,
        )
        fields = dict(zip(("ongoing_txn_producer_id", "ongoing_txn_producer_epoch"), kept, strict=True))
        return InitProducerIdResponse(producer_id=7, producer_epoch=8, **fields)

    async def end(number: int, *, is_commit: bool) -> None:
        ended.append((number, is_commit))

    client._coordinated, client._end = coordinated, end
    await client._begin_life()
    assert rules.found == [f"c: transaction 1 was prepared by {prepared}, and {kept} is found"] * found
    assert ended == ([(1, True)] if kept != (-1, -1) else [])
    assert (client._producer, client._sequences) == ((7, 8), {0: 0, 1: 0})
    assert rules.notes == ([f"transaction 1 of {kept} is found, decided"] if kept != (-1, -1) else [])
    assert client._prepared == ((-1, -1) if kept != (-1, -1) else prepared)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionFailedError("away"), True),
        (KafkaError(ErrorCode.NOT_COORDINATOR), True),
        (KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS), True),
        (KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), True),
        (KafkaError(ErrorCode.INVALID_TXN_STATE), False),
        (ValueError(), False),
    ],
)
def test_what_may_pass(error: Exception, passes: bool) -> None:
    assert transactions._may_pass(error) is passes


async def test_the_coordinator_of_transactions_is_asked() -> None:
    rules, asked, codes = Rules(), list[Any](), [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE]

    class Found(Cluster):
        async def to_any(self, request: Any, _: type, newest: int) -> Any:
            asked.append((request.key, request.key_type, newest))
            return SimpleNamespace(error_code=codes.pop(0), node_id=4)

        async def to_node(self, node: int, request: Any, _: type, newest: int) -> Any:
            asked.append((node, request, newest))
            return SimpleNamespace(error_code=0)

        async def retrying(self, attempt: Any, *, passing: Any) -> Any:
            assert passing is transactions._may_pass
            return await attempt()

    rules.client._cluster = cast("Any", Found())
    await rules.client._coordinated(cast("Any", "request"), InitProducerIdResponse, newest=3)
    assert asked == [("c", 1, 3), (4, "request", 3)]
    with pytest.raises(KafkaError) as refused:
        await rules.client._coordinated(cast("Any", "request"), InitProducerIdResponse, newest=3)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(asked) == 3
