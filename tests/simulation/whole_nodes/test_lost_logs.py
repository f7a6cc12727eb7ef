"""Disks lose records of partitions in storage groups that were flushed, and that the group's log has forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.simulation.whole_nodes.planted_plans import is_found_with, replicated_plan

from penstock.node.storage_groups import copying
from penstock.node.storage_groups.group import StorageGroup
from penstock.testing.simulator import simulate
from penstock.testing.simulator.faults import Faults
from penstock.testing.simulator.machine import Machine

FORGETFUL = {"storage.group.max.bytes.between.snapshots": "3000", "log.dirs": "/data,/data2"}
PLAN = replicated_plan(
    *3 * ("lost logs",), "kill the leader", "power all", flushes_each=False, by_consensus=True, producers=2,
    settings=FORGETFUL,
).replace(topics=4, seconds=15, admin_pause_s=30)  # fmt: skip
"""No topic is deleted meanwhile: what was lost would not be missed any more."""


@pytest.mark.parametrize("seed", range(6))
def test_a_replica_gets_back_what_its_disk_has_lost(seed: int) -> None:
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []
    assert outcome.acknowledged > 0


def test_a_replica_that_copies_too_little_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        await asyncio.sleep(0.1)

    monkeypatch.setattr(copying, "copy_missing", nothing)
    assert is_found_with(range(10), PLAN, "no progress")


async def lose_what_the_leader_has(faults: Faults, *_: Any) -> None:
    """All nodes end, and the disk of the group's leader loses all partitions. It is back first, a third one late."""
    machines = faults._machines
    while (leader := forgetful_leader(machines)) is None:
        await asyncio.sleep(0.1)
    first, second, third = sorted(machines, key=lambda machine: machine is not leader)
    first.lose_logs(faults.logs_of_groups(first))
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


@pytest.mark.parametrize("seed", range(2))
def test_a_leader_has_all_that_is_committed_before_it_leads_again(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(Faults, "run", lose_what_the_leader_has)
    outcome = simulate(seed, plan=PLAN)
    assert outcome.violations == []


def test_a_replica_that_takes_part_with_a_hole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faults, "run", lose_what_the_leader_has)
    monkeypatch.setattr(StorageGroup, "_lacking", lambda group, wanted: [])
    assert is_found_with(range(10), PLAN, "was committed")
