"""Runs seeds: `python -m tests.simulation.simulate FIRST COUNT` prints how many a minute, and stops at a failure."""

import sys
import time
from collections.abc import Callable

from tests.simulation.faults import Faults
from tests.simulation.node import Node
from tests.simulation.world import HEALING_TIMEOUTS, InvariantError, Outcome, World

from penstock.raft.voters import DYNAMIC_VOTERS

TRACE_LINES = 400


class SimulationError(AssertionError):
    """Carries the seed, what went wrong and the last lines of the trace."""


def simulate(seed: int, make_world: Callable[[int], World] = World) -> Outcome:
    """One seed from the first boot to the end of healing. Raises SimulationError."""
    world = make_world(seed)
    try:
        run(world)
    except Exception as error:
        for node in world.nodes.values():
            world.trace.append(f"n{node.id} {node.voter.key} {node.raft and node.raft.quorum.voters}")
        trace = "\n".join(world.trace[-TRACE_LINES:])
        raise SimulationError(f"{trace}\nseed {seed}: {type(error).__name__}: {error}") from error
    return Outcome(
        trace_hash=world.trace_hash,
        committed=world.invariants.committed_end,
        epochs=len(world.invariants.leaders),
        events=world.events,
        leases=world.leases,
    )


def run(world: World) -> None:
    for node in list(world.nodes.values()):
        world.boot(node)
    faults = Faults(world)
    faults.schedule()
    world.run_until(world.plan.trouble_ms)
    heal(world)


def heal(world: World) -> None:
    """Everything works again: a record that is appended now reaches every node, and its voters if they may change."""
    world.calm = True
    world.cut_links = {}
    world.note(f"{world.now_ms} all is well from now on")
    for node in world.nodes.values():
        world.revive(node)
    appended = [0]

    def append() -> None:
        leaders = [node for node in world.nodes.values() if node.leads]
        if leaders:
            newest = max(leaders, key=lambda node: node.epoch)
            if world.plan.may_change_voters and newest.quorum.kraft_version < DYNAMIC_VOTERS:
                world.upgrade(newest)
            if not world.invariants.committed_end >= appended[0] > 0:
                appended[0] = world.append(newest)
        world.after(world.plan.settings.election_timeout_ms, append)

    def caught_up() -> bool:
        nodes = world.nodes.values()
        return 0 < appended[0] <= min(node.high_watermark for node in nodes) and all(map(knows_voters, nodes))

    def knows_voters(node: Node) -> bool:
        """Where they may change, it knows each voter with the directory and the listener that it has now."""
        now = {other.voter.key: other.voter for other in world.nodes.values()}
        is_right = all(now.get(voter.key, voter) == voter for voter in node.quorum.voters)
        return not world.plan.may_change_voters or (is_right and node.quorum.kraft_version >= DYNAMIC_VOTERS)

    append()
    world.run_until(world.now_ms + HEALING_TIMEOUTS * world.plan.settings.election_timeout_ms, caught_up)
    if not caught_up():
        raise InvariantError("no progress after healing")


def main() -> None:
    first, count = int(sys.argv[1]), int(sys.argv[2])
    began = time.monotonic()
    events = 0
    for seed in range(first, first + count):
        events += simulate(seed).events
        done = seed - first + 1
        if done % 500 == 0 or done == count:
            per_minute = done / (time.monotonic() - began) * 60
            print(f"{done} seeds, {events} events, {per_minute:.0f} seeds a minute", flush=True)


if __name__ == "__main__":
    main()
