"""Where the log of a partition begins and ends at its leader, for a follower whose own log ends elsewhere."""

from typing import Final

from penstock.client.connection import Connection
from penstock.node.partitions.partition import Partition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST: Final = -2
LATEST: Final = -1


async def leader_offset(connection: Connection, node_id: int, partition: Partition, timestamp: int) -> int:
    """Its first offset, or its end. Raises KafkaError, ClientError."""
    epoch = partition.leader_epoch
    asked = ListOffsetsPartition(partition_index=partition.index, current_leader_epoch=epoch, timestamp=timestamp)
    topic = ListOffsetsTopic(name=partition.topic, partitions=[asked])
    response = await connection.request(ListOffsetsRequest(replica_id=node_id, topics=[topic]), ListOffsetsResponse)
    answer = response.topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
    if partition.leader_epoch != epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, "the partition has another leader meanwhile")
    return answer.offset
