"""What a replica does with each thing that happens to it, over a log that says what a test wants: each counts alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.on_disk import NODE_ID, NOW_MS, TOPIC_ID

from penstock.log.log_holder import LentError
from penstock.metadata.topics import PartitionImage
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.partition import ALL_REPLICAS, NotAppendingError
from penstock.protocol.errors import ErrorCode, KafkaError

OTHER = NODE_ID + 1


class Log:
    """It has [2, 8), of which all before 6 is flushed."""

    def __init__(self) -> None:
        self.topic, self.partition, self.directory = "t", 0, "/a/t-0"
        self.log_start_offset, self.log_end_offset, self.kept_offset = 2, 8, 6
        self.config = SimpleNamespace(flush_messages=9, penstock_delay_enable=False)
        self.health = SimpleNamespace(is_full=False, reporting=lambda what: nullcontext())
        self.result: Any = (5, 7, 0, 0, False)
        self.is_loaded, self.cleaned_to = True, 5
        self.did: list[Any] = []

    def append_as_leader(self, batches: memoryview, **_: object) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def append_as_follower(self, batches: memoryview) -> None:
        self.did.append(("appended", bytes(batches)))
        self.log_end_offset += len(batches)

    def advance_log_start(self, offset: int) -> None:
        self.did.append(("begins at", offset))
        self.log_start_offset = offset

    def lend(self) -> str:
        return "content"

    def take_back(self, *, is_whole: bool) -> list[Callable[[], None]]:
        return [lambda: self.did.append(f"goes on, whole: {is_whole}")]


class World:
    def __init__(self, *, is_looked_after: bool = True) -> None:
        self.did: list[Any] = []
        self.log = Log()
        self.log.did = self.did
        noting: Any = SimpleNamespace(
            watch=lambda one: self.did.append("watch"),
            refused=lambda one: self.did.append("refused"),
            fetched=lambda one, replica: self.did.append(("fetched", replica)),
            has_changed=lambda more: self.did.append(("changed", more)),
        )
        flush = lambda one: self.did.append("flush")  # noqa: E731
        self.one: Any = IsrPartition(
            cast("Any", self.log), TOPIC_ID, noting if is_looked_after else None, flush, high_watermark=3
        )

    def lead(self, **changes: Any) -> Any:
        fields: dict[str, Any] = {"isr": (NODE_ID,), "needed_replicas": 1, "followers": {}} | changes
        leader = SimpleNamespace(**fields)
        for name in ("on_appended", "on_kept", "on_fetched", "on_joining", "on_refused"):
            setattr(leader, name, self.does(name))
        self.one.leader = self.one.appender = leader
        return leader

    def does(self, name: str) -> Callable[..., list[Callable[[], None]]]:
        """Moves the high watermark by one and has somebody called."""

        def do(*given: Any) -> list[Callable[[], None]]:
            self.did.append((name, *given))
            self.one.committed.high_watermark += self.moves
            return [lambda: self.did.append("woken")]

        return do

    moves = 0

    def append(self, acks: int = 1) -> Any:
        return self.one.append(memoryview(b"batch"), acks=acks, now_ms=NOW_MS)

    @property
    def is_dirty(self) -> bool:
        return self.one in self.one.dirty


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("acks", "in_sync", "needed", "is_enough"),
    [(ALL_REPLICAS, 1, 2, False), (ALL_REPLICAS, 2, 2, True), (ALL_REPLICAS, 3, 2, True), (1, 1, 2, True)],
)
def test_so_many_must_be_in_sync(world: World, acks: int, in_sync: int, needed: int, is_enough: bool) -> None:
    world.lead(isr=tuple(range(in_sync)), needed_replicas=needed)
    with nullcontext() if is_enough else pytest.raises(KafkaError, match="must be"):
        world.append(acks)
    assert (world.is_dirty, world.one.traffic.produces) == (is_enough, 1)


@pytest.mark.parametrize(
    ("followers", "is_looked_after", "is_watched"),
    [({OTHER: 0}, True, True), ({}, True, False), ({OTHER: 0}, False, False)],
)
def test_a_leader_with_followers_is_looked_after(
    followers: dict[int, int], is_looked_after: bool, is_watched: bool
) -> None:
    world = World(is_looked_after=is_looked_after)
    world.lead(followers=followers)
    world.append()
    assert ("watch" in world.did) is is_watched
    world.did.clear()
    world.one.got_stuck()
    assert (world.one.kept.is_stuck, world.did) == (True, ["refused"] if is_watched else [])
    world.one.leader = None
    world.one.has_no_room()
    assert len(world.did) == is_watched


@pytest.mark.parametrize(
    ("error", "is_full", "raised", "is_told"),
    [
        (LentError("t"), True, NotAppendingError, False),
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), True, KafkaError, True),
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), False, KafkaError, False),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), True, KafkaError, False),
    ],
)
def test_what_cannot_be_appended(world: World, error: Exception, is_full: bool, raised: type, is_told: bool) -> None:
    world.lead(followers={OTHER: 0})
    world.log.result, world.log.health.is_full = error, is_full
    with pytest.raises(raised):
        world.append()
    assert (world.did, world.is_dirty) == (["watch", *(["refused"] if is_told else [])], False)


@pytest.mark.parametrize(
    ("flush_messages", "kept_offset", "is_kept", "is_flushed"),
    [(9, 6, True, False), (8, 8, True, False), (8, 6, False, True), (1, 7, False, True)],
)
async def test_what_is_kept(
    world: World, flush_messages: int, kept_offset: int, is_kept: bool, is_flushed: bool
) -> None:
    world.log.config.flush_messages, world.log.kept_offset = flush_messages, kept_offset
    world.lead()
    assert world.append() == (5, 7, 0, 0, False)
    flushed = ["flush"] if is_flushed else []
    assert world.did == [*flushed, ("on_appended", 8, is_kept), "woken"]
    traffic = world.one.traffic
    assert (traffic.produces, traffic.bytes_in, traffic.records_in, world.is_dirty) == (1, 5, 3, True)
    world.did.clear()
    assert world.one.when_kept(lambda: world.did.append("kept")) is not is_kept
    assert world.did == flushed
    assert world.one.kept.waits.next_offset == 8 or is_kept
    assert len(world.one.kept.waits) == (not is_kept)


def test_a_batch_that_comes_again_changes_nothing(world: World) -> None:
    world.lead()
    world.log.result = (5, 7, 0, 0, True)
    world.append()
    assert (world.did, world.is_dirty, world.one.traffic.bytes_in) == ([], False, 0)


@pytest.mark.parametrize("moves", [0, 1])
@pytest.mark.parametrize("leads", [True, False])
def test_what_follows_a_flush(world: World, leads: bool, moves: int) -> None:
    world.moves, world.one.kept.is_stuck = moves, True
    if leads:
        world.lead()
    for offset in (6, 7):
        world.one.kept.waits.add(offset, lambda offset=offset: world.did.append(f"kept {offset}"))
    world.one.flushed()
    told: list[Any] = [("on_kept", 6), "woken"] if leads else ["kept 6"]
    assert (world.did, world.one.kept.is_stuck) == ([*told, "flush"], False)
    assert world.one.kept.offset == (0 if leads else 6)
    assert world.is_dirty is (leads and bool(moves))


@pytest.mark.parametrize("moves", [0, 1])
@pytest.mark.parametrize("leads", [True, False])
def test_what_a_leader_is_told_of_its_followers(world: World, leads: bool, moves: int) -> None:
    world.moves = moves
    if leads:
        world.lead()
    for name, told, given in (("on_joining", "on_joining", ((4,),)), ("on_isr_refused", "on_refused", ())):
        world.did.clear()
        world.one.dirty.clear()
        getattr(world.one, name)(*given)
        assert world.did == ([(told, *given), "woken"] if leads else [])
        assert world.is_dirty is (leads and bool(moves))


@pytest.mark.parametrize(
    ("replica", "leads", "is_looked_after", "moves", "did"),
    [
        (OTHER, True, True, 1, ["on_fetched", "woken", "fetched"]),
        (OTHER, True, True, 0, ["on_fetched", "woken", "fetched"]),
        (OTHER, True, False, 0, ["on_fetched", "woken"]),
        (7, True, True, 1, ["on_fetched", "woken"]),
        (9, True, True, 1, []),
        (OTHER, False, True, 1, []),
    ],
)
def test_what_follows_a_fetch(replica: int, leads: bool, is_looked_after: bool, moves: int, did: list[str]) -> None:
    """The other one is not in sync, 7 is, and 9 is no follower."""
    world = World(is_looked_after=is_looked_after)
    world.moves = moves
    if leads:
        world.lead(followers={OTHER: 0, 7: 0}, isr=(NODE_ID, 7))
    world.one.on_fetched(replica, 6, 3, NOW_MS, 1)
    told = {"on_fetched": ("on_fetched", replica, 6, 3, NOW_MS, 1), "fetched": ("fetched", replica), "woken": "woken"}
    assert world.did == [told[name] for name in did]
    assert world.is_dirty is bool(did and moves)


@pytest.mark.parametrize(
    ("batches", "starts_at", "moves", "did", "is_dirty"),
    [
        (b"", 2, 0, [], False),
        (b"", 2, 1, [], True),
        (b"ab", 2, 0, [("appended", b"ab")], True),
        (b"", 3, 0, [("begins at", 3)], True),
        (b"", 1, 0, [], False),
        (b"", 20, 0, [("begins at", 8)], True),
        (b"ab", 20, 0, [("appended", b"ab"), ("begins at", 10)], True),
    ],
)
def test_what_is_fetched(
    world: World, batches: bytes, starts_at: int, moves: int, did: list[Any], is_dirty: bool
) -> None:
    world.moves = moves
    world.one.follower = SimpleNamespace(on_appended=world.does("on_appended"))
    world.one.append_fetched(batches, 5, starts_at)
    end_offset = 8 + len(batches)
    told = [it for it in world.did if it not in (("on_appended", end_offset, 5), "woken")]
    assert (told, len(world.did)) == (did, len(did) + 2)
    assert (world.is_dirty, world.one.traffic.replication_bytes_in) == (is_dirty, len(batches))


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("error", [None, OSError()])
async def test_a_log_that_is_back_from_a_cut(world: World, error: Exception | None, is_loaded: bool) -> None:
    world.log.is_loaded = is_loaded
    world.one.committed.high_watermark = 50
    cut = asyncio.get_running_loop().create_future()
    cut.set_exception(error) if error else cut.set_result(None)
    world.one._take_back(cut)
    assert world.did == [f"goes on, whole: {error is None}"]
    assert world.one.high_watermark == (8 if is_loaded else 50), "else nobody knows yet where it ends"


@pytest.mark.parametrize("has_role", [True, False])
@pytest.mark.parametrize(("before", "after"), [(3, 3), (9, 8), (1, 2)])
def test_what_is_committed_of_a_log_that_was_cut(world: World, has_role: bool, before: int, after: int) -> None:
    if has_role:
        world.lead()
    world.one.committed.high_watermark = before
    for offset in (2, 3):
        world.one.committed.waits.add(offset, lambda offset=offset: world.did.append(offset))
    world.one.was_cut()
    assert (world.one.high_watermark, world.is_dirty) == (after, has_role)
    assert world.did == ([2] if before == 1 else [])


def test_who_looks_after_followers_hears_how_many_more_are_in_sync() -> None:
    replicas = (NODE_ID, OTHER, 7)
    for is_looked_after in (True, False):
        world = World(is_looked_after=is_looked_after)
        told: list[list[Any]] = []
        for number, count in enumerate((1, 3, 2, 2, 3)):
            epoch, isr = 1 + (number == 4), replicas[:count]
            world.did.clear()
            world.log.kept_offset = 6 if epoch == 2 else 8
            world.one.obey(NODE_ID, PartitionImage(NODE_ID, epoch, number, replicas, isr), NOW_MS)
            told.append(list(world.did))
        watch = ["watch"] if is_looked_after else []
        changes: list[list[Any]] = [[], [("changed", 2)], [("changed", -1)], [], ["flush"]]
        assert told == [[it for it in of if is_looked_after or it == "flush"] + watch for of in changes]
        assert (world.one.appender, world.one.follower) == (world.one.leader, None)
        world.did.clear()
        world.one.obey(NODE_ID, PartitionImage(OTHER, 3, 10, replicas, replicas), NOW_MS)
        assert (world.did, world.one.leader, world.one.appender) == ([], None, None)
        assert world.one.role is world.one.follower is not None
