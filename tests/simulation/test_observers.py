"""Observers: how soon they hear of the next leader when the last one is gone, and that controllers among them join."""

from uuid import UUID

import pytest
from tests.simulation.node import RIGHT, Node
from tests.simulation.world import World

from penstock.raft.settings import RaftSettings
from penstock.raft.voters import ReplicaKey, Voter

SETTINGS = RaftSettings()
CALM = {
    "settings": SETTINGS,
    "voters": 3,
    "observers": 1,
    "kraft_version": 0,
    "longest_delay_ms": 2,
    "loss": 0.0,
    "duplication": 0.0,
    "late": 0.0,
    "crash_between_effects": 0.0,
    "crash_after_persist": 0.0,
    "restart_before_vote": 0.0,
    "slow_disks": (False,) * 4,
    "clocks": (RIGHT.rate,) * 4,
}
OBSERVER = 4


def leader_of(world: World) -> Node | None:
    return next((node for node in world.nodes.values() if node.leads), None)


@pytest.mark.parametrize("says_so", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("seed", range(10))
def test_an_observer_hears_of_the_next_leader_when_there_is_one(seed: int, says_so: bool) -> None:
    world = World(seed, **CALM)
    for node in world.nodes.values():
        world.boot(node)
    world.run_until(10_000)
    gone = leader_of(world)
    assert gone is not None
    assert gone.raft is not None
    raft = gone.raft
    if says_so:
        world.event(gone, "resign", lambda: raft.resign(world.clock(gone)))
    gone.crash(world.random)

    world.run_until(20_000, lambda: leader_of(world) is not None)
    elected, began_ms = leader_of(world), world.now_ms
    assert elected is not None
    observer = world.nodes[OBSERVER].raft
    assert observer is not None
    world.run_until(30_000, lambda: observer.leader_id == elected.id)
    assert world.now_ms - began_ms < SETTINGS.fetch_max_wait_ms // 4, "it has not waited for anything"


@pytest.mark.parametrize("seed", range(10))
def test_a_controller_that_joins_by_itself_votes_and_does_so_again_with_a_new_disk(seed: int) -> None:
    world = World(seed, **CALM | {"kraft_version": 1, "settings": SETTINGS.replace(auto_join=True)})

    def votes() -> bool:
        leader = leader_of(world)
        return leader is not None and leader.raft is not None and leader.raft.quorum.has(observer.voter.key)

    for node in world.nodes.values():
        world.boot(node)
    observer = world.nodes[OBSERVER]
    world.run_until(20_000, votes)
    assert votes()
    observer.crash(world.random)
    observer.wipe(Voter(ReplicaKey(OBSERVER, UUID(int=77))))
    assert not votes()
    world.boot(observer)
    world.run_until(60_000, votes)
    assert votes()
