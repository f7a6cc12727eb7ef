"""How far each replica of a partition is, not only the leader: where its log begins and ends, its high watermark.

Any replica answers whoever asks under the id that Kafka keeps for looking at replicas.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from penstock.client.cluster import ClusterClient
from penstock.client.errors import ClientError, raise_for
from penstock.client.messages import list_offsets_request, listed_offsets
from penstock.client.values import LATEST, IsolationLevel, TopicPartition, by_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from penstock.protocol.messages.list_offsets import ListOffsetsResponse
from penstock.protocol.value import Value

DEBUGGING_CONSUMER: Final = -2
"""With this replica id any replica answers, not only the leader; Kafka's tools have it as well."""
NO_SESSION: Final = -1
ANSWER_BYTES: Final = 50 << 20
Replica = tuple[TopicPartition, int]
"""A partition, and the node that has it."""


class ReplicaOffsets(Value):
    """As the replica knows them: a follower hears of the high watermark with its next fetch."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


Failures = dict[Replica, ClientError | KafkaError]


def replica_fetch_request(
    offsets: Mapping[TopicPartition, int], ids: Mapping[str, UUID], *, bytes_each: int, max_wait_ms: int = 0
) -> FetchRequest:
    """Read from these offsets on, at whatever replica is asked; without a wait even if there is nothing."""
    return FetchRequest(
        replica_id=DEBUGGING_CONSUMER,
        replica_state=ReplicaState(replica_id=DEBUGGING_CONSUMER),
        max_wait_ms=max_wait_ms,
        min_bytes=min(1, max_wait_ms),
        max_bytes=max(ANSWER_BYTES, bytes_each),
        session_epoch=NO_SESSION,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=ids[topic],
                partitions=[
                    FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=bytes_each)
                    for number, offset in rows.items()
                ],
            )
            for topic, rows in by_topic(offsets).items()
        ],
    )


async def replica_offsets(
    cluster: ClusterClient, partitions: Collection[TopicPartition]
) -> tuple[dict[Replica, ReplicaOffsets], Failures]:
    """Of all replicas of these partitions, as the metadata name them; and why some could not be had."""
    topics = cluster.metadata.topics
    nodes: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        for node_id in topics[partition.topic].partitions[partition.partition].replicas:
            nodes.setdefault(node_id, []).append(partition)
    answers = await asyncio.gather(*(_at_node(cluster, node_id, rows) for node_id, rows in nodes.items()))
    found: dict[Replica, ReplicaOffsets] = {}
    failures: Failures = {}
    for node_id, (told, failed) in zip(nodes, answers, strict=True):
        found |= {(partition, node_id): offsets for partition, offsets in told.items()}
        failures |= {(partition, node_id): error for partition, error in failed.items()}
    return found, failures


async def _at_node(
    cluster: ClusterClient, node_id: int, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, ReplicaOffsets], dict[TopicPartition, ClientError | KafkaError]]:
    try:
        return await _ask(cluster, node_id, partitions)
    except (ClientError, KafkaError) as error:
        return {}, dict.fromkeys(partitions, error)


async def _ask(
    cluster: ClusterClient, node_id: int, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, ReplicaOffsets], dict[TopicPartition, ClientError | KafkaError]]:
    """The ends, and what is said of the partition to a fetch from there, which brings no records."""
    ids = {partition.topic: cluster.metadata.topics[partition.topic].topic_id for partition in partitions}
    names = {topic_id: name for name, topic_id in ids.items()}
    request = list_offsets_request(
        dict.fromkeys(partitions, LATEST),
        IsolationLevel.READ_UNCOMMITTED,
        cluster.settings.request_timeout_ms,
        replica_id=DEBUGGING_CONSUMER,
    )
    ends, refused = listed_offsets(await cluster.to_node(node_id, request, ListOffsetsResponse))
    failed: dict[TopicPartition, ClientError | KafkaError] = dict(refused)
    found: dict[TopicPartition, ReplicaOffsets] = {}
    if not ends:
        return found, failed
    fetch = replica_fetch_request({partition: end.offset for partition, end in ends.items()}, ids, bytes_each=1)
    response = await cluster.to_node(node_id, fetch, FetchResponse)
    raise_for(response.error_code, f"replicas of node {node_id}")
    for topic in response.responses:
        for row in topic.partitions:
            partition = TopicPartition(topic.topic or names[topic.topic_id], row.partition_index)
            if row.error_code:
                failed[partition] = KafkaError(ErrorCode(row.error_code), f"{partition} of node {node_id}")
            else:
                offsets = (row.log_start_offset, row.high_watermark, ends[partition].offset)
                found[partition] = ReplicaOffsets(*offsets)
    return found, failed
