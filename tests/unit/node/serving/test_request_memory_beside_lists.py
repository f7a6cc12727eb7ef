"""Memory for requests beside the same rules over plain lists: who gets room, in which order, and who loses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.stand_in import stand_in

from penstock.node.serving import room
from penstock.node.serving.room import PATIENCE_S, STILL_S, Peer, RequestMemory
from penstock.protocol.sweeping_heap import FEW

HOSTS = ("a", "b", "c")


class Loop:
    """What is called soon is called when somebody says so; the clock goes when somebody moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.soon: list[Callable[[], object]] = []
        self.later: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], object]) -> None:
        self.soon.append(call)

    def call_later(self, delay_s: float, call: Callable[[], object]) -> None:
        self.later.append((self.now_s + delay_s, call))


@dataclass(eq=False)
class Asker:
    """Whoever holds memory, or wants some; work has no host."""

    name: int
    host: str | None
    far: int = 0
    has_more: bool = False
    size: int = 0
    """0: it holds nothing."""
    since_s: float = 0.0
    seen: int = -1
    wish: tuple[int, int, int] | None = None
    """What it lacks, its number, and how much it wants."""
    was_begun: bool = False
    waits: bool = True


@dataclass
class Plain:
    """The rules, with a look at all that there is for each question."""

    most: int
    askers: list[Asker]
    numbers: int = 0
    beyond: Asker | None = None
    looks: int = 0
    """Since it is beyond."""
    came: list[Asker] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    turn: dict[str, bool] = field(default_factory=lambda: {"room": False, "beyond": False})
    first_work: tuple[int, int, int] | None = None
    work_is_late: bool = False
    work_beyond: Asker | None = None
    called: list[int] = field(default_factory=list)

    @property
    def held(self) -> int:
        return sum(one.size for one in self.askers)

    @property
    def wishing(self) -> list[Asker]:
        return [one for one in self.askers if one.wish is not None]

    @property
    def work(self) -> Asker | None:
        return self.least([one for one in self.wishing if one.host is None])

    @property
    def lacking(self) -> int:
        return self.held + sum(one.wish[2] - one.size for one in self.askers if one.wish is not None) - self.most

    def of_host(self, host: str) -> int:
        return sum(one.size for one in self.askers if one.host == host)

    def take(self, one: Asker, size: int, rest: int, now_s: float) -> bool:
        if one.size and (one.size >= size or one is self.beyond):
            self.hold(one, max(size, one.size), now_s)
            return True
        one.wish, self.numbers, one.was_begun = (rest, self.numbers, size), self.numbers + 1, one.size > 0
        if one.host is not None:
            self.came += [] if one in self.came else [one]
            self.hosts += [] if one.was_begun or one.host in self.hosts else [one.host]
        self.grant(now_s, asks=one)
        if one in self.wishing and self.held < 2 * self.most and not one.waits:
            one.wish = None
            self.hold(one, size, now_s)
        return one not in self.wishing

    def give(self, one: Asker, now_s: float) -> None:
        one.wish, one.size = None, 0
        self.came = [other for other in self.came if other is not one]
        if one is self.beyond:
            self.beyond = None
        if one is self.work_beyond:
            self.work_beyond = None
        self.grant(now_s)

    def grant(self, now_s: float, asks: Asker | None = None) -> None:
        while (one := self.next()) is not None:
            assert one.wish is not None
            size, one.wish = one.wish[2], None
            self.hold(one, size, now_s)
            if one is not asks:
                self.called.append(one.name)
        if not self.wishing:
            self.hosts.clear()
            self.first_work, self.work_is_late = None, False

    def next(self) -> Asker | None:
        if not self.wishing:
            return None
        work = self.work
        self.work_is_late = self.work_is_late and work is not None
        if work is not None and self.has_room(work):
            return work
        if work is None or self.work_is_late:
            best = self.frame("room")
            if best is not None and self.has_room(best):
                self.turn["room"] ^= len(self.wishing) > 1
                return best
        if work is not None and self.work_is_late and self.work_beyond is None:
            self.work_beyond = work
            return work
        if self.beyond is None and (one := self.frame("beyond")) is not None:
            self.beyond, self.looks = one, 0
            self.turn["beyond"] = not self.turn["beyond"]
        return self.beyond if self.beyond is not None and self.beyond.wish is not None else None

    def names_beyond(self) -> list[int | None]:
        return [None if one is None else one.name for one in (self.beyond, self.work_beyond)]

    def least(self, some: list[Asker]) -> Asker | None:
        return min(some, key=lambda one: one.wish or (), default=None)

    def frame(self, asked_for: str) -> Asker | None:
        may_begin = asked_for == "room"
        if self.turn[asked_for]:
            for one in self.came:
                if one.wish is not None and (may_begin or one.size):
                    return one
        begun = [one for one in self.wishing if one.host is not None and one.was_begun]
        new = self.first_new() if may_begin else None
        return self.least([*([] if (first := self.least(begun)) is None else [first]), *([] if new is None else [new])])

    def first_new(self) -> Asker | None:
        while self.hosts:
            host = min(self.hosts, key=self.of_host)
            first = self.least([one for one in self.wishing if one.host == host and not one.was_begun])
            if first is not None:
                return first
            self.hosts.remove(host)
        return None

    def has_room(self, one: Asker) -> bool:
        assert one.wish is not None
        return self.most < 0 or not self.held or self.held + one.wish[2] - one.size <= self.most

    def hold(self, one: Asker, size: int, now_s: float) -> None:
        one.size, one.since_s, one.seen = size, now_s, one.far if one.host is not None else -1

    def look(self, now_s: float, holders: list[Asker]) -> list[int]:
        """Who loses what it has; `holders` in the order in which they began to hold."""
        late, slow, self.looks = list[Asker](), list[Asker](), self.looks + 1
        for one in holders:
            if one.host is not None and not (one.wish is not None and one.has_more):
                is_slow, is_still, one.seen = one.since_s <= now_s - STILL_S, one.seen == one.far, one.far
                is_beyond = one is self.beyond and self.held > self.most
                is_late = self.looks >= 10 if is_beyond else one.since_s <= now_s - PATIENCE_S
                if is_late or (is_slow and (is_still or is_beyond)):
                    late.append(one)
                elif is_slow:
                    slow.append(one)
        slow.sort(key=lambda one: (self.of_host(one.host or ""), one.since_s), reverse=True)
        while sum(one.size for one in slow) * 4 > self.most * 3:
            late.append(slow.pop(0))
        work = self.work
        self.work_is_late |= work is not None and work.wish == self.first_work
        self.first_work = None if work is None else work.wish
        self.grant(now_s)
        return [one.name for one in late]


@pytest.mark.parametrize("seed", range(12))
def test_who_gets_room_and_who_loses_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, random = Loop(), Random(seed)
    monkeypatch.setattr(room, "asyncio", stand_in(asyncio, get_running_loop=lambda: loop))
    askers = [Asker(name, random.choice((*HOSTS, None))) for name in range(9)]
    most = random.choice((10, 20, 20, 40, -1))
    memory, plain = RequestMemory(most), Plain(most, askers)
    called, lost, idle = list[int](), list[int](), list[str]()

    def peer(one: Asker) -> Peer | None:
        if one.host is None:
            return None
        return Peer(one.host, lambda: one.far, lambda: one.has_more, lambda: lost.append(one.name))

    peers = [peer(one) for one in askers]
    did = {"waits": 0, "called": 0, "lost": 0, "beyond": 0, "work beyond": 0}
    with memory.idle(1, lambda: idle.append("gives way")):
        for _ in range(400):
            one = random.choice(askers)
            loop.now_s += random.choice((0.0, 0.5, 1.0))
            one.far += random.random() < 0.3
            one.has_more, one.waits = random.random() < 0.3, random.random() < 0.9
            idle.clear()
            match random.random():
                case x if x < 0.55 and one.wish is None:
                    size, rest = one.size + random.randrange(1, 12), random.randrange(0, 9)
                    size = size if random.random() < 0.8 else max(1, one.size - 1)
                    go_on, waits = lambda it=one: called.append(it.name), lambda it=one: it.waits
                    has = memory.take(one.name, size, go_on, peers[one.name], rest, waits)
                    assert has is plain.take(one, size, rest, loop.now_s)
                    assert idle == (["gives way"] if not has and plain.lacking > 0 else [])
                    did["waits"] += not has
                case x if x < 0.85:
                    memory.give(one.name)
                    plain.give(one, loop.now_s)
                case _ if loop.later:
                    (at_s, look), *_ = loop.later
                    loop.later.clear()
                    loop.now_s = max(loop.now_s, at_s)
                    is_short, holders = memory.is_short, [askers[int(str(key))] for key in memory._held]
                    lost.clear()
                    look()
                    assert lost == (plain.look(loop.now_s, holders) if is_short else [])
                    assert [at_s for at_s, _ in loop.later] == ([loop.now_s + STILL_S] if is_short else [])
                    did["lost"] += len(lost)
            for call in loop.soon:
                call()
            loop.soon.clear()
            assert called == plain.called
            assert (memory._bytes, memory.is_short) == (plain.held, bool(plain.wishing))
            assert set(memory.wishes) == {one.name for one in plain.wishing}
            assert {name: share.size for name, share in memory._held.items()} == {
                one.name: one.size for one in askers if one.size
            }
            assert memory._hosts == {host: plain.of_host(host) for host in HOSTS if plain.of_host(host)}
            did["called"] += bool(called)
            assert [memory._beyond, memory._work_beyond] == plain.names_beyond()
            did["beyond"] += plain.beyond is not None
            did["work beyond"] += plain.work_beyond is not None
    assert most < 0 or all(did.values()), did


def test_what_waited_and_went_is_not_kept_while_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a connection that was closed; new ones may come and go for as long as one has all the room."""
    loop = Loop()
    monkeypatch.setattr(room, "asyncio", stand_in(asyncio, get_running_loop=lambda: loop))
    memory = RequestMemory(10)

    def peer(host: str) -> Peer:
        return Peer(host, lambda: 0, lambda: False, lambda: None)

    assert memory.take("first", 10, print, peer("a"))
    assert not memory.take("waits", 5, print, peer("b"), rest=0)
    for number in range(5_000):
        for key, host in ((f"new {number}", "c"), (f"work {number}", None)):
            assert not memory.take(key, 5, print, None if host is None else peer(host), rest=1)
            memory.give(key)
    queues = [memory._work, memory._begun, *memory._new.values()]
    assert max(map(len, queues)) <= FEW + 1
    assert set(memory.wishes) == {"waits"}
    assert set(memory._frames) == {"first", "waits"}
