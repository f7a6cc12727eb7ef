"""What one step of serving does: a turn of writing, memory that goes back, what freezes, and what a fetch is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.metadata.quotas.records import quota
from tests.unit.node.serving.test_sasl_connection import Users, log_in, serving
from tests.unit.node.serving.test_throttle import SHARE, World

from penstock.node.serving import memory
from penstock.node.serving.frames import GIVEN_BACK_BYTES, Mapping
from penstock.node.serving.outgoing import CHUNK_BYTES, CHUNKS_AT_ONCE, Outgoing
from penstock.protocol.requests.api import ApiKey


class Transport:
    """Without a socket; may block the queue, or close, at so many writes."""

    def __init__(self, out: Outgoing, *, blocks_at: int = -1, closes_at: int = -1) -> None:
        self.out, self.blocks_at, self.closes_at = out, blocks_at, closes_at
        self.written: list[int] = []

    def write(self, data: bytes) -> None:
        self.written.append(len(data))
        self.out.is_blocked = self.out.is_blocked or len(self.written) == self.blocks_at

    def is_closing(self) -> bool:
        return 0 <= self.closes_at <= len(self.written)

    def get_extra_info(self, name: str) -> None:
        return None


FULL = [CHUNK_BYTES] * CHUNKS_AT_ONCE


@pytest.mark.parametrize(
    ("parts", "how", "written", "goes_on", "left"),
    [
        ([1, 2], {}, [3], False, 0),
        ([CHUNK_BYTES], {}, [CHUNK_BYTES], False, 0),
        ([CHUNK_BYTES, 1], {}, [CHUNK_BYTES, 1], False, 0),
        ([CHUNK_BYTES * CHUNKS_AT_ONCE], {}, FULL, False, 0),
        ([CHUNK_BYTES] * CHUNKS_AT_ONCE, {}, FULL, False, 0),
        ([CHUNK_BYTES * CHUNKS_AT_ONCE + 1], {}, FULL, True, 1),
        ([CHUNK_BYTES * CHUNKS_AT_ONCE + 1], {"blocks_at": CHUNKS_AT_ONCE}, FULL, False, 1),
        ([3 * CHUNK_BYTES], {"blocks_at": 1}, FULL[:1], False, 2 * CHUNK_BYTES),
        ([3 * CHUNK_BYTES], {"closes_at": 2}, FULL[:2], False, CHUNK_BYTES),
    ],
)
def test_what_is_written_in_a_turn(
    parts: list[int], how: dict[str, int], written: list[int], goes_on: bool, left: int
) -> None:
    out = Outgoing()
    transport = Transport(out, **how)
    out.add([bytes(size) for size in parts])
    assert out.flush(cast("Any", transport)) is goes_on
    assert (transport.written, out.queued_bytes, bool(out)) == (written, left, left > 0)
    assert out.is_blocked is (goes_on or "blocks_at" in how)


def test_who_is_blocked_writes_nothing() -> None:
    out = Outgoing()
    transport = Transport(out)
    out.is_blocked = True
    out.add([b"a"])
    assert out.flush(cast("Any", transport)) is False
    assert (transport.written, out.queued_bytes) == ([], 1)
    out.clear()
    assert (out.queued_bytes, bool(out)) == (0, False)


@pytest.mark.parametrize("size", [1, GIVEN_BACK_BYTES, GIVEN_BACK_BYTES + 1, 2 * GIVEN_BACK_BYTES])
async def test_memory_goes_back_in_pieces_and_no_further_than_its_end(size: int) -> None:
    mapping, later = Mapping(size), list[tuple[Any, ...]]()
    mapping._loop = None
    loop = cast("Any", SimpleNamespace(call_soon=lambda *call: later.append(call)))
    mapping._give_back(loop, 0)
    starts = [0]
    while later:
        ((call, given, start),) = later
        assert given is loop
        later.clear()
        starts.append(start)
        call(given, start)
    assert starts == [*range(0, size, GIVEN_BACK_BYTES)]


@pytest.mark.parametrize(
    ("phase", "generation", "freezes"), [("stop", 2, True), ("start", 2, False), ("stop", 1, False), ("stop", 0, False)]
)
def test_what_is_left_is_frozen_behind_a_look_at_everything(
    monkeypatch: pytest.MonkeyPatch, phase: str, generation: int, freezes: bool
) -> None:
    frozen: list[None] = []
    monkeypatch.setattr(memory, "gc", SimpleNamespace(freeze=lambda: frozen.append(None)))
    memory._keep_what_is_left(phase, {"generation": generation})
    assert bool(frozen) is freezes


def test_a_fetch_takes_of_its_own_quota_alone() -> None:
    without = World(SHARE)
    charge = without.begin(ApiKey.FETCH)
    assert charge is not None
    charge.answered([bytes(100_000)])
    assert without.connection.seconds == []
    limited = World(quota("consumer_byte_rate", 1000, user="ada"))
    charge = limited.begin(ApiKey.FETCH)
    assert charge is not None
    charge.answered([bytes(1_500)])
    assert limited.buckets.consumer is not None
    assert limited.buckets.consumer.taken == 1_500


async def test_the_protocol_of_a_session_is_that_of_its_listener() -> None:
    users = Users()
    async with serving(users) as node:
        client = await node.connect()
        await log_in(client)
        (connection,) = users.listener.open
        assert connection.session is not None
        assert connection.session.security_protocol == "SASL_PLAINTEXT"
        assert (connection.session.mechanism, str(connection.session.principal)) == ("PLAIN", "User:ada")
        counts = connection._connections.counts.listener("CLIENTS")
        assert (counts.logins, counts.failed_logins) == (1, 0)
        stranger = await node.connect()
        assert (await log_in(stranger, b"\0ada\0wrong")).error_code
        assert (counts.logins, counts.failed_logins) == (1, 1)
