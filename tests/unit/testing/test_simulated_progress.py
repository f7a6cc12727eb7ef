"""What must come about when all is healed: each thing that may be late, alone, and the words that tell of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.client.values import TopicPartition
from penstock.leadership.transfer import State
from penstock.node.storage_groups.hand_over import StorageGroupHandOver
from penstock.testing.simulator import progress
from penstock.testing.simulator.progress import look_for_progress, until_committed


def row(replicas: Any = (1, 2), isr: Any = (2, 1), adding: Any = (), removing: Any = ()) -> Any:
    return SimpleNamespace(replicas=replicas, isr=isr, adding_replicas=adding, removing_replicas=removing)


def image(offset: int = 10) -> Any:
    return SimpleNamespace(
        offset=offset,
        brokers={1: SimpleNamespace(fenced=False), 2: SimpleNamespace(fenced=False)},
        topics={"t": SimpleNamespace(name="t", partitions={0: row()})},
        index=SimpleNamespace(moved={}),
    )


class Table(list[Any]):
    """Partitions, as a node has them."""

    def get(self, topic: str, index: int) -> Any:
        return next((one for one in self if (one.topic, one.index) == (topic, index)), None)


def held(end: int, *, leads: bool, starts: int = 0, high_watermark: int | None = None) -> Any:
    log = SimpleNamespace(log_end_offset=end, log_start_offset=starts, is_lent=False)
    watermark = end if high_watermark is None else high_watermark
    return SimpleNamespace(topic="t", index=0, log=log, leader="a leader" if leads else None, high_watermark=watermark)


class Cluster:
    """Two brokers, of which the first leads and controls, and a controller beside them; all is well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []
        self.found: list[str] = []
        self.notes: list[tuple[str, str]] = []
        self.broken: list[str] = []
        self.machines = [self._machine(1), self._machine(2), self._machine(3)]
        self.producer = SimpleNamespace(name="producer", acknowledged=5)
        self.committed = {("g", TopicPartition("t", 0)): 7}
        self.ledger = SimpleNamespace(
            violated=self.found.append,
            topics={"t": 1},
            committed=self.committed,
            agreement=SimpleNamespace(committed=10),
            promises=SimpleNamespace(versions=lambda: {"v": 1}, broken=self._broken),
        )
        self.on_sleep: list[Callable[[], None]] = [self._goes_on]
        clock = SimpleNamespace(time=lambda: self.now_s)
        monkeypatch.setattr(progress, "asyncio", stand_in(asyncio, sleep=self.sleep, get_running_loop=lambda: clock))
        monkeypatch.setattr(progress, "image_of", lambda node: node.image)
        monkeypatch.setattr(progress, "partitions_of", lambda node: node.partitions)

    def _machine(self, number: int) -> Any:
        node = SimpleNamespace(
            image=image(),
            partitions=Table([held(7, leads=number == 1)] if number < 3 else []),
            hand_overs=[],
            is_broker=number < 3,
            broker=SimpleNamespace(storage_groups=SimpleNamespace(by_number={})),
        )
        return SimpleNamespace(
            name=f"node{number}",
            node=node,
            plan=SimpleNamespace(node_id=number, is_broker=number < 3),
            observer=SimpleNamespace(controls_since=0.0 if number == 1 else None),
        )

    def _goes_on(self) -> None:
        self.producer.acknowledged = 6

    def _broken(self, one: Any, versions: dict[str, int]) -> list[str]:
        assert versions == {"v": 1}
        assert one in [machine.node.image for machine in self.machines if machine.node is not None]
        return self.broken

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        for step in self.on_sleep:
            step()

    async def look(self, *, balances_leaders: bool = True) -> str:
        """What is late in the end."""
        trace = SimpleNamespace(note=lambda *words: self.notes.append(words))
        parts = (self.machines, [self.producer], ["g"], self.ledger, trace)
        await look_for_progress(*cast("Any", parts), balances_leaders=balances_leaders)
        told = [one.removeprefix("no progress within 90 s: ") for one in self.found]
        assert (self.notes == []) is bool(told)
        return "; ".join(told)


async def test_who_gets_on_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    assert await cluster.look() == ""
    assert cluster.slept == [0.25], "the producer got on meanwhile"
    assert cluster.notes == [("progress", "everybody gets on")]
    cluster.broken = ["promised"]
    cluster.machines[1].node = None
    monkeypatch.setattr(progress, "_late_nodes", lambda *_: [])
    cluster.on_sleep = [lambda: setattr(cluster.producer, "acknowledged", 7)]
    cluster.notes.clear()
    trace = SimpleNamespace(note=lambda *_: None)
    parts = (cluster.machines, [cluster.producer], ["g"], cluster.ledger, trace)
    await look_for_progress(*cast("Any", parts), balances_leaders=False)
    assert cluster.found == ["node1: promised", "node3: promised"]


def hand_over(state: State) -> Any:
    made = StorageGroupHandOver.__new__(StorageGroupHandOver)
    made.machine = cast("Any", SimpleNamespace(state=state, successor=4))
    return made


def of_group(machine: Any, given: Any) -> None:
    machine.node.broker.storage_groups.by_number[3] = SimpleNamespace(group=SimpleNamespace(hand_over=given))


def of_partition(machine: Any, state: State) -> None:
    machine.node.hand_overs.append(SimpleNamespace(partition="t-0", machine=SimpleNamespace(state=state, successor=2)))


def newest_has(cluster: Cluster, one: Any) -> None:
    """The newest image alone is looked at."""
    other = image(12)
    other.topics["t"].partitions[0] = one
    cluster.machines[1].node.image = other


AWAY = "node2 does not serve"
Change = Callable[[Cluster], object]
LATE: list[tuple[Change, str]] = [
    (lambda it: it.on_sleep.clear(), "producer"),
    (lambda it: it.on_sleep.append(lambda: setattr(it.producer, "acknowledged", 4)), "producer"),
    (lambda it: it.committed.clear(), "g in t-0, which ends at 7"),
    (lambda it: it.committed.update({("g", TopicPartition("t", 0)): 6}), "g in t-0, which ends at 7"),
    (lambda it: it.committed.update({("g", TopicPartition("t", 0)): 8}), ""),
    (lambda it: it.ledger.topics.clear(), "admin"),
    (lambda it: it.ledger.topics.update(other=2), ""),
    (lambda it: setattr(it.machines[0].observer, "controls_since", None), "active controllers: []"),
    (lambda it: setattr(it.machines[2].observer, "controls_since", 1.0), "active controllers: ['node1', 'node3']"),
    (lambda it: setattr(it.machines[1], "node", None), AWAY),
    (lambda it: setattr(it.machines[1].node.image, "offset", 9), "node2 knows the metadata up to 9 of 10"),
    (lambda it: setattr(it.machines[1].node.image, "offset", 11), ""),
    (lambda it: setattr(it.machines[1].node.image.brokers[1], "fenced", True), "node2 sees node1 fenced"),
    (lambda it: it.machines[2].node.image.brokers.pop(2), "node3 sees node2 fenced"),
    (lambda it: it.machines[1].node.image.index.moved.update(t=0b101), ""),
    (lambda it: newest_has(it, row(adding=(3,), removing=(1,))), "t-0 is on its way from (1,)"),
    (lambda it: newest_has(it, row(adding=(3,))), "t-0 is on its way from ()"),
    (lambda it: newest_has(it, row(removing=(2,))), "t-0 is on its way from (2,)"),
    (lambda it: newest_has(it, row(isr=(2,))), "t-0 has [2] of [1, 2] in sync"),
    (lambda it: it.machines[1].node.image.topics["t"].partitions.update({0: row(isr=(1,))}), ""),
    (lambda it: of_partition(it.machines[1], State.HELD), "node2 gives t-0 to node 2"),
    (lambda it: of_partition(it.machines[1], State.OVER), ""),
    (lambda it: of_group(it.machines[0], hand_over(State.ASKED)), "node1 gives storage group 3 to node 4"),
    (lambda it: of_group(it.machines[0], hand_over(State.FORWARDING)), ""),
    (lambda it: of_group(it.machines[0], None), ""),
    (lambda it: of_group(it.machines[2], hand_over(State.ASKED)), ""),
]


@pytest.mark.parametrize(("change", "late"), LATE, ids=range(len(LATE)))
async def test_each_thing_that_is_late_is_told(monkeypatch: pytest.MonkeyPatch, change: Change, late: str) -> None:
    cluster = Cluster(monkeypatch)
    cluster.machines[0].node.image.offset = 11
    change(cluster)
    assert await cluster.look(balances_leaders=False) == late
    assert len(cluster.slept) == (360 if late else 1)


async def test_leaders_that_should_not_lead_are_late_where_somebody_sees_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.machines[1].node.image.index.moved["t"] = 0b101
    should = "sees t-{} led by another one than should"
    assert await cluster.look() == f"node2 {should.format(0)}, node2 {should.format(2)}"
    away = Cluster(monkeypatch)
    away.machines[1].node = None
    assert await away.look() == AWAY


async def test_what_retention_deleted_need_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for starts, lent, late in ((6, False, True), (7, False, False), (7, True, True)):
        cluster = Cluster(monkeypatch)
        cluster.committed.clear()
        log = cluster.machines[1].node.partitions[0].log
        cluster.on_sleep.append(partial(vars(log).update, log_start_offset=starts, is_lent=lent))
        assert bool(await cluster.look()) is late


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        ({}, 7),
        ({"leader": None}, 0),
        ({"topic": "other"}, 0),
        ({"index": 1}, 0),
    ],
)
async def test_where_leaders_end_at_the_beginning_counts(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], ends: int
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.committed.clear()
    leader = cluster.machines[0].node.partitions[0]
    vars(leader).update(change)
    cluster.on_sleep.append(lambda: vars(leader.log).update(log_end_offset=99))
    assert await cluster.look() == (f"g in t-0, which ends at {ends}" if ends else "")


async def test_a_log_that_a_thread_has_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.committed.clear()
    cluster.machines[0].node.partitions[0].log.is_lent = True
    assert await cluster.look() == ""


@pytest.mark.parametrize(
    ("change", "late"),
    [
        ({}, False),
        ({"high_watermark": 6}, True),
        ({"leader": None}, True),
        ({"log": SimpleNamespace(log_end_offset=7, is_lent=True)}, True),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
async def test_readers_see_all_in_the_end(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], late: bool, turned: bool
) -> None:
    cluster = Cluster(monkeypatch)
    cluster.machines[2].node = None
    vars(cluster.machines[0].node.partitions[0]).update(change)
    machines = cluster.machines[::-1] if turned else cluster.machines
    await until_committed(machines, cast("Any", cluster.ledger))
    assert cluster.found == (["not committed within 90 s: t-0"] if late else [])
    assert len(cluster.slept) == (361 if late else 0)
