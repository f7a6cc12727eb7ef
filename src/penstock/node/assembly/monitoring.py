"""The metrics listener of a node, put together: the page of figures, and what says whether it lives and is ready.

It listens before the node has its place in the cluster, so that who waits for it to be ready can ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock import __version__
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.listeners import PARTITIONS_LEVEL, parse_otlp_headers
from penstock.node.metrics.counts import NodeCounts
from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Gauge, Group, Histogram, Labels, Metric, Registry
from penstock.node.monitoring.clients import ClientSurvey
from penstock.node.monitoring.groups import GroupSurvey
from penstock.node.monitoring.health import Check, Health
from penstock.node.monitoring.http import LOOPBACK, Asked, HttpServer, Told
from penstock.node.monitoring.page import OPEN_METRICS, TEXT, page_steps
from penstock.node.monitoring.pages import Pages
from penstock.node.monitoring.partitions import PartitionSurvey
from penstock.node.monitoring.process import ProcessSurvey
from penstock.node.serving.slices import Slices, Steps
from penstock.protocol.requests.api import ApiKey, api_of

if TYPE_CHECKING:
    from penstock.node.assembly.broker_start import BrokerParts
    from penstock.node.assembly.quorum_start import QuorumParts
    from penstock.node.monitoring.push import Pushing
    from penstock.node.serving.server import BoundListener

PACKED: Final = "gzip"
NS_PER_MS: Final = 1_000_000

logger = logging.getLogger(__name__)


class Survey(Protocol):
    """Looks at something for each page, in steps, and has metrics that tell what was found."""

    def steps(self) -> Steps[None]: ...

    def register(self, registry: Registry) -> None: ...


class Monitoring:
    """Making it starts nothing. A node that becomes a broker says so with `serves`."""

    def __init__(self, parts: QuorumParts, listener: BoundListener | None) -> None:
        """Without a listener figures are only pushed."""
        context = parts.context
        self._parts = parts
        self._listener = listener
        self._registry = Registry()
        self._slices = Slices(clock_ns=context.environment.clock_ns)
        process = ProcessSurvey(context.directories, context.now_ms() / 1000)
        self._surveys: list[Survey] = [process]
        self._clients: ClientSurvey | None = None
        process.register(self._registry)
        self._registry.add(_request_times(context.counts), _up())
        self._health = Health(Check("takes part", lambda: not parts.failed.done()))
        self._health.add(
            Check("directories are online", lambda: not context.directories.roots.offline),
            Check("has caught up", self._has_caught_up),
        )
        self._pages = Pages(self._page, time.perf_counter)
        routes = {"/metrics": self._metrics, "/health/live": self._health.live, "/health/ready": self._health.ready}
        self._http = HttpServer(routes, is_loopback=listener is not None and listener.endpoint.host in LOOPBACK)
        self._server: asyncio.Server | None = None
        self.pushing = self._pushing(context.config, int(context.now_ms() * NS_PER_MS))

    def _pushing(self, config: BrokerConfig, now_ns: int) -> Pushing | None:
        if config.otlp_endpoint is None:
            return None
        from penstock.node.monitoring.push import Pushing

        requests = partial(self._requests, now_ns)
        headers = parse_otlp_headers(config.otlp_endpoint, config.penstock_otlp_headers)
        pushing = Pushing(config.otlp_endpoint, headers, config.penstock_otlp_interval_ms, requests)
        pushing.register(self._registry)
        return pushing

    @property
    def port(self) -> int:
        return -1 if self._listener is None else self._listener.endpoint.port

    def serves(self, serving: BrokerParts) -> None:
        """This node is becoming a broker."""
        broker, config = serving.broker, self._parts.context.config
        named = self._parts.context.counts.topics.by_topic
        partitions = PartitionSurvey(
            broker, named.__contains__, tells_each=config.penstock_metrics_level == PARTITIONS_LEVEL
        )
        surveys: list[Survey] = [partitions, GroupSurvey(broker)]
        if broker.telemetry is not None:
            self._clients = ClientSurvey(broker.telemetry, broker.now_ms)
            surveys.append(self._clients)
        for survey in surveys:
            survey.register(self._registry)
        self._surveys += surveys
        lifecycle, lease = serving.lifecycle, broker.lease
        self._health.add(
            Check("is registered", lambda: lifecycle.is_registered),
            Check("is unfenced", lambda: lifecycle.is_unfenced),
            Check("holds its lease", lambda: not lease.is_over),
        )

    async def start(self) -> None:
        if self.pushing is not None:
            self.pushing.start()
        loop, bound = asyncio.get_running_loop(), self._listener
        if bound is None:
            return
        self._server = await loop.create_server(self._http.accept, sock=bound.socket)
        endpoint = bound.endpoint
        logger.info("metrics on http://%s:%d/metrics", endpoint.host or "0.0.0.0", endpoint.port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._http.stop()
        if self.pushing is not None:
            await self.pushing.stop()

    async def _metrics(self, asked: Asked) -> Told:
        is_open = asked.accepts("accept", "application/openmetrics-text")
        is_packed = asked.accepts("accept-encoding", PACKED)
        headers = {"Vary": "Accept, Accept-Encoding"} | ({"Content-Encoding": PACKED} if is_packed else {})
        page = await self._pages.page(is_open=is_open, is_packed=is_packed)
        return Told(page, OPEN_METRICS if is_open else TEXT, headers=headers)

    async def _page(self, is_open: bool) -> bytes:
        made = self._slices.answer(self._steps(is_open=is_open))
        return made if isinstance(made, bytes) else await made

    def _steps(self, *, is_open: bool) -> Steps[bytes]:
        yield from self._look()
        return (yield from page_steps(self._all(), is_open=is_open))

    def _look(self) -> Steps[None]:
        for survey in self._surveys:
            yield from survey.steps()
            yield None

    async def _requests(self, began_ns: int) -> list[bytes]:
        """What is pushed to a collector."""
        made = self._slices.answer(self._request_steps(began_ns))
        return made if isinstance(made, list) else await made

    def _request_steps(self, began_ns: int) -> Steps[list[bytes]]:
        from penstock.node.monitoring.otlp import Origin, request_steps

        yield from self._look()
        context = self._parts.context
        origin = Origin(
            {
                "service.name": "penstock",
                "service.version": __version__,
                "service.instance.id": str(context.config.node_id),
                "kafka.cluster.id": context.image.cluster_id,
            }.items(),
            began_ns,
        )
        return (yield from request_steps(self._all(), origin, int(context.now_ms() * NS_PER_MS)))

    def _all(self) -> Iterator[Metric[Any]]:
        of_clients = () if self._clients is None else self._clients.metrics()
        of_parts = list(self._parts.context.metrics) if self._parts.quorum.is_running else []
        return chain(of_parts, list(self._registry), of_clients)

    def _has_caught_up(self) -> bool:
        quorum = self._parts.quorum
        committed = max(quorum.told_high_watermark, quorum.high_watermark)
        return quorum.hears_leader and 0 < committed <= self._parts.context.image.offset + 1


def _request_times(counts: NodeCounts) -> Histogram:
    def times() -> dict[Labels, Distribution]:
        found: dict[Labels, Distribution] = {}
        for key, api in sorted(counts.apis.items()):
            if key == ApiKey.FETCH:
                found["FetchConsumer",], found["FetchFollower",] = api.times, api.of_nodes.times
            elif api.count:
                found[api_of(key).name,] = api.times
        return found

    return Histogram(Group.NODE, "RequestSeconds", "Until the answer was made", times, "seconds", labels=("request",))


def _up() -> Gauge:
    return Gauge(Group.NODE, "BuildInfo", "1", lambda: {(__version__,): 1}, labels=("version",))
