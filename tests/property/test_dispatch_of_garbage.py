"""Whatever bytes come as a request, the node answers, waits, or closes the connection: no handler falls over them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from tests.property.mutations import mutated
from tests.unit.node.on_disk import PEER, batch, node_on, produce_request, topic_records

from penstock.node.serving.dispatch import Waiting
from penstock.node.serving.handler import CloseConnection
from penstock.protocol.errors import DecodeError
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import encode_request

FRAMES = 10_000
# What needs a controller or groups is fuzzed by what these handlers do: they decode, and put the rest in a queue.
SERVED_FROM_LOGS = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.API_VERSIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_PRODUCERS,
)


def requests() -> list[bytes]:
    """A good frame of every version of each API."""
    frames = [
        encode_request(api_of(key).request_class(), version, 1, "test")[4:]
        for key in SERVED_FROM_LOGS
        for version in api_of(key).versions
    ]
    frames += [encode_request(produce_request(batch(b"a", b"b")), version, 1, "test")[4:] for version in range(3, 13)]
    return frames


async def test_no_handler_falls_over_garbage(tmp_path: Path) -> None:
    random = Random(20261121)
    frames = requests()
    answered = 0
    with node_on(tmp_path, *topic_records()) as node:
        for number in range(FRAMES):
            frame = memoryview(bytearray(mutated(frames[number % len(frames)], random)))
            try:
                reply = node.dispatcher.dispatch(frame, PEER)
            except (DecodeError, CloseConnection):
                continue
            answered += 1
            if isinstance(reply, Waiting):
                asyncio.ensure_future(reply.answer).cancel()
                await asyncio.sleep(0)
        assert 0 < answered < FRAMES
        assert node.produce(b"still here")[0] == 0
