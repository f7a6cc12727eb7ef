"""What every client asks about leaders, offsets and groups, and what it makes of the answers. No IO."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, cast

from penstock.client.errors import raise_for
from penstock.client.values import (
    IsolationLevel,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Place,
    TopicPartition,
    by_topic,
    numbers_by_topic,
)
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.value import Value

GROUP_COORDINATOR: Final = 0
TRANSACTION_COORDINATOR: Final = 1
SHARE_COORDINATOR: Final = 2
_COORDINATES: Final = {
    GROUP_COORDINATOR: "group",
    TRANSACTION_COORDINATOR: "transactional id",
    SHARE_COORDINATOR: "share partition",
}
CONSUMER: Final = -1
"""The replica id of requests that clients send to leaders."""
MAX_TRANSACTION_TIMEOUT_MS: Final = 2_147_483_647  # says nothing where there is no transaction
STORED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
"""A broker's answers for a batch that it has stored."""
COORDINATORS_BY_KEYS: Final = 4  # the first version of FindCoordinator that asks for several keys
OFFSETS_BY_GROUPS: Final = 8  # the first version of OffsetFetch that asks for several groups

Found = dict[TopicPartition, OffsetAndTimestamp]
Refused = dict[TopicPartition, KafkaError]
Committed = dict[TopicPartition, OffsetAndMetadata]


class Membership(Value):
    """The committer: a member of a generation, or (the default) a client that is no member."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


OUTSIDER: Final = Membership()


def metadata_request(topics: Iterable[str] | None, *, create: bool = False) -> MetadataRequest:
    """Ask for all topics (None), for these, or only for the brokers (empty); `create` lets the broker create."""
    rows = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=rows, allow_auto_topic_creation=create)


def coordinator_request(key: str, version: int, key_type: int = GROUP_COORDINATOR) -> FindCoordinatorRequest:
    if version >= COORDINATORS_BY_KEYS:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    return FindCoordinatorRequest(key=key, key_type=key_type)


def coordinators_request(keys: Sequence[str], key_type: int) -> FindCoordinatorRequest:
    """Of many keys; not before version `COORDINATORS_BY_KEYS`."""
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


def coordinator_in(
    response: FindCoordinatorResponse, key: str, key_type: int = GROUP_COORDINATOR
) -> tuple[int, Address]:
    """The coordinator's node id and address; a KafkaError while there is none."""
    found = response.coordinators[0] if response.coordinators else response
    raise_for(found.error_code, found.error_message, f"coordinator of {_COORDINATES[key_type]} {key!r}")
    return found.node_id, Address(found.host, found.port)


def producer_id_request() -> InitProducerIdRequest:
    """For an id that belongs to no transaction."""
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=MAX_TRANSACTION_TIMEOUT_MS)


def produce_request(
    batches: Mapping[Place, bytes | bytearray | memoryview],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One encoded batch for each partition."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index, records=cast("bytes", batch)) for index, batch in rows.items()
                ],
            )
            for topic, rows in by_topic(batches).items()
        ],
    )


def list_offsets_request(
    timestamps_ms: Mapping[Place, int], isolation: IsolationLevel, timeout_ms: int, *, replica_id: int = CONSUMER
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=index, timestamp=at) for index, at in rows.items()],
            )
            for topic, rows in by_topic(timestamps_ms).items()
        ],
        timeout_ms=timeout_ms,
    )


def listed_offsets(response: ListOffsetsResponse) -> tuple[Found, Refused]:
    """Offsets (-1: no record is as new), and refusals."""
    found: Found = {}
    refused: Refused = {}
    for topic in response.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if row.error_code:
                refused[partition] = KafkaError(ErrorCode(row.error_code), f"offsets of {partition}")
            else:
                found[partition] = OffsetAndTimestamp(row.offset, row.timestamp, row.leader_epoch)
    return found, refused


def committed_request(
    group_id: str, partitions: Collection[Place] | None, version: int, *, require_stable: bool = False
) -> OffsetFetchRequest:
    """Ask what a group has committed for these partitions, or for all (None)."""
    rows = numbers_by_topic(partitions or ())
    if version < OFFSETS_BY_GROUPS:
        single = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in rows]
        return OffsetFetchRequest(
            group_id=group_id, topics=None if partitions is None else single, require_stable=require_stable
        )
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in rows]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None if partitions is None else topics)
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def committed_of_groups_request(group_ids: Iterable[str]) -> OffsetFetchRequest:
    """Ask for all that each of these has committed; not before version `OFFSETS_BY_GROUPS`."""
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=one, topics=None) for one in group_ids])


def committed_in(response: OffsetFetchResponse, group_id: str) -> Committed:
    """A partition without an offset is left out. Raises the first KafkaError in it."""
    return committed_of(response.groups[0] if response.groups else response, group_id)


def committed_of(answer: OffsetFetchResponse | OffsetFetchResponseGroup, group_id: str) -> Committed:
    """The same of one group of several."""
    raise_for(answer.error_code, f"group {group_id!r}")
    committed: Committed = {}
    for topic in answer.topics:
        for row in topic.partitions:
            raise_for(row.error_code, f"offset of {topic.name}-{row.partition_index}")
            if row.committed_offset >= 0:
                committed[TopicPartition(topic.name, row.partition_index)] = OffsetAndMetadata(
                    row.committed_offset, row.metadata or "", row.committed_leader_epoch
                )
    return committed


def commit_request(
    group_id: str, offsets: Mapping[Place, OffsetAndMetadata], membership: Membership = OUTSIDER
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=membership.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=position.offset,
                        committed_leader_epoch=position.leader_epoch,
                        committed_metadata=position.metadata,
                    )
                    for index, position in rows.items()
                ],
            )
            for topic, rows in by_topic(offsets).items()
        ],
    )


def check_commit(response: OffsetCommitResponse) -> None:
    """Raise the KafkaError of the first partition that was refused."""
    for topic in response.topics:
        for row in topic.partitions:
            raise_for(row.error_code, f"commit of {topic.name}-{row.partition_index}")
