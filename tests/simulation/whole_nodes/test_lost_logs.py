"""Disks lose records of storage groups that were flushed: of partitions, which the group's log has forgotten, or that
log itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan

from penstock.node.storage_groups import start
from penstock.node.storage_groups.group import StorageGroup
from penstock.node.storage_groups.replica import GroupReplica
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.testing.simulator import simulate
from penstock.testing.simulator.faults import Faults
from penstock.testing.simulator.machine import Machine

FORGETFUL = {"storage.group.max.bytes.between.snapshots": "3000", "log.dirs": "/data,/data2"}
PLAN = replicated_plan(
    *3 * ("lost logs",), "kill the leader", "power all", flushes_each=False, by_consensus=True, producers=2,
    settings=FORGETFUL,
).replace(topics=4, seconds=12, admin_pause_s=30)  # fmt: skip
"""No topic is deleted meanwhile: what was lost would not be missed any more."""


@pytest.mark.parametrize("seed", soaked_after(1, range(4)))
def test_a_replica_gets_back_what_its_disk_has_lost(seed: int) -> None:
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []
    assert outcome.acknowledged > 0


async def lose_all_partitions(faults: Faults, *_: Any) -> None:
    """All nodes end, and the disk of a follower loses all partitions. It is back first, and who led comes late."""
    machines = faults._machines
    while (leader := forgetful_leader(machines)) is None:
        await asyncio.sleep(0.1)
    first, second, third = sorted(machines, key=lambda machine: machine is leader)
    first.lose_logs([name for name in faults.logs_of_groups(first) if not name.startswith(STORAGE_GROUPS)])
    for machine in machines:
        machine.crash(power_lost=False)
    for machine, pause_s in ((first, 0.2), (second, 8.0), (third, 0.0)):
        machine.launch()
        await asyncio.sleep(pause_s)


def forgetful_leader(machines: Sequence[Machine]) -> Machine | None:
    """Who leads the first group, if the group's log has forgotten something and all replicas are there."""
    if not all(machine.groups_are_whole for machine in machines):
        return None
    led = ((machine, machine.groups_led().get(0)) for machine in machines)
    return next((machine for machine, group in led if group is not None and group.driver.log_start_offset), None)


@pytest.mark.parametrize("seed", soaked_after(1, range(2)))
def test_a_replica_has_all_that_is_committed_before_it_leads(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(Faults, "run", lose_all_partitions)
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []


def test_a_replica_that_takes_part_with_a_hole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "run", lose_all_partitions)
    monkeypatch.setattr(StorageGroup, "_lacking", lambda group, wanted: [])
    assert is_found_with(range(10), PLAN, "was committed")


async def lose_the_groups_own_log(faults: Faults, *_: Any) -> None:
    """Two replicas have what is acknowledged. One of them loses all and the other one ends: the third lacks it."""
    machines, network = faults._machines, faults._network
    while (leader := forgetful_leader(machines)) is None:
        await asyncio.sleep(0.1)
    loser, outdated = (machine for machine in machines if machine is not leader)
    away = [(outdated.name, other.name) for other in (leader, loser)]
    both_ways = [*away, *((other, one) for one, other in away)]
    network.conditions.cut.update(dict.fromkeys(both_ways))
    await asyncio.sleep(4)
    loser.lose_logs(faults.logs_of_groups(loser))
    leader.crash(power_lost=False)
    network.mend(both_ways)
    loser.launch()
    await asyncio.sleep(8)
    leader.launch()
    await asyncio.sleep(4)


@pytest.mark.parametrize("seed", soaked_after(1, range(2)))
def test_who_has_lost_the_groups_own_log_does_not_vote(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(Faults, "run", lose_the_groups_own_log)
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []


@pytest.mark.soak
def test_a_replica_that_votes_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = start.start_replica

    async def under_the_same_name(*given: Any, is_new: bool) -> GroupReplica:
        return await begin(*given, is_new=True)

    monkeypatch.setattr(Faults, "run", lose_the_groups_own_log)
    monkeypatch.setattr(start, "start_replica", under_the_same_name)
    assert is_found_with(range(10), PLAN, "was acknowledged", "was committed", "is gone", "was given to")
