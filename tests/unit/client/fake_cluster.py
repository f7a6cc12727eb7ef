"""A cluster of one fake broker that leads every partition of topic `t`; a test scripts what it answers."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.unit.client.fake_broker import FakeBroker, Reply, fake_broker

from penstock.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdResponse
from penstock.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

NODE_ID = 7
TOPIC = "t"
Script = Callable[[Message], Reply]


class FakeCluster:
    """Answers what every client asks; `scripts` holds the answers to the API that a test is about, in their order.

    Partitions in `leaderless` have no leader.
    """

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = partitions
        self.broker: FakeBroker | None = None
        self.scripts: dict[int, list[Script]] = {}
        self.producer_ids = 0
        self.leaderless: set[int] = set()

    def asked(self, key: ApiKey) -> list[Message]:
        assert self.broker is not None
        return [request for header, request in self.broker.requests if header.api_key == key]

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        key = header.api_key
        if self.scripts.get(key):
            return self.scripts[key].pop(0)(request)
        if key == ApiKey.METADATA:
            return self.metadata()
        if key == ApiKey.INIT_PRODUCER_ID:
            self.producer_ids += 1
            return InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=0)
        if key == ApiKey.FIND_COORDINATOR:
            if header.api_version < 4:
                return FindCoordinatorResponse(node_id=NODE_ID)
            return FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=NODE_ID)])
        raise AssertionError(f"nobody expected API {key}")

    def metadata(self) -> MetadataResponse:
        assert self.broker is not None
        host, port = self.broker.address
        rows = [
            MetadataResponsePartition(
                partition_index=number,
                leader_id=-1 if number in self.leaderless else NODE_ID,
                replica_nodes=[NODE_ID],
            )
            for number in range(self.partitions)
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=NODE_ID, host=host, port=port)],
            controller_id=NODE_ID,
            cluster_id="fake",
            topics=[MetadataResponseTopic(name=TOPIC, partitions=rows)],
        )


@contextmanager
def served_in_a_thread(cluster: FakeCluster) -> Iterator[FakeBroker]:
    """The fake broker in a thread of its own, for what holds the test's own loop or has none."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fake broker", daemon=True)
    thread.start()
    manager = fake_broker(cluster)
    cluster.broker = asyncio.run_coroutine_threadsafe(manager.__aenter__(), loop).result()
    try:
        yield cluster.broker
    finally:
        asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), loop).result()
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
