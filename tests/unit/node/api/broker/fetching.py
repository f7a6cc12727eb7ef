"""Fetch requests and what is asked of their answers."""

from __future__ import annotations

import asyncio
from uuid import UUID

from tests.unit.node.on_disk import Node, batch

from penstock.node.serving.dispatch import Waiting
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from penstock.protocol.records import decode_batch

ID = UUID(int=7)


LEADER_EPOCH = 3


def request(
    *partitions: tuple[int, int],
    max_bytes: int = 1_000_000,
    partition_max_bytes: int = 1_000_000,
    min_bytes: int = 0,
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    isolation_level: int = 0,
    topic_id: UUID = ID,
    topic: str = "orders",
) -> FetchRequest:
    """A request for (index, offset) pairs."""
    wanted = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, offset in partitions
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=wanted)] if wanted else [],
    )


def response(node: Node, asked: FetchRequest, version: int = 13) -> FetchResponse:
    answer = node.ask(asked, version)
    assert isinstance(answer, FetchResponse)
    return answer


def partitions_of(answer: FetchResponse) -> dict[int, PartitionData]:
    return {partition.partition_index: partition for topic in answer.responses for partition in topic.partitions}


def offsets(partition: PartitionData) -> list[int]:
    """The offsets of whole batches; a last one that is cut off does not count."""
    data = partition.records or b""
    found: list[int] = []
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            break
        found += [record.offset for record in decode_batch(data, position, max_bytes=10_000)]
        position += size
    return found


BATCH_BYTES = len(batch(b"a", b"a"))


async def long_poll(
    node: Node, asked: FetchRequest, version: int = 13, client_id: str = "test"
) -> asyncio.Task[FetchResponse]:
    found = node.dispatch(asked, version, client_id)
    assert isinstance(found, Waiting)

    async def wait() -> FetchResponse:
        answer = await node.wait(asked, version, found)
        assert isinstance(answer, FetchResponse)
        return answer

    return asyncio.create_task(wait())
