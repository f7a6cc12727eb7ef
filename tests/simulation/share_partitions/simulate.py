"""Runs seeds of share partitions: `python -m tests.simulation.share_partitions.simulate FIRST COUNT`."""

import sys
from dataclasses import dataclass

from tests.simulation.share_partitions.world import (
    HEALING_MS,
    LOCK_MS,
    MEMBERS,
    TROUBLE_MS,
    InvariantError,
    World,
)

TRACE_LINES = 60


class SimulationError(AssertionError):
    """Carries the seed, what went wrong and the last lines of the trace."""


@dataclass(frozen=True, slots=True)
class Outcome:
    records: int
    accepted: int
    deliveries: int
    leaders: int
    letters: int


def simulate(seed: int, kind: type[World] = World) -> Outcome:
    """One seed, until all that can be accepted is. Raises SimulationError."""
    world = kind(seed)
    try:
        trouble(world)
        heal(world)
    except Exception as error:
        trace = "\n".join(world.trace[-TRACE_LINES:])
        raise SimulationError(f"{trace}\nseed {seed}: {type(error).__name__}: {error}") from error
    return Outcome(world.log_end, len(world.accepted), world.deliveries, world.leaders, len(world.dead.records))


def trouble(world: World) -> None:
    random = world.random

    def changes_its_clock() -> None:
        world.leader.clock_ms += random.choice([-2 * LOCK_MS, -10, 10, 2 * LOCK_MS])

    def is_killed() -> None:
        world.held[random.choice(MEMBERS)].clear()

    kinds = {
        world.append: 10,
        lambda: world.take(random.choice(MEMBERS)): 30,
        lambda: world.say(random.choice(MEMBERS)): 40,
        world.read_ahead: 10,
        world.expire: 10,
        lambda: world.leave(random.choice(MEMBERS)): 2,
        is_killed: 2,
        world.change_leader: 1,
        world.compact: 1,
        world.cut: 1,
        changes_its_clock: 1,
    }

    def something() -> None:
        random.choices(list(kinds), list(kinds.values()))[0]()
        if world.now_ms < TROUBLE_MS:
            world.later(random.choice([0, 1, 10, 200]), something)

    world.later(0, something)
    world.run_until(TROUBLE_MS)


def heal(world: World) -> None:
    """No more faults: a member that accepts all it gets must come to the end of the log."""
    world.calm = True
    world.note("all is well from now on")
    for member in MEMBERS:
        world.held[member].clear()

    def work() -> None:
        world.expire()
        world.read_ahead()
        world.take("ann")
        world.say("ann")
        world.later(10 if world.leader.partition.can_acquire else 1_000, work)

    def is_done() -> bool:
        partition = world.leader.partition
        end = world.log[-1][1] + 1 if world.log else 0
        return not partition.in_flight and partition.next_offset >= end

    world.later(0, work)
    world.run_until(world.now_ms + HEALING_MS, is_done)
    if not is_done():
        raise InvariantError("it does not come to the end of the log")
    lost = [
        record
        for first, last in world.log
        for record in range(first, last + 1)
        if record >= world.log_start
        and record not in world.accepted
        and record not in world.finished
        and record not in world.dead.records
        and record not in world.dead.lost
    ]
    if lost:
        raise InvariantError(f"nobody had {lost}, and nobody will")


def main() -> None:
    first, count = map(int, sys.argv[1:3])
    for seed in range(first, first + count):
        print(seed, simulate(seed))


if __name__ == "__main__":
    main()
