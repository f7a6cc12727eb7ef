"""A node with a metrics listener, for tests that read its pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.start import RunningNode, start_node

PATIENCE_S = 30
Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.bootstrap = f"127.0.0.1:{node.endpoints[0].port}"

    async def get(self, path: str, *headers: str) -> tuple[int, str, bytes]:
        """Status, head and body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.node.monitoring.port)
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), head.decode(), body

    async def figures(self) -> Figures:
        _, _, body = await self.get("/metrics", "Accept: application/openmetrics-text")
        families: Iterable[Family] = cast("Any", text_string_to_metric_families)(body.decode())
        return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}

    async def until(self, name: str, value: float, **labels: str) -> Figures:
        """A page may be told again for a moment; this waits for one on which that is so."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                figures = await self.figures()
                if figures.get((name, frozenset(labels.items()))) == value:
                    return figures


@asynccontextmanager
async def scraped(directory: Path, **settings: str) -> AsyncIterator[Scraped]:
    """Names of settings have underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    config = BrokerConfig.embedded(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), "penstock.metrics.listener": ":0"} | named
    )
    node = await start_node(config)
    try:
        yield Scraped(node)
    finally:
        await node.stop()
