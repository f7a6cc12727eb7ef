"""Which replica is to move where, and whose turn it is: tables in which each condition counts alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.stepped_moves import KEY, LANE, NO_ROOM, One, World

from penstock.log.log_holder import LentError
from penstock.node.partitions import moves as module
from penstock.node.partitions.moves import DirectoryMoves, Left
from penstock.protocol.errors import ErrorCode, KafkaError


@pytest.fixture
def world() -> World:
    return World()


def test_what_nobody_wants_goes_first_and_all_in_its_order() -> None:
    left = Left()
    for index, is_drop in ((1, False), (2, True), (3, False), (4, True), (2, True)):
        left.add(("t", index), is_drop=is_drop)
    assert [left.next() for _ in range(6)] == [("t", 2), ("t", 4), ("t", 1), ("t", 3), None, None]


@pytest.mark.parametrize(
    ("held", "topic_id", "is_offline", "comes"),
    [
        (One(), 7, False, "goes on"),
        (One(), 7, True, "goes on"),
        (One(), 8, False, "is set aside"),
        (One(), 8, True, "stays"),
        (None, 7, False, "is set aside"),
        (SimpleNamespace(topic_id=7), 7, False, "is set aside"),
    ],
)
async def test_what_comes_of_a_copy_that_a_start_finds(
    world: World, held: Any, topic_id: int, is_offline: bool, comes: str
) -> None:
    world.held[KEY] = held
    world.futures[KEY] = SimpleNamespace(topic_id=topic_id, parent="/b", directory="/b/x")
    world.directories.roots.offline = {"/c": None} if is_offline else {}
    world.moves.start()
    goes_on = comes == "goes on"
    assert world.moves._wanted == ({KEY: (held, "/b")} if goes_on else {})
    assert (list(world.moves._news), world.moves._changed.is_set()) == (([KEY], True) if goes_on else ([], False))
    assert world.did == ([("set aside", KEY)] if comes == "is set aside" else [])
    assert len(world.moves._tasks) == 1
    await world.moves.stop()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/b", None),
        ("/broken", ErrorCode.KAFKA_STORAGE_ERROR),
        ("/cordoned", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("/d", ErrorCode.LOG_DIR_NOT_FOUND),
    ],
)
def test_where_a_replica_may_go(world: World, path: str, code: ErrorCode | None) -> None:
    broken = One()
    broken.error = NO_ROOM
    health = {"/broken": broken.log.health}
    roots = world.directories.roots
    roots.for_data = [
        SimpleNamespace(path=one, health=health.get(one, One().log.health)) for one in ("/broken", "/cordoned", "/b")
    ]
    roots.is_cordoned = lambda one: one == "/cordoned"
    if code is None:
        assert world.moves.check_target(path) == path
        return
    with pytest.raises(KafkaError) as refused:
        world.moves.check_target(path)
    assert refused.value.code == code


def test_so_many_are_remembered_that_are_not_here_yet(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PREFERRED", 2)
    for index in (0, 1, 0, 2):
        world.moves.prefer("t", index, "/b")
    assert world.directories.preferred == {("t", 0): "/b", ("t", 2): "/b"}, "and those that were named last"


@pytest.mark.parametrize(
    ("copy_in", "parent", "is_lent", "before", "wanted", "unwanted"),
    [
        (None, "/a", False, None, "/b", None),
        ("/b", "/a", False, None, "/b", None),
        ("/c", "/a", False, "/c", "/b", ("/a", "/c")),
        ("/c", "/b", False, "/c", None, ("/b", "/c")),
        (None, "/b", False, "/c", None, None),
        (None, "/b", True, "/c", "/b", None),
        (None, "/a", True, None, "/b", None),
    ],
)
def test_who_is_to_move_to_b(
    world: World, copy_in: str | None, parent: str, is_lent: bool, before: str | None, wanted: Any, unwanted: Any
) -> None:
    one = world.one
    cast("Any", one.log).parent, cast("Any", one.log).is_lent = parent, is_lent
    world.moves._wanted |= {KEY: (one, before)} if before else {}
    world.futures |= {KEY: SimpleNamespace(parent=copy_in)} if copy_in else {}
    world.moves.move(one, "/b")
    assert world.moves._wanted == ({KEY: (one, wanted)} if wanted else {})
    assert world.moves._unwanted == ({KEY: unwanted} if unwanted else {})
    assert list(world.moves._news) == [KEY]
    world.moves._news.clear()
    if wanted:
        world.moves.move(one, "/b")
        assert not world.moves._news, "it is under way"


def test_who_may_not_move(world: World) -> None:
    other: Any = SimpleNamespace(topic="orders", index=0, log=world.one.log)
    with pytest.raises(KafkaError, match="storage group"):
        world.moves.move(other, "/b")
    world.one.error = NO_ROOM
    with pytest.raises(KafkaError, match="no room"):
        world.moves.move(world.one, "/b")
    assert (world.moves._wanted, world.moves._news) == ({}, {})


@pytest.mark.parametrize(
    ("wanted", "unwanted", "under_way", "lane"),
    [
        (False, False, False, None),
        (True, False, False, LANE),
        (True, True, False, ("/a", "/c")),
        (False, True, False, ("/a", "/c")),
        (True, True, True, None),
    ],
)
async def test_a_replica_is_in_one_lane_at_a_time(
    world: World, monkeypatch: pytest.MonkeyPatch, wanted: bool, unwanted: bool, under_way: bool, lane: Any
) -> None:
    moves, worked_on = world.moves, list[Any]()

    async def work_on(_: object, lane: object, left: Left) -> None:
        worked_on.append((lane, left))

    monkeypatch.setattr(DirectoryMoves, "_work_on", work_on)
    moves._wanted |= {KEY: (world.one, "/b")} if wanted else {}
    moves._unwanted |= {KEY: ("/a", "/c")} if unwanted else {}
    moves._under_way |= {KEY: None} if under_way else {}
    assert moves._lane_of(KEY) == lane
    moves._wanted["orders", 1] = One(1), "/c"
    for key in (KEY, ("orders", 1)):
        moves._enter(key)
    await asyncio.sleep(0)
    assert [found for found, _ in worked_on] == list(dict.fromkeys([*([lane] if lane else []), ("/a", "/c")]))
    assert [left for _, left in worked_on] == list(moves._lanes.values())
    if lane:
        assert list(moves._lanes[lane]._drops if unwanted else moves._lanes[lane]._moves)[:1] == [KEY]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_lane_does_what_is_still_in_it(world: World, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    moves, left, stepped = world.moves, Left(), list[Any]()

    async def step(_: object, key: tuple[str, int]) -> None:
        stepped.append(key[1])
        if fails:
            raise ValueError("a defect")

    monkeypatch.setattr(DirectoryMoves, "_step", step)
    moves._lanes[LANE], moves._lanes["/x", "/y"] = left, Left()
    for index, path in ((0, "/c"), (1, "/b"), (2, "/b"), (3, "/b")):
        moves._wanted["orders", index] = One(index), path
        left.add(("orders", index), is_drop=False)
    working = moves._work_on(LANE, left)
    if fails:
        with pytest.raises(ValueError, match="a defect"):
            await working
    else:
        await working
    assert stepped == ([1] if fails else [1, 2, 3])
    assert (list(moves._lanes), [index for _, index in moves._news]) == ([("/x", "/y")], [2, 3] if fails else [])


@pytest.mark.parametrize("is_drop", [True, False])
async def test_while_a_step_is_done_its_replica_is_under_way(
    world: World, monkeypatch: pytest.MonkeyPatch, is_drop: bool
) -> None:
    moves, steps = world.moves, list[Any]()

    def stepped(name: str) -> Any:
        async def step(_: object, key: tuple[str, int]) -> None:
            steps.append((name, key, list(moves._under_way), list(moves._news)))
            raise ValueError("a defect")

        return step

    for name in ("_drop", "_try"):
        monkeypatch.setattr(DirectoryMoves, name, stepped(name))
    moves._unwanted |= {KEY: LANE} if is_drop else {}
    with pytest.raises(ValueError, match="a defect"):
        await moves._step(KEY)
    assert steps == [("_drop" if is_drop else "_try", KEY, [KEY], [])]
    assert (moves._under_way, list(moves._news)) == ({}, [KEY])


@pytest.mark.parametrize(
    ("error", "is_wanted", "is_dropped"),
    [(None, False, False), (LentError("t"), True, False), (NO_ROOM, False, False), (ValueError(), False, True)],
)
async def test_what_comes_of_a_try(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception | None, is_wanted: bool, is_dropped: bool
) -> None:
    moves, carried, other = world.moves, list[Any](), (world.one, "/c")

    async def carry_out(_: object, key: object, move: object) -> None:
        carried.append(move)
        if changes:
            moves._wanted[KEY] = other
        if error is not None:
            raise error

    monkeypatch.setattr(DirectoryMoves, "_carry_out", carry_out)
    for changes in (False, True):
        move = moves._wanted[KEY] = world.one, "/b"
        await moves._try(KEY)
        assert moves._unwanted == ({KEY: LANE} if is_dropped else {})
        assert moves._wanted == ({KEY: other} if changes else {KEY: move} if is_wanted else {})
    assert len(carried) == 2
    moves._wanted[KEY] = world.one, "/a"
    await moves._try(KEY)
    assert (len(carried), moves._wanted) == (2, {}), "it is there"


@pytest.mark.parametrize("has_copy", [True, False])
async def test_a_copy_is_dropped_on_its_disk(world: World, has_copy: bool) -> None:
    world.moves._unwanted[KEY], world.moves._in_thread = LANE, world.in_thread
    world.futures |= {KEY: SimpleNamespace(parent="/c")} if has_copy else {}
    await world.moves._drop(KEY)
    assert world.moves._unwanted == {}
    assert [step[:2] for step in world.did] == ([("in thread", "/c"), ("drop", KEY)] if has_copy else [])


@pytest.mark.parametrize(
    ("same", "failure", "is_wanted"), [(True, None, True), (False, None, False), (True, OSError(), False)]
)
def test_a_move_is_wanted_while_it_is_the_last_and_its_log_can_be_read(
    world: World, same: bool, failure: Exception | None, is_wanted: bool
) -> None:
    move = world.one, "/b"
    world.moves._wanted[KEY] = move if same else (world.one, "/c")
    world.one.log.health.failure = cast("Any", failure)
    assert world.moves._is_wanted(KEY, move) is is_wanted
