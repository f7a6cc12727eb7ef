"""Each step of a move between log directories by itself, as tables in which each condition counts alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in
from tests.unit.node.stepped_moves import KEY, LANE, NO_ROOM, World

from penstock.node.partitions import moves as module
from penstock.node.partitions.moves import SLICE_BYTES, THROTTLE_S, DirectoryMoves, _cut, _grow, _next_slice
from penstock.protocol.errors import KafkaError


@pytest.fixture
def world() -> World:
    return World()


class Script:
    """What a move finds at each of its steps: a cut, a slice of so many bytes, an error, or nothing more."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, steps: Iterable[Any], *ends: bool) -> None:
        self.steps, self.ends, self.world = list(steps), list(ends), world
        monkeypatch.setattr(module, "_cut", self.cut)
        monkeypatch.setattr(module, "_next_slice", lambda *_: self.found)
        monkeypatch.setattr(DirectoryMoves, "_copy", self.copy)
        monkeypatch.setattr(DirectoryMoves, "_finish", self.finish)
        monkeypatch.setattr(module, "asyncio", stand_in(asyncio, sleep=self.sleep))
        world.moves._in_thread = world.in_thread

    def cut(self, *_: object) -> Any:
        step = self.steps.pop(0) if self.steps else None
        if isinstance(step, Exception):
            raise step
        end_offset = 5 if step == OF_A_SEGMENT else 9
        self.found = SimpleNamespace(length=step, end_offset=end_offset) if isinstance(step, int) else None
        return step if isinstance(step, str) else None

    async def copy(self, *given: Any) -> None:
        self.world.did.append(("copied", given[-2].length))

    async def finish(self, *_: object, at_once: bool) -> bool:
        self.world.did.append(("finish", at_once))
        return self.ends.pop(0)

    async def sleep(self, s: float) -> None:
        self.world.did.append(("sleep", s))


FULL, SHORT, OF_A_SEGMENT = SLICE_BYTES, SLICE_BYTES - 1, SLICE_BYTES - 2
"""The last one is not full, and ends before the log does."""


def copied(length: int) -> list[Any]:
    return [("copied", length), ("recorded", length, 1_000)]


@pytest.mark.parametrize(
    ("steps", "ends", "did"),
    [
        ([], [True], [("finish", False)]),
        ([], [False, True], [("finish", False), ("finish", False)]),
        (["cut", FULL], [True], [("in thread", "/b", "cut"), *copied(FULL), ("finish", False)]),
        ([FULL, FULL, FULL], [True], [*copied(FULL) * 3, ("finish", False)]),
        ([SHORT, FULL, SHORT, FULL], [True], [*copied(SHORT), *copied(FULL), *copied(SHORT), ("finish", True)]),
        ([SHORT], [True], [*copied(SHORT), ("finish", False)]),
        ([OF_A_SEGMENT] * 5, [True], [*copied(OF_A_SEGMENT) * 5, ("finish", False)]),
        ([NO_ROOM, FULL, NO_ROOM], [True], [("sleep", 1.0), *copied(FULL), ("sleep", 1.0), ("finish", False)]),
    ],
)
async def test_a_move_from_its_beginning_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch, steps: list[Any], ends: list[bool], did: list[Any]
) -> None:
    """After two slices that were not full what is left is copied in one turn."""
    monkeypatch.setattr(module, "SLICES_BEHIND", 2)
    monkeypatch.setattr(module, "MAX_FAILURES", 2)
    Script(world, monkeypatch, steps, *ends)
    move = world.moves._wanted[KEY] = world.one, "/b"
    world.futures[KEY] = SimpleNamespace(health=SimpleNamespace(failure=None))
    await world.moves._carry_out(KEY, move)
    assert world.did == did
    assert world.moves._unwanted == {}


async def test_a_move_pauses_for_the_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    Script(world, monkeypatch, [], True)
    move = world.moves._wanted[KEY] = world.one, "/b"
    world.futures[KEY] = SimpleNamespace(health=SimpleNamespace(failure=None))
    world.waits = iter((300, 9_000, 0))
    await world.moves._carry_out(KEY, move)
    assert world.did == [("sleep", 0.3), ("sleep", THROTTLE_S), ("finish", False)]


@pytest.mark.parametrize(("has_failed", "most", "tries"), [(False, 1, 1), (False, 3, 3), (True, 9, 1)])
async def test_a_copy_that_fails_is_not_wanted(
    world: World, monkeypatch: pytest.MonkeyPatch, has_failed: bool, most: int, tries: int
) -> None:
    monkeypatch.setattr(module, "MAX_FAILURES", most)
    Script(world, monkeypatch, [NO_ROOM] * 9)
    move = world.moves._wanted[KEY] = world.one, "/b"
    world.futures[KEY] = SimpleNamespace(health=SimpleNamespace(failure=OSError() if has_failed else None))
    with pytest.raises(KafkaError):
        await world.moves._carry_out(KEY, move)
    assert world.did == [("sleep", 1.0)] * (tries - 1)
    assert world.moves._unwanted == {KEY: LANE}


@pytest.mark.parametrize("is_wanted", [True, False])
async def test_a_copy_is_made_that_is_not_there(world: World, monkeypatch: pytest.MonkeyPatch, is_wanted: bool) -> None:
    Script(world, monkeypatch, [], True)
    move = world.one, "/b"
    world.moves._wanted |= {KEY: move} if is_wanted else {}
    made = SimpleNamespace(health=SimpleNamespace(failure=None))

    def create(*given: object) -> object:
        world.did.append(given)
        return made

    world.directories.create_future = create
    await world.moves._carry_out(KEY, move)
    (_, path, _), given, *rest = world.did
    assert (path, given) == ("/b", (world.one.log, "/b", 0, 7))
    assert (rest, world.moves._unwanted) == (([("finish", False)], {}) if is_wanted else ([], {KEY: LANE}))


@pytest.mark.parametrize("is_same", [True, False])
async def test_what_was_read_of_a_log_that_has_changed_is_not_copied(
    world: World, monkeypatch: pytest.MonkeyPatch, is_same: bool
) -> None:
    log: Any = world.one.log
    log.changes = 4

    def bytes_of(found: str) -> str:
        log.changes, log.log_end_offset = log.changes + (not is_same), 12
        return found

    log.bytes_of, world.moves._in_thread = bytes_of, world.in_thread
    monkeypatch.setattr(module, "_grow", world.does("grown"))
    future = SimpleNamespace(parent="/b")
    await world.moves._copy(log, "batches", future)
    assert [step[1] for step in world.did if step[0] == "in thread"] == (["/a", "/b"] if is_same else ["/a"])
    assert [step for step in world.did if step[0] == "grown"] == ([("grown", future, "batches", 9)] if is_same else [])


@pytest.mark.parametrize(
    ("is_wanted", "is_lent", "cut", "has_more", "at_once", "is_done"),
    [
        (True, False, None, False, False, True),
        (True, False, None, True, True, True),
        (True, False, None, False, True, True),
        (True, False, None, True, False, False),
        (False, False, None, False, False, False),
        (True, True, None, False, False, False),
        (True, False, "cut", False, False, False),
    ],
)
async def test_the_copy_takes_the_place_of_a_log_of_which_it_has_all(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    is_wanted: bool,
    is_lent: bool,
    cut: Any,
    has_more: bool,
    at_once: bool,
    is_done: bool,
) -> None:
    moves, log, move = world.moves, cast("Any", world.one.log), (world.one, "/b")
    moves._wanted |= {KEY: move} if is_wanted else {}
    log.is_lent, log.lend = is_lent, lambda: "content"
    monkeypatch.setattr(module, "_cut", lambda *_: cut)
    monkeypatch.setattr(module, "_next_slice", lambda *_: object() if has_more else None)
    monkeypatch.setattr(module, "Pause", lambda partition: "pause")
    moves._swap, moves._swapped, moves._in_thread = world.does("swap"), world.does("swapped"), world.in_thread
    future, done = SimpleNamespace(flush=world.does("flushed")), asyncio.get_running_loop().create_future()

    def begin(path: str, work: Callable[[], object]) -> object:
        work()
        done.set_result(path)
        return done

    moves._begin = begin
    assert await moves._finish(KEY, move, future, at_once=at_once) is is_done
    await asyncio.sleep(0)
    then = [("swap", log, "content", future), ("swapped", world.one, "pause", done)]
    assert [step for step in world.did if step[0] != "in thread"] == [("flushed",), *(then if is_done else [])]


def test_what_a_thread_does_to_a_log_that_it_has(world: World) -> None:
    log: Any = world.one.log
    future: Any = SimpleNamespace(log_end_offset=2, directory="/b/t", close=world.does("closed"))
    future.health = SimpleNamespace(reporting=lambda what: nullcontext())
    future.leader_epochs = SimpleNamespace(restore=world.does("restored"))

    def append(batches: memoryview) -> None:
        future.log_end_offset += len(batches)

    def read(offset: int, *limits: object) -> bytes:
        world.did.append(("read", offset, *limits))
        return bytes(3)

    future.append_as_follower, log.bytes_of = append, lambda found: found
    content: Any = SimpleNamespace(end_offset=8, segments=SimpleNamespace(read=read))
    content.epochs = SimpleNamespace(entries="terms")
    assert world.moves._swap(log, content, future) == "gone"
    assert world.did == [
        ("read", 2, SLICE_BYTES, 8, 8, True),
        ("read", 5, SLICE_BYTES, 8, 8, True),
        ("restored", "terms"),
        ("closed",),
    ]


@pytest.mark.parametrize(("error", "is_held"), [(None, True), (None, False), (NO_ROOM, True)])
async def test_a_log_goes_on_where_it_lies_now(world: World, error: Exception | None, is_held: bool) -> None:
    one, log = world.one, cast("Any", world.one.log)
    world.held = world.held if is_held else {}
    log.take_back = lambda is_whole: [world.does(f"goes on, whole: {is_whole}")]
    done = asyncio.get_running_loop().create_future()
    done.set_exception(error) if error else done.set_result("gone")
    pause = SimpleNamespace(end=world.does("no pause"))
    world.moves._swapped(one, pause, done)
    moved: list[Any] = [] if error else [("swapped", log, "gone", 1_000), *([("moved", one)] if is_held else [])]
    assert world.did == [*moved, (f"goes on, whole: {error is not None}",), ("no pause",)]
    assert (one in one.dirty) is (error is None and is_held)


async def test_each_disk_has_threads_of_its_own(world: World) -> None:
    world.directories.roots = {"/a": SimpleNamespace(threads=None), "/b": SimpleNamespace(threads=None)}
    for path in ("/a", "/b", "/a"):
        assert await world.moves._in_thread(path, partial(str, path)) == path
    assert list(world.moves._threads) == ["/a", "/b"]
    first = world.moves._threads["/a"]
    await world.moves._in_thread("/a", int)
    assert world.moves._threads["/a"] is first


def copy_of(start: int, end: int, term: int = -1, *, is_loaded: bool = True) -> Any:
    return SimpleNamespace(
        is_loaded=is_loaded, log_start_offset=start, log_end_offset=end, leader_epochs=SimpleNamespace(latest=term),
        **{name: name for name in ("load", "truncate_fully_and_start_at", "truncate_to", "advance_log_start")},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("copied", "ends_at", "cut"),
    [
        (copy_of(3, 5, is_loaded=False), 9, "load"),
        (copy_of(3, 9), 9, None),
        (copy_of(3, 3), 9, None),
        (copy_of(4, 5), 9, ("truncate_fully_and_start_at", (3,), {"durable": True})),
        (copy_of(0, 2), 9, ("truncate_fully_and_start_at", (3,), {"durable": True})),
        (copy_of(0, 3), 9, ("advance_log_start", (3,), {})),
        (copy_of(2, 9), 9, ("advance_log_start", (3,), {})),
        (copy_of(3, 9, 0), 9, None),
        (copy_of(3, 9, 0), 8, ("truncate_to", (8,), {})),
        (copy_of(3, 9, 5), 8, ("truncate_to", (8,), {})),
        (copy_of(3, 12, 5), 12, ("truncate_to", (9,), {})),
        (copy_of(2, 9, 5), 1, ("truncate_to", (2,), {})),
        (copy_of(3, 9), 8, None),
        (copy_of(2, 8, 5), 8, ("advance_log_start", (3,), {})),
    ],
)
def test_what_a_copy_has_too_much(copied: Any, ends_at: int, cut: Any) -> None:
    """Of a log of [3, 9) whose term, if the copy has one, ends there."""
    log: Any = SimpleNamespace(log_start_offset=3, log_end_offset=9, end_offset_for_epoch=lambda term: (term, ends_at))
    if isinstance(cut, str) or cut is None:
        found: Any = _cut(log, copied)
        assert found == cut
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "partial", lambda do, *given, **named: (do, given, named))
        found = _cut(log, copied)
    assert found == cut


@pytest.mark.parametrize(("end", "found"), [(8, (8, SLICE_BYTES)), (9, None), (10, None)])
def test_what_a_copy_lacks(end: int, found: Any) -> None:
    log: Any = SimpleNamespace(log_end_offset=9, read=lambda *given: given)
    assert _next_slice(log, copy_of(3, end)) == found


@pytest.mark.parametrize(("batches", "did"), [(b"ab", ("appended", b"ab")), (b"", ("ends at", 9))])
def test_a_copy_ends_where_its_log_does(world: World, batches: bytes, did: Any) -> None:
    _grow(
        cast("Any", SimpleNamespace(append_as_follower=world.does("appended"), end_at=world.does("ends at"))),
        batches,
        9,
    )
    assert world.did == [did]
