"""Keys of a node for each of their uses: what is told of them and when, and connections to other nodes."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.assembly import tls
from penstock.node.assembly.tls import NodeTls, Use
from penstock.tls.errors import TlsConfigError
from penstock.tls.layer import TlsBuffers
from penstock.tls.opening import Opening

SERVING, ASKING = Use("A", "serving"), Use("B", "asking")


def test_uses_are_told_apart() -> None:
    assert (str(SERVING), str(ASKING)) == ("the listener A", "connections to B")


class Kept:
    """In the place of `Keys`: what the next look finds, and how long the certificate holds."""

    def __init__(self, days: int | None = None, certificate: bytes | None = b"one") -> None:
        self.days = days
        self.certificate = certificate
        self.found: bool | TlsConfigError = False
        self.context = object()

    def days_left(self, now_ms: int) -> int | None:
        assert now_ms == 5
        return self.days

    def refresh(self) -> bool:
        if isinstance(self.found, TlsConfigError):
            raise self.found
        return self.found


class Node:
    """Keys of a node that are kept by hand."""

    def __init__(self, caplog: pytest.LogCaptureFixture, **kept: Kept) -> None:
        caplog.set_level(logging.INFO, tls.logger.name)
        self.caplog = caplog
        self.it = cast("Any", NodeTls.__new__(NodeTls))
        self.it._now_ms = lambda: 5
        self.it._told, self.it._faults, self.it._listeners, self.it._shown = {}, {}, {}, {}
        self.it._keys = {use: kept[use.side] for use in (SERVING, ASKING) if use.side in kept}

    async def said(self) -> list[str]:
        """With the next look."""
        self.caplog.clear()
        await self.it.refresh()
        return [f"{it.levelname} {it.getMessage()}" for it in self.caplog.records]


async def test_what_becomes_of_files_is_told_once_for_each_use(caplog: pytest.LogCaptureFixture) -> None:
    serving, asking = Kept(), Kept()
    node = Node(caplog, serving=serving, asking=asking)
    kept = "ERROR keys and certificates of {} stay as they were: {}"
    bad, other = TlsConfigError("a", "bad"), TlsConfigError("a", "other")
    for found, of_asking, said in (
        (False, False, []),
        (True, False, ["INFO keys and certificates of the listener A were replaced"]),
        (bad, False, [kept.format("the listener A", bad)]),
        (bad, bad, [kept.format("connections to B", bad)]),
        (other, bad, [kept.format("the listener A", other)]),
        (False, bad, []),
        (other, bad, [kept.format("the listener A", other)]),
    ):
        serving.found, asking.found = found, of_asking
        assert await node.said() == said


async def test_the_end_of_a_certificate_is_told_at_each_limit_and_of_each_certificate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    serving = Kept()
    node = Node(caplog, serving=serving)
    expires = "expires in {} days"
    for days, told in (
        (None, None),
        (30, None),
        (29, expires.format(29)),
        (29, None),
        (7, None),
        (6, expires.format(6)),
        (1, None),
        (0, expires.format(0)),
        (0, None),
        (-1, "has expired"),
        (-9, None),
    ):
        serving.days = days
        said = (
            f"WARNING the certificate of the listener A {told}: replace it, the file is read again while the node runs"
        )
        assert await node.said() == ([] if told is None else [said]), days
    serving.certificate = b"two"
    assert len(await node.said()) == 1, "another one that has expired"
    serving.certificate = None
    assert await node.said() == []


def test_days_are_told_of_what_has_a_certificate(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(caplog, serving=Kept(3), asking=Kept(None))
    assert node.it._days_left() == {("A", "serving"): 3}


async def test_connections_whose_certificates_hold_no_longer_end_with_each_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node, looked = Node(caplog), list[str]()
    node.it._listeners = {"A": SimpleNamespace(look=lambda: looked.append("listener"))}
    node.it._shown = {ASKING: SimpleNamespace(look=lambda: looked.append("asking"))}
    assert await node.said() == []
    assert looked == ["listener", "asking"]


async def test_of_a_listener_that_was_closed_no_file_is_read_any_more(caplog: pytest.LogCaptureFixture) -> None:
    """One that comes and goes over and over had its files read, and was looked at, once for each time."""
    serving, asking = Kept(3), Kept(3)
    node = Node(caplog, serving=serving, asking=asking)
    node.it._listeners = {"A": SimpleNamespace(look=lambda: None)}
    assert len(await node.said()) == 2
    for _ in range(2):
        node.it.closed("A")
        assert [list(kept) for kept in (node.it._keys, node.it._told, node.it._faults)] == [[ASKING]] * 3
        assert node.it._listeners == {}
        serving.days = 0
        assert await node.said() == []
    node.it._keys[SERVING] = serving
    serving.refresh = lambda: bool(node.it.closed("A"))  # type: ignore[method-assign]  # while a thread reads them
    assert await node.said() == []
    assert SERVING not in node.it._faults


class Shown:
    """What peers have shown: one that shows `old` is not let in."""

    def __init__(self) -> None:
        self.keys = SimpleNamespace(context="context")
        self.there: dict[str, bytes] = {}

    def add(self, layer: Any, certificate: bytes, on_end: object) -> None:
        if certificate == b"old":
            raise ValueError("it has expired")
        self.there[layer.name] = certificate

    def lost(self, layer: Any) -> None:
        del self.there[layer.name]


@pytest.fixture
def secured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Layers in the order in which their connections were taken as secured."""
    layers = list[str]()
    monkeypatch.setattr(Opening, "__init__", lambda self, *of: setattr(self, "of", of))
    monkeypatch.setattr(Opening, "secured", lambda self, layer: layers.append(layer.name))
    monkeypatch.setattr(Opening, "broken", lambda self, layer, reason: layers.append(f"{layer.name}: {reason}"))
    return layers


def test_a_connection_to_a_node_is_remembered_while_its_certificate_holds(secured: list[str]) -> None:
    shown = Shown()
    made = tls._NodeSecurity(cast("Any", shown), cast("Any", lambda: "buffers"), cast("Any", "log-in"))
    security = cast("Any", made)
    assert (security._credentials, security.context()) == ("log-in", "context")
    opening: Any = security.opening(cast("Any", "protocol"), "h", cast("Any", "fail"))
    assert opening.of == ("protocol", "context", "h", "fail", "buffers")
    new, old = (SimpleNamespace(name=name, peer_certificate=name.encode()) for name in ("new", "old"))
    opening.secured(new)
    assert (shown.there, secured) == ({"new": b"new"}, ["new"])
    opening.secured(old)
    assert (shown.there, secured[:2]) == ({"new": b"new"}, ["new", "old: it has expired"])
    opening.lost(new)
    assert shown.there == {}


async def test_who_is_simulated_has_buffers_and_contexts_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "Keys", lambda settings, make: SimpleNamespace(make=make, days_left=lambda now_ms: None))
    simulated: Any = SimpleNamespace(clock_s=lambda: 7.0, make_context=object())
    for outside, made in ((None, tls.CONTEXTS["asking"]), (simulated, simulated.make_context)):
        context: Any = SimpleNamespace(
            config=None,
            now_ms=lambda: 5,
            environment=SimpleNamespace(tls=outside),
            metrics=SimpleNamespace(add=lambda _: None),
        )
        node = NodeTls(context)
        keys: Any = node._kept(ASKING)
        assert keys.make is made
        assert node._kept(ASKING) is keys, "they are kept"
        buffers = node._new_buffers
        assert buffers is TlsBuffers if outside is None else cast("Any", buffers).args == (simulated.clock_s,)
        await node.stop()
