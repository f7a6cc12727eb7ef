"""Which brokers a controller watches, and what it makes of each way in which a listener answers: step by step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stand_in import stand_in

from penstock.controller.probe import QUICK_S, SLOW_S, Probe
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    NoOpRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.node.controlling import probes
from penstock.node.controlling.probes import CONNECT_S, Probes, ProbeSettings, _connect, _Silent
from penstock.node.metrics.registry import Registry
from penstock.protocol.address import Address

PATIENCE_MS = 500


def broker(number: int, epoch: int = 10, *, active: bool = True, listens: bool = True) -> Any:
    endpoint = SimpleNamespace(host=f"b{number}", port=9000 + number) if listens else None
    return SimpleNamespace(
        node_id=number, epoch=epoch, active=active, endpoint=lambda name: endpoint if name == "NODES" else None
    )


class Controller:
    """That of node 9, which watches; what tasks are begun and ended is noted, and none runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.brokers: dict[int, Any] = {}
        self.now_ms = 1_000
        self.ends = True
        self.ended: list[tuple[int, int]] = []
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.stopped = 0
        monkeypatch.setattr(probes, "Tasks", lambda: SimpleNamespace(keep=self._keep, stop=self._stop))
        self.registry = Registry()
        sessions: Any = SimpleNamespace(image=SimpleNamespace(brokers=self.brokers), end_session=self._end_session)
        log: Any = SimpleNamespace(add_listener=self._listen)
        settings = ProbeSettings(9, "NODES", PATIENCE_MS)
        self.probes = Probes(settings, sessions, log, self.registry, lambda: self.now_ms)

    def _listen(self, on_records: Any, on_replaced: Any) -> None:
        self.on_records, self.on_replaced = on_records, on_replaced

    def _keep(self, work: Any, name: str) -> Any:
        key, address = work.args
        said = f"{name} {key} at {address}"
        self.begun.append(said)
        return SimpleNamespace(cancel=lambda: self.cancelled.append(said))

    async def _stop(self) -> None:
        self.stopped += 1

    def _end_session(self, broker_id: int, epoch: int) -> bool:
        self.ended.append((broker_id, epoch))
        return self.ends

    @property
    def connected(self) -> float:
        ((_, value),) = [row for one in self.registry if one.name == "WatchedBrokerCount" for row in one.samples()]
        return float(value)

    def follows(self, *brokers: Any) -> tuple[list[str], list[str]]:
        """What is begun and what is ended when these are all brokers."""
        self.brokers.clear()
        self.brokers.update({one.node_id: one for one in brokers})
        self.begun.clear()
        self.cancelled.clear()
        self.on_replaced()
        return list(self.begun), list(self.cancelled)


ONE = "probe of broker 1 (1, 10) at b1:9001"


def test_brokers_that_are_active_are_watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Controller(monkeypatch)
    two = "probe of broker 2 (2, 10) at b2:9002"
    others = (broker(9), broker(3, active=False), broker(4, listens=False))
    assert node.follows(broker(1), broker(2), *others) == ([ONE, two], [])
    assert node.follows(broker(1), broker(2)) == ([], [])
    assert node.follows(broker(1, 11), broker(2)) == (["probe of broker 1 (1, 11) at b1:9001"], [ONE])
    assert node.follows(broker(2, active=False)) == ([], ["probe of broker 1 (1, 11) at b1:9001", two])
    assert node.follows(broker(1)) == ([ONE], [])


@pytest.mark.parametrize(
    "kind",
    [
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        BrokerRegistrationChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        NoOpRecord,
    ],
)
def test_which_records_are_followed(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    node = Controller(monkeypatch)
    node.brokers[1] = broker(1)
    node.on_records([NoOpRecord(), kind.__new__(kind), NoOpRecord()])
    assert node.begun == ([] if kind is NoOpRecord else [ONE])


async def test_who_has_stopped_follows_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Controller(monkeypatch)
    node.follows(broker(1))
    await node.probes.stop()
    assert node.stopped == 1
    assert node.follows(broker(1), broker(2)) == ([], [])
    assert node.follows() == ([], [])


class Link:
    """A connection that lasts for so many milliseconds."""

    def __init__(self, node: Controller, lasts_ms: int) -> None:
        self.node, self.lasts_ms = node, lasts_ms
        self.aborted = False
        self.lost = self

    async def wait(self) -> None:
        assert self.node.connected == 1
        self.node.now_ms += self.lasts_ms

    def abort(self) -> None:
        self.aborted = True


ADDRESS = Address("b1", 9001)


@pytest.mark.parametrize(("lasts_ms", "pause_s"), [(0, SLOW_S), (1000, SLOW_S), (1001, QUICK_S), (60_000, QUICK_S)])
async def test_a_link_that_lasted_is_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch, lasts_ms: int, pause_s: float
) -> None:
    node = Controller(monkeypatch)
    link, limits = Link(node, lasts_ms), list[float]()

    async def connect(address: Address) -> Any:
        assert address == ADDRESS
        return link, link

    def timeout(seconds: float) -> Any:
        limits.append(seconds)
        return asyncio.timeout(None)

    monkeypatch.setattr(probes, "_connect", connect)
    monkeypatch.setattr(probes, "asyncio", stand_in(asyncio, timeout=timeout))
    probe = Probe(PATIENCE_MS)
    probe.unanswered()
    assert await node.probes._try(probe, ADDRESS) == pause_s
    assert (node.connected, link.aborted, limits) == (0, True, [CONNECT_S])
    probe.refused(0)
    probe.refused(PATIENCE_MS)
    assert probe.has_ended, "it was reached before"


@pytest.mark.parametrize(
    ("error", "ended", "pause_s"),
    [
        (ConnectionRefusedError(), True, QUICK_S),
        (ConnectionResetError(), False, SLOW_S),
        (TimeoutError(), False, SLOW_S),
        (OSError("no route"), False, SLOW_S),
    ],
)
async def test_what_does_not_refuse_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, error: OSError, ended: bool, pause_s: float
) -> None:
    node = Controller(monkeypatch)

    async def connect(_: Address) -> Any:
        raise error

    monkeypatch.setattr(probes, "_connect", connect)
    probe = Probe(PATIENCE_MS)
    probe.connected()
    probe.refused(node.now_ms)
    node.now_ms += PATIENCE_MS
    assert await node.probes._try(probe, ADDRESS) == pause_s
    assert probe.has_ended is ended


@pytest.mark.parametrize("ends", [False, True])
async def test_a_session_is_ended_until_that_is_heard(
    monkeypatch: pytest.MonkeyPatch, ends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node = Controller(monkeypatch)
    node.ends = False
    made: list[Any] = []
    slept: list[float] = []

    class Seen(Probe):
        def __init__(self, patience_ms: int) -> None:
            super().__init__(patience_ms)
            made.append(patience_ms)

        def told(self) -> None:
            made.append("told")
            super().told()

    async def try_once(probe: Probe, address: Address) -> float:
        assert address == ADDRESS
        probe.has_ended = len(slept) > 0
        return 0.25 + len(slept)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        node.ends = ends and len(slept) > 1
        if len(slept) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(probes, "Probe", Seen)
    monkeypatch.setattr(node.probes, "_try", try_once)
    monkeypatch.setattr(probes, "asyncio", stand_in(asyncio, sleep=sleep))
    with pytest.raises(asyncio.CancelledError):
        await node.probes._watch((1, 10), ADDRESS)
    assert node.ended == [(1, 10), (1, 10)]
    assert slept == [0.25, 1.25, 2.25]
    assert made == [PATIENCE_MS, *["told"] * ends]
    said = "broker 1 has ended: its listener b1:9001 is closed, and refuses connections for 500 ms"
    assert [one.getMessage() for one in caplog.records] == [said] * ends


class Loop:
    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, list[Any]()

    async def create_connection(self, made: Any, host: str, port: int) -> Any:
        self.asked.append((host, port))
        answer = self.answers[host]
        if isinstance(answer, Exception):
            raise answer
        return answer, made()


REFUSED, GONE = ConnectionRefusedError(), OSError("gone")


@pytest.mark.parametrize(
    ("answers", "asked", "found"),
    [
        ({"a": "x"}, "a", "x"),
        ({"a": REFUSED}, "a", REFUSED),
        ({"a": "x", "b": "y"}, "a", "x"),
        ({"a": REFUSED, "b": "y"}, "ab", "y"),
        ({"a": REFUSED, "b": REFUSED, "c": "z"}, "abc", "z"),
        ({"a": REFUSED, "b": REFUSED}, "ab", REFUSED),
        ({"a": GONE, "b": "y"}, "a", GONE),
        ({"a": REFUSED, "b": GONE}, "ab", GONE),
    ],
    ids=range(8),
)
async def test_all_that_a_name_stands_for_have_to_refuse(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], asked: str, found: Any
) -> None:
    loop = Loop(**answers)

    async def hosts(address: Address) -> list[str]:
        assert address == ADDRESS
        return list(answers)

    monkeypatch.setattr(probes, "hosts_of", hosts)
    monkeypatch.setattr(probes, "asyncio", stand_in(asyncio, get_running_loop=lambda: loop))
    if isinstance(found, Exception):
        with pytest.raises(type(found)) as raised:
            await _connect(ADDRESS)
        assert raised.value is found
    else:
        transport, silent = await _connect(ADDRESS)
        assert cast("Any", transport) == found
        assert not silent.lost.is_set()
    assert loop.asked == [(host, ADDRESS.port) for host in asked]


async def test_a_link_that_goes_is_lost() -> None:
    silent = _Silent()
    assert not silent.lost.is_set()
    silent.connection_lost(None)
    assert silent.lost.is_set()
