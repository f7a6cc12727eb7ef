"""Who sends a little now and then keeps nobody else from the memory for requests."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from tests.unit.node.serving.crowd import Crowd, on_virtual_time

from penstock.node.serving.room import PATIENCE_S, STILL_S


async def beyond_the_limit(crowd: Crowd) -> None:
    """`long` holds more than there is, and `waits` waits behind it."""
    assert crowd.take("long", 8)
    assert not crowd.take("waits", 3)
    assert crowd.take("long", 12, rest=80)
    assert crowd.memory._beyond == "long"


async def drips(crowd: Crowd, key: str, seconds: float, piece_s: float, size: int = 12) -> float:
    """After how long it loses what it has, which it takes in so many pieces; else all of the time."""
    sends_s = 0.25
    for number in range(round(seconds / sends_s)):
        if key in crowd.lost:
            return number * sends_s
        crowd.far[key] = number + 1
        if number and number * sends_s % piece_s == 0:
            size += 1
            assert crowd.take(key, size)
        await asyncio.sleep(sends_s)
    return seconds


def test_a_frame_beyond_the_limit_has_ten_seconds_while_others_wait() -> None:
    """A peer that drips a frame of 90 MB kept all others out for half an hour."""

    async def run() -> None:
        crowd = Crowd(10)
        await beyond_the_limit(crowd)
        assert PATIENCE_S <= await drips(crowd, "long", 60, 0.5) <= PATIENCE_S + 1
        assert crowd.came == ["waits"]

    on_virtual_time(run)


def test_a_piece_of_it_has_one_second() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        await beyond_the_limit(crowd)
        assert STILL_S <= await drips(crowd, "long", 60, 30.0) <= STILL_S + 1

    on_virtual_time(run)


def test_where_nobody_waits_it_has_all_the_time_it_wants() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("long", 12)
        assert await drips(crowd, "long", 60, 30.0) == 60
        assert not crowd.take("waits", 3)
        crowd.memory.give("waits")
        assert await drips(crowd, "long", 60, 30.0, 14) == 60

    on_virtual_time(run)


def test_the_next_one_beyond_the_limit_has_as_long() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        await beyond_the_limit(crowd)
        assert await drips(crowd, "long", 5, 0.5) == 5
        crowd.memory.give("long")
        await asyncio.sleep(0)
        assert crowd.came == ["waits"]
        assert not crowd.take("more", 9)
        assert crowd.take("waits", 13)
        assert PATIENCE_S <= await drips(crowd, "waits", 60, 0.5, 13) <= PATIENCE_S + 1

    on_virtual_time(run)


@pytest.mark.parametrize(
    ("slow", "lost"),
    [
        ((("a", 4), ("a", 3)), ""),  # less than three quarters
        ((("a", 4), ("a", 4)), "1"),
        ((("a", 2), ("a", 2), ("a", 2), ("a", 2)), "3"),
        ((("a", 2), ("a", 2), ("a", 2), ("b", 2)), "2"),  # of the host that has most
        ((("a", 5), ("b", 1), ("b", 1), ("b", 1)), "0"),
        ((("a", 1), ("b", 4), ("b", 4)), "2"),
        ((("b", 4), ("a", 2), ("b", 3)), "2"),
        ((("a", 3), ("a", 3), ("a", 3)), "2"),
    ],
)
def test_those_that_are_slow_have_three_quarters(slow: tuple[tuple[str, int], ...], lost: str) -> None:
    """Of 10; each has begun a little after the one before it, and goes on sending."""

    async def run() -> None:
        crowd = Crowd(10)
        for number, (host, size) in enumerate(slow):
            assert crowd.take(str(number), size, host)
            await asyncio.sleep(0.01)
        assert not crowd.take("waits", 10, "c")
        for second in range(5):
            await asyncio.sleep(0.5)
            crowd.far |= {str(number): second + 1 for number in range(len(slow))}
        assert "".join(crowd.lost) == lost

    on_virtual_time(run)


def test_who_is_quick_is_not_among_them() -> None:
    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("slow", 7)
        assert crowd.take("quick", 1)
        assert not crowd.take("waits", 10)
        for turn in range(2, 14):
            crowd.far |= {"slow": turn, "quick": turn}
            if turn <= 3:
                assert crowd.take("quick", turn)
            else:
                crowd.memory.give("quick")
                assert not crowd.take("quick", 3)
            await asyncio.sleep(0.5)
        assert crowd.lost == []

    on_virtual_time(run)


def test_nor_is_who_is_held_back_here() -> None:
    """It has sent more than there is room for."""

    async def run() -> None:
        crowd = Crowd(10)
        assert crowd.take("a", 5)
        assert crowd.take("b", 5)
        assert crowd.take("a", 6)
        crowd.more["b"] = None
        assert not crowd.take("b", 9, rest=9)
        assert not crowd.take("c", 1)
        for turn in range(6):
            crowd.far["a"] = turn + 1
            await asyncio.sleep(0.5)
        assert crowd.lost == ["a"]
        assert "b" in crowd.came

    on_virtual_time(run)


def test_work_that_wants_more_than_is_ever_free_goes_on_after_two_looks() -> None:
    """Two peers that take turns at not reading an answer held up all that is large for as long as they liked."""

    async def run() -> None:
        crowd = Crowd(10)
        memory = crowd.memory
        memory.charge("unread", 1)
        for name, size in (("large", 12), ("next", 12), ("small", 2)):
            assert not memory.take(name, size, partial(crowd.came.append, name))
        assert not crowd.take("begun", 3)
        await asyncio.sleep(1.5)
        assert crowd.came == []
        await asyncio.sleep(1)
        assert sorted(crowd.came) == ["begun", "large"], "one at a time, and others have what room there is"
        assert crowd.take("begun", 4), "it keeps that"
        memory.give("large")
        await asyncio.sleep(0)
        assert crowd.came[2:] == ["next"]
        memory.give("next")
        await asyncio.sleep(0)
        assert crowd.came[3:] == ["small"]
        assert not memory.is_short
        assert not memory._work_is_late

    on_virtual_time(run)


def test_whoever_sends_keeps_what_it_has_meanwhile() -> None:
    """They were closed in each second, though that did not make room enough."""

    async def run() -> None:
        crowd = Crowd(10)
        crowd.memory.charge("unread", 6)
        assert crowd.take("begun", 3)
        assert not crowd.memory.take("large", 12, partial(crowd.came.append, "large"))
        crowd.more["begun"] = None
        assert not crowd.memory.take("larger", 90, partial(crowd.came.append, "larger"))
        for turn in range(8):
            crowd.far["begun"] = turn + 1
            await asyncio.sleep(0.5)
        assert (crowd.came, crowd.lost) == (["large"], [])

    on_virtual_time(run)
