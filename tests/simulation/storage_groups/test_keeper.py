"""The keeper of storage groups (`keeper_world`): its rules hold, and bugs that are planted are found."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.soaked import soaked_after
from tests.simulation.storage_groups.keeper_world import simulated

from penstock.node.quorum.state_file import QuorumStateError
from penstock.node.quorum.stored_log import StoredLog
from penstock.node.storage_groups import group
from penstock.node.storage_groups.failed_replicas import FailedReplicas
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.testing.simulator.disk import SimulatedDisk


@pytest.mark.parametrize("first", soaked_after(1, range(0, 300, 6)))
def test_what_was_acknowledged_is_found_again_and_each_start_goes_well(first: int) -> None:
    worlds = [simulated(seed) for seed in range(first, first + 6)]
    assert sum(world.acknowledged for world in worlds) > 100


def what_is_found(first: int) -> str:
    """By the first of some seeds that finds anything; the one that found it last comes first."""
    for seed in (first, *range(40)):
        try:
            simulated(seed)
        except (AssertionError, QuorumStateError) as error:
            return f"{error} ({seed})"
    return ""


def test_votes_that_are_not_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    replace = SimulatedDisk.replace_file

    def replace_soon(disk: SimulatedDisk, path: str, content: bytes, *, durable: bool) -> None:
        replace(disk, path, content, durable=durable and not path.endswith("quorum-state"))

    monkeypatch.setattr(SimulatedDisk, "replace_file", replace_soon)
    assert "quorum-state" in what_is_found(0), "half of it is there"


def test_records_that_are_acknowledged_before_they_are_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoredLog, "flush", lambda _: None)
    assert "what was acknowledged is gone" in what_is_found(0)


def test_a_snapshot_that_stands_for_records_that_are_not_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "flush_all", lambda _: None)
    assert "a group is not there after a start" in what_is_found(0)


def test_a_replica_that_is_not_tried_again_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FailedReplicas, "take_due", lambda _: [])
    assert "does not come back when there is room" in what_is_found(0)


def test_a_topic_that_is_not_told_to_its_group_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_new_image(keeper: Any) -> None:
        for number in keeper._image.storage_groups:
            keeper._note(number)

    monkeypatch.setattr(GroupKeeper, "on_new_image", on_new_image)
    monkeypatch.setattr(GroupKeeper, "_enter", lambda *_: None)
    assert what_is_found(0)
