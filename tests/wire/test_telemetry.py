"""Clients push their metrics (KIP-714), and the node's page has them: confluent-kafka as it comes, and attacks."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from uuid import UUID

from confluent_kafka import Producer
from tests.unit.node.telemetry.otlp_bytes import gauge, metrics_data
from tests.wire.raw_client import RawClient
from tests.wire.scraped import PATIENCE_S, scraped

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.protocol.compression import Compression, compress
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from penstock.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from penstock.protocol.requests.api import ApiKey

CREATED = "kafka_client_producer_connection_creation_total"
GIGABYTE = 1 << 30


async def subscribe(bootstrap: str, **settings: str) -> None:
    changes = [ConfigChange(name.replace("_", "."), ConfigOperation.SET, value) for name, value in settings.items()]
    async with Admin(bootstrap) as admin:
        await admin.configs.alter(ResourceType.CLIENT_METRICS, "all", changes)


async def test_confluent_pushes_through(tmp_path: Path) -> None:
    async with scraped(tmp_path) as it:
        await subscribe(
            it.bootstrap, metrics="*", interval_ms="100", match="client_software_name=confluent.*|librdkafka"
        )
        producer = Producer({"bootstrap.servers": it.bootstrap, "client.id": "web-1"})
        await asyncio.to_thread(producer.produce, "orders", b"value")
        async with asyncio.timeout(PATIENCE_S):
            found: dict[str, str] = {}
            while not found:
                await asyncio.to_thread(producer.flush, 0.1)
                figures = await it.figures()
                found = next((dict(labels) for name, labels in figures if name == CREATED), {})
        assert found["client_id"] == "web-1"
        assert found["client_software_name"]
        receiver = it.node.broker.telemetry
        assert receiver is not None
        assert receiver.unreadable == 0


class Client:
    """Asks and pushes by hand."""

    def __init__(self, raw: RawClient, instance: UUID) -> None:
        self.raw = raw
        self.instance = instance
        self.number = 0

    def ask(self) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self.instance)
        answer: GetTelemetrySubscriptionsResponse = self.raw.ask(request)
        self.number = answer.subscription_id
        return answer

    def push(self, data: bytes, codec: Compression = Compression.NONE) -> int:
        request = PushTelemetryRequest(
            client_instance_id=self.instance, subscription_id=self.number, compression_type=codec, metrics=data
        )
        answer: PushTelemetryResponse = self.raw.ask(request)
        return answer.error_code


async def test_what_unpacks_to_a_gigabyte_is_refused(tmp_path: Path) -> None:
    bomb = 64 * await asyncio.to_thread(gzip.compress, bytes(GIGABYTE // 64))
    async with scraped(tmp_path) as it:
        bootstrap = it.bootstrap

        def attack() -> list[int]:
            codes = []
            with RawClient(bootstrap) as raw:
                for number, (data, codec) in enumerate(
                    (
                        (bomb, Compression.GZIP),
                        (compress(Compression.ZSTD, bytes(GIGABYTE // 64)), Compression.ZSTD),
                        (b"\x0a\x7f", Compression.NONE),
                        (bytes(2 << 20), Compression.NONE),
                        (b"no gzip", Compression.GZIP),
                        (compress(Compression.ZSTD, metrics_data(gauge("fine", 1))), Compression.ZSTD),
                    )
                ):
                    client = Client(raw, UUID(int=100 + number))
                    assert client.ask().error_code == ErrorCode.NONE
                    codes.append(client.push(data, codec))
            return codes

        assert await asyncio.to_thread(attack) == [
            ErrorCode.TELEMETRY_TOO_LARGE,
            ErrorCode.TELEMETRY_TOO_LARGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.TELEMETRY_TOO_LARGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.NONE,
        ]
        assert {name for name, _ in await it.figures() if name.startswith("kafka_client_")} == {"kafka_client_fine"}


async def test_names_of_clients_cannot_break_the_page(tmp_path: Path) -> None:
    async with scraped(tmp_path) as it:
        bootstrap = it.bootstrap
        names = ("a", "a_total", "a_bucket", "a.count", 'b{c="d"} 1\nkafka_log_log_size 7', "", "é")

        def push() -> int:
            with RawClient(bootstrap) as raw:
                client = Client(raw, UUID(int=99))
                client.ask()
                return client.push(metrics_data(*(gauge(name, 1, le='0"\n') for name in names)))

        assert await asyncio.to_thread(push) == ErrorCode.NONE
        found = {name for name, _ in await it.figures() if name.startswith("kafka_client_")}
        assert len(found) == len(names)


async def test_clients_hear_of_the_apis_only_where_somebody_takes_their_metrics(tmp_path: Path) -> None:
    for listener, is_told in (("", False), (":0", True)):
        async with scraped(tmp_path, penstock_metrics_listener=listener) as it:
            bootstrap = it.bootstrap

            def keys(bootstrap: str = bootstrap) -> set[int]:
                request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
                with RawClient(bootstrap) as raw:
                    return {row.api_key for row in raw.ask(request, 3).api_keys}

            told = await asyncio.to_thread(keys)
            assert ({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY} <= told) is is_told
