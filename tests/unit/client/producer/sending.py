"""A producer with a fake broker that answers as it is told, and what came there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.client.fake_broker import Reply, fake_broker
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, Script

from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.protocol.batch import BatchHeader, read_header
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message


def answer(code: ErrorCode, base_offset: int = -1, **details: object) -> Script:
    def script(request: Message) -> Reply:
        assert isinstance(request, ProduceRequest)
        rows = [
            PartitionProduceResponse(index=row.index, error_code=code, base_offset=base_offset, **details)  # type: ignore[arg-type]
            for row in request.topic_data[0].partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=rows)])

    return script


def hang_up(request: Message) -> Reply:
    return b""


def headers(cluster: FakeCluster) -> list[BatchHeader]:
    """The header of each batch that came, in order."""
    found: list[BatchHeader] = []
    for request in cluster.asked(ApiKey.PRODUCE):
        assert isinstance(request, ProduceRequest)
        records = request.topic_data[0].partition_data[0].records
        assert records is not None
        found.append(read_header(records))
    return found


@asynccontextmanager
async def producing(*scripts: Script, **settings: object) -> AsyncIterator[tuple[FakeCluster, Producer]]:
    cluster = FakeCluster()
    cluster.scripts[ApiKey.PRODUCE] = list(scripts)
    chosen: dict[str, object] = {"linger_ms": 0, "retry_backoff_ms": 1, "retry_backoff_max_ms": 1} | settings
    async with fake_broker(cluster) as broker:
        cluster.broker = broker
        async with Producer([broker.address], ProducerSettings(**chosen)) as producer:  # type: ignore[arg-type]
            yield cluster, producer
