"""Nodes and clients on virtual time that speak through the layer of TLS, log in, and have rights and quotas."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from tests.simulation.whole_nodes.planted_plans import replicated_plan
from tests.simulation.whole_nodes.quota_world import PIECE, RATE, World, produce

from penstock.testing.simulator import simulate
from penstock.testing.simulator.plan import LOG_INS, OVER_TLS, RIGHTS, Plan
from penstock.testing.simulator.stand_in_tls import LARGEST, MixedUpError, StandInContext, StandInEngine

SOAKED = 40


def revoking(seconds: float) -> Plan:
    faults = ("kill", "pause", "isolate", "break")
    return replicated_plan(*faults, settings=RIGHTS | OVER_TLS, revokes=True, seconds=seconds)


@pytest.mark.soak
def test_a_right_that_was_taken_away_is_gone() -> None:
    outcome = simulate(103, plan=revoking(3))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])
    assert outcome.acknowledged > 0
    assert any(" revoked the rights " in line for line in outcome.trace)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 200 + SOAKED))
def test_it_is_gone_with_more_seeds(seed: int) -> None:
    outcome = simulate(seed, plan=revoking(20))
    assert outcome.violations == [], "\n".join(outcome.trace[-60:])


@pytest.mark.soak
def test_a_seed_tells_the_same_story_twice() -> None:
    first, second = (simulate(104, plan=revoking(5)).trace for _ in range(2))
    assert first == second


def test_what_a_client_sends_ahead_while_it_is_muted_is_taken_later_and_whole() -> None:
    """Some of it has come to the layer when the connection is read from no longer."""

    async def live(world: World) -> None:
        await world.alter({"client-id": "greedy"}, producer_byte_rate=RATE)
        greedy, count = await world.connect("greedy"), 100
        answers = await asyncio.gather(*(produce(greedy, PIECE) for _ in range(count)))
        offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
        assert offsets == [*range(count)]
        large = await produce(greedy, 10 * LARGEST)
        assert large.responses[0].partition_responses[0].error_code == 0

    settings = LOG_INS | OVER_TLS | {"connections.max.reauth.ms": "0"}  # a session would end before it is heard again
    World(settings).run(live)


def pair() -> tuple[StandInEngine, StandInEngine, ssl.MemoryBIO, ssl.MemoryBIO]:
    """A client and a server after the handshake, and what is on the way to each."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = StandInContext({}, None)
    client, server = context.wrap_bio(to_client, to_server), context.wrap_bio(to_server, to_client, server_side=True)
    for one in (client, server, client, server):
        try:
            one.do_handshake()
        except ssl.SSLWantReadError:
            assert one is not server or to_client.pending
    return client, server, to_client, to_server


def read(engine: StandInEngine, size: int) -> bytes:
    room = bytearray(size)
    return bytes(room[: engine.read(size, memoryview(room))])


def test_the_stand_in_gives_what_was_written_and_then_the_goodbye() -> None:
    client, server, _, to_server = pair()
    client.write(b"x" * (LARGEST + 5))
    assert (len(read(server, 10)), server.pending()) == (10, LARGEST - 10)
    assert len(read(server, LARGEST)) == LARGEST - 10
    on_the_way = to_server.read()
    to_server.write(on_the_way[:3])
    with pytest.raises(ssl.SSLWantReadError):
        read(server, 10)
    to_server.write(on_the_way[3:])
    assert read(server, 10) == b"x" * 5
    with pytest.raises(ssl.SSLWantReadError):
        client.unwrap()
    assert read(server, 10) == b""


def test_a_record_in_the_wrong_place_is_the_layers_fault() -> None:
    client, server, _, to_server = pair()
    client.write(b"lost")
    to_server.read()
    client.write(b"comes")
    with pytest.raises(MixedUpError, match="the record 3 came in place of 2"):
        read(server, 10)
