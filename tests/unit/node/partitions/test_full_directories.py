"""Log directories that are full until they are seen to have room, and followers whose polls are over."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.node.partitions import hand_overs as module
from penstock.node.partitions.awaited_followers import AwaitedFollowers
from penstock.node.partitions.hand_overs import FullDirectories
from penstock.protocol.requests.own_apis import HandOverLeaderRequest


class Directory:
    def __init__(self, *, is_full: bool = True, is_online: bool = True) -> None:
        self.path = f"/{is_full}/{is_online}"
        self.health = SimpleNamespace(is_full=is_full)
        self.is_online = is_online
        self.room: bool | OSError = True

    def has_room(self) -> bool:
        if isinstance(self.room, OSError):
            raise self.room
        return self.room


def looking_at(*directories: Directory) -> tuple[FullDirectories, list[str]]:
    full = FullDirectories(cast("Any", SimpleNamespace(roots=SimpleNamespace(for_data=directories))))
    told: list[str] = []
    full.has_room.listen(lambda: told.append("has room"))
    return full, told


async def test_only_a_directory_that_is_full_and_online_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FULL_S", 0)
    others = Directory(is_full=False), Directory(is_online=False), Directory(is_full=False, is_online=False)
    full, told = looking_at(*others)
    full.look()
    full.look()
    assert (told, caplog.messages) == ([], [])
    assert [one.health.is_full for one in others] == [False, True, False]


async def test_a_full_directory_stays_so_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And as long as it has no room, or nobody can see whether it has."""
    one = Directory()
    full, told = looking_at(one)
    monkeypatch.setattr(module, "FULL_S", 3_600)
    full.look()
    full.look()
    assert (one.health.is_full, told, len(caplog.messages)) == (True, [], 1)
    monkeypatch.setattr(module, "FULL_S", 0)
    for room in (False, OSError(5, "broken")):
        one.room = room
        full.look()
        assert (one.health.is_full, told) == (True, [])
    one.room = True
    full.look()
    assert (one.health.is_full, told) == (False, ["has room"])
    one.health.is_full = True
    full.look()
    assert (one.health.is_full, told) == (True, ["has room"]), "it is full anew"


def test_a_poll_that_is_over_leaves_the_others() -> None:
    awaited, first, second = AwaitedFollowers(lambda: 0), cast("Any", object()), cast("Any", object())
    awaited.wait(2, first)
    awaited.wait(2, second)
    awaited.over(2, first)
    awaited.over(3, first)
    assert awaited._polls == {2: {second: None}}
    awaited.over(2, first)
    awaited.over(2, second)
    awaited.over(2, second)
    assert awaited._polls == {}


class Pauses:
    """In the place of asyncio: notes the pauses of who looks again and again, which nobody hurries."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.waited: list[float] = []

    async def sleep(self, s: float) -> None:
        self.slept.append(s)

    def timeout(self, s: float) -> Any:
        self.waited.append(s)
        return asyncio.timeout(None)


@pytest.mark.parametrize(
    ("moved", "handed", "waits", "asked"),
    [
        (True, [False] * 6, [1, 1, 1, 1, 1, 1], 6),
        (True, [True, *[False] * 5], [1, 0, 0, 1, 1, 1], 6),
        (True, [True, True, *[False] * 4], [1, 0, 0, 0, 1, 1], 6),
        (False, [True] * 6, [1, 1, 1, 1, 1, 1], 0),
    ],
)
async def test_after_a_hand_over_the_next_is_asked_for_soon(
    monkeypatch: pytest.MonkeyPatch, moved: bool, handed: list[bool], waits: list[int], asked: int
) -> None:
    pauses, looks, clears, left = Pauses(), list[int](), list[int](), list(handed)
    monkeypatch.setattr(module, "asyncio", pauses)
    monkeypatch.setattr(module, "SOON_TIMES", 2)

    async def give_up() -> None:
        looks.append(len(pauses.waited))
        if len(looks) > 6:
            raise asyncio.CancelledError

    async def hand_over() -> bool:
        return left.pop(0)

    async def nobody_hurries() -> None:
        raise TimeoutError

    one: Any = SimpleNamespace(_give_up_unwritable=give_up, _hand_over=hand_over)
    one._image = SimpleNamespace(index=SimpleNamespace(moved=moved))
    one._hurry = SimpleNamespace(wait=nobody_hurries, clear=lambda: clears.append(1))
    with pytest.raises(asyncio.CancelledError):
        await module.HandOvers._run(one)
    assert looks[:6] == [sum(waits[: number + 1]) for number in range(6)]
    assert (set(pauses.slept), set(pauses.waited)) == ({module.SOON_S}, {module.PAUSE_S - module.SOON_S})
    assert (len(clears), 6 - len(left)) == (7, asked)


@pytest.mark.parametrize(
    ("leads", "is_stuck", "is_full", "goes"),
    [(True, True, False, True), (True, False, True, True), (True, False, False, False), (False, True, True, False)],
)
async def test_who_still_cannot_be_written_is_given_away(
    leads: bool, is_stuck: bool, is_full: bool, goes: bool
) -> None:
    given: list[Any] = []

    async def give_away(partition: object, *, has_no_room: bool) -> None:
        given.append((partition, has_no_room))

    key: Any = Directory()
    key.leader, key.kept = object() if leads else None, SimpleNamespace(is_stuck=is_stuck)
    key.log = SimpleNamespace(health=SimpleNamespace(is_full=is_full))
    one: Any = SimpleNamespace(_unwritable={key: None}, _give_away=give_away, full=SimpleNamespace(look=lambda: None))
    await module.HandOvers._give_up_unwritable(one)
    assert (given, one._unwritable) == ([(key, True)] if goes else [], {})


def at(time_s: Callable[[], float]) -> SimpleNamespace:
    return stand_in(asyncio, get_running_loop=lambda: SimpleNamespace(time=time_s))


async def test_the_controller_may_take_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def submit(request: Any, answer: object, *, deadline_s: float) -> None:
        asked.append((request.broker_id, request.broker_epoch, deadline_s))

    monkeypatch.setattr(module, "asyncio", at(lambda: 40.0))
    one: Any = SimpleNamespace(_node_id=3, _context=SimpleNamespace(broker_epoch=8))
    one._context.controller = SimpleNamespace(submit=submit)
    await module.HandOvers._submit(one, HandOverLeaderRequest())
    assert asked == [(3, 8, 40.0 + module.ANSWER_S)]


@pytest.mark.parametrize(
    ("now_s", "has_room", "is_full"), [(44.9, True, True), (45.0, True, False), (45.0, False, True)]
)
def test_a_directory_is_full_for_so_long(
    monkeypatch: pytest.MonkeyPatch, now_s: float, has_room: bool, is_full: bool
) -> None:
    monkeypatch.setattr(module, "FULL_S", 5)
    one, other = Directory(), Directory(is_full=False)
    full, told = looking_at(other, one)
    times = iter((40.0, now_s))
    monkeypatch.setattr(module, "asyncio", at(lambda: next(times)))
    one.room = has_room
    full.look()
    full.look()
    assert (one.health.is_full, told) == (is_full, [] if is_full else ["has room"])


@pytest.mark.parametrize("is_led_on", [True, False])
async def test_who_waits_for_its_turn_may_have_nothing_to_hand_over_then(is_led_on: bool) -> None:
    asked, answers = list[Any](), [True, is_led_on]

    def can(*given: object) -> bool:
        asked.append(given)
        return answers.pop(0)

    async def prepare(partition: object) -> None:
        asked.append("prepared")

    one: Any = SimpleNamespace(_can=can, _neighbours=SimpleNamespace(prepare=prepare), _few=asyncio.Semaphore(1))
    if not is_led_on:
        assert not await module.HandOvers._hand_over_partition(one, cast("Any", "t-0"), 4, 2)
        assert asked == [("t-0", 4, 2), "prepared", ("t-0", 4, 2)]
    answers[:] = [False]
    asked.clear()
    assert not await module.HandOvers._hand_over_partition(one, cast("Any", "t-0"), 4, 2)
    assert asked == [("t-0", 4, 2)]
