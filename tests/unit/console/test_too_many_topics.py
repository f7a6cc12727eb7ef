"""A broker that tells of a million topics costs the console a sentence: what it says is not received."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

import pytest
from tests.unit.client.fake_broker import Reply, fake_broker

from penstock.client.metadata import TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.console.watched import TooManyTopicsError, WatchedCluster
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

A_MILLION: Final = 65_000_000
"""Bytes of an answer about so many topics of one partition."""


async def test_a_million_topics_are_not_received_and_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    address = Address("127.0.0.1", 0)

    def answer(_: RequestHeader, request: Message) -> Reply:
        assert isinstance(request, MetadataRequest)
        if request.topics is not None:
            known = MetadataResponseBroker(node_id=1, host=address.host, port=address.port)
            return MetadataResponse(brokers=[known], controller_id=1, error_code=ErrorCode.NONE)
        asked.append(request)
        return A_MILLION.to_bytes(4) + bytes(100_000)

    async with fake_broker(answer, {ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, -1)}) as broker:
        address = broker.address
        watched = WatchedCluster(str(address), ClientSettings())
        async with asyncio.timeout(20):
            for _ in range(3):
                with pytest.raises(TooManyTopicsError, match="more topics than are listed"):
                    await watched.topics()
            assert await watched.topics_soon() is None
        await watched.close()
    assert len(asked) == 1


async def test_pages_of_too_many_topics_are_not_turned_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    turned, watched = 0, WatchedCluster("127.0.0.1:1", ClientSettings())

    async def pages(_: int) -> AsyncIterator[list[TopicMetadata]]:
        nonlocal turned
        while True:
            turned += 1
            yield [TopicMetadata(f"{turned}-{n}", UUID(int=1), False, ErrorCode.NONE, {}) for n in range(1_000)]

    monkeypatch.setattr(watched._of_all.topics, "pages", pages)
    monkeypatch.setattr("penstock.console.watched.MOST_PARTITIONS", 4_500)
    for _ in range(2):
        with pytest.raises(TooManyTopicsError, match="more topics than are listed"):
            await watched.topics()
    assert turned == 5
