"""Members of a streams group on their way to any targets, in any order, with heartbeats that do not say what they own.

At no moment two members run a task as the active one, nor two members of a process the same task; and all come to
their targets in the end.
"""

from collections.abc import Iterator
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordinator.group.streams.assignors.tasks import NO_TASKS, Roles, Task, by_subtopology, each_task
from penstock.coordinator.group.streams.current import Wanted, reconciled
from penstock.coordinator.group.streams.values import Current

PROCESSES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c"}
MEMBERS = list(PROCESSES)
TASKS: list[Task] = [("s", 0), ("s", 1), ("t", 0)]
ROUNDS = 8
"""Of a heartbeat each; as many as are needed to give up, to hear of it, and to take, twice."""


def any_targets(chance: Random) -> dict[str, Roles]:
    """Each task active at one member; in other processes perhaps at one as a standby or a warm-up."""
    roles: dict[str, dict[str, list[Task]]] = {name: {"active": [], "standby": [], "warmup": []} for name in MEMBERS}
    for task in TASKS:
        active = chance.choice(MEMBERS)
        roles[active]["active"].append(task)
        for process in ("a", "b", "c"):
            role = chance.choice(["", "standby", "warmup"])
            if process != PROCESSES[active] and role:
                roles[chance.choice([name for name in MEMBERS if PROCESSES[name] == process])][role].append(task)
    return {name: Roles(**{role: by_subtopology(tasks) for role, tasks in has.items()}) for name, has in roles.items()}


class World:
    def __init__(self) -> None:
        self.currents = {name: Current(1, 1) for name in MEMBERS}
        self.owned = dict.fromkeys(MEMBERS, NO_TASKS)
        """What each client runs."""
        self.epoch, self.targets = 1, dict.fromkeys(MEMBERS, NO_TASKS)

    def beat(self, name: str, *, says: bool) -> None:
        """The client then does what it is told, and runs that when it is heard of next."""
        wanted = Wanted(
            self.epoch,
            self.targets[name],
            lambda sub, number: next((PROCESSES[one] for one in self._with("active", (sub, number))), None),
            lambda sub, number: {PROCESSES[one] for one in self._with("standby", (sub, number))},
            lambda sub, number: {PROCESSES[one] for one in self._with("warmup", (sub, number))},
        )
        said = self.owned[name] if says else None
        self.currents[name] = reconciled(self.currents[name], PROCESSES[name], wanted, said)
        if says:
            self.owned[name] = self.currents[name].assigned.roles
        self._check()

    def _with(self, role: str, task: Task) -> Iterator[str]:
        for name, current in self.currents.items():
            for held in (current.assigned, current.revoking):
                if task in each_task(getattr(held.roles, role)):
                    yield name

    def _check(self) -> None:
        for task in TASKS:
            assert len(list(self._with("active", task))) <= 1
            running = [
                (name, role)
                for name, roles in self.owned.items()
                for role in ("active", "standby", "warmup")
                if task in each_task(getattr(roles, role))
            ]
            assert sum(role == "active" for _, role in running) <= 1
            assert len({PROCESSES[name] for name, _ in running}) == len(running)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_members_come_to_their_targets_and_share_nothing_on_the_way(seed: int) -> None:
    world, chance = World(), Random(seed)
    for _ in range(6):
        world.epoch, world.targets = world.epoch + 1, any_targets(chance)
        for _ in range(chance.randrange(20)):
            world.beat(chance.choice(MEMBERS), says=chance.random() < 0.7)
    for _ in range(ROUNDS):
        for name in MEMBERS:
            world.beat(name, says=True)
    for name, current in world.currents.items():
        assert current.is_reconciled_to(world.epoch)
        assert current.assigned.roles == world.targets[name]
        assert world.owned[name] == world.targets[name]
