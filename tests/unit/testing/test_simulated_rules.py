"""Rules of the simulation that no run breaks, told of histories that do, and of some that only look so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.log.producer_state import NO_OFFSET
from penstock.testing.simulator import full_disks, remembered_batches
from penstock.testing.simulator.disk import DiskConditions
from penstock.testing.simulator.full_disks import PATIENCE_S, FullDisks
from penstock.testing.simulator.group_leads import GroupLeads
from penstock.testing.simulator.loop import EPOCH_MS
from penstock.testing.simulator.remembered_batches import RememberedBatches
from penstock.testing.simulator.wrong_clocks import WrongClocks

FULL = DiskConditions(full_disks=frozenset({"d"}))


def partition(name: str = "t", isr: tuple[int, ...] = (1, 2)) -> Any:
    log = SimpleNamespace(directory="d/t-0", parent="/d/")
    return SimpleNamespace(topic=name, index=0, leader_epoch=5, log=log, owns_log=True, leader=SimpleNamespace(isr=isr))


class Machines:
    """Node 1 leads on a full disk, and node 2 has room. Each look finds another refusal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.led = [partition()]
        self.found: list[str] = []
        self.network = SimpleNamespace(conditions=SimpleNamespace(cut=False, slow=False))
        self.machines = [self._machine(1, FULL), self._machine(2, DiskConditions())]
        monkeypatch.setattr(full_disks, "partitions_of", lambda node: self.led if node == 1 else [])
        self.rule = FullDisks(cast("Any", self.machines), cast("Any", self.network), self.found.append)

    def _machine(self, number: int, conditions: DiskConditions) -> Any:
        disk = SimpleNamespace(conditions=conditions, refusals={"d/t-0": 0}, is_full=lambda name: name == "d")
        return SimpleNamespace(
            name=f"node{number}",
            plan=SimpleNamespace(node_id=number),
            disk=disk,
            has_bad_disk=number == 1,
            is_up=True,
            is_paused=False,
            node=number,
            observer=SimpleNamespace(controls_since=0.0 if number == 2 else None),
        )

    def look(self, *seconds: float) -> list[str]:
        for now in seconds:
            self.machines[0].disk.refusals["d/t-0"] += 1
            self.rule.look(now)
        return [one.partition(" leads ")[0] for one in self.found]


def test_a_leader_that_keeps_what_it_cannot_write_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(monkeypatch)
    assert machines.look(0.0, 1.0, 1.0 + PATIENCE_S) == []
    assert machines.look(1.1 + PATIENCE_S) == ["node1"]
    assert machines.found[0].endswith(", which it cannot write, and others could")


def test_who_was_asked_for_nothing_or_has_given_its_lead_away_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(monkeypatch)
    machines.look(0.0)
    for now in range(1, 20):
        machines.rule.look(float(now))
    assert machines.look(20.0, 20.0 + PATIENCE_S) == []
    machines.led[0].leader_epoch = 6
    assert machines.look(21.0 + PATIENCE_S, 22.0 + PATIENCE_S, 22.0 + 2 * PATIENCE_S) == []
    assert machines.look(22.1 + 2 * PATIENCE_S) == ["node1"]


@pytest.mark.parametrize("excuse", range(14))
def test_each_excuse_counts_alone(monkeypatch: pytest.MonkeyPatch, excuse: int) -> None:
    machines = Machines(monkeypatch)
    (first, second), (led,) = machines.machines, machines.led
    changes: list[tuple[Any, str, Any]] = [
        (machines.network.conditions, "cut", True),
        (machines.network.conditions, "slow", True),
        (second.observer, "controls_since", None),
        (first.observer, "controls_since", 1.0),
        (second, "is_up", False),
        (second, "node", None),
        (second, "is_paused", True),
        (second.disk, "conditions", DiskConditions(sync_errors=0.5)),
        (first.disk, "conditions", DiskConditions()),
        (second, "has_bad_disk", True),
        (led, "owns_log", False),
        (led, "leader", None),
        (led, "leader", SimpleNamespace(isr=(1,))),
        (first.disk, "is_full", lambda _: False),
    ]
    times = (0.0, 1.0, 2.0 + PATIENCE_S)
    assert machines.look(*times) == ["node1"]
    other = Machines(monkeypatch)
    (first, second), (led,) = other.machines, other.led
    known = {id(machines.network.conditions): other.network.conditions, id(machines.led[0]): led}
    for mine, yours in zip(machines.machines, other.machines, strict=True):
        known |= {id(mine): yours, id(mine.observer): yours.observer, id(mine.disk): yours.disk}
    changed, name, value = changes[excuse]
    setattr(known[id(changed)], name, value)
    assert other.look(*times) == []


def test_an_excuse_begins_the_time_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(monkeypatch)
    machines.look(0.0, 1.0)
    machines.network.conditions.cut = True
    machines.look(2.0)
    machines.network.conditions.cut = False
    assert machines.look(3.0, 4.0, 4.0 + PATIENCE_S) == []
    assert machines.look(4.1 + PATIENCE_S) == ["node1"]


Batch = tuple[int, int, int]


def producer(number: int = 7, epoch: int = 1, batches: Any = ((0, 1, 5), (2, 3, 6)), first: int = NO_OFFSET) -> Any:
    return SimpleNamespace(producer_id=number, epoch=epoch, batches=list(batches), transaction_first_offset=first)


@pytest.mark.parametrize(
    ("written", "known", "begins", "found"),
    [
        ([], {}, 0, []),
        ([producer()], {7: producer()}, 0, []),
        ([producer()], {7: producer(batches=((0, 1, 5), (2, 3, 99)))}, 0, []),
        ([producer()], {7: producer(batches=((9, 9, 9), (0, 1, 5), (2, 3, 6)))}, 0, []),
        ([producer()], {7: producer(batches=((2, 3, 6),))}, 0, ["7: [(0, 1, 5)]"]),
        ([producer()], {7: producer(epoch=2)}, 0, ["7: [(0, 1, 5), (2, 3, 6)]"]),
        ([producer()], {}, 0, ["7: [(0, 1, 5), (2, 3, 6)]"]),
        ([producer(batches=())], {}, 0, []),
        ([producer(first=3)], {7: producer(first=3)}, 0, []),
        ([producer(first=3)], {7: producer(first=4)}, 0, ["7 began at 4, in the log at 3"]),
        ([producer(first=3)], {7: producer()}, 0, [f"7 began at {NO_OFFSET}, in the log at 3"]),
        ([producer()], {7: producer(first=3)}, 0, [f"7 began at 3, in the log at {NO_OFFSET}"]),
        ([producer(batches=(), first=3)], {}, 0, [f"7 began at {NO_OFFSET}, in the log at 3"]),
        ([producer(first=3)], {7: producer(first=4)}, 1, []),
        ([producer(), producer(8)], {8: producer(8)}, 0, ["7: [(0, 1, 5), (2, 3, 6)]"]),
    ],
    ids=range(15),
)
def test_what_a_log_says_of_its_producers_is_known(
    monkeypatch: pytest.MonkeyPatch, written: list[Any], known: dict[int, Any], begins: int, found: list[str]
) -> None:
    told: list[str] = []
    monkeypatch.setattr(remembered_batches, "Producers", list)

    def replay(into: list[Any], *rest: Any) -> None:
        assert rest == ("aborted", log.segments, 0)
        into.extend(written)

    monkeypatch.setattr(remembered_batches, "replay", replay)
    log = SimpleNamespace(
        is_loaded=True,
        config=SimpleNamespace(is_compacted=False),
        load=lambda: SimpleNamespace(aborted="aborted"),
        segments=[SimpleNamespace(base_offset=begins)],
        producers=known,
    )
    rule = RememberedBatches(told.append)
    looked: Any = SimpleNamespace(topic="t", index=0, log=log)
    rule.look("node1", looked)
    assert [one.partition(" producer ")[2] for one in told] == found
    rule.look("node1", looked)
    assert len(told) == len(found), "once for each time that a log is opened"
    rule.look("node2", looked)
    assert len(told) == 2 * len(found)
    rule.forget_node("node1")
    rule.look("node2", looked)
    assert len(told) == 2 * len(found)
    rule.look("node1", looked)
    assert len(told) == 3 * len(found)
    for excuse, value in (("is_loaded", False), ("config", SimpleNamespace(is_compacted=True))):
        other = SimpleNamespace(**{**vars(log), excuse: value})
        rule.look("node1", cast("Any", SimpleNamespace(topic="t", index=0, log=other)))
        assert len(told) == 3 * len(found)


class Host:
    def __init__(self, name: str, leads: dict[int, str], answers: bool) -> None:
        self.name, self.leads, self.answers = name, leads, answers

    def groups_led(self) -> Any:
        return dict(self.leads)

    def may_read(self, group: Any) -> bool:
        return self.answers and group is not None


def test_two_that_hold_a_lease_at_once_are_told_once() -> None:
    told: list[str] = []
    rule = GroupLeads(told.append)
    first, second, third = Host("a", {1: "x", 2: "y"}, True), Host("b", {3: "z"}, True), Host("c", {}, True)
    for host in (first, second, third):
        rule.look(host)
    assert told == []
    second.leads = {1: "x", 3: "z"}
    second.answers = False
    rule.look(second)
    assert told == [], "it believes that it leads, and would not answer"
    second.answers = True
    rule.look(third)
    assert told == [], "nothing has happened on either"
    rule.look(first)
    assert told == ["a and b hold the lease of storage group 1 at once"]
    rule.look(second)
    third.leads = {1: "x"}
    rule.look(third)
    assert len(told) == 1
    third.leads = {2: "y"}
    first.leads = {1: "x"}
    rule.look(third)
    assert len(told) == 1, "who led it before leads it no more, and was not heard of since"
    first.leads = {1: "x", 2: "y"}
    rule.look(third)
    assert told[1:] == ["a and c hold the lease of storage group 2 at once"]


def test_the_latest_time_that_a_clock_may_show() -> None:
    clocks = WrongClocks(lambda: 2.5)
    assert clocks.latest_ms() == EPOCH_MS + 2_500
    for rate, latest_ms in ((0.5, 2_500), (2.0, 5_000), (1.5, 5_000)):
        clocks.goes_at(rate)
        assert clocks.latest_ms() == EPOCH_MS + latest_ms
    for wrong_by_ms, latest_ms in ((-50, 5_000), (70, 5_070), (60, 5_070)):
        clocks.is_set(wrong_by_ms)
        assert clocks.latest_ms() == EPOCH_MS + latest_ms
