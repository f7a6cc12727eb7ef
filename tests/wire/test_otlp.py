"""A node pushes its figures to a collector, a small one here, which refuses some."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from tests.wire.scraped import scraped

from penstock.client.producer import Producer
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.node.assembly.start import RunningNode, start_node
from penstock.node.monitoring.push import LONGEST_MS

MINUTE_MS = 60_000


class Collector(HTTPServer):
    """Remembers what came; answers with the next of `answers`, and 200 after them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[int] = []
        self.after = "400"
        self.log_in: str | None = None
        self.taken: list[tuple[str, ExportMetricsServiceRequest]] = []

    def newest(self) -> dict[str, Any]:
        metrics = self.taken[-1][1].resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: metric for metric in metrics}


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Content-Type"] == "application/x-protobuf"
        self.server.log_in = self.headers.get("Authorization")
        status = self.server.answers.pop(0) if self.server.answers else 200
        if status == 200:
            self.server.taken.append((self.path, ExportMetricsServiceRequest.FromString(body)))
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", self.server.after)
        self.end_headers()

    def log_request(self, code: object = "-", size: object = "-") -> None: ...


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


async def push(node: RunningNode) -> int:
    """The pause until the next one."""
    pushing = node.monitoring.pushing  # type: ignore[union-attr]
    assert pushing is not None
    return await pushing.push()


async def test_figures_arrive_also_without_a_listener(tmp_path: Path, collector: Collector) -> None:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    node = await start_node(BrokerConfig.embedded(settings | {"penstock.otlp.endpoint": endpoint}))
    try:
        async with Producer(f"127.0.0.1:{node.endpoints[0].port}") as producer:
            await producer.send_and_wait("clicks", b"hello")
        assert await push(node) == MINUTE_MS
        assert node.broker.telemetry is not None  # what clients push goes the same way
    finally:
        await node.stop()
    (path, request), *_ = collector.taken
    assert path == "/v1/metrics"
    attributes = {one.key: one.value.string_value for one in request.resource_metrics[0].resource.attributes}
    assert attributes["service.instance.id"] == "1"
    assert attributes["kafka.cluster.id"] == node.cluster_id
    points = collector.newest()["kafka_server_brokertopicmetrics_messagesin_total"].sum.data_points
    by_topic = {tuple(one.value.string_value for one in point.attributes): point.as_int for point in points}
    assert by_topic["clicks",] == 1


async def test_a_collector_that_refuses_is_asked_less_often(tmp_path: Path, collector: Collector) -> None:
    endpoint = f"http://127.0.0.1:{collector.server_port}/own/path"
    async with scraped(tmp_path, penstock_otlp_endpoint=endpoint) as it:
        collector.answers = [429, 503, 503]
        assert await push(it.node) == 400_000  # as it asked
        assert await push(it.node) == 4 * MINUTE_MS
        assert await push(it.node) == 8 * MINUTE_MS
        collector.answers = [500] * 20
        assert [await push(it.node) for _ in range(20)] == [LONGEST_MS] * 20
        assert await push(it.node) == MINUTE_MS
        figures = await it.until("penstock_otlp_failure_total", 23)
        assert figures["penstock_otlp_push_total", frozenset()] == 1
    assert collector.taken[-1][0] == "/own/path"


async def test_a_collector_may_want_a_log_in(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    headers = "Authorization=Bearer%20s3cret%2C1, X-Scope-OrgID = ours"
    async with scraped(tmp_path, penstock_otlp_endpoint=endpoint, penstock_otlp_headers=headers) as it:
        assert await push(it.node) == MINUTE_MS
        assert collector.log_in == "Bearer s3cret,1"
        collector.answers, collector.after = [401, 429], "9" * 5_000
        await push(it.node)
        assert await push(it.node) == LONGEST_MS
    assert "is the log-in in penstock.otlp.headers right?" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "endpoint"),
    [
        ("s3cret", "https://collector"),
        ("=s3cret", "https://collector"),
        ("a b=s3cret", "https://collector"),
        ("a=s3cret%0D%0AHost: x", "https://collector"),
        ("Content-Length=s3cret", "https://collector"),
        ("Authorization=s3cret", "http://collector:4318"),
    ],
)
def test_headers_that_are_none_or_would_pass_in_the_clear_are_refused(headers: str, endpoint: str) -> None:
    with pytest.raises(ConfigError, match=r"penstock\.otlp\.headers") as refused:
        BrokerConfig.embedded({"penstock.otlp.endpoint": endpoint, "penstock.otlp.headers": headers})
    assert "s3cret" not in str(refused.value)


async def test_it_pushes_by_itself(tmp_path: Path, collector: Collector) -> None:
    endpoint = f"http://127.0.0.1:{collector.server_port}"
    async with scraped(tmp_path, penstock_otlp_endpoint=endpoint, penstock_otlp_interval_ms="1000") as it:
        await it.until("penstock_otlp_push_total", 1)
    assert collector.taken


async def test_nobody_there_costs_nothing_but_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with scraped(tmp_path, penstock_otlp_endpoint="http://127.0.0.1:1") as it:
        for _ in range(3):
            await push(it.node)
    told = [record.getMessage() for record in caplog.records if "figures do not arrive" in record.getMessage()]
    assert len(told) == 1
    assert "refused" in told[0]


@pytest.mark.parametrize("wrong", ["collector:4318", "grpc://collector:4317", "http://"])
def test_an_endpoint_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"penstock\.otlp\.endpoint"):
        BrokerConfig.embedded({"penstock.otlp.endpoint": wrong})
