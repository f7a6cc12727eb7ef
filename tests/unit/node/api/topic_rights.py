"""What Kafka 4.4 answers about one topic: for each API that asks rights on topics, by version and way of naming it.

A row's `refused` is what comes of each right that is missing: an error about a topic that is there, and about one that
is not, named by its name and by its id. `granted` is the same with all rights; WELL is any answer that neither refuses
a right nor says that the topic is unknown. `instead` are rights that would do as well; they are missing in all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from tests.unit.node.on_disk import batch

from penstock.metadata.resources import ResourceType
from penstock.protocol.acls import OPERATIONS_ON, Operation, Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    add_partitions_to_txn,
    alter_configs,
    alter_share_group_offsets,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_configs,
    describe_producers,
    describe_share_group_offsets,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
    streams_group_heartbeat,
    txn_offset_commit,
)
from penstock.protocol.requests import own_apis, share_progress
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey
from penstock.protocol.schema import Message

TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_NAME: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
WELL: Final = None


class Came(NamedTuple):
    """The error for a topic that is there; for one that is not, by name; and by id."""

    there: ErrorCode | None
    no_name: ErrorCode | None
    no_id: ErrorCode | None


def always(error: ErrorCode) -> Came:
    return Came(error, error, error)


OF_TOPIC: Final = Came(TOPIC, TOPIC, NO_ID)
"""The name is refused unlooked; an id is no secret."""
FOUND: Final = Came(WELL, NO_NAME, NO_ID)
EITHER_WAY: Final = Came(WELL, WELL, WELL)
BY_NAME, BY_ID = "by name", "by id"

Build = Callable[[str, UUID], Message]
"""A request about a topic: its name with ZERO_UUID, or "" with its id."""


class Row(NamedTuple):
    key: AnyApiKey
    version: int
    how: str
    build: Build
    refused: Mapping[str, Came]
    """By the right, as it is asked: with the name of the topic as `{}`."""
    granted: Came = FOUND
    instead: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    """Rights on what the answer tells besides."""
    nameless: ErrorCode = NO_ID
    """The error for neither name nor id, where no right is missing that is not about the topic."""
    tells_name: bool = False
    """Whether the refusal of the last right names a topic of which only the id was said."""


READ, WRITE, DESCRIBE = "READ TOPIC {}", "WRITE TOPIC {}", "DESCRIBE TOPIC {}"
READERS, SEE_READERS, DELETE_READERS = "READ GROUP readers", "DESCRIBE GROUP readers", "DELETE GROUP readers"
PAYMENTS: Final = "WRITE TRANSACTIONAL_ID payments"
ACT: Final = "CLUSTER_ACTION CLUSTER kafka-cluster"
IN_CLUSTER: Final = "{} CLUSTER kafka-cluster"


def _produce(name: str, topic_id: UUID) -> Message:
    data = [produce.PartitionProduceData(index=0, records=batch(b"one"))]
    topic = produce.TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
    return produce.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def _fetch(name: str, topic_id: UUID) -> fetch.FetchRequest:
    topic = fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[fetch.FetchPartition(partition=0)])
    return fetch.FetchRequest(replica_id=-1, max_wait_ms=0, topics=[topic])


def _follow(name: str, topic_id: UUID) -> Message:
    return _fetch(name, topic_id).replace(replica_id=2, replica_state=fetch.ReplicaState(replica_id=2))


def _list_offsets(name: str, _: UUID) -> Message:
    part = list_offsets.ListOffsetsPartition(timestamp=-1)
    return list_offsets.ListOffsetsRequest(topics=[list_offsets.ListOffsetsTopic(name=name, partitions=[part])])


def _metadata(name: str, topic_id: UUID) -> Message:
    topic = metadata.MetadataRequestTopic(name=name or None, topic_id=topic_id)
    return metadata.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)


def _create_by_metadata(name: str, _: UUID) -> Message:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)])


def _describe_partitions(name: str, _: UUID) -> Message:
    topics = [describe_topic_partitions.TopicRequest(name=name)]
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics)


def _commit(name: str, topic_id: UUID) -> Message:
    part = offset_commit.OffsetCommitRequestPartition(partition_index=0)
    topic = offset_commit.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[part])
    return offset_commit.OffsetCommitRequest(group_id="readers", topics=[topic])


def _commit_in_transaction(name: str, topic_id: UUID) -> Message:
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0)
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[part])
    return txn_offset_commit.TxnOffsetCommitRequest(transactional_id="payments", group_id="readers", topics=[topic])


def _offsets(name: str, _: UUID) -> Message:
    topic = offset_fetch.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(group_id="readers", topics=[topic])


def _offsets_of_groups(name: str, topic_id: UUID) -> Message:
    topic = offset_fetch.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    group = offset_fetch.OffsetFetchRequestGroup(group_id="readers", topics=[topic])
    return offset_fetch.OffsetFetchRequest(groups=[group])


def _delete_offsets(name: str, _: UUID) -> Message:
    part = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topics = [offset_delete.OffsetDeleteRequestTopic(name=name, partitions=[part])]
    return offset_delete.OffsetDeleteRequest(group_id="readers", topics=topics)


def _delete_records(name: str, _: UUID) -> Message:
    part = delete_records.DeleteRecordsPartition(partition_index=0, offset=-1)
    topics = [delete_records.DeleteRecordsTopic(name=name, partitions=[part])]
    return delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=1000)


def _end_of_epoch(name: str, _: UUID) -> Message:
    part = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[part])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])


def _producers(name: str, _: UUID) -> Message:
    topics = [describe_producers.TopicRequest(name=name, partition_indexes=[0])]
    return describe_producers.DescribeProducersRequest(topics=topics)


def _add_partitions(name: str, _: UUID) -> Message:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0])]
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="payments", v3_and_below_topics=topics
    )


def _add_partitions_of_several(name: str, _: UUID) -> Message:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0])]
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(transactional_id="payments", topics=topics)
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def _subscribe(name: str, _: UUID) -> Message:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="ann",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[name],
        topic_partitions=[],
    )


def _subscribe_to_share(name: str, _: UUID) -> Message:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="sharers", member_id="ann", subscribed_topic_names=[name]
    )


def _run_tasks(name: str, _: UUID) -> Message:
    reads = streams_group_heartbeat.Subtopology(subtopology_id="0", source_topics=[name])
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="runners",
        member_id="ann",
        rebalance_timeout_ms=1000,
        topology=streams_group_heartbeat.Topology(subtopologies=[reads]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
    )


def _share(_: str, topic_id: UUID) -> Message:
    topic = share_fetch.FetchTopic(topic_id=topic_id, partitions=[share_fetch.FetchPartition(partition_index=0)])
    return share_fetch.ShareFetchRequest(
        group_id="sharers", member_id="ann", max_bytes=1000, max_records=10, batch_size=10, topics=[topic]
    )


def _acknowledge(_: str, topic_id: UUID) -> Message:
    said = share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    part = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[said])
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id="sharers",
        member_id="ann",
        share_session_epoch=1,
        topics=[share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[part])],
    )


def _shared_offsets(name: str, _: UUID) -> Message:
    layout = describe_share_group_offsets
    topics = [layout.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0])]
    groups = [layout.DescribeShareGroupOffsetsRequestGroup(group_id="sharers", topics=topics)]
    return layout.DescribeShareGroupOffsetsRequest(groups=groups)


def _alter_shared_offsets(name: str, _: UUID) -> Message:
    layout = alter_share_group_offsets
    part = layout.AlterShareGroupOffsetsRequestPartition(partition_index=0)
    topics = [layout.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=[part])]
    return layout.AlterShareGroupOffsetsRequest(group_id="sharers", topics=topics)


def _delete_shared_offsets(name: str, _: UUID) -> Message:
    layout = delete_share_group_offsets
    topics = [layout.DeleteShareGroupOffsetsRequestTopic(topic_name=name)]
    return layout.DeleteShareGroupOffsetsRequest(group_id="sharers", topics=topics)


def _create(name: str, _: UUID) -> Message:
    topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[topic])


def _delete_named(name: str, _: UUID) -> Message:
    return delete_topics.DeleteTopicsRequest(topic_names=[name])


def _delete(name: str, topic_id: UUID) -> Message:
    topic = delete_topics.DeleteTopicState(name=name or None, topic_id=topic_id)
    return delete_topics.DeleteTopicsRequest(topics=[topic])


def _grow(name: str, _: UUID) -> Message:
    topics = [create_partitions.CreatePartitionsTopic(name=name, count=7, assignments=None)]
    return create_partitions.CreatePartitionsRequest(topics=topics)


def _configs(kind: Any, request: Any) -> Build:
    return lambda name, _: request(resources=[kind(resource_type=int(ResourceType.TOPIC), resource_name=name)])


_OLD_CONFIGS = _configs(alter_configs.AlterConfigsResource, alter_configs.AlterConfigsRequest)


def _holders(name: str, _: UUID) -> Message:
    return own_apis.DescribeHoldersRequest(topic=name)


def _share_partitions(name: str, _: UUID) -> Message:
    topics = [share_progress.ShareTopicAt(topic_name=name, partitions=[share_progress.SharePartitionAt(partition=0)])]
    return share_progress.DescribeSharePartitionsRequest(group_id="sharers", topics=topics)


def rows(
    key: AnyApiKey,
    build: Build,
    refused: Mapping[str, Came],
    *,
    named: tuple[int, ...] = (),
    ids: tuple[int, ...] = (),
    **rest: Any,
) -> list[Row]:
    return [
        Row(key, version, how, build, refused, **rest)
        for how, versions in ((BY_NAME, named), (BY_ID, ids))
        for version in versions
    ]


_PRODUCE = {WRITE: OF_TOPIC}
_FETCH = {READ: OF_TOPIC}
_FOLLOW = {ACT: always(TOPIC)}
_SEEN = {DESCRIBE: OF_TOPIC}
_COMMIT = {READERS: always(GROUP), READ: OF_TOPIC}
_IN_TRANSACTION = {PAYMENTS: always(TRANSACTION), **_COMMIT}
_OFFSETS = {SEE_READERS: always(GROUP), DESCRIBE: OF_TOPIC}
_DELETE = {DESCRIBE: OF_TOPIC, "DELETE TOPIC {}": Came(TOPIC, NO_NAME, NO_ID)}
_OPERATIONS = tuple(f"{one.name} TOPIC {{}}" for one in OPERATIONS_ON[Resource.TOPIC] if one is not Operation.DESCRIBE)
_DELETES_ALL = (IN_CLUSTER.format("DELETE"),)
_CREATES_ALL = (IN_CLUSTER.format("CREATE"),)
_SHARERS = "READ GROUP sharers"

ROWS: Final = [
    *rows(ApiKey.PRODUCE, _produce, _PRODUCE, named=(3, 12), ids=(13,)),
    *rows(ApiKey.FETCH, _fetch, _FETCH, named=(4, 12), ids=(13, 18)),
    *rows(ApiKey.FETCH, _follow, _FOLLOW, named=(4,), ids=(18,)),
    *rows(ApiKey.LIST_OFFSETS, _list_offsets, _SEEN, named=(1, 11)),
    *rows(ApiKey.METADATA, _metadata, _SEEN, named=(4, 13), ids=(13,), nameless=ErrorCode.INVALID_REQUEST),
    *rows(
        ApiKey.METADATA,
        _create_by_metadata,
        {DESCRIBE: OF_TOPIC, "CREATE TOPIC {}": Came(WELL, TOPIC, WELL)},
        named=(0, 13),
        granted=EITHER_WAY,
        instead=_CREATES_ALL,
    ),
    *rows(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _describe_partitions, _SEEN, named=(0,), told=_OPERATIONS),
    *rows(ApiKey.OFFSET_COMMIT, _commit, _COMMIT, named=(2, 9), ids=(10,)),
    *rows(ApiKey.TXN_OFFSET_COMMIT, _commit_in_transaction, _IN_TRANSACTION, named=(0, 5), ids=(6,)),
    *rows(ApiKey.OFFSET_FETCH, _offsets, _OFFSETS, named=(1, 7), granted=EITHER_WAY),
    *rows(ApiKey.OFFSET_FETCH, _offsets_of_groups, _OFFSETS, named=(8, 9), granted=EITHER_WAY),
    *rows(ApiKey.OFFSET_FETCH, _offsets_of_groups, _OFFSETS, ids=(10,)),
    *rows(ApiKey.OFFSET_DELETE, _delete_offsets, {DELETE_READERS: always(GROUP), READ: OF_TOPIC}, named=(0,)),
    *rows(ApiKey.DELETE_RECORDS, _delete_records, {"DELETE TOPIC {}": OF_TOPIC}, named=(0, 2)),
    *rows(ApiKey.OFFSET_FOR_LEADER_EPOCH, _end_of_epoch, _SEEN, named=(2, 4), instead=(ACT,)),
    *rows(ApiKey.DESCRIBE_PRODUCERS, _producers, _FETCH, named=(0,)),
    *rows(
        ApiKey.ADD_PARTITIONS_TO_TXN, _add_partitions, {PAYMENTS: always(TRANSACTION), WRITE: OF_TOPIC}, named=(0, 3)
    ),
    *rows(ApiKey.ADD_PARTITIONS_TO_TXN, _add_partitions_of_several, {ACT: always(CLUSTER)}, named=(4, 5)),
    *rows(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        _subscribe,
        {READERS: always(GROUP), DESCRIBE: OF_TOPIC},
        named=(0, 1),
        granted=EITHER_WAY,
    ),
    *rows(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        _subscribe_to_share,
        {_SHARERS: always(GROUP), DESCRIBE: OF_TOPIC},
        named=(1,),
        granted=EITHER_WAY,
    ),
    *rows(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        _run_tasks,
        {"READ GROUP runners": always(GROUP), DESCRIBE: OF_TOPIC},
        named=(0, 1),
        granted=EITHER_WAY,
    ),
    *rows(ApiKey.SHARE_FETCH, _share, {_SHARERS: always(GROUP), READ: OF_TOPIC}, ids=(1, 2)),
    *rows(
        ApiKey.SHARE_ACKNOWLEDGE,
        _acknowledge,
        {_SHARERS: always(GROUP), READ: OF_TOPIC},
        ids=(1, 2),
        granted=Came(NO_NAME, NO_NAME, NO_ID),  # there, but nothing of it has been shared out
    ),
    *rows(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        _shared_offsets,
        {"DESCRIBE GROUP sharers": always(GROUP), DESCRIBE: OF_TOPIC},
        named=(0, 1),
        granted=EITHER_WAY,
    ),
    *rows(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS, _alter_shared_offsets, {_SHARERS: always(GROUP), READ: OF_TOPIC}, named=(0,)
    ),
    *rows(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        _delete_shared_offsets,
        {"DELETE GROUP sharers": always(GROUP), READ: OF_TOPIC},
        named=(0,),
        granted=always(NO_NAME),  # there, but nothing of it has been shared out
    ),
    *rows(
        ApiKey.CREATE_TOPICS,
        _create,
        {"CREATE TOPIC {}": OF_TOPIC},
        named=(2, 7),
        granted=EITHER_WAY,
        instead=_CREATES_ALL,
        told=("DESCRIBE_CONFIGS TOPIC {}",),
    ),
    *rows(ApiKey.DELETE_TOPICS, _delete_named, _DELETE, named=(1, 5), instead=_DELETES_ALL),
    *rows(
        ApiKey.DELETE_TOPICS,
        _delete,
        _DELETE,
        named=(6,),
        ids=(6,),
        instead=_DELETES_ALL,
        nameless=ErrorCode.INVALID_REQUEST,
        tells_name=True,
    ),
    *rows(ApiKey.CREATE_PARTITIONS, _grow, {"ALTER TOPIC {}": OF_TOPIC}, named=(0, 3)),
    *rows(
        ApiKey.DESCRIBE_CONFIGS,
        _configs(describe_configs.DescribeConfigsResource, describe_configs.DescribeConfigsRequest),
        {"DESCRIBE_CONFIGS TOPIC {}": OF_TOPIC},
        named=(1, 4),
    ),
    *rows(ApiKey.ALTER_CONFIGS, _OLD_CONFIGS, {"ALTER_CONFIGS TOPIC {}": OF_TOPIC}, named=(0, 2)),
    *rows(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        _configs(
            incremental_alter_configs.AlterConfigsResource, incremental_alter_configs.IncrementalAlterConfigsRequest
        ),
        {"ALTER_CONFIGS TOPIC {}": OF_TOPIC},
        named=(0, 1),
    ),
    *rows(OwnApiKey.DESCRIBE_HOLDERS, _holders, _SEEN, named=(0,)),
    *rows(
        OwnApiKey.DESCRIBE_SHARE_PARTITIONS,
        _share_partitions,
        {"DESCRIBE GROUP sharers": always(GROUP), DESCRIBE: OF_TOPIC},
        named=(0,),
    ),
]
