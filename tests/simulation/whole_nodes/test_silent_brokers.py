"""A broker hangs, with all its connections open: transactions go on as soon as it is fenced, without a time-out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.metadata.image import NOBODY
from penstock.node.assembly.broker_start import _Neighbours
from penstock.node.coordinators.markers import MarkerSender
from penstock.protocol.internal_topics import TRANSACTION_STATE
from penstock.testing.simulator import simulate
from penstock.testing.simulator.faults import Faults
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.plan import NodePlan
from penstock.testing.simulator.transactions import OF_TRANSACTIONS

NODES: Final = (NodePlan(1, "controller"), NodePlan(2, "broker"), NodePlan(3, "broker"), NodePlan(4, "broker"))
PLAN: Final = replicated_plan(
    transacting=1, producers=0, consumers=0, settings={"transaction.state.log.num.partitions": "1"}
).replace(nodes=NODES)
SOON_S: Final = 1.5
"""From when the broker is fenced."""
TOPIC: Final = "x-0"
STUCK: Final = "a transaction waits for a broker that is fenced"


async def hang(faults: Faults, *_: Any) -> None:
    """A broker hangs that is to write markers, with its connections open, and is not who coordinates."""
    machines, send = faults._machines, MarkerSender._send
    sent: asyncio.Future[Machine] = asyncio.get_running_loop().create_future()
    times = Counter[int]()

    async def send_to_the_hanging(sender: MarkerSender, broker_id: int, some: Any) -> None:
        coordinator = leader(machines, TRANSACTION_STATE)
        times[broker_id] += 1  # at first a connection is opened, which has a short time-out of its own
        if not sent.done() and NOBODY != coordinator != broker_id and times[broker_id] > 1:
            (victim,) = (machine for machine in machines if machine.plan.node_id == broker_id)
            victim.pause()
            sent.set_result(victim)
        await send(sender, broker_id, some)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarkerSender, "_send", send_to_the_hanging)
        victim = await sent
        decided = transaction(machines)
        await asyncio.sleep(PLAN.session_s + SOON_S)
        if transaction(machines) is decided:
            faults._ledger.violated(f"{STUCK}: {decided}")
        victim.go_on()


def leader(machines: Sequence[Machine], topic: str) -> int:
    """Of its first partition, as the controller has it; nobody, while replicas are not in sync."""
    image = machines[0].observer.image.topics.get(topic)
    partition = None if image is None else image.partitions.get(0)
    return NOBODY if partition is None or len(partition.isr) < len(partition.replicas) else partition.leader


def transaction(machines: Sequence[Machine]) -> object:
    """As its coordinator has it."""
    image = machines[0].observer.image.topics[TRANSACTION_STATE]
    (machine,) = (machine for machine in machines if machine.plan.node_id == image.partitions[0].leader)
    assert machine.serving is not None
    host = machine.serving.coordinators.for_keys(OF_TRANSACTIONS)
    assert host is not None
    return host.find(TOPIC).machine._table.known(TOPIC)


@pytest.mark.parametrize("seed", soaked_after(1, range(10)))
def test_transactions_go_on(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "run", hang)
    assert simulate(seed, plan=PLAN).violations == []


def test_a_fenced_broker_that_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "run", hang)
    monkeypatch.setattr(_Neighbours, "on_metadata", lambda *_: None)
    monkeypatch.setattr(MarkerSender, "follow", lambda _: None)
    assert is_found_with(seeds(5), PLAN, STUCK)
