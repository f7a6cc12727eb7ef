"""What a connection had is free again when it has ended, without a look at all that a node has."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import struct
import weakref
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
from tests.stand_in import stand_in
from tests.unit.node.served_node import serving

from penstock.node.serving import memory
from penstock.node.serving.connection import Connection
from penstock.node.serving.frames import SHARED_BYTES
from penstock.node.serving.handler import Handler
from penstock.node.serving.memory import (
    ARENAS,
    EVERYTHING,
    M_ARENA_MAX,
    give_back_memory,
    keep_for_good,
    share_memory,
)
from penstock.node.serving.outgoing import CHUNK_BYTES
from penstock.node.serving.rules import NOTHING
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.requests.api import ApiKey


@pytest.mark.parametrize("ends", ["in order", "with a frame half sent", "with an answer half read"])
async def test_a_connection_that_has_ended_leaves_nothing_for_the_collector(ends: str) -> None:
    size = 64 * CHUNK_BYTES
    answer = [struct.pack(">ii", size + 4, 1), bytes(size)]
    looks = list[str]()
    gc.collect()
    async with serving(Handler(ApiKey.HEARTBEAT, 0, 4, lambda *_: answer, NOTHING, raw=True)) as node:
        gc.disable()
        gc.callbacks.append(lambda phase, _: looks.append(phase))
        try:
            client = await node.connect()
            assert await client.lives()
            (here,) = map(id, node.connections.active)
            if ends == "with a frame half sent":
                client.writer.write(struct.pack(">i", 1 << 20) + bytes(SHARED_BYTES))
            elif ends == "with an answer half read":
                client.send(HeartbeatRequest(), 4)
                await client.reader.readexactly(8)
            client.writer.transport.abort()
            while node.connections.active:
                await asyncio.sleep(0)
            give_back_memory()
            assert not [one for one in gc.get_objects() if type(one) is Connection and id(one) == here]
            assert not looks
        finally:
            gc.enable()
            gc.callbacks.pop()


@pytest.fixture
def collector() -> Iterator[None]:
    threshold, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


class Thing:
    """Has itself, if it is told to."""


def looked_at(phase: str, info: dict[str, int], found: list[int]) -> None:
    if phase == "start" and info["generation"] == EVERYTHING:
        found.append(len(gc.get_objects()))


@pytest.mark.usefixtures("collector")
def test_a_node_that_grows_is_looked_at_part_by_part() -> None:
    """However much it has: each part once, and a circle that is let go of before that is freed."""
    found, circles, held = list[int](), list[weakref.ref[Thing]](), list[list[object]]()
    keep_for_good(as_it_grows=True)
    frozen = gc.get_freeze_count()
    gc.callbacks.append(partial(looked_at, found=found))
    for number in range(300_000):
        held.append([])
        if number % 1000 == 0:
            thing = Thing()
            thing.__dict__["itself"] = thing
            circles.append(weakref.ref(thing))
            del thing
    gc.callbacks.pop()
    assert max(found) <= 30_000
    assert gc.get_freeze_count() - frozen >= 250_000
    assert sum(one() is not None for one in circles) <= 30
    del held


@pytest.mark.usefixtures("collector")
def test_beside_code_of_others_nothing_more_is_frozen() -> None:
    callbacks = list(gc.callbacks)
    keep_for_good(as_it_grows=False)
    frozen = gc.get_freeze_count()
    gc.collect()
    assert gc.callbacks == callbacks
    assert abs(gc.get_freeze_count() - frozen) < 100


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, [(M_ARENA_MAX, ARENAS)]),
        ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}, [(M_ARENA_MAX, ARENAS)]),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, []),
        ({"MALLOC_ARENA_MAX": "4"}, []),
    ],
)
def test_threads_share_memory_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], asked: list[tuple[int, int]]
) -> None:
    found = list[tuple[int, int]]()
    library = SimpleNamespace(mallopt=lambda *what: found.append(what))
    monkeypatch.setattr(memory, "ctypes", stand_in(ctypes, CDLL=lambda _: library))
    for name in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    share_memory()
    assert found == asked
    del library.mallopt
    share_memory()  # as where the library is another
