"""What all share partitions of a node are told, written, closed and kept for, each condition alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.node.sharing.persister import Epochs
from penstock.node.sharing.share_metrics import Counted
from penstock.node.sharing.shares import NOT_A_MACHINES, Shares
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.sharing.in_flight import RecordState
from penstock.sharing.keys import ShareKey
from penstock.sharing.sessions import SessionKey, TopicPartition
from penstock.sharing.values import ACCEPT, NOT_WRITTEN, Acknowledgement, StateBatch, Status, Write, Written

TOPIC_ID = UUID(int=7)
PLACE = TopicPartition(TOPIC_ID, 0)
KEY = ShareKey("g", *PLACE)
ANN = SessionKey("g", "ann")
NOW_MS, WALL_MS = 1_000, 501_000
MOVED = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
WRITE = Write(9, 3, 1, [StateBatch(3, 5, RecordState.AVAILABLE, 1), StateBatch(7, 7, RecordState.AVAILABLE, 1)])


class Machine:
    def __init__(self, shared: Shared, status: Status) -> None:
        self._did = shared.did
        self.status = status
        self.is_writing = False
        self.state_epoch = 5
        self.write: Write | None = WRITE
        self.letters: list[str] = []

    def load(self) -> None:
        self._did.append("load")

    def configure(self, settings: object) -> None:
        self._did.append("configure")

    def loaded(self, written: Written, begins_at: int, now_ms: int) -> None:
        self._did.append(f"loaded from {begins_at} at {now_ms}: {[it.held_until_ms for it in written.batches]}")

    def acknowledge(self, member: str, said: Sequence[Acknowledgement], now_ms: int) -> Write | None:
        if member != "ann":
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE)
        return self.write

    def release(self, member: str, now_ms: int) -> Write | None:
        self._did.append(f"release {member} at {now_ms}")
        return self.write

    def expire(self, now_ms: int) -> Write | None:
        return self.write

    def buried(self, letters: Sequence[str]) -> Write | None:
        return self.write

    def take_dead_letters(self, now_ms: int) -> list[str]:
        letters, self.letters = self.letters, []
        return letters

    def counting(self, acquired: object) -> Write:
        return WRITE

    def given(self, member: str, acquired: Sequence[str]) -> list[str]:
        return [f"{member} {it}" for it in acquired]

    def written(self, write_id: int, *, is_written: bool, now_ms: int) -> None:
        self._did.append(f"written {write_id} {is_written}")


class Shared:
    """In the place of a share partition: what it was told."""

    def __init__(self, key: ShareKey = KEY, status: Status = Status.ACTIVE) -> None:
        self.did: list[str] = []
        self.key = key
        self.machine = Machine(self, status)
        self.leader_epoch = 4
        self.is_led = True
        self.is_checked = False
        self.error: KafkaError | None = None
        self.locks_run_out = 0
        self.partition = SimpleNamespace(log_start_offset=2, high_watermark=20)

    def now_ms(self) -> int:
        return NOW_MS

    def when_led_no_longer(self, ended: Callable[[], None]) -> None:
        self.ends = ended

    def close(self) -> None:
        self.did.append("close")

    def fail(self, error: KafkaError) -> None:
        self.did.append(f"fail {error}")

    def has_news(self) -> None:
        self.did.append("news")

    def tell_of_pauses(self) -> None:
        self.did.append("pauses")


class Node:
    """All share partitions, with what is beside them put in its place."""

    def __init__(self, *led: Shared) -> None:
        self.writes: list[tuple[Epochs, Write]] = []
        self.futures: list[asyncio.Future[None]] = []
        self.members = True
        self.buried: list[Any] = []
        self.started: list[str] = []
        self.read: Any = Written(3, 5, [StateBatch(3, 3, RecordState.AVAILABLE, 1, WALL_MS + 40)])
        self.anew = False
        self.forgotten: list[str] = []
        it = self.it = cast("Any", object.__new__(Shares))
        it._led = {one.key: one for one in led}
        it._of_groups = {}
        for one in led:
            it._of_groups.setdefault(one.key.group_id, {})[one.key] = one
        it._has_stopped, it.counted = False, Counted()
        it._context = SimpleNamespace(now_ms=lambda: WALL_MS)
        it._persister = SimpleNamespace(write=self.write, read=self.reads, has_begun_anew=self.has_begun_anew)
        it._letters = SimpleNamespace(bury=lambda shared, letters: self.buried.append(letters))
        it._tasks = SimpleNamespace(start=self.start)
        it._find = self.find
        it._made = self.make
        settings = SimpleNamespace(
            partitions=SimpleNamespace(ordered_by_key=False), reads_committed=True, begins="latest"
        )
        it.settings = SimpleNamespace(of=lambda group, keeps=False: settings, forget=self.forgotten.append)
        sessions = self.sessions = cast("Any", SimpleNamespace(has_members=lambda group: self.members))
        sessions.open = lambda *of: of
        it.sessions = sessions

    def start(self, work: Any, name: str) -> None:
        work.close()
        self.started.append(name)

    def find(self, topic_id: UUID, index: int) -> str:
        if index == 99:
            raise MOVED
        return "partition"

    def make(self, key: ShareKey, partition: str, settings: object) -> Shared:
        assert partition == "partition"
        return Shared(key, Status.INITIALIZING)

    def write(self, key: ShareKey, epochs: Epochs, write: Write) -> asyncio.Future[None]:
        self.writes.append((epochs, write))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    async def reads(self, key: ShareKey, leader_epoch: int) -> Written:
        assert leader_epoch == 4
        if isinstance(self.read, Exception):
            raise self.read
        return cast("Written", self.read)

    async def has_begun_anew(self, key: ShareKey, leader_epoch: int, state_epoch: int) -> bool:
        assert (leader_epoch, state_epoch) == (4, 5)
        return self.anew


@pytest.mark.parametrize(
    ("status", "is_there", "is_led"),
    [(Status.ACTIVE, True, True), (Status.INITIALIZING, True, False), (Status.ACTIVE, False, False)],
)
async def test_what_is_loaded_is_led(status: Status, is_there: bool, is_led: bool) -> None:
    shared = Shared(status=status)
    node = Node(*[shared] * is_there)
    assert node.it.led("g", PLACE) is (shared if is_led else None)
    assert node.it.led("h", PLACE) is None


async def test_it_is_made_once_and_anew_where_it_is_led_anew() -> None:
    node = Node()
    first = node.it.lead("g", PLACE)
    assert (first.did, node.started) == (["load", "configure"], [f"load share partition {KEY.text}"])
    assert first.reads_committed is True
    assert (node.it._led, node.it._of_groups) == ({KEY: first}, {"g": {KEY: first}})
    assert node.it.lead("g", PLACE) is first
    first.is_led = False
    second = node.it.lead("g", PLACE)
    assert (second is not first, first.did[-1]) == (True, "close")
    first.ends()
    assert node.it._led == {KEY: second}, "the end of the one before is not its own"
    second.ends()
    assert (node.it._led, node.it._of_groups, second.did[-1]) == ({}, {}, "close")


async def test_one_that_could_not_be_loaded_says_why_once() -> None:
    node = Node()
    first = node.it.lead("g", PLACE)
    first.error = MOVED
    with pytest.raises(KafkaError, match="NOT_LEADER"):
        node.it.lead("g", PLACE)
    assert node.it._led == {}
    assert node.it.lead("g", PLACE) is not first


@pytest.mark.parametrize(("index", "stops"), [(99, False), (0, True)])
async def test_what_is_not_led_here_is_not_made(index: int, stops: bool) -> None:
    node = Node()
    node.it._has_stopped = stops
    with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
        node.it.lead("g", TopicPartition(TOPIC_ID, index))
    assert node.it._led == {}


LOADED = f"loaded from 3 at {NOW_MS}: [{NOW_MS + 40}]"


@pytest.mark.parametrize(
    ("read", "status", "did", "writes"),
    [
        (None, Status.INITIALIZING, [LOADED, "news"], 0),
        (None, Status.FENCED, ["news"], 0),
        (MOVED, Status.INITIALIZING, ["fail NOT_LEADER_OR_FOLLOWER", "news"], 0),
        (ValueError("odd"), Status.INITIALIZING, ["fail UNKNOWN_SERVER_ERROR: odd", "news"], 0),
        (Written(NOT_WRITTEN, 5, []), Status.INITIALIZING, [f"loaded from 20 at {NOW_MS}: []", "news"], 1),
    ],
)
async def test_how_it_is_loaded(read: Any, status: Status, did: list[str], writes: int) -> None:
    shared = Shared(status=status)
    node = Node(shared)
    node.read = read or node.read
    loading = asyncio.ensure_future(node.it._load(shared))
    await asyncio.sleep(0)
    assert node.writes == [(Epochs(4, 5), Write(NOT_A_MACHINES, 20, 0, ()))] * writes
    for future in node.futures:
        assert shared.did == [], "first it is written where it begins"
        future.set_result(None)
    await loading
    assert shared.did == did
    assert node.it.counted.load_time.count == any(it.startswith("loaded") for it in did)


@pytest.mark.parametrize(("reset", "offset"), [("earliest", 2), ("latest", 20)])
async def test_where_a_group_begins(reset: str, offset: int) -> None:
    node = Node()
    node.it.settings = SimpleNamespace(of=lambda group: SimpleNamespace(begins=reset))
    assert await node.it._first_offset(Shared()) == offset


SAID = [Acknowledgement(3, 5, (ACCEPT,))]


@pytest.mark.parametrize(
    ("status", "member", "stops", "code"),
    [
        (Status.INITIALIZING, "ann", False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, "ann", False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Status.ACTIVE, "bob", False, ErrorCode.INVALID_RECORD_STATE),
        (Status.ACTIVE, "ann", True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_what_does_not_hold_is_answered_at_once(
    status: Status | None, member: str, stops: bool, code: ErrorCode
) -> None:
    node, told = Node(*([] if status is None else [Shared(status=status)])), list[Any]()
    node.it._has_stopped = stops
    node.it.acknowledge(SessionKey("g", member), PLACE, SAID, told.append)
    assert [it.code for it in told] == [code]
    assert (node.writes, node.it.counted.acknowledged) == ([], {})


@pytest.mark.parametrize("error", [None, MOVED])
async def test_what_is_said_holds_once_it_is_written(error: KafkaError | None) -> None:
    shared, told = Shared(), list[Any]()
    node = Node(shared)
    node.it.acknowledge(ANN, PLACE, SAID, told.append)
    assert (told, node.writes) == ([], [(Epochs(4, 5), WRITE)])
    (future,) = node.futures
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    await asyncio.sleep(0)
    assert told == [error]
    assert node.it.counted.acknowledged == ({ACCEPT: 3} if error is None else {})


async def test_what_needs_not_be_written_holds_at_once() -> None:
    shared, told = Shared(), list[Any]()
    shared.machine.write = None
    node = Node(shared)
    node.it.acknowledge(ANN, PLACE, SAID, told.append)
    assert (told, node.writes, node.it.counted.acknowledged) == ([None], [], {ACCEPT: 3})


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (None, False),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.GROUP_ID_NOT_FOUND, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
    ],
)
async def test_a_write_may_be_the_end_of_it(code: ErrorCode | None, ends: bool) -> None:
    shared, told = Shared(), list[Any]()
    node, error = Node(shared), None if code is None else KafkaError(code)
    node.it._write(shared, WRITE, told.append)
    (future,) = node.futures
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    await asyncio.sleep(0)
    assert shared.did == [f"written 9 {error is None}", *["close"] * ends, "pauses", "news"]
    assert (told, node.it._led) == ([error], {} if ends else {KEY: shared})


@pytest.mark.parametrize("error", [None, MOVED])
async def test_deliveries_are_given_once_they_are_counted(error: KafkaError | None) -> None:
    shared, told = Shared(), list[Any]()
    node = Node(shared)
    node.it.count(shared, "ann", ["records"], lambda *of: told.append(of))
    (future,) = node.futures
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    await asyncio.sleep(0)
    assert told == [(["ann records"] if error is None else [], error)]


async def test_a_delay_is_written_by_the_wall_clock() -> None:
    shared = Shared()
    node = Node(shared)
    held = WRITE.replace(batches=[StateBatch(3, 3, RecordState.AVAILABLE, 1, NOW_MS + 30)])
    node.it._write(shared, held, lambda _: None)
    assert [it.held_until_ms for it in node.writes[0][1].batches] == [WALL_MS + 30]


@pytest.mark.parametrize("writes", [True, False])
async def test_locks_that_run_out_are_counted_and_written(writes: bool) -> None:
    shared = Shared()
    shared.machine.write = WRITE if writes else None
    shared.machine.letters = ["letter"]
    node = Node(shared)
    node.it._expire(shared)
    assert (shared.locks_run_out, len(node.writes)) == ((4, 1) if writes else (0, 0))
    assert (shared.did, node.buried) == (["pauses", "news"], [["letter"]])


@pytest.mark.parametrize("status", [Status.ACTIVE, Status.FENCED])
@pytest.mark.parametrize("letters", [[], ["letter"]])
async def test_letters_are_buried_where_it_is_led(status: Status, letters: list[str]) -> None:
    shared = Shared(status=status)
    shared.machine.letters = list(letters)
    node = Node(shared)
    node.it._bury(shared)
    is_active = status is Status.ACTIVE
    assert node.buried == [letters] * bool(letters and is_active)
    assert shared.did == ["pauses"] * is_active


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("members", [True, False])
async def test_what_is_buried_is_written_or_the_last_of_it(writes: bool, members: bool) -> None:
    shared = Shared()
    shared.machine.write = WRITE if writes else None
    node = Node(shared)
    node.members = members
    node.it._buried(shared, ["letter"])
    assert len(node.writes) == writes
    assert shared.did == ([] if writes or members else ["close"])


@pytest.mark.parametrize(
    ("members", "is_writing", "ends"),
    [(True, False, False), (False, True, False), (False, False, True), (True, True, False)],
)
async def test_it_ends_when_nobody_is_there_and_all_is_written(members: bool, is_writing: bool, ends: bool) -> None:
    shared, node = (one := Shared()), Node(one)
    shared.machine.is_writing, node.members = is_writing, members
    node.it._end_if_idle(shared)
    assert (node.it._led, node.forgotten) == (({}, ["g"]) if ends else ({KEY: shared}, []))


@pytest.mark.parametrize(
    ("status", "begun_again", "writes", "releases"),
    [
        (Status.ACTIVE, False, True, True),
        (Status.ACTIVE, False, False, True),
        (Status.ACTIVE, True, True, False),
        (Status.FENCED, False, True, False),
    ],
)
async def test_who_leaves_gives_back_what_it_has(
    status: Status, begun_again: bool, writes: bool, releases: bool
) -> None:
    shared = Shared(status=status)
    shared.machine.write = WRITE if writes else None
    node = Node(shared)

    class Sessions(list[SessionKey]):
        def has_members(self, group: str) -> bool:
            return True

    node.it.sessions = Sessions([ANN] if begun_again else [])
    node.it._release(ANN, [shared])
    assert shared.did == [f"release ann at {NOW_MS}"] * releases
    assert len(node.writes) == (releases and writes)


@pytest.mark.parametrize(
    ("status", "is_led", "anew", "ends"),
    [
        (Status.ACTIVE, True, True, True),
        (Status.ACTIVE, True, False, False),
        (Status.ACTIVE, False, True, False),
        (Status.INITIALIZING, True, True, False),
    ],
)
async def test_a_group_that_began_anew_is_loaded_anew(status: Status, is_led: bool, anew: bool, ends: bool) -> None:
    shared, other = Shared(status=status), Shared(ShareKey("g", TOPIC_ID, 1))
    shared.is_led = is_led
    node = Node(shared, other)
    node.anew = anew
    other.is_led = False
    await node.it._check([shared, other])
    assert (shared.did, other.did, shared.is_checked, other.is_checked) == (["close"] * ends, [], False, False)


@pytest.mark.parametrize(
    ("group", "checked", "looks"),
    [("g", (False, False), True), ("g", (True, False), True), ("g", (True, True), False), ("h", (False, False), False)],
)
async def test_who_opens_a_session_has_it_looked_whether_the_group_is_the_same(
    group: str, checked: tuple[bool, bool], looks: bool
) -> None:
    led = [Shared(), Shared(ShareKey("g", TOPIC_ID, 1))]
    for shared, is_checked in zip(led, checked, strict=True):
        shared.is_checked = is_checked
    node = Node(*led)
    key = SessionKey(group, "ann")
    assert node.it.open(key, 3, "owner") == (key, 3, "owner")
    assert node.started == [f"whether {group} is the same group"] * looks
