"""What each fault of a plan does to machines and to the network, and that all of it is over afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.stand_in import stand_in

from penstock.testing.simulator import faults
from penstock.testing.simulator.disk import DiskConditions
from penstock.testing.simulator.faults import Faults

NODES = ("node1", "node2", "node3")


class Drawn:
    """`numbers` are drawn one after the other, then the smallest there is; what may be drawn is kept."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = list(numbers)
        self.asked: list[Any] = []

    def random(self) -> float:
        return self.numbers.pop(0) if self.numbers else 0.0

    def choice(self, those: Any) -> Any:
        self.asked.append(list(those))
        return those[0]

    def sample(self, those: Any, count: int) -> Any:
        self.asked.append((list(those), count))
        return list(those)[::-1][:count]

    def uniform(self, low: float, high: float) -> float:
        self.asked.append((low, high))
        return low

    def randrange(self, low: int, high: int) -> int:
        self.asked.append((low, high))
        return low

    def expovariate(self, rate: float) -> float:
        return 1 / rate


class Machine:
    """It notes what is done to it."""

    def __init__(self, name: str, done: list[Any]) -> None:
        self.name, self.done = name, done
        self.is_up, self.is_paused, self.may_fail_to_start, self.power_fails_with_it = True, False, False, False
        self.has_offline_directory = self.has_bad_disk = False
        self.groups_are_whole = True
        self.data_paths = ["/data", "/more", "/most"]
        self.plan = SimpleNamespace(node_id=int(name[-1]))
        self.observer = SimpleNamespace(leads=name == "node2", image=None)
        self.disk = SimpleNamespace(conditions=DiskConditions(), crash_in=None, error_in=None)

    def crash(self, *, power_lost: bool) -> None:
        self.is_up = False
        self.done.append((self.name, "power" if power_lost else "kill"))

    def launch(self) -> None:
        assert not self.is_up
        self.is_up = True
        self.done.append((self.name, "launch"))

    async def stop(self) -> None:
        self.is_up = False
        self.done.append((self.name, "stop"))

    async def settled(self) -> None:
        self.done.append((self.name, "settled"))

    def pause(self) -> None:
        self.is_paused = True
        self.done.append((self.name, "pause"))

    def go_on(self) -> None:
        self.is_paused = False
        self.done.append((self.name, "go on"))

    def heal_disk(self) -> None:
        self.disk.conditions = DiskConditions()
        self.done.append((self.name, "disk healed"))

    def set_clock(self, wrong_by_ms: int) -> None:
        self.done.append((self.name, "clock", wrong_by_ms))

    def replace_disk(self, path: str) -> None:
        self.done.append((self.name, "new disk", path))

    def lose_logs(self, names: Any) -> None:
        self.done.append((self.name, "lost", list(names)))

    def directory_ids(self) -> list[UUID]:
        return [UUID(int=self.plan.node_id)]


class World:
    """Three machines, the second of which leads, and a client; pauses are noted with what is so meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *numbers: float) -> None:
        self.done: list[Any] = []
        self.notes: list[str] = []
        self.now_s = 0.0
        self.drawn = Drawn(*numbers)
        self.machines = [Machine(name, self.done) for name in NODES]
        self.first = self.machines[0]
        conditions = SimpleNamespace(cut={}, slow={})
        self.network = SimpleNamespace(
            conditions=conditions,
            loop=SimpleNamespace(time=lambda: self.now_s),
            break_some=lambda share: f"{share} of",
            heal=lambda: self.done.append("network healed"),
            mend=self._mend,
        )
        self.image: Any = SimpleNamespace(topics={})
        self.ledger = SimpleNamespace(violations=[], agreement=SimpleNamespace(newest=self.image))
        self.during: Callable[[], Any] = lambda: None
        monkeypatch.setattr(faults, "asyncio", stand_in(asyncio, sleep=self.sleep))
        trace = SimpleNamespace(note=lambda who, what: self.notes.append(what))
        parts: Any = (self.machines, ["client"], self.network, self.drawn, self.ledger, trace)
        self.faults = Faults(*parts)

    def _mend(self, links: Any) -> None:
        for link in links:
            self.network.conditions.cut.pop(link)
        self.done.append("mended")

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.done.append((round(seconds, 3), self.during()))

    async def happens(self, kind: str) -> list[Any]:
        await self.faults._happen(kind)
        return self.done


KILL, POWER, LAUNCH, STOP = "kill", "power", "launch", "stop"


def all_of(what: str) -> list[Any]:
    return [(name, what) for name in NODES]


AT_ONCE: list[tuple[str, tuple[float, ...], list[Any]]] = [
    ("kill", (), [("node1", KILL)]),
    ("power", (), [("node1", POWER)]),
    ("kill the leader", (), [("node2", KILL)]),
    ("power of the leader", (), [("node2", POWER)]),
    ("stop", (), [("node1", STOP)]),
    ("clock", (), [("node1", "clock", -20_000)]),
    (
        "kill all",
        (),
        [*all_of(KILL), *[it for name in NODES[::-1] for it in ((0, None), (name, LAUNCH))]],
    ),
    (
        "power all",
        (),
        [*all_of(POWER), *[it for name in NODES[::-1] for it in ((0, None), (name, LAUNCH))]],
    ),
    (
        "power and a stop",
        (),
        [("node1", POWER), ("node2", STOP), ("node1", LAUNCH), (2.0, None), ("node2", LAUNCH), (2.0, None)],
    ),
    ("pause", (), [("node1", "pause"), (0.1, None), ("node1", "go on")]),
]


@pytest.mark.parametrize(("kind", "numbers", "done"), AT_ONCE, ids=[kind for kind, *_ in AT_ONCE])
async def test_what_is_over_at_once(
    monkeypatch: pytest.MonkeyPatch, kind: str, numbers: tuple[float, ...], done: list[Any]
) -> None:
    assert await World(monkeypatch, *numbers).happens(kind) == done


async def test_what_a_fault_may_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {
        "clock": [(-20_000, 20_000)],
        "kill in a call": [(1, 60)],
        "pause": [(0.1, 10)],
        "slow": [["client"], (2, 200), (0.5, 12)],
        "slow sync": [(0.05, 1), (0.5, 12)],
        "read errors": [[0.01, 0.2, 1], (0.5, 12)],
        "sync errors": [[0.1, 1], (0.5, 12)],
        "an error": [(1, 60), (0.5, 12)],
        "a full disk": [["/more", "/most"], (0.5, 12)],
        "a dead disk": [["/data", "/more", "/most"], (0.5, 12)],
        "a new disk": [["/more", "/most"]],
    }
    for kind, expected in drawn.items():
        world = World(monkeypatch, 0.5)
        await world.happens(kind)
        first, *rest = world.drawn.asked
        assert (first, rest) == (world.machines, expected), kind


@pytest.mark.parametrize("who", ["is down", "is paused", "does not lead"])
async def test_nothing_happens_to_who_is_down_or_paused_or_does_not_lead(
    monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    world = World(monkeypatch)
    for machine in world.machines:
        machine.is_up, machine.is_paused = who != "is down", who == "is paused"
    world.machines[1].observer.leads = who != "does not lead"
    assert await world.happens("kill the leader") == []
    world.machines[2].is_up, world.machines[2].is_paused, world.machines[2].observer.leads = True, False, True
    assert await world.happens("kill the leader") == [("node3", KILL)]


@pytest.mark.parametrize("power", [False, True])
async def test_a_crash_in_a_call(monkeypatch: pytest.MonkeyPatch, power: bool) -> None:
    world = World(monkeypatch)
    await world.happens(f"{'power' if power else 'kill'} in a call")
    assert (world.first.disk.crash_in, world.first.power_fails_with_it) == (1, power)
    assert [(one.disk.crash_in, one.power_fails_with_it) for one in world.machines[1:]] == [(None, False)] * 2


async def test_connections_break(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.25)
    await world.happens("break")
    assert world.notes == ["0.25 of connections break"]


ONE_TO_TWO, TWO_TO_ONE = ("node1", "node2"), ("node2", "node1")
TO = [("node1", "node2"), ("node1", "node3")]
BACK = [(other, one) for one, other in TO]
TO_CLIENT, FROM_CLIENT = ("node1", "client"), ("client", "node1")
LINKS: list[tuple[str, tuple[float, ...], str, list[tuple[str, str]]]] = [
    ("cut", (0.59,), "cut", [ONE_TO_TWO, TWO_TO_ONE]),
    ("cut", (0.6,), "cut", [TO_CLIENT, FROM_CLIENT]),
    ("one way", (0.59,), "cut one way", [ONE_TO_TWO]),
    ("isolate", (0.3,), "isolated", [*TO, *BACK]),
    ("isolate", (0.29,), "isolated", [*TO, TO_CLIENT, *BACK, FROM_CLIENT]),
    ("isolate one way", (0.3,), "isolated one way", TO),
    ("isolate one way", (0.29,), "isolated one way", [*TO, TO_CLIENT]),
    ("stop unheard", (), "stops unheard", [TWO_TO_ONE]),
]


@pytest.mark.parametrize(("kind", "numbers", "words", "links"), LINKS, ids=range(len(LINKS)))
async def test_links_are_cut_for_a_time(
    monkeypatch: pytest.MonkeyPatch, kind: str, numbers: tuple[float, ...], words: str, links: list[tuple[str, str]]
) -> None:
    world = World(monkeypatch, *numbers)
    cut = world.network.conditions.cut
    world.during = lambda: list(cut)
    stopped = [("node1", STOP)] if kind == "stop unheard" else []
    assert await world.happens(kind) == [*stopped, (0.5, links), "mended"]
    assert cut == {}
    said = f"{words}: {', '.join(f'{one} to {other}' for one, other in links)}"
    assert world.notes == [f"{said}, for 0.5 s", f"{said} is over"]
    world.done.clear()
    world.drawn.numbers = list(numbers)
    cut[links[0]] = None
    world.machines[0].is_up = True
    await world.happens(kind)
    assert list(cut) == links[:1], "that of another fault stays cut"


async def test_who_cannot_be_cut_from_another_node_is_cut_from_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.0)
    del world.machines[1:]
    world.during = lambda: list(world.network.conditions.cut)
    assert await world.happens("cut") == [(0.5, [TO_CLIENT, FROM_CLIENT]), "mended"]
    world.first.observer.leads = True
    world.done.clear()
    assert await world.happens("stop unheard") == [("node1", STOP), (0.5, []), "mended"], "it asks itself"
    alone = World(monkeypatch)
    del alone.machines[1:]
    assert await alone.happens("power and a stop") == [("node1", POWER)]


@pytest.mark.parametrize(("number", "name"), [(0.29, "node1"), (0.3, "client")])
async def test_a_slow_network(monkeypatch: pytest.MonkeyPatch, number: float, name: str) -> None:
    world = World(monkeypatch, number)
    slow = world.network.conditions.slow
    world.during = lambda: dict(slow)
    assert await world.happens("slow") == [(0.5, {name: 2})]
    assert (slow, world.notes) == ({}, [f"slow: {name}, for 0.5 s", f"slow: {name} is over"])


HEALED = [("node1", "disk healed")]
DISKS: list[tuple[str, DiskConditions, int | None, bool, str, list[Any]]] = [
    ("slow sync", DiskConditions(sync_s=0.05), None, False, "slow sync: node1", HEALED),
    ("full", DiskConditions(full=True), None, True, "full: node1", HEALED),
    (
        "a full disk",
        DiskConditions(full_disks=frozenset({"more"})),
        None,
        False,
        "full disk: more of node1",
        HEALED,
    ),
    ("read errors", DiskConditions(read_errors=0.01), None, True, "read errors: node1", [*HEALED, ("node1", KILL)]),
    ("sync errors", DiskConditions(sync_errors=0.1), None, True, "sync errors: node1", [*HEALED, ("node1", KILL)]),
    ("an error", DiskConditions(), 1, True, "an error: node1", [*HEALED, ("node1", KILL)]),
    (
        "a dead disk",
        DiskConditions(dead=frozenset({"data"})),
        None,
        True,
        "dead disk: data of node1",
        [*HEALED, ("node1", KILL)],
    ),
]


@pytest.mark.parametrize(
    ("kind", "conditions", "error_in", "may_fail", "words", "done"), DISKS, ids=[kind for kind, *_ in DISKS]
)
@pytest.mark.parametrize("power", [False, True])
async def test_disks_fail_for_a_time(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    conditions: DiskConditions,
    error_in: int | None,
    may_fail: bool,
    words: str,
    done: list[Any],
    power: bool,
) -> None:
    world = World(monkeypatch, 0.29 if power else 0.3)
    first = world.first
    world.during = lambda: (first.disk.conditions, first.disk.error_in, first.may_fail_to_start)
    if power:
        done = [("node1", POWER) if one == ("node1", KILL) else one for one in done]
    assert await world.happens(kind) == [(0.5, (conditions, error_in, may_fail)), *done]
    assert world.during() == (DiskConditions(), None, False)
    assert world.notes == [f"{words}, for 0.5 s", f"{words} is over"]


def topic(name: str = "t", *, by_consensus: bool = True, **changes: Any) -> Any:
    row = {"isr": (2, 1), "replicas": (1, 2), "removing_replicas": (), "directory_of": lambda it: UUID(int=it)}
    return SimpleNamespace(name=name, by_consensus=by_consensus, partitions={4: SimpleNamespace(**row | changes)})


@pytest.mark.parametrize("kind", ["a new disk", "lost logs"])
@pytest.mark.parametrize("reason", ["isr", "removing", "directory", "bad disk", "no image", "groups", "paths", ""])
async def test_what_is_lost_is_elsewhere(monkeypatch: pytest.MonkeyPatch, kind: str, reason: str) -> None:
    world = World(monkeypatch, 0.3, 0.5)
    changes: dict[str, dict[str, Any]] = {
        "isr": {"isr": (1,)},
        "removing": {"removing_replicas": (3,)},
        "directory": {"directory_of": lambda _: UUID(int=1)},
    }
    world.image.topics = {"t": topic(**changes.get(reason, {}))}
    for machine in world.machines:
        machine.observer.image = world.image
    world.machines[2].has_bad_disk = reason == "bad disk"
    world.machines[2].groups_are_whole = reason != "groups"
    if reason == "no image":
        world.ledger.agreement.newest = None
    if reason == "paths":
        world.first.data_paths = ["/data"]
    done = [("node1", "new disk", "/more")] if kind == "a new disk" else [("node1", "lost", ["t-4"])]
    is_well = reason == "" or reason == ("groups" if kind == "a new disk" else "paths")
    assert await world.happens(kind) == ([*done, (2.0, None)] if is_well else [])
    world.during = lambda: setattr(world.first, "is_up", False)
    world.done.clear()
    world.drawn.numbers = [0.3, 0.5]
    await world.happens(kind)
    assert world.done == ([*done, (2.0, None), ("node1", LAUNCH)] if is_well else [])


async def test_which_logs_of_groups_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 0.29, 0.49)
    topics = [topic("a"), topic("b", by_consensus=False), topic("c", replicas=(2, 3), isr=(2, 3)), topic("d")]
    world.image.topics = {one.name: one for one in topics}
    world.first.observer.image = world.image
    assert world.faults.logs_of_groups(cast("Any", world.first)) == ["a-4", "d-4"]
    done = await world.happens("lost logs")
    assert done[:4] == [("node1", "lost", ["a-4", "d-4"]), *all_of(KILL)]
    assert [one for one in done if one[1] == LAUNCH] == [(name, LAUNCH) for name in NODES[::-1]]
    for names, lost in ((topics, ["d-4"]), (topics[1:3], [])):
        world = World(monkeypatch, 0.3, 0.5)
        world.image.topics = {one.name: one for one in names}
        world.first.observer.image = world.image
        assert (await world.happens("lost logs"))[0] == ("node1", "lost", lost)


async def test_all_is_healed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    first, second, third = world.machines
    for machine in world.machines:
        machine.may_fail_to_start, machine.disk.crash_in, machine.is_paused = True, 3, True
    second.is_up, third.has_offline_directory = False, True
    await world.faults.heal()
    each = [[(one, "disk healed"), (one, "go on")] for one in NODES]
    assert world.done == [
        "network healed",
        *(each[0] + each[1] + each[2]),
        ("node3", KILL),
        ("node2", LAUNCH),
        ("node3", LAUNCH),
        *all_of("settled"),
    ]
    assert [(one.may_fail_to_start, one.disk.crash_in) for one in (first, second, third)] == [(False, None)] * 3
    assert world.notes == ["all is healed"]


@pytest.mark.parametrize(("number", "is_launched"), [(0.69, True), (0.7, False)])
async def test_faults_happen_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch, number: float, is_launched: bool
) -> None:
    world = World(monkeypatch)
    happened: list[str] = []

    async def happen(kind: str) -> None:
        happened.append(kind)
        world.machines[2].is_up = False
        world.drawn.numbers = [number] * 9

    monkeypatch.setattr(world.faults, "_happen", happen)
    await world.faults.run(["x", "y"], 7.0)
    assert [one[0] for one in world.done if one[0] != "node3"] == [3.0, 3.0, 1.0]
    assert happened == (["x", "x"] if is_launched else ["x"] * 3)
    assert [one for one in world.done if one[0] == "node3"] == [("node3", LAUNCH)] * is_launched
    assert ["x", "y"] in world.drawn.asked
    world.done.clear()
    await world.faults.run([], 3.5)
    assert [one[0] for one in world.done if one[0] != "node3"] == [3.0, 0.5]
    world.ledger.violations.append("one")
    world.done.clear()
    await world.faults.run(["x"], 7.0)
    assert world.done == []


async def test_several_happen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    for troubles, count in ((None, 1), (3, 3)):
        runs: list[Any] = []

        async def run(kinds: Any, seconds: float, runs: list[Any] = runs) -> None:
            runs.append((kinds, seconds))

        monkeypatch.setattr(world.faults, "_run", run)
        await world.faults.run(["x"], 5.0, *([] if troubles is None else [troubles]))
        assert runs == [(["x"], 5.0)] * count
