"""Replicas that flush what they acknowledge lose nothing by power cuts, and a disk that is stuck costs the lead."""

from collections.abc import Callable

import pytest
from tests.simulation.replication_flushes import FlushingWorld
from tests.simulation.replication_hosts import Host
from tests.simulation.replication_world import SimulationError, simulate
from tests.simulation.whole_nodes.planted_plans import FOUND

from penstock.node.partitions import hand_over
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.replication.partition_leader import PartitionLeader

SEEDS = 40


def search(tried: range) -> None:
    for seed in tried:
        simulate(seed, FlushingWorld)


def counts_what_a_stuck_disk_does_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others have is committed, although this one is in sync and would lose it."""
    advance = PartitionLeader._advance

    def advanced(leader: PartitionLeader) -> object:
        if leader.kept.is_stuck:
            leader.kept.offset = max(leader.kept.offset, leader.given_offset)
        return advance(leader)

    monkeypatch.setattr(PartitionLeader, "_advance", advanced)


def hands_over_what_others_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its own flush is stuck a leader waits for nobody."""
    monkeypatch.setattr(hand_over, "_reached", lambda leader: leader.log_end_offset)


def fetches_on_before_its_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """By that a follower says that it has what a power cut takes."""
    fetch = Host.fetch

    def fetch_at_once(host: Host) -> object:
        with monkeypatch.context() as patch:
            patch.setattr(IsrPartition, "is_kept", lambda _: True)
            return fetch(host)

    monkeypatch.setattr(Host, "fetch", fetch_at_once)


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], range] = {
    counts_what_a_stuck_disk_does_not_keep: range(SEEDS),
    hands_over_what_others_lack: range(SEEDS),
    fetches_on_before_its_flush: range(SEEDS),
}
"""In one of these seeds the bug must be found."""


def test_seeds() -> None:
    worlds = [FlushingWorld(seed) for seed in range(SEEDS)]
    outcomes = [simulate(seed, worlds.__getitem__) for seed in range(SEEDS)]
    assert sum(outcome.acknowledged for outcome in outcomes) > 10 * SEEDS, "hardly anything is acknowledged"
    assert sum(world.handed_over for world in worlds) > SEEDS // 4, "hardly any leader whose disk is stuck hands over"


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(SimulationError, match=FOUND):
        search(PLANTED[bug])
