"""Three nodes on virtual time: each holds its clients to quotas, the active controller counts, and nodes are free."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.whole_nodes.quota_world import EXCEEDED, SOON_S, World, create, in_world, produce, told

TINY = {
    "producer_byte_rate": 1.0,
    "consumer_byte_rate": 1.0,
    "request_percentage": 0.01,
    "controller_mutation_rate": 0.01,
}


async def leader_of(world: World) -> int:
    """Of the partition, by the place of its machine."""
    await asyncio.sleep(1)
    for number, machine in enumerate(world.machines):
        broker = machine.serving
        partition = None if broker is None else broker.partitions.get("t", 0)
        if partition is not None and partition.leader is not None:
            return number
    raise AssertionError("nobody leads")


def test_what_nodes_do_among_themselves_is_free() -> None:
    async def live(world: World) -> None:
        leader = await leader_of(world)
        free = await world.connect("free", world.machines[leader])
        await world.alter({"user": None, "client-id": "free"}, **dict.fromkeys(TINY, 1e9))
        await world.alter({"user": None, "client-id": None}, **TINY)
        for size in (10_000, 200_000, 10_000):
            took_s, answer = await world.timed(produce(free, size, acks=-1))
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert took_s < SOON_S

    in_world(live, nodes=3, min_insync_replicas="3")


def test_the_active_controller_counts_whatever_broker_is_asked() -> None:
    async def live(world: World) -> None:
        await world.alter({"user": None}, controller_mutation_rate=1)
        clients = [await world.connect("maker", machine) for machine in world.machines]
        answers = [await create(client, 7, **{f"t{number}": 11}) for number, client in enumerate(clients)]
        assert [told(answer.topics) for answer in answers] == [{"t0": 0}, {"t1": 0}, {"t2": EXCEEDED}]
        assert answers[2].throttle_time_ms == pytest.approx(11_000, abs=100)
        took_s, answer = await world.timed(create(clients[2], 7, t2=1))
        assert took_s == pytest.approx(11, abs=SOON_S), "the broker that was asked mutes"
        assert told(answer.topics) == {"t2": 0}

    in_world(live, nodes=3)


def test_a_quota_holds_on_each_broker_by_itself() -> None:
    async def live(world: World) -> None:
        await world.alter({"user": None}, request_percentage=1e-9, producer_byte_rate=1)
        for machine in world.machines:
            client = await world.connect("c", machine)
            took_s, answer = await world.timed(produce(client, 100))
            assert took_s < SOON_S
            assert answer.throttle_time_ms > 100_000
            assert machine.node is not None
            assert machine.node.parts.throttling.active is not None

    in_world(live, nodes=3)
