"""Share consumers of fake brokers in one line, and what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.client.share.brokers import TOPIC, Brokers

from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import ShareConsumer
from penstock.client.share.records import SharedRecord
from penstock.client.values import TopicPartition

PATIENCE_S = 20


ENOUGH = 100_000
"""Polls that each give the event loop a turn."""


T0 = TopicPartition(TOPIC, 0)


def settings(**more: Any) -> ShareConsumerSettings:
    chosen = {"group_id": "g", "retry_backoff_ms": 1, "reconnect_backoff_ms": 1, "fetch_max_wait_ms": 200, **more}
    return ShareConsumerSettings(**chosen)


def consumer(brokers: Brokers, **more: Any) -> ShareConsumer:
    return ShareConsumer(brokers.bootstrap, settings(**more))


def explicit(brokers: Brokers, **more: Any) -> ShareConsumer:
    return consumer(brokers, share_acknowledgement_mode="explicit", **more)


async def records(one: ShareConsumer, count: int) -> list[SharedRecord]:
    found: list[SharedRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(found) < count:
            found += await one.poll()
    assert len(found) == count
    return found


async def happens(look: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not look():
            await asyncio.sleep(0.001)


async def polled_until(one: ShareConsumer, look: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not look():
            assert await one.poll(1) == []
