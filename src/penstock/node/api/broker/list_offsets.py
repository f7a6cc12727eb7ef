"""ListOffsets 1-11: the offset at a time, and the offsets that have names.

| timestamp | since | the offset of                                                                 |
| --------- | ----- | ----------------------------------------------------------------------------- |
| >= 0      | 1     | the first record that is not older, with its own timestamp; -1 if there is none |
| -1        | 1     | the end: high watermark, last stable offset for read_committed                |
| -2        | 1     | the beginning                                                                 |
| -3        | 7     | the record with the largest timestamp (KIP-734)                               |
| -4        | 8     | the beginning of what lies on this node's disk (KIP-405): the beginning        |
| -5        | 9     | the end of what lies in remote storage (KIP-1005): -1, as there is none       |
| -6        | 11    | the first that is still to go to remote storage: -1, as there is none         |

With replica id -2 any replica answers, and the end is that of its own log, as at Kafka's brokers.
"""

from penstock.node.partitions.partition import Partition
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import times_named
from penstock.node.serving.rules import Each
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.requests.api import ApiKey

READ_COMMITTED = 1
DEBUGGING_CONSUMER = -2
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
OFFSET_NOT_AVAILABLE_SINCE = 5
_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch; -1 for what is not known."""
NOTHING: Found = (-1, -1, -1)
PARTITIONS_A_STEP = 10


@handles(ApiKey.LIST_OFFSETS, versions=(1, 11), rule=(Each(DESCRIBE_TOPIC, ("topics",), "topics"),))
def list_offsets(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    version = context.api_version
    every = ((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    times = yield from times_named(every)
    response, pace = ListOffsetsResponse(), Pace(PARTITIONS_A_STEP)
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answered)
        for wanted in topic.partitions:
            told = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answered.partitions.append(told)
            try:
                if times[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                if wanted.timestamp < 0 and version < _SINCE_VERSION.get(wanted.timestamp, 1 << 15):
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
                partition = broker.partition(topic.name, wanted.partition_index)
                found = yield from _found(broker, partition, request, wanted, version)
                told.timestamp, told.offset, told.leader_epoch = found
            except KafkaError as error:
                told.error_code = error.code
            if pace.is_due():
                yield None
    return response


def _found(
    broker: Broker, partition: Partition, request: ListOffsetsRequest, wanted: ListOffsetsPartition, version: int
) -> Steps[Found]:
    if request.replica_id == DEBUGGING_CONSUMER:
        partition.check_any(wanted.current_leader_epoch)
        return (yield from _look_up(partition, wanted.timestamp, partition.log.log_end_offset))
    leader = broker.check_leader(partition, wanted.current_leader_epoch)
    found = yield from _look_up(partition, wanted.timestamp, _end(partition, request))
    if request.replica_id < 0 and leader.high_watermark < leader.epoch_start_offset:
        _check_known(wanted.timestamp, found, version)
    return found


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """The end of what this client may see."""
    if request.replica_id >= 0:
        end_offset: int = partition.log.log_end_offset
        return end_offset
    if request.isolation_level == READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def _check_known(timestamp: int, found: Found, version: int) -> None:
    """A leader that was just elected may know of less than is committed, until its followers have fetched (KIP-207)."""
    if timestamp == LATEST or (timestamp >= 0 and found == NOTHING):
        is_known = version >= OFFSET_NOT_AVAILABLE_SINCE
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE)


def _look_up(partition: Partition, timestamp: int, end_offset: int) -> Steps[Found]:
    log = partition.log
    if timestamp == LATEST:
        return -1, end_offset, partition.latest_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        begins = partition.log_start_offset if timestamp == EARLIEST else partition.local_log_start_offset
        return -1, begins, partition.epoch_at(begins)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    search = log.search_max_timestamp() if timestamp == MAX_TIMESTAMP else log.search_timestamp(timestamp)
    found = yield from search
    if found is None or found.offset >= end_offset:
        return NOTHING
    return found.timestamp_ms, found.offset, found.leader_epoch
