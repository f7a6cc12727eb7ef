"""Members commit before their coordinator goes to another node: who can is asked, and nobody else is waited for."""

import asyncio
import logging
import threading

import pytest
from tests.cluster.test_coordinator_handed_over import CONFIG, TOPIC, Confluent, Load, create_everywhere, move
from tests.cluster.test_hand_over import patient

from penstock.client.admin import Admin
from penstock.client.cluster import ClusterClient
from penstock.client.consumer import Consumer
from penstock.client.consumer.heartbeats import Heartbeats
from penstock.client.messages import Membership
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.node.coordinators import groups
from penstock.node.partitions import hand_overs
from penstock.testing import Cluster

NEVER_MS = 3_600_000
SHORT_MS = 100
RECORDS = 10
PARTITION = TopicPartition(TOPIC, 0)
GROUP = "read by Penstock"
SETTINGS = ConsumerSettings(
    group_id=GROUP,
    auto_offset_reset="earliest",
    auto_commit_interval_ms=NEVER_MS,
    heartbeat_interval_ms=50,
    session_timeout_ms=40_000,
)
LATE = "members have not committed"


@pytest.fixture
def beaten(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when our consumer's coordinator has answered a heartbeat."""
    heard = threading.Event()
    beat_once = Heartbeats._beat_once

    async def beat(self: Heartbeats, cluster: ClusterClient, membership: Membership) -> bool:
        found = await beat_once(self, cluster, membership)
        heard.set()
        return found

    monkeypatch.setattr(Heartbeats, "_beat_once", beat)
    return heard


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(hand_overs, "Limits", patient)
    return caplog


async def reading(consumer: Consumer, beaten: threading.Event) -> int:
    """It has read some, and its coordinator knows it; how far."""
    await consumer.subscribe([TOPIC])
    end = 0
    while end < RECORDS or not beaten.is_set():
        for record in await consumer.poll(timeout_ms=50):
            end = record.offset + 1
    return end


async def committed(bootstrap: str) -> int | None:
    async with Admin(bootstrap) as admin:
        found = await admin.groups.offsets(GROUP)
    return found[PARTITION].offset if PARTITION in found else None


def test_a_consumer_commits_when_it_is_asked(log: pytest.LogCaptureFixture, beaten: threading.Event) -> None:
    async def consume(bootstrap: str) -> None:
        async with Consumer(bootstrap, SETTINGS) as consumer:
            end = await reading(consumer, beaten)
            assert await committed(bootstrap) is None
            moving = asyncio.create_task(move(bootstrap))
            while not moving.done():
                await consumer.poll(timeout_ms=50)
            await moving
            found = await committed(bootstrap)
            assert found is not None
            assert found >= end

    with Cluster(brokers=2, controllers=1, config=CONFIG | {"handover.commit.first": "true"}) as cluster:
        bootstrap = cluster.bootstrap_servers
        create_everywhere(cluster)
        with Load(bootstrap), Confluent(bootstrap) as other:
            other.await_more(RECORDS)
            asyncio.run(consume(bootstrap))
            other.await_more(RECORDS)
        assert other.assigned == 1
        assert LATE not in log.text


def test_one_that_does_not_commit_is_not_waited_for_any_longer(
    log: pytest.LogCaptureFixture, beaten: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MOVE_MS", int(CONFIG["leader.handover.timeout.ms"]) - SHORT_MS)

    async def consume(bootstrap: str) -> None:
        async with Consumer(bootstrap, SETTINGS) as consumer:
            await reading(consumer, beaten)
            await move(bootstrap)
            assert await committed(bootstrap) is None
            assert await consumer.poll(timeout_ms=60_000), "it goes on"

    with Cluster(brokers=2, controllers=1, config=CONFIG | {"handover.commit.first": "true"}) as cluster:
        bootstrap = cluster.bootstrap_servers
        create_everywhere(cluster)
        with Load(bootstrap):
            asyncio.run(consume(bootstrap))
        assert f"1 {LATE} within {SHORT_MS} ms" in log.text
