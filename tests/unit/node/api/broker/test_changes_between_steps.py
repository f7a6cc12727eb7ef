"""A long answer is made in steps, and what it is about may come and go between two of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.unit.node.metadata_node import context, create, start_broker

from penstock.node.api.broker.describe_topic_partitions import describe_topic_partitions
from penstock.node.api.broker.metadata import metadata
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.table import PartitionTable
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.protocol.messages.metadata import MetadataRequest

MUCH = 20_000
ASKED = 3
AN_OBJECT = 40
"""Bytes that the smallest one takes; the sorted names of all topics are references to what is there."""
MANY = 250
"""Partitions of one topic: more than any step looks at."""


@pytest.mark.parametrize(
    ("handler", "request_", "version"),
    [
        (metadata, MetadataRequest(topics=None), 13),
        (describe_topic_partitions, DescribeTopicPartitionsRequest(response_partition_limit=2000), 0),
    ],
)
async def test_metadata_may(tmp_path: Path, handler: Callable[..., Any], request_: Any, version: int) -> None:
    broker, _ = await start_broker(str(tmp_path))
    await create(broker, "flights", partitions=MANY)
    taken = 0
    for step in handler(broker, context(version), request_):
        assert step is None
        taken += 1
        await create(broker, f"more-{taken}")
        image = broker.image.topics["flights"].partitions
        image[len(image)] = image[0]
    assert taken > 1


@pytest.mark.parametrize(
    ("handler", "request_", "version"),
    [
        (metadata, MetadataRequest(topics=None), 13),
        (describe_topic_partitions, DescribeTopicPartitionsRequest(response_partition_limit=2000), 0),
    ],
)
async def test_what_waits_for_its_turn_holds_no_copy_of_what_it_is_about(
    tmp_path: Path, handler: Callable[..., Any], request_: Any, version: int
) -> None:
    """As many clients as there are may ask for all topics, and few of their answers are under way."""
    broker, _ = await start_broker(str(tmp_path))
    await create(broker, "flights", partitions=1)
    image, partition = broker.image.topics, broker.image.topics["flights"].partitions[0]
    image["flights"].partitions.update(dict.fromkeys(range(MUCH), partition))
    image.update((f"topic-{number}", image["flights"]) for number in range(MUCH))
    waiting = []
    tracemalloc.start()
    for _ in range(ASKED):
        waiting.append(handler(broker, context(version), request_))
        next(waiting[-1])
    took, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took / ASKED < MUCH * AN_OBJECT


def held(topic: str, index: int) -> Partition:
    return cast("Partition", SimpleNamespace(topic=topic, topic_id=UUID(int=len(topic)), index=index))


def test_partitions_that_a_node_holds_may() -> None:
    table = PartitionTable()
    were = [held("a", 0), held("a", 1), held("bb", 0)]
    for partition in were:
        table.add(partition)
    seen = []
    for partition in table:
        seen.append(partition)
        table.add(held("ccc", len(seen)))
        table.add(held("a", 1 + len(seen)))
    assert seen == were
