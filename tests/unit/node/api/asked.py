"""A request about two things for every API that names things, and an authorizer that notes what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any
from uuid import UUID

from penstock.metadata.resources import ResourceType
from penstock.node.serving.access import Authorizer, Right
from penstock.node.serving.session import Session
from penstock.protocol.messages import (
    add_offsets_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_share_group_state,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_share_group_offsets,
    describe_transactions,
    elect_leaders,
    end_txn,
    incremental_alter_configs,
    init_producer_id,
    initialize_share_group_state,
    list_groups,
    list_offsets,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_for_leader_epoch,
    read_share_group_state,
    read_share_group_state_summary,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    txn_offset_commit,
    write_share_group_state,
    write_txn_markers,
)
from penstock.protocol.messages import alter_client_quotas as quotas
from penstock.protocol.messages import alter_user_scram_credentials as scram
from penstock.protocol.requests import own_apis, share_progress
from penstock.protocol.requests.api import AnyApiKey, ApiKey, OwnApiKey
from penstock.protocol.schema import Message

TOPICS = {"delays": UUID(int=7), "flights": UUID(int=8)}
"""Those that are there."""
GROUPS = ["readers", "writers"]
TRANSACTIONS = ["payments", "refunds"]


def _resources(kind: Any) -> list[Any]:
    named = {
        ResourceType.TOPIC: "flights",
        ResourceType.GROUP: "readers",
        ResourceType.BROKER: "1",
        ResourceType.BROKER_LOGGER: "1",
        ResourceType.CLIENT_METRICS: "all",
    }
    return [kind(resource_type=code, resource_name=name) for code, name in named.items()]


def _commits(version: int) -> Message:
    by_id = version >= 10
    parts = [offset_commit.OffsetCommitRequestPartition(partition_index=0)]
    return offset_commit.OffsetCommitRequest(
        group_id="readers",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="" if by_id else name, topic_id=topic_id if by_id else UUID(int=0), partitions=parts
            )
            for name, topic_id in TOPICS.items()
        ],
    )


def _pending_commits(version: int) -> Message:
    by_id = version >= 6
    parts = [txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0)]
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="payments",
        group_id="readers",
        topics=[
            txn_offset_commit.TxnOffsetCommitRequestTopic(
                name="" if by_id else name, topic_id=topic_id if by_id else UUID(int=0), partitions=parts
            )
            for name, topic_id in TOPICS.items()
        ],
    )


def _deletions(version: int) -> Message:
    if version < 6:
        return delete_topics.DeleteTopicsRequest(topic_names=list(TOPICS))
    by_name, by_id = TOPICS
    topics = [delete_topics.DeleteTopicState(name=by_name), delete_topics.DeleteTopicState(topic_id=TOPICS[by_id])]
    return delete_topics.DeleteTopicsRequest(topics=topics)


REQUESTS: dict[AnyApiKey, Callable[[int], Message]] = {
    ApiKey.CREATE_ACLS: lambda _: create_acls.CreateAclsRequest(creations=[create_acls.AclCreation()]),
    ApiKey.DELETE_ACLS: lambda _: delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter()]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda _: scram.AlterUserScramCredentialsRequest(
        deletions=[scram.ScramCredentialDeletion(name="ada", mechanism=1)]
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda _: quotas.AlterClientQuotasRequest(
        entries=[
            quotas.AlterClientQuotasRequestEntryData(
                entity=[quotas.AlterClientQuotasRequestEntityData(entity_type="user", entity_name="ada")]
            )
        ]
    ),
    ApiKey.LIST_OFFSETS: lambda _: list_offsets.ListOffsetsRequest(
        topics=[
            list_offsets.ListOffsetsTopic(name=name, partitions=[list_offsets.ListOffsetsPartition()])
            for name in TOPICS
        ]
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda _: offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        topics=[
            offset_for_leader_epoch.OffsetForLeaderTopic(
                topic=name, partitions=[offset_for_leader_epoch.OffsetForLeaderPartition()]
            )
            for name in TOPICS
        ]
    ),
    ApiKey.DELETE_RECORDS: lambda _: delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(name=name, partitions=[delete_records.DeleteRecordsPartition()])
            for name in TOPICS
        ]
    ),
    OwnApiKey.DESCRIBE_HOLDERS: lambda _: own_apis.DescribeHoldersRequest(topic="flights"),
    ApiKey.DESCRIBE_PRODUCERS: lambda _: describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=name, partition_indexes=[0]) for name in TOPICS]
    ),
    ApiKey.INIT_PRODUCER_ID: lambda _: init_producer_id.InitProducerIdRequest(transactional_id="payments"),
    ApiKey.ADD_OFFSETS_TO_TXN: lambda _: add_offsets_to_txn.AddOffsetsToTxnRequest(
        transactional_id="payments", group_id="readers"
    ),
    ApiKey.END_TXN: lambda _: end_txn.EndTxnRequest(transactional_id="payments"),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda _: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=TRANSACTIONS
    ),
    ApiKey.OFFSET_COMMIT: _commits,
    ApiKey.TXN_OFFSET_COMMIT: _pending_commits,
    ApiKey.WRITE_TXN_MARKERS: lambda _: write_txn_markers.WriteTxnMarkersRequest(
        markers=[
            write_txn_markers.WritableTxnMarker(
                topics=[write_txn_markers.WritableTxnMarkerTopic(name="flights", partition_indexes=[0])]
            )
        ]
    ),
    ApiKey.OFFSET_DELETE: lambda _: offset_delete.OffsetDeleteRequest(
        group_id="readers",
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=name, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in TOPICS
        ],
    ),
    ApiKey.DELETE_GROUPS: lambda _: delete_groups.DeleteGroupsRequest(groups_names=GROUPS),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda _: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=GROUPS),
    OwnApiKey.DESCRIBE_GROUP_HISTORY: lambda _: own_apis.DescribeGroupHistoryRequest(groups=GROUPS),
    OwnApiKey.DESCRIBE_SHARE_PARTITIONS: lambda _: share_progress.DescribeSharePartitionsRequest(
        group_id="readers",
        topics=[
            share_progress.ShareTopicAt(topic_name=name, partitions=[share_progress.SharePartitionAt(partition=0)])
            for name in TOPICS
        ],
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda _: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="readers", subscribed_topic_names=list(TOPICS)
    ),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: lambda _: initialize_share_group_state.InitializeShareGroupStateRequest(
        topics=[
            initialize_share_group_state.InitializeStateData(
                partitions=[initialize_share_group_state.PartitionData(partition=1)]
            )
        ]
    ),
    ApiKey.READ_SHARE_GROUP_STATE: lambda _: read_share_group_state.ReadShareGroupStateRequest(
        topics=[read_share_group_state.ReadStateData(partitions=[read_share_group_state.PartitionData(partition=1)])]
    ),
    ApiKey.WRITE_SHARE_GROUP_STATE: lambda _: write_share_group_state.WriteShareGroupStateRequest(
        topics=[write_share_group_state.WriteStateData(partitions=[write_share_group_state.PartitionData(partition=1)])]
    ),
    ApiKey.DELETE_SHARE_GROUP_STATE: lambda _: delete_share_group_state.DeleteShareGroupStateRequest(
        topics=[
            delete_share_group_state.DeleteStateData(partitions=[delete_share_group_state.PartitionData(partition=1)])
        ]
    ),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: lambda _: read_share_group_state_summary.ReadShareGroupStateSummaryRequest(
        topics=[
            read_share_group_state_summary.ReadStateSummaryData(
                partitions=[read_share_group_state_summary.PartitionData(partition=1)]
            )
        ]
    ),
    ApiKey.SHARE_GROUP_DESCRIBE: lambda _: share_group_describe.ShareGroupDescribeRequest(group_ids=GROUPS),
    ApiKey.SHARE_GROUP_HEARTBEAT: lambda _: share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id="readers", subscribed_topic_names=list(TOPICS)
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: lambda _: streams_group_describe.StreamsGroupDescribeRequest(group_ids=GROUPS),
    ApiKey.STREAMS_GROUP_HEARTBEAT: lambda _: streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id="readers",
        topology=streams_group_heartbeat.Topology(
            subtopologies=[streams_group_heartbeat.Subtopology(subtopology_id="0", source_topics=list(TOPICS))]
        ),
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: lambda _: (
        streams_group_topology_description_update.StreamsGroupTopologyDescriptionUpdateRequest(group_id="readers")
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda _: describe_share_group_offsets.DescribeShareGroupOffsetsRequest(
        groups=[
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)
            for name in GROUPS
        ]
    ),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda _: alter_share_group_offsets.AlterShareGroupOffsetsRequest(
        group_id="readers",
        topics=[
            alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(partition_index=0)],
            )
            for name in TOPICS
        ],
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda _: delete_share_group_offsets.DeleteShareGroupOffsetsRequest(
        group_id="readers",
        topics=[delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in TOPICS],
    ),
    ApiKey.DESCRIBE_GROUPS: lambda _: describe_groups.DescribeGroupsRequest(groups=GROUPS),
    ApiKey.CREATE_TOPICS: lambda _: create_topics.CreateTopicsRequest(
        topics=[create_topics.CreatableTopic(name=name) for name in TOPICS]
    ),
    ApiKey.DELETE_TOPICS: _deletions,
    ApiKey.CREATE_PARTITIONS: lambda _: create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name=name, assignments=None) for name in TOPICS]
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda _: describe_configs.DescribeConfigsRequest(
        resources=_resources(describe_configs.DescribeConfigsResource)
    ),
    ApiKey.ALTER_CONFIGS: lambda _: alter_configs.AlterConfigsRequest(
        resources=_resources(alter_configs.AlterConfigsResource)
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda _: incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=_resources(incremental_alter_configs.AlterConfigsResource)
    ),
    ApiKey.ELECT_LEADERS: lambda _: elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic="flights", partitions=[0])]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda _: alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            alter_partition_reassignments.ReassignableTopic(
                name="flights", partitions=[alter_partition_reassignments.ReassignablePartition(replicas=[1])]
            )
        ]
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: lambda _: alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[
            alter_replica_log_dirs.AlterReplicaLogDir(
                path="/a", topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name="flights", partitions=[0])]
            )
        ]
    ),
}
ANSWERS: dict[AnyApiKey, Callable[[Any], Message]] = {
    OwnApiKey.DESCRIBE_HOLDERS: lambda _: own_apis.DescribeHoldersResponse(
        groups=[own_apis.Holder(group_id=name) for name in GROUPS]
    ),
    ApiKey.LIST_GROUPS: lambda _: list_groups.ListGroupsResponse(
        groups=[list_groups.ListedGroup(group_id=name) for name in GROUPS]
    ),
    ApiKey.LIST_TRANSACTIONS: lambda _: list_transactions.ListTransactionsResponse(
        transaction_states=[list_transactions.TransactionState(transactional_id=name) for name in TRANSACTIONS]
    ),
    ApiKey.CREATE_TOPICS: lambda request: create_topics.CreateTopicsResponse(
        topics=[
            create_topics.CreatableTopicResult(name=topic.name, error_message=None, num_partitions=3, configs=[])
            for topic in request.topics
        ]
    ),
}


class Recording(Authorizer):
    """Notes what is asked, and refuses what it is told to, or everything."""

    def __init__(self, *refuses: str, everything: bool = False) -> None:
        self.asked: list[str] = []
        self._refuses = refuses
        self._everything = everything

    def has_any(self, session: Session, right: Right) -> Generator[None, None, bool]:
        yield None
        return self.has(session, right, "any")

    def has(self, session: Session, right: Right, name: str) -> bool:
        assert session.listener == "PLAINTEXT"
        question = f"{right} {name}"
        self.asked.append(question)
        return not self._everything and question not in self._refuses
