"""Whoever asks for memory gets it in the end, nothing is counted twice, and all is given back."""

import asyncio
from collections import Counter
from random import Random

import pytest

from penstock.node.serving.room import Peer, RequestMemory
from penstock.testing.simulator.loop import VirtualLoop

LIMIT = 100
KEYS = {f"{host}{number}": host for host in "abc" for number in range(4)}
"""Frames by their hosts; work on requests has none."""


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.memory = RequestMemory(LIMIT)
        self.held: dict[str, int] = {}
        self.waiting: dict[str, int] = {}
        self.work: list[str] = []
        """What waits without a peer, in its order."""

    def take(self, key: str) -> None:
        size = max(self.random.randrange(1, 60), self.held.get(key, 0))
        host = KEYS.get(key)
        has_more = self.random.random() < 0.3
        peer = None if host is None else Peer(host, self.moved, lambda: has_more, lambda: self.give(key))
        if key in self.waiting:
            return
        self.waiting[key] = size
        if host is None:
            self.work.append(key)
        if self.memory.take(key, size, lambda: self.came(key), peer, 0 if peer is None else self.random.randrange(5)):
            self.came(key)

    def moved(self) -> int:
        """How far a peer is: some move, and some stand still."""
        return self.random.randrange(3)

    def came(self, key: str) -> None:
        if key in self.waiting:  # it may have been given back in the same turn
            self.held[key] = self.waiting.pop(key)
            self.work = [other for other in self.work if other != key]

    def give(self, key: str) -> None:
        self.memory.give(key)
        self.held.pop(key, None)
        self.waiting.pop(key, None)
        self.work = [other for other in self.work if other != key]

    async def check(self) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        memory, total = self.memory, sum(self.held.values())
        assert memory._bytes == total
        assert memory.is_short is bool(self.waiting)
        of_hosts = Counter[str]()
        for key, size in self.held.items():
            if key in KEYS:
                of_hosts[KEYS[key]] += size
        assert memory._hosts == of_hosts
        beyond = self.held.get(str(memory._beyond), 0) + self.held.get(str(memory._work_beyond), 0)
        assert total - beyond <= LIMIT or len(self.held) == 1
        if self.work:
            first = self.work[0]
            assert total + self.waiting[first] - self.held.get(first, 0) > LIMIT, "work that has room goes on"
            assert not memory._work_is_late or memory._work_beyond in self.held, "one goes on without"
        if self.waiting:
            assert self.held, "something is there that will be given back"


@pytest.mark.parametrize("seed", range(6))
def test_memory_is_neither_lost_nor_kept_from_anybody(seed: int) -> None:
    async def scene() -> None:
        world = World(Random(seed))
        for _ in range(300):
            key = world.random.choice([*KEYS, "work1", "work2", "work3"])
            if world.random.random() < 0.6:
                world.take(key)
            else:
                world.give(key)
            if world.random.random() < 0.05:
                await asyncio.sleep(world.random.choice((0.5, 1.5, 11)))
            await world.check()
        while world.held or world.waiting:
            world.give(world.random.choice(sorted(world.held or world.waiting)))
            await world.check()
        assert world.memory._bytes == 0
        assert not world.memory._hosts

    VirtualLoop(Random(seed)).run_until_complete(scene())
