"""How the log of a topic is read by `penstock delayed list`: of whom, and what is said of a refusal."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from penstock.cli.records.waiting_records import READ_BYTES, _Log
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

PLACE, ID = TopicPartition("t", 1), UUID(int=9)


class Cluster:
    def __init__(self, leader: int | None, code: int = 0, of_partition: int = 0, records: bytes | None = b"ab") -> None:
        self.asked: list[Any] = []
        row = None if leader is None else SimpleNamespace(leader=leader)
        topics = {"t": SimpleNamespace(topic_id=ID)}
        self.metadata = SimpleNamespace(leader=lambda place: row if place == PLACE else 1 / 0, topics=topics)
        data = PartitionData(partition_index=1, error_code=of_partition, records=records)
        self._answer = FetchResponse(error_code=code, responses=[FetchableTopicResponse(partitions=[data])])

    async def to_node(self, node: int, request: FetchRequest, _: object) -> FetchResponse:
        (topic,) = request.topics
        (row,) = topic.partitions
        self.asked.append((node, topic.topic_id, row.partition, row.fetch_offset, row.partition_max_bytes))
        return self._answer


async def fetched(cluster: Cluster) -> bytes:
    admin = cast("Admin", SimpleNamespace(cluster=cluster))
    return await _Log(admin, PLACE)._fetch(5)


@pytest.mark.parametrize(("records", "data"), [(b"ab", b"ab"), (None, b"")])
async def test_the_leader_is_asked(records: bytes | None, data: bytes) -> None:
    cluster = Cluster(7, records=records)
    assert await fetched(cluster) == data
    assert cluster.asked == [(7, ID, 1, 5, READ_BYTES)]


@pytest.mark.parametrize(
    ("cluster", "code", "words"),
    [
        (Cluster(None), ErrorCode.LEADER_NOT_AVAILABLE, "t-1 has no leader now"),
        (Cluster(7, code=ErrorCode.UNKNOWN_SERVER_ERROR), ErrorCode.UNKNOWN_SERVER_ERROR, "t-1 cannot be read"),
        (
            Cluster(7, of_partition=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "t-1 cannot be read",
        ),
    ],
)
async def test_a_log_that_cannot_be_read(cluster: Cluster, code: ErrorCode, words: str) -> None:
    with pytest.raises(KafkaError) as raised:
        await fetched(cluster)
    assert (raised.value.code, raised.value.message) == (code, words)
