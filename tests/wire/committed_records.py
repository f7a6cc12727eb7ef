"""All that a reader of committed records sees of a topic, once what is decided has its markers.

EndTxn is answered when the end is decided: the markers come moments later, the last transaction's too. A test that
reads up to the last stable offset at once may miss it.
"""

from collections.abc import Collection

from penstock.client.consumer import Consumer
from penstock.client.log_offsets import list_offsets
from penstock.client.settings import ConsumerSettings
from penstock.client.values import LATEST, ConsumedRecord, TopicPartition

COMMITTED = ConsumerSettings(isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False)
MOST_LOOKS = 10_000


async def committed_records(bootstrap: str, topic: str) -> list[ConsumedRecord]:
    """Those of a partition are in order. AssertionError if a transaction stays open."""
    async with Consumer(bootstrap, COMMITTED) as consumer:
        partitions = await consumer.partitions_for(topic)
        await consumer.assign(partitions)
        ends = await _settled(consumer, partitions)
        found: list[ConsumedRecord] = []
        while any([await consumer.position(one) < ends[one] for one in partitions]):
            found += await consumer.poll(50)
    return found


async def _settled(consumer: Consumer, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    for _ in range(MOST_LOOKS):
        stable = await consumer.end_offsets(partitions)
        ends = await list_offsets(consumer.cluster, dict.fromkeys(partitions, LATEST))
        if all(stable[one] == ends[one].offset for one in partitions):
            return stable
    raise AssertionError("a transaction is open, or its markers are missing")
