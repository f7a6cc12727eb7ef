"""What a node's metrics listener is made of: what it checks and tells, each alone; in the clear and packed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.node.contexts import embedded

from penstock import __version__
from penstock.node.assembly import monitoring
from penstock.node.assembly.monitoring import Monitoring
from penstock.node.metrics.counts import NodeCounts
from penstock.node.metrics.registry import Gauge, Group, Registry
from penstock.node.monitoring.page import OPEN_METRICS, TEXT

NOW_MS = 7_000


class Parts:
    """Of a node that is a broker and does well."""

    def __init__(self, **settings: str) -> None:
        loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[Exception] = loop.create_future()
        self.roots = SimpleNamespace(offline=list[str]())
        self.metrics = Registry()
        self.metrics.add(Gauge(Group.NODE, "of-parts", "It is of the parts", lambda: 1))
        self.context = SimpleNamespace(
            config=embedded(3, **settings),
            counts=NodeCounts(),
            environment=SimpleNamespace(clock_ns=lambda: 0),
            directories=SimpleNamespace(roots=self.roots),
            now_ms=lambda: NOW_MS,
            image=SimpleNamespace(offset=4, cluster_id="some-cluster"),
            metrics=self.metrics,
        )
        self.quorum = SimpleNamespace(told_high_watermark=5, high_watermark=5, hears_leader=True, is_running=True)


class Clients:
    def __init__(self, telemetry: object, now_ms: object) -> None:
        self.of = telemetry, now_ms

    def steps(self) -> Any:
        yield from ()

    def register(self, registry: Registry) -> None:
        registry.add(Gauge(Group.NODE, "of-clients", "Clients", lambda: 1))

    def metrics(self) -> list[Gauge]:
        return [Gauge(Group.NODE, "told-by-clients", "Of clients", lambda: 1)]


class Survey:
    """In the place of one of a broker."""

    looks = 0

    def __init__(self, *_: object, **__: object) -> None: ...

    def steps(self) -> Any:
        Survey.looks += 1
        yield None

    def register(self, registry: Registry) -> None:
        registry.add(Gauge(Group.NODE, f"survey-{len(list(registry))}", "A survey", lambda: 1))


class Node:
    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, listener: Any = None, telemetry: object = None, **settings: str
    ) -> None:
        for name in ("ProcessSurvey", "PartitionSurvey", "GroupSurvey"):
            monkeypatch.setattr(monitoring, name, Survey)
        monkeypatch.setattr(monitoring, "ClientSurvey", Clients)
        Survey.looks = 0
        self.parts = Parts(**settings)
        self.lifecycle = SimpleNamespace(is_registered=True, is_unfenced=True)
        self.lease = SimpleNamespace(is_over=False)
        self.broker = SimpleNamespace(lease=self.lease, telemetry=telemetry, now_ms=lambda: 0)
        self.it = Monitoring(cast("Any", self.parts), listener)

    def serves(self) -> None:
        self.it.serves(cast("Any", SimpleNamespace(broker=self.broker, lifecycle=self.lifecycle)))

    async def ready(self) -> list[str]:
        """Which checks do not hold."""
        told = await self.it._health.ready(cast("Any", None))
        return [name for name, holds in json.loads(told.body).items() if not holds]

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.it._all()]


def _fails(node: Node) -> None:
    node.parts.failed.set_result(OSError())


CHECKS: dict[str, Callable[[Node], object]] = {
    "takes part": _fails,
    "directories are online": lambda node: node.parts.roots.offline.append("d"),
    "has caught up": lambda node: setattr(node.parts.quorum, "hears_leader", False),
    "is registered": lambda node: setattr(node.lifecycle, "is_registered", False),
    "is unfenced": lambda node: setattr(node.lifecycle, "is_unfenced", False),
    "holds its lease": lambda node: setattr(node.lease, "is_over", True),
}


@pytest.mark.parametrize("name", CHECKS)
async def test_each_check_counts_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    node = Node(monkeypatch)
    of_controller = json.loads((await node.it._health.ready(cast("Any", None))).body)
    assert list(of_controller) == list(CHECKS)[:3]
    node.serves()
    assert await node.ready() == []
    CHECKS[name](node)
    assert await node.ready() == [name]
    live = json.loads((await node.it._health.live(cast("Any", None))).body)
    assert live == {"takes part": name != "takes part"}


@pytest.mark.parametrize("telemetry", [None, "telemetry"])
async def test_what_is_told_of_whom(monkeypatch: pytest.MonkeyPatch, telemetry: str | None) -> None:
    node = Node(monkeypatch, telemetry=telemetry)
    own = ["survey-0", "RequestSeconds", "BuildInfo"]
    assert node.names == ["of-parts", *own]
    node.serves()
    clients = [[], []] if telemetry is None else [["of-clients"], ["told-by-clients"]]
    assert node.names == ["of-parts", *own, "survey-3", "survey-4", *clients[0], *clients[1]]
    node.parts.quorum.is_running = False
    assert node.names == [*own, "survey-3", "survey-4", *clients[0], *clients[1]]
    page = await node.it._page(is_open=False)
    assert (Survey.looks, __version__.encode() in page) == (3, True)
    up = next(one for one in node.it._all() if one.name == "BuildInfo")
    assert list(up.samples()) == [((__version__,), 1)]


@pytest.mark.parametrize(("level", "tells"), [("topics", False), ("partitions", True)])
async def test_each_partition_is_told_where_the_file_says_so(
    monkeypatch: pytest.MonkeyPatch, level: str, tells: bool
) -> None:
    node = Node(monkeypatch, penstock_metrics_level=level)
    made = list[bool]()

    def partitions(*_: object, tells_each: bool) -> Survey:
        made.append(tells_each)
        return Survey()

    monkeypatch.setattr(monitoring, "PartitionSurvey", partitions)
    node.serves()
    assert made == [tells]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
async def test_the_page_is_as_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, is_open: bool, is_packed: bool) -> None:
    async def page(*, is_open: bool, is_packed: bool) -> bytes:
        return f"{is_open} {is_packed}".encode()

    node = Node(monkeypatch)
    node.it._pages = cast("Any", SimpleNamespace(page=page))
    wanted = {("accept", "application/openmetrics-text"): is_open, ("accept-encoding", "gzip"): is_packed}
    told = await node.it._metrics(cast("Any", SimpleNamespace(accepts=lambda *what: wanted[what])))
    assert (told.body, told.media_type) == (f"{is_open} {is_packed}".encode(), OPEN_METRICS if is_open else TEXT)
    packed = {"Content-Encoding": "gzip"} if is_packed else {}
    assert told.headers == {"Vary": "Accept, Accept-Encoding"} | packed


@pytest.mark.parametrize(("host", "is_loopback"), [("127.0.0.1", True), ("", False), (None, False)])
async def test_names_by_which_it_is_asked_count_on_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, host: str | None, is_loopback: bool
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(monitoring, "HttpServer", lambda routes, **how: made.append((list(routes), how)))
    listener = None if host is None else SimpleNamespace(endpoint=SimpleNamespace(host=host, port=9))
    node = Node(monkeypatch, listener=listener)
    routes = ["/metrics", "/health/live", "/health/ready"]
    assert made == [(routes, {"is_loopback": is_loopback})]
    assert node.it.port == (-1 if host is None else 9)


@pytest.mark.parametrize("endpoint", [None, "http://c:1"])
async def test_figures_are_pushed_where_the_file_says_so(monkeypatch: pytest.MonkeyPatch, endpoint: str | None) -> None:
    settings = {} if endpoint is None else {"penstock_otlp_endpoint": endpoint}
    node = Node(monkeypatch, **settings)
    await node.it.start()
    assert node.it._server is None, "nobody asks"
    names = {one.name for one in node.it._all()}
    assert (node.it.pushing is not None) is ("OtlpPushCount" in names) is (endpoint is not None)
    if node.it.pushing is not None:
        assert len(node.it.pushing._tasks) == 1
        (request,) = await node.it.pushing._make()
        began_ns = (NOW_MS * 1_000_000).to_bytes(8, "little")
        assert request.count(began_ns) >= 2, "when it began and now, of each figure"
    await node.it.stop()
    assert node.it.pushing is None or len(node.it.pushing._tasks) == 0
