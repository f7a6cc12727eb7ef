"""DescribeSharePartitions 0, an API of our own: how a share group comes along in the partitions that this node leads.

The request says where the group begins, as its coordinator has it: a group that nobody fetches for is behind as well.
What this node does not lead is left out.
"""

from __future__ import annotations

from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.slices import Steps
from penstock.node.sharing.progress import UNKNOWN_MS, came_ms
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.share_progress import (
    DescribedSharePartition,
    DescribedShareTopic,
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
    SharePartitionAt,
)
from penstock.sharing.sessions import TopicPartition


def describe_share_partitions(
    broker: Broker, context: RequestContext, request: DescribeSharePartitionsRequest
) -> Steps[DescribeSharePartitionsResponse]:
    answer = DescribeSharePartitionsResponse(now_ms=broker.groups.context.now_ms())
    for topic in request.topics:
        known = broker.image.topics.get(topic.topic_name)
        told = DescribedShareTopic(topic_name=topic.topic_name)
        answer.topics.append(told)
        yield None
        if known is None:
            told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        for asked in topic.partitions:
            place = TopicPartition(known.topic_id, asked.partition)
            try:
                partition = broker.partition(*place)
                broker.check_leader(partition)
            except KafkaError:
                continue
            told.partitions.append(_told(broker, request.group_id, place, partition, asked))
            yield None
    return answer


def _told(
    broker: Broker, group_id: str, place: TopicPartition, partition: Partition, asked: SharePartitionAt
) -> DescribedSharePartition:
    shared = broker.sharing.led(group_id, place)
    if shared is None:
        waits = 0 <= asked.start_offset < partition.high_watermark
        oldest_ms = came_ms(partition, asked.start_offset) if waits else UNKNOWN_MS
        return DescribedSharePartition(partition=asked.partition, oldest_ms=oldest_ms)
    now_ms, (in_flight, held) = shared.now_ms(), shared.machine.in_hands()
    return DescribedSharePartition(
        partition=asked.partition,
        is_read=True,
        backlog=shared.backlog,
        oldest_ms=shared.oldest_ms,
        in_flight=in_flight,
        held=held,
        deliveries_per_second=shared.deliveries.all.per_second(now_ms),
        redeliveries_per_second=shared.deliveries.again.per_second(now_ms),
        pause_ms=shared.machine.breaker.pause_ms(now_ms),
    )
