"""Connections come and go at random: who is let in, who has to wait for how long, and what is counted, beside a plain
list of those that are there.
"""

import asyncio
import logging
from collections import Counter
from math import ceil
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.node.metrics.counts import NodeCounts
from penstock.node.serving import connections as module
from penstock.node.serving.connections import UNLIMITED, ConnectionLimits, Connections
from penstock.node.serving.memory import give_back_memory
from penstock.node.serving.session import Session

HOSTS, LISTENERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3"), ("CLIENTS", "BROKERS")


class Loop:
    """A clock that goes on when it is told, and what is to be called then."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.calls: list[tuple[float, int, Any, tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Any, *arguments: Any) -> "Loop.Handle":
        entry = (when_s, len(self.calls), callback, arguments)
        self.calls.append(entry)
        return Loop.Handle(self, entry)

    def call_later(self, delay_s: float, callback: Any, *arguments: Any) -> "Loop.Handle":
        return self.call_at(self.now_s + delay_s, callback, *arguments)

    def go_on(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while due := [entry for entry in self.calls if entry[0] <= until_s]:
            entry = min(due, key=lambda one: one[:2])
            self.calls.remove(entry)
            self.now_s = max(self.now_s, entry[0])
            entry[2](*entry[3])
        self.now_s = until_s

    class Handle:
        def __init__(self, loop: "Loop", entry: Any) -> None:
            self._loop, self._entry = loop, entry

        def cancel(self) -> None:
            if self._entry in self._loop.calls:
                self._loop.calls.remove(self._entry)


class Connection:
    """As a limit sees one."""

    def __init__(self, all_of_them: Connections) -> None:
        self.session: Session | None = None
        self.began_ns = 0
        self.is_waiting = self.is_aborted = False
        self.muted_s: float | None = None
        self._all = all_of_them

    def close_when_answered(self) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True

    def mute(self, seconds: float) -> None:
        self.muted_s = seconds
        self._all.unmute_later(self, seconds)

    def unmute(self) -> None:
        self.muted_s = None


class Transport(asyncio.Transport):
    def __init__(self, host: str) -> None:
        super().__init__()
        self._host = host

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._host, 9) if name == "peername" else default


class Bucket:
    """So many a second, and as many at once; who comes too fast owes."""

    def __init__(self, rate: int, now_s: float) -> None:
        self.rate, self.left, self.last_s = rate, float(rate), now_s

    def take(self, now_s: float) -> float:
        self.left = min(self.left + self.rate * (now_s - self.last_s), self.rate) - 1
        self.last_s = now_s
        return ceil(-self.left / self.rate * 1000) / 1000 if self.left < 0 else 0.0

    def give_back(self) -> None:
        self.left = min(self.left + 1, self.rate)


class World:
    def __init__(self, limits: ConnectionLimits) -> None:
        self.loop, self.limits = Loop(), limits
        dispatcher: Any = SimpleNamespace(
            memory=None, counts=NodeCounts(), gone={}, clock_ns=lambda: int(self.loop.now_s * 1e9)
        )
        self.all = Connections(dispatcher, limits, self.loop)  # type: ignore[arg-type]
        self.there: dict[Connection, tuple[str, str]] = {}
        self.created, self.closed, self.refused = Counter[str](), Counter[str](), Counter[str]()
        self.of_all = Bucket(limits.creation_rate, self.loop.now_s)
        self.of = {name: Bucket(rate, self.loop.now_s) for name, rate in limits.creation_rate_of.items()}

    def come(self, host: str, listener: str) -> None:
        limits = self.limits
        is_refused = (
            len(self.there) >= limits.max_connections
            or sum(one == host for one, _ in self.there.values())
            >= limits.max_connections_per_ip_overrides.get(host, limits.max_connections_per_ip)
            or sum(one == listener for _, one in self.there.values())
            >= limits.max_connections_of.get(listener, UNLIMITED)
        )
        connection = Connection(self.all)
        session = connection.session = self.all.admit(connection, Transport(host), listener)
        assert (session is None) is is_refused
        if session is None:
            self.refused[listener] += 1
            return
        assert (session.client_host, session.listener) == (host, listener)
        self.there[connection] = host, listener
        self.created[listener] += 1
        if limits.creation_rate != UNLIMITED or limits.creation_rate_of:
            of_all = self.of_all.take(self.loop.now_s)
            own = self.of[listener].take(self.loop.now_s) if listener in self.of else 0.0
            expected = max(0.0 if listener == limits.protected_listener else of_all, own)
            assert (connection.muted_s or 0.0) == pytest.approx(expected, abs=0.0011)
        else:
            assert connection.muted_s is None

    def go(self, connection: Connection) -> None:
        _, listener = self.there.pop(connection)
        if connection.muted_s is not None:
            self.of_all.give_back()
            if listener in self.of:
                self.of[listener].give_back()
        assert connection.session is not None
        self.all.remove(connection, connection.session)
        self.closed[listener] += 1

    def check(self) -> None:
        assert list(self.all.active) == list(self.there)
        for name in LISTENERS:
            counts = self.all.counts.listener(name)
            assert (counts.created, counts.closed, counts.refused) == (
                self.created[name],
                self.closed[name],
                self.refused[name],
            )


LIMITS = (
    ConnectionLimits(max_idle_ms=-1),
    ConnectionLimits(max_idle_ms=-1, max_connections=4),
    ConnectionLimits(max_idle_ms=-1, max_connections_per_ip=2, max_connections_per_ip_overrides={HOSTS[1]: 3}),
    ConnectionLimits(max_idle_ms=-1, max_connections_of={"CLIENTS": 2}),
    ConnectionLimits(max_idle_ms=-1, creation_rate=4),
    ConnectionLimits(max_idle_ms=-1, creation_rate=4, protected_listener="BROKERS"),
    ConnectionLimits(max_idle_ms=-1, creation_rate_of={"BROKERS": 2}),
    ConnectionLimits(max_idle_ms=-1, creation_rate=4, creation_rate_of={"CLIENTS": 2}, protected_listener="BROKERS"),
)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_whoever_comes_when(seed: int, limits: ConnectionLimits) -> None:
    random, world = Random(seed), World(limits)
    for _ in range(120):
        kind = random.random()
        if kind < 0.5 or not world.there:
            world.come(random.choice(HOSTS), random.choice(LISTENERS))
        elif kind < 0.8:
            world.go(random.choice(list(world.there)))
        else:
            world.loop.go_on(random.choice((0.1, 0.25, 1.0)))
        world.check()
    world.loop.go_on(1000)
    assert all(one.muted_s is None for one in world.there)


def test_other_limits_hold_for_those_to_come() -> None:
    world = World(ConnectionLimits(max_idle_ms=-1))
    world.come(HOSTS[0], "CLIENTS")
    world.limits = ConnectionLimits(max_idle_ms=-1, max_connections=1)
    world.all.set_limits(world.limits)
    world.come(HOSTS[0], "CLIENTS")
    world.all.set_limits(ConnectionLimits(max_idle_ms=-1, creation_rate=1))
    assert world.all._rates is not None
    world.all.set_limits(world.limits)
    assert world.all._rates is None


def test_who_comes_too_often_from_one_place_is_refused_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    world = World(ConnectionLimits(max_idle_ms=-1))
    quotas: Any = SimpleNamespace(refuses=lambda host: host == HOSTS[0])
    world.all.throttling.active = quotas
    assert world.all.admit(Connection(world.all), Transport(HOSTS[0]), "CLIENTS") is None
    world.refused["CLIENTS"] += 1
    world.check()
    assert f"connection_creation_rate of {HOSTS[0]} is exceeded" in caplog.text
    world.come(HOSTS[1], "CLIENTS")
    world.check()


def test_who_is_idle_is_closed_the_longest_first(caplog: pytest.LogCaptureFixture) -> None:
    """Not one whose request waits, and not before its time."""
    caplog.set_level(logging.INFO, "penstock")
    world = World(ConnectionLimits(max_idle_ms=1000))
    for host in HOSTS:
        world.come(host, "CLIENTS")
        world.loop.go_on(0.25)
    first, waits, last = world.there
    waits.is_waiting = True
    world.loop.go_on(0.2)
    assert not first.is_aborted
    world.loop.go_on(0.1)
    assert (first.is_aborted, waits.is_aborted, last.is_aborted) == (True, False, False)
    world.go(first)
    world.loop.go_on(0.5)
    assert (waits.is_aborted, last.is_aborted) == (False, True)
    assert "idle for connections.max.idle.ms=1000" in caplog.text
    world.go(last)
    waits.is_waiting = False
    world.loop.go_on(1.1)
    assert waits.is_aborted
    world.go(waits)
    world.loop.go_on(2.0)
    assert not world.loop.calls, "nothing is left to look after"
    world.come(HOSTS[0], "CLIENTS")
    assert len(world.loop.calls) == 1


def test_after_many_are_lost_memory_is_given_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_BEFORE_GIVING_BACK", 3)
    world, given = World(ConnectionLimits(max_idle_ms=-1)), 0

    def run(_: Any, work: Any) -> None:
        nonlocal given
        assert work is give_back_memory
        given += 1

    world.loop.run_in_executor = run  # type: ignore[attr-defined]
    for count in (1, 1, 2, 2, 2, 3):
        world.come(HOSTS[0], "CLIENTS")
        world.go(next(iter(world.there)))
        world.loop.go_on(10.0 if count == 2 else 0.0)
    assert given == 1
    world.loop.go_on(10.0)
    assert given == 2
