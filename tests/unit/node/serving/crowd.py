"""Peers that hold room of a node's memory for requests, or want some, on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from penstock.node.serving.room import Peer, RequestMemory
from penstock.testing.simulator.loop import VirtualLoop


class Crowd:
    """What peers send, and who got room or lost it."""

    def __init__(self, limit: int) -> None:
        self.memory = RequestMemory(limit)
        self.far: dict[str, int] = {}
        self.more: dict[str, None] = {}
        self.came: list[str] = []
        self.lost: list[str] = []

    def take(self, key: str, size: int, host: str = "h", rest: int = 1) -> bool:
        peer = Peer(host, lambda: self.far.get(key, 0), lambda: key in self.more, lambda: self._lose(key))
        return self.memory.take(key, size, lambda: self.came.append(key), peer, rest)

    def _lose(self, key: str) -> None:
        self.lost.append(key)
        self.memory.give(key)


def on_virtual_time(run: Callable[[], Awaitable[None]]) -> None:
    VirtualLoop(Random(1)).run_until_complete(run())
