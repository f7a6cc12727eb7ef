"""Every API of a broker in every version that it serves: a sensible request, and an answer that reads as a whole.

The answer is decoded in the version of the request, holds no error, and nothing is left behind it; encoding it again
gives the same bytes, so nothing in it is out of its range or order. The codec itself is held against kio elsewhere
(`tests/property/protocol`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from tests.wire import (
    consumer_group_requests,
    security_requests,
    share_group_requests,
    share_requests,
    transaction_requests,
)
from tests.wire.raw_client import RawClient, api_of_request, batch_of, fetch_request, produce_request
from tests.wire.raw_members import Member

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
    update_features,
)
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.fetch import FetchRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.messages.unregister_controller import UnregisterControllerRequest
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.framing import decode_response, encode_request, encode_response
from penstock.protocol.schema import Message

TOPIC = "every-version"
GROUP = "every-version"
TOPIC_RESOURCE = 2


@dataclass
class Asker:
    """What a request is made of: a connection, a version, and a name that no other request uses."""

    client: RawClient
    topic_id: UUID
    version: int
    name: str

    def fresh_topic(self, **configs: str) -> str:
        self.client.create_topic(self.name, configs=configs)
        return self.name

    def member(self) -> Member:
        """A member of a group of its own, which has its assignment."""
        return Member.joined(self.client, self.name)


def produce(asker: Asker) -> ProduceRequest:
    request = produce_request(TOPIC, batch_of(b"value"))
    request.topic_data[0].topic_id = asker.topic_id
    return request


def fetch(asker: Asker) -> FetchRequest:
    request = fetch_request(TOPIC, 0)
    request.topics[0].topic_id = asker.topic_id
    return request


def list_offsets_request(asker: Asker) -> list_offsets.ListOffsetsRequest:
    partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=0)
    topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=[partition])
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic], timeout_ms=1000)


def metadata_request(asker: Asker) -> metadata.MetadataRequest:
    wanted = metadata.MetadataRequestTopic(name=TOPIC)
    return metadata.MetadataRequest(
        topics=[wanted], include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )


def offset_commit_request(asker: Asker) -> offset_commit.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(committed_offset=1, committed_metadata="note")
    topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, topic_id=asker.topic_id, partitions=[partition])
    return offset_commit.OffsetCommitRequest(group_id=GROUP, topics=[topic])


def offset_fetch_request(asker: Asker) -> offset_fetch.OffsetFetchRequest:
    wanted = offset_fetch.OffsetFetchRequestTopics(name=TOPIC, topic_id=asker.topic_id, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(
        group_id=GROUP,
        topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])],
        groups=[offset_fetch.OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])],
        require_stable=True,
    )


def join_group_request(asker: Asker) -> join_group.JoinGroupRequest:
    return Member.wish(asker.name, instance_id="static" if asker.version >= 5 else None)


def sync_group_request(asker: Asker) -> sync_group.SyncGroupRequest:
    return asker.member().sync_request()


def heartbeat(asker: Asker) -> HeartbeatRequest:
    member = asker.member()
    return HeartbeatRequest(group_id=asker.name, generation_id=member.generation_id, member_id=member.member_id)


def leave_group_request(asker: Asker) -> leave_group.LeaveGroupRequest:
    member_id = asker.member().member_id
    leaving = leave_group.MemberIdentity(member_id=member_id, reason="done")
    return leave_group.LeaveGroupRequest(group_id=asker.name, member_id=member_id, members=[leaving])


def describe_groups(asker: Asker) -> DescribeGroupsRequest:
    asker.member()
    return DescribeGroupsRequest(groups=[asker.name], include_authorized_operations=True)


def list_groups(asker: Asker) -> ListGroupsRequest:
    asker.member()
    filters = {"states_filter": ["Stable"], "types_filter": ["classic"]} if asker.version >= 5 else {}
    return ListGroupsRequest(**filters)


def delete_groups(asker: Asker) -> DeleteGroupsRequest:
    asker.client.ask(leave_group_request(asker))
    return DeleteGroupsRequest(groups_names=[asker.name])


def offset_delete_request(asker: Asker) -> offset_delete.OffsetDeleteRequest:
    asker.client.ask(offset_commit_request(asker))
    topic = offset_delete.OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
    )
    return offset_delete.OffsetDeleteRequest(group_id=GROUP, topics=[topic])


def find_coordinator(asker: Asker) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key=GROUP, coordinator_keys=[GROUP, "another"])


def create_topics_request(asker: Asker) -> create_topics.CreateTopicsRequest:
    wish = create_topics.CreatableTopic(
        name=asker.name,
        num_partitions=2,
        replication_factor=1,
        configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="1000")],
    )
    return create_topics.CreateTopicsRequest(topics=[wish])


def delete_topics_request(asker: Asker) -> delete_topics.DeleteTopicsRequest:
    name = asker.fresh_topic()
    state = delete_topics.DeleteTopicState(name=name)
    return delete_topics.DeleteTopicsRequest(topics=[state], topic_names=[name], timeout_ms=30_000)


def delete_records_request(asker: Asker) -> delete_records.DeleteRecordsRequest:
    name = asker.fresh_topic()
    asker.client.produce(name, batch_of(b"1", b"2"))
    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=1)
    topic = delete_records.DeleteRecordsTopic(name=name, partitions=[partition])
    return delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=1000)


def create_partitions_request(asker: Asker) -> create_partitions.CreatePartitionsRequest:
    wish = create_partitions.CreatePartitionsTopic(name=asker.fresh_topic(), count=3, assignments=None)
    return create_partitions.CreatePartitionsRequest(topics=[wish], timeout_ms=30_000)


def init_producer_id(asker: Asker) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def offset_for_leader_epoch_request(asker: Asker) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=TOPIC, partitions=[partition])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=[topic])


def describe_configs_request(asker: Asker) -> describe_configs.DescribeConfigsRequest:
    wanted = describe_configs.DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=TOPIC, configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(
        resources=[wanted], include_synonyms=True, include_documentation=True
    )


def alter_configs_request(asker: Asker) -> alter_configs.AlterConfigsRequest:
    change = alter_configs.AlterableConfig(name="retention.ms", value="1000")
    resource = alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=asker.fresh_topic(), configs=[change]
    )
    return alter_configs.AlterConfigsRequest(resources=[resource])


def incremental_alter_configs_request(asker: Asker) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    change = incremental_alter_configs.AlterableConfig(name="retention.ms", value="1000")
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=asker.fresh_topic(), configs=[change]
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])


def alter_replica_log_dirs_request(asker: Asker) -> alter_replica_log_dirs.AlterReplicaLogDirsRequest:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name="there-is-none", partitions=[0])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(
        dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=[topic])]
    )


def describe_log_dirs_request(asker: Asker) -> describe_log_dirs.DescribeLogDirsRequest:
    return describe_log_dirs.DescribeLogDirsRequest(topics=None)


def describe_cluster(asker: Asker) -> DescribeClusterRequest:
    return DescribeClusterRequest(include_cluster_authorized_operations=True)


def describe_producers_request(asker: Asker) -> describe_producers.DescribeProducersRequest:
    asker.client.produce(TOPIC, batch_of(b"x", producer_id=77, producer_epoch=0, base_sequence=0))
    return describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
    )


def describe_topic_partitions_request(asker: Asker) -> describe_topic_partitions.DescribeTopicPartitionsRequest:
    return describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=TOPIC)]
    )


def list_config_resources(asker: Asker) -> ListConfigResourcesRequest:
    # Version 0 knows client metrics alone; later no types mean all of them.
    return ListConfigResourcesRequest()


def elect_leaders_request(asker: Asker) -> elect_leaders.ElectLeadersRequest:
    return elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])]
    )


def alter_reassignments(asker: Asker) -> alter_partition_reassignments.AlterPartitionReassignmentsRequest:
    where_it_is = alter_partition_reassignments.ReassignablePartition(partition_index=0, replicas=[1])
    topic = alter_partition_reassignments.ReassignableTopic(name=TOPIC, partitions=[where_it_is])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def update_features_request(asker: Asker) -> update_features.UpdateFeaturesRequest:
    as_it_is = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=33)
    return update_features.UpdateFeaturesRequest(feature_updates=[as_it_is])


def list_reassignments(asker: Asker) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest()


def unregister_broker(asker: Asker) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=77)


def unregister_controller(asker: Asker) -> UnregisterControllerRequest:
    return UnregisterControllerRequest(controller_id=77)


def describe_quorum_request(asker: Asker) -> describe_quorum.DescribeQuorumRequest:
    partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def add_raft_voter(asker: Asker) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(cluster_id=None, voter_id=7, listeners=[Listener(name="CONTROLLER", host="x", port=1)])


def remove_raft_voter(asker: Asker) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=None, voter_id=7)


def api_versions(asker: Asker) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="raw", client_software_version="1")


REQUESTS: dict[ApiKey, Callable[[Asker], Message]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets_request,
    ApiKey.METADATA: metadata_request,
    ApiKey.OFFSET_COMMIT: offset_commit_request,
    ApiKey.OFFSET_FETCH: offset_fetch_request,
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group_request,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group_request,
    ApiKey.SYNC_GROUP: sync_group_request,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics_request,
    ApiKey.DELETE_TOPICS: delete_topics_request,
    ApiKey.DELETE_RECORDS: delete_records_request,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch_request,
    **security_requests.REQUESTS,
    ApiKey.DESCRIBE_CONFIGS: describe_configs_request,
    ApiKey.ALTER_CONFIGS: alter_configs_request,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs_request,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs_request,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs_request,
    ApiKey.CREATE_PARTITIONS: create_partitions_request,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.OFFSET_DELETE: offset_delete_request,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers_request,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions_request,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources,
    ApiKey.ELECT_LEADERS: elect_leaders_request,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_reassignments,
    ApiKey.UPDATE_FEATURES: update_features_request,
    ApiKey.UNREGISTER_BROKER: unregister_broker,
    ApiKey.UNREGISTER_CONTROLLER: unregister_controller,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_reassignments,
    ApiKey.DESCRIBE_QUORUM: describe_quorum_request,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter,
    **transaction_requests.REQUESTS,
    **consumer_group_requests.REQUESTS,
    **share_requests.REQUESTS,
    **share_group_requests.REQUESTS,
}

REFUSED = {
    **security_requests.REFUSED,
    ApiKey.ELECT_LEADERS: ErrorCode.ELECTION_NOT_NEEDED,
    ApiKey.UNREGISTER_BROKER: ErrorCode.BROKER_ID_NOT_REGISTERED,
    ApiKey.UNREGISTER_CONTROLLER: ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
    ApiKey.ADD_RAFT_VOTER: ErrorCode.UNSUPPORTED_VERSION,
    ApiKey.REMOVE_RAFT_VOTER: ErrorCode.UNSUPPORTED_VERSION,
    ApiKey.ALTER_REPLICA_LOG_DIRS: ErrorCode.LOG_DIR_NOT_FOUND,
}
"""What a node that is alone cannot do; the answer says so beside what was asked for."""

NEWEST = {ApiKey.INIT_PRODUCER_ID: 5}
"""Where the newest version of the declarations is not stable: InitProducerId 6 is for two-phase transactions."""

KAFKAS = {key: (api_of(key).versions[0], NEWEST.get(key, api_of(key).versions[-1])) for key in REQUESTS}
CASES = [(key, version) for key, (lowest, newest) in KAFKAS.items() for version in range(lowest, newest + 1)]


def error_codes(answer: object) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, list):
        for item in answer:
            yield from error_codes(item)
    elif isinstance(answer, Message):
        for name in answer.__fields__:
            value: Any = getattr(answer, name)
            if name.endswith("error_code"):
                yield value
            else:
                yield from error_codes(value)


@pytest.fixture
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture(scope="module")
def topic_id(bootstrap: str) -> UUID:
    with RawClient(bootstrap) as client:
        client.create_topic(TOPIC)
        client.find_coordinator(GROUP)
        client.produce(TOPIC, batch_of(b"1", b"2"))
        described = client.ask(metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)]))
        topic_id: UUID = described.topics[0].topic_id
        return topic_id


@pytest.mark.parametrize(("key", "version"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_every_version(client: RawClient, topic_id: UUID, key: ApiKey, version: int) -> None:
    request = REQUESTS[key](Asker(client, topic_id, version, f"{TOPIC}-{key.name}-{version}"))
    assert api_of_request(request) == key
    client.send_bytes(encode_request(request, version, 1_000_000, "raw"))
    frame = client.receive_frame()
    correlation_id, answer = decode_response(key, version, frame)
    assert correlation_id == 1_000_000
    assert encode_response(answer, key, version, correlation_id)[4:] == frame
    if key == ApiKey.JOIN_GROUP and version == 4:
        assert set(error_codes(answer)) <= {ErrorCode.MEMBER_ID_REQUIRED}
    elif key in REFUSED:
        assert set(error_codes(answer)) - {ErrorCode.NONE} == {REFUSED[key]}
    else:
        assert set(error_codes(answer)) <= {ErrorCode.NONE}, answer


@pytest.mark.parametrize("version", range(6))
def test_the_table_is_kafkas(client: RawClient, version: int) -> None:
    """What is told is what this module asks, in Kafka's versions; nothing else is served yet.

    Produce is told from version 0 on, as Kafka does for librdkafka, which takes less for a broker without compression.
    """
    answer = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), version)
    told = {ApiKey(api.api_key): (api.min_version, api.max_version) for api in answer.api_keys}
    assert told == KAFKAS | {ApiKey.PRODUCE: (0, KAFKAS[ApiKey.PRODUCE][1])}
