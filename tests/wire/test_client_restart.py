"""A producer and a consumer that stay open while their node is killed and comes back: nothing is lost or repeated."""

import asyncio
from pathlib import Path

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings
from penstock.testing import Cluster

ROUND = 2_000


async def test_the_node_is_killed_under_a_producer_and_a_group(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path, process=True) as cluster:
        bootstrap = cluster.bootstrap_servers
        async with Admin(bootstrap) as admin:
            await admin.topics.create(NewTopic(name="t", partitions=3))
        settings = ConsumerSettings(group_id="g", auto_offset_reset="earliest", heartbeat_interval_ms=100)
        seen: list[int] = []
        async with Producer(bootstrap) as producer, Consumer(bootstrap, settings) as consumer:
            await consumer.subscribe(["t"])
            for round_ in range(2):
                sent = [await producer.send("t", b"%d" % (round_ * ROUND + number)) for number in range(ROUND)]
                if round_ == 0:
                    cluster.kill()
                    await asyncio.to_thread(cluster.start)
                await asyncio.gather(*sent)
                while len(seen) < (round_ + 1) * ROUND:
                    seen += [int(record.value or b"") for record in await consumer.poll()]
        assert sorted(seen) == list(range(2 * ROUND))
