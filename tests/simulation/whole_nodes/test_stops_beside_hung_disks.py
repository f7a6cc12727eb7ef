"""A node that is asked to stop does so in time, whatever its threads were at when their disk began to hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ClientSettings, ProducerSettings
from penstock.node.environment.tasks import ENDS_S
from penstock.testing.simulator.ledger import Ledger
from penstock.testing.simulator.loop import Process, VirtualLoop
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.network import Network
from penstock.testing.simulator.plan import Plan
from penstock.testing.simulator.trace import Trace

PLAN = Plan(
    settings={"log.dirs": "/data,/data2", "log.flush.interval.messages": "1"},
    flushes_each=True,
    producers=0,
    consumers=0,
    groups=0,
    topics=0,
    faults=(),
    seconds=0,
    delay_s=0.001,
    socket_bytes=65_536,
)
SHUTDOWN_TIMEOUT_S = 300
SECONDS = [0.0, 0.05, 1.0, 5.01, 60.0]
"""How long after the node was given work its threads begin to hang."""
ALWAYS = [("all", 0.0), ("of a disk", 1.0), ("shared", 5.01)]
CASES = [(which, after_s) for which in ("all", "of a disk", "shared") for after_s in SECONDS]


def hang(loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch, which: Callable[[object], bool]) -> None:
    """From now on no thread of these returns."""
    run = loop.run_in_executor

    def run_or_hang(executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return loop.create_future() if which(executor) else run(executor, func, *args)

    monkeypatch.setattr(loop, "run_in_executor", run_or_hang)


async def live(machine: Machine, loop: VirtualLoop, begins_to_hang: Callable[[], None], after_s: float) -> float:
    """How long the stop took."""
    settings = ClientSettings(now_ms=loop.now_ms, random=Random(1))
    of_producer = ProducerSettings(now_ms=loop.now_ms, random=Random(1))

    async def give_work() -> None:
        async with Admin(machine.address, settings) as admin:
            await admin.topics.create(NewTopic(name="t", partitions=4, replication_factor=1))
            async with Producer(machine.address, of_producer) as producer:
                for index in range(4):
                    await producer.send("t", b"x", partition=index)

    async def go_on_giving() -> None:
        async with Producer(machine.address, of_producer) as producer:
            for index in range(4):
                await producer.send("t", b"y", partition=index)

    await machine.start()
    await Process("client").spawn(loop, give_work())
    Process("later").spawn(loop, go_on_giving())
    await asyncio.sleep(after_s)
    assert machine.node is not None
    assert machine.process is not None
    for partition in list(machine.node.broker.partitions):
        other = {"/data": "/data2", "/data2": "/data"}[partition.log.parent]
        machine.node.broker.moves.move(partition, other)
    begins_to_hang()
    Process("more").spawn(loop, go_on_giving())
    await asyncio.sleep(0.1)
    since_s = loop.moment
    await machine.process.spawn(loop, machine.node.stop())
    assert not machine.node.parts.quorum.is_running, "it goes on in the quorum"
    return loop.moment - since_s


@pytest.mark.filterwarnings("ignore")  # coroutines of killed processes end in the middle
@pytest.mark.parametrize(
    ("which", "after_s"), [case if case in ALWAYS else pytest.param(*case, marks=pytest.mark.soak) for case in CASES]
)
def test_it_stops_in_time(monkeypatch: pytest.MonkeyPatch, which: str, after_s: float) -> None:
    hangs = {"all": lambda _: True, "of a disk": lambda one: one is not None, "shared": lambda one: one is None}[which]
    loop = VirtualLoop(Random(2))
    trace = Trace(loop.time)
    ledger = Ledger(trace, flushes_each=True)
    machine = Machine(PLAN.nodes[0], PLAN, Network(loop, Random(3), trace), Random(4), ledger, trace)
    try:
        took_s = loop.run_until_complete(live(machine, loop, lambda: hang(loop, monkeypatch, hangs), after_s))
    finally:
        if machine.process is not None:
            machine.process.kill()
        loop.close()
    assert took_s < SHUTDOWN_TIMEOUT_S
    assert took_s > ENDS_S or which == "shared", "something hung"
