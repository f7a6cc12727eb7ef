"""The leader of a storage group is cut off from the controllers, and from nobody else: another voter leads soon."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan, seeds

from penstock.metadata.topics import PartitionImage
from penstock.node.controlling.lease import BrokerLease
from penstock.testing.simulator import simulate
from penstock.testing.simulator.faults import Faults
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.plan import NodePlan

NODES = (NodePlan(1, "controller"), NodePlan(2, "broker"), NodePlan(3, "broker"), NodePlan(4, "broker"))
PLAN = replicated_plan(by_consensus=True, topics=2, producers=2).replace(nodes=NODES)
SOON_S = 5.0
"""From when the broker is fenced."""
STUCK = "clients find nobody who leads the storage group"


def named(machines: Sequence[Machine]) -> PartitionImage | None:
    """The first group, as the controller has it."""
    return machines[0].observer.image.storage_groups.get(0)


def appended(machines: Sequence[Machine], node_id: int) -> int:
    """How many records the partitions of the group have on that node."""
    node = next((machine.node for machine in machines if machine.plan.node_id == node_id), None)
    group = None if node is None else node.broker.storage_groups.group(0)
    return 0 if group is None else sum(one.end_offset for one in group.partitions.values())


async def cut_off(faults: Faults, *_: Any) -> None:
    machines, network = faults._machines, faults._network
    while (group := named(machines)) is None or len(group.isr) < 3 or not appended(machines, group.leader):
        await asyncio.sleep(0.1)
    (victim,) = (machine.name for machine in machines if machine.plan.node_id == group.leader)
    links = [(victim, machines[0].name), (machines[0].name, victim)]
    network.conditions.cut.update(dict.fromkeys(links))
    await asyncio.sleep(PLAN.session_s + SOON_S)
    after = named(machines)
    assert after is not None
    before = appended(machines, after.leader)
    await asyncio.sleep(SOON_S)
    if after.leader in (-1, group.leader) or appended(machines, after.leader) == before:
        faults._ledger.violated(f"{STUCK}: {after}")
    network.mend(links)


@pytest.mark.parametrize("seed", range(2))
def test_another_voter_leads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "run", cut_off)
    assert simulate(seed, plan=PLAN).violations == []


def test_a_leader_that_does_not_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "run", cut_off)
    monkeypatch.setattr(BrokerLease, "is_unheard", False)
    assert is_found_with(seeds(5), PLAN, STUCK)
