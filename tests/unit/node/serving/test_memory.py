"""What a connection had is free again when it has ended, without a look at all that a node has."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import struct
from types import SimpleNamespace

import pytest
from tests.unit.node.served_node import serving

from penstock.node.serving.connection import Connection
from penstock.node.serving.frames import SHARED_BYTES
from penstock.node.serving.handler import Handler
from penstock.node.serving.memory import ARENAS, M_ARENA_MAX, give_back_memory, share_memory
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
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    for name in ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    share_memory()
    assert found == asked
    del library.mallopt
    share_memory()  # as where the library is another
