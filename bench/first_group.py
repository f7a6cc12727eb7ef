"""How long it takes until a topic that is new takes records, where its storage group is new as well."""

import asyncio
import time

from bench.measure import Measure, measure
from bench.node import AS_INSTALLED
from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.testing import Cluster

SOON_MS = 5
"""So often a client asks again that is told to wait."""


def first_group(runs: int) -> list[Measure]:
    """How long after a topic was asked for is its first record acknowledged, where a storage group begins with it?"""
    with Cluster(nodes=3, process=True, config=AS_INSTALLED) as cluster:
        made, acknowledged = zip(*asyncio.run(_created(cluster.bootstrap_servers, runs)), strict=True)
    return [
        measure("until the topic is made, with its group", "ms", made),
        measure("until its first record is acknowledged", "ms", acknowledged),
    ]


async def _created(bootstrap: str, runs: int) -> list[tuple[float, float]]:
    found = []
    settings = ProducerSettings(retry_backoff_ms=SOON_MS, retry_backoff_max_ms=SOON_MS)
    async with Admin(bootstrap) as admin, Producer(bootstrap, settings) as producer:
        for number in range(runs + 1):
            configs = {"replication.mode": "consensus", "storage.group": str(number)}
            begun_s = time.perf_counter()
            await admin.topics.create(NewTopic(name=f"topic-{number}", replication_factor=3, configs=configs))
            made_s = time.perf_counter()
            await producer.send_and_wait(f"topic-{number}", b"x")
            found.append(((made_s - begun_s) * 1000, (time.perf_counter() - begun_s) * 1000))
            await asyncio.sleep(1)
    return found[1:]
