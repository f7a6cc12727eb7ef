"""Work that is done a little at a time."""

import asyncio
from random import Random

import pytest

from penstock.node.environment.signal import Signal
from penstock.node.partitions.backlog import Backlog


class Noted:
    def __init__(self, at_once: int) -> None:
        self.done: list[int] = []
        self.told = 0
        finished = Signal[()]()
        finished.listen(self.tell)
        self.backlog = Backlog(self.do, at_once, finished)

    def do(self, thing: int) -> None:
        self.done.append(thing)
        if thing < 0:
            raise ValueError("no such thing")

    def tell(self) -> None:
        self.told += 1


def test_what_one_turn_has_time_for_is_done_at_once_without_a_loop() -> None:
    one = Noted(3)
    one.backlog.extend([1, -2])
    assert one.done == []
    one.backlog.extend([3])
    one.backlog.work()
    assert (one.done, one.told) == ([1, -2, 3], 0), "a fault keeps nothing else from being done"


async def test_the_rest_is_done_in_later_turns_in_its_order() -> None:
    one = Noted(2)
    one.backlog.extend(range(5))
    one.backlog.work()
    one.backlog.work()
    assert one.done == [0, 1], "a second call does not hurry it"
    one.backlog.extend([5])
    waiting = asyncio.ensure_future(one.backlog.settled())
    await asyncio.sleep(0)
    assert (one.done, waiting.done()) == ([0, 1, 2, 3], False)
    await waiting
    assert (one.done, one.told) == (list(range(6)), 1)
    await one.backlog.settled()
    one.backlog.extend([6])
    one.backlog.work()
    assert (one.done[-1], one.told) == (6, 1)


async def test_a_stop_drops_the_rest_and_lets_go_who_waits() -> None:
    one = Noted(1)
    one.backlog.stop()
    assert one.told == 0, "nobody waited"
    one.backlog.extend(range(3))
    one.backlog.work()
    waiting = asyncio.ensure_future(one.backlog.settled())
    await asyncio.sleep(0)
    one.backlog.stop()
    await waiting
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(one.done) < 3
    assert one.told == 1


async def test_what_is_cleared_is_not_done() -> None:
    one = Noted(1)
    one.backlog.extend(range(3))
    one.backlog.work()
    one.backlog.clear()
    await one.backlog.settled()
    assert (one.done, one.told) == ([0], 1)


@pytest.mark.parametrize("seed", range(6))
async def test_all_is_done_in_its_order_a_few_in_a_turn(seed: int) -> None:
    """Beside a plain list: what was added, but for what was cleared."""
    random, one = Random(seed), Noted(3)
    left, done, told = list[int](), list[int](), 0
    is_working = False
    for number in range(80):
        match random.randrange(5):
            case 0 | 1:
                things = list(range(number * 10, number * 10 + random.randrange(5)))
                one.backlog.extend(things)
                left += things
            case 2 if not is_working:
                one.backlog.work()
                done += left[:3]
                del left[:3]
                is_working = bool(left)
            case 2:
                one.backlog.work()
            case 3 if random.random() < 0.3:
                one.backlog.clear()
                left.clear()
            case _:
                await asyncio.sleep(0)
                if is_working:
                    done += left[:3]
                    del left[:3]
                    is_working = bool(left)
                    told += not is_working
        assert (one.done, one.told) == (done, told)
        assert (one.backlog._done is not None) is is_working
