"""DescribeHolders 0, an API of our own: which groups keep how much of the partitions of a topic that this node leads.

All coordinators are asked first. A topic need not have `retention.consumed`.
"""

import asyncio
from collections.abc import Mapping

from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import DescribeHoldersRequest, DescribeHoldersResponse, HeldPartition, Holder

NO_OFFSET = -1


async def describe_holders(
    broker: Broker, context: RequestContext, request: DescribeHoldersRequest
) -> DescribeHoldersResponse:
    topic = broker.image.topics.get(request.topic)
    if topic is None:
        return DescribeHoldersResponse(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        positions = await broker.consumed.positions(topic.topic_id)
    except KafkaError as error:
        return DescribeHoldersResponse(error_code=error.code, error_message=error.message)
    answer = DescribeHoldersResponse()
    for group_id, offsets in positions.items():
        answer.groups.append(Holder(group_id=group_id, partitions=await _held(broker, request.topic, offsets)))
    return answer


async def _held(broker: Broker, topic: str, offsets: Mapping[int, int]) -> list[HeldPartition]:
    """What lies on the leader's disk and the group has not consumed."""
    held = []
    for partition in broker.partitions.of_topic(topic):
        await asyncio.sleep(0)  # it may look into a file
        log, offset = partition.log, offsets.get(partition.index, NO_OFFSET)
        if partition.leader is None:
            continue
        held_bytes = log.segments.bytes_from(max(offset, log.log_start_offset))
        held.append(HeldPartition(partition=partition.index, offset=offset, held_bytes=held_bytes))
    return held
