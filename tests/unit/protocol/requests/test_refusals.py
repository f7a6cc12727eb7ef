"""Whatever a node serves can be refused as a whole, in every version of its response, and so can each thing in it."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.controller.decisions import DECISIONS
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsResponse
from penstock.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from penstock.protocol.messages.describe_groups import DescribeGroupsResponse
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequestTopic, MetadataResponse
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.requests.refusals import THINGS_AT_ONCE, refusal, refused, refusing
from penstock.protocol.uuids import ZERO_UUID

ERROR = KafkaError(ErrorCode.NOT_CONTROLLER, "not here")


@pytest.mark.parametrize("key", [*DECISIONS, ApiKey.LIST_PARTITION_REASSIGNMENTS], ids=lambda key: key.name)
def test_every_command_has_a_refusal(key: ApiKey) -> None:
    reply = refusal(api_of(key).request_class(), ERROR)
    assert type(reply) is api_of(key).response_class
    assert getattr(reply, "error_code", ERROR.code) == ERROR.code
    for version in type(reply).version_range():
        encode(reply, version)


@pytest.mark.parametrize(("topics", "parts"), [(0, 0), (99, 0), (100, 0), (1_000, 0), (1, 1_000), (30, 30)])
def test_of_very_many_things_some_are_refused_at_a_time(topics: int, parts: int) -> None:
    partitions = [OffsetCommitRequestPartition(partition_index=number) for number in range(parts)]
    things = [OffsetCommitRequestTopic(name=f"t-{number}", partitions=partitions) for number in range(topics)]
    request = OffsetCommitRequest(topics=things)
    found: list[Any] = []

    def kept() -> Iterator[None]:
        found.append((yield from refusing(request, ERROR)))

    assert len(list(kept())) == (topics + topics * parts) // THINGS_AT_ONCE
    assert found == [refusal(request, ERROR)]
    assert [len(topic.partitions) for topic in found[0].topics] == [parts] * topics


def test_the_error_stands_where_the_response_has_room_for_it() -> None:
    elections = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="flights", partitions=[0, 1])])
    (topic,) = refusal(elections, ERROR).replica_election_results
    assert [item.error_code for item in topic.partition_result] == [ErrorCode.NOT_CONTROLLER] * 2
    moves = refusal(AlterPartitionReassignmentsRequest(topics=[MOVED]), ERROR)
    ((moved,),) = [topic.partitions for topic in moves.responses]
    assert (moves.error_message, moved.partition_index, moved.error_code) == ("not here", 3, ErrorCode.NOT_CONTROLLER)
    features = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="metadata.version")])
    answer = refusal(features, ERROR)
    assert (answer.error_code, answer.results) == (ErrorCode.NOT_CONTROLLER, []), "as Kafka's"
    assert refusal(DescribeClientQuotasRequest(), ERROR).entries is None


MOVED = ReassignableTopic(name="flights", partitions=[ReassignablePartition(partition_index=3)])
COMMIT = OffsetCommitRequest(
    group_id="readers",
    topics=[OffsetCommitRequestTopic(name="flights", partitions=[OffsetCommitRequestPartition(partition_index=3)])],
)


def test_a_request_about_partitions_is_refused_beside_each() -> None:
    (topic,) = refusal(COMMIT, ERROR).topics
    assert topic == OffsetCommitResponseTopic(
        name="flights",
        partitions=[OffsetCommitResponsePartition(partition_index=3, error_code=ErrorCode.NOT_CONTROLLER)],
    )
    moves = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path="/a", topics=[AlterReplicaLogDirTopic(name="flights", partitions=[5])])]
    )
    (moved,) = refusal(moves, ERROR).results
    assert (moved.topic_name, moved.partitions[0].partition_index) == ("flights", 5)
    assert moved.partitions[0].error_code == ErrorCode.NOT_CONTROLLER


def test_of_one_thing_no_more_is_told_than_the_request_said() -> None:
    asked = CreatableTopic(name="flights", num_partitions=9, replication_factor=3)
    told = refused(CreateTopicsResponse(), "topics", asked, ERROR)
    assert (told.name, told.error_message, told.num_partitions, told.replication_factor) == (
        "flights",
        "not here",
        -1,
        -1,
    )
    assert told.topic_id == ZERO_UUID
    assert refused(DescribeGroupsResponse(), "groups", "readers", ERROR).group_id == "readers"
    assert refused(FindCoordinatorResponse(), "coordinators", "readers", ERROR).node_id == -1
    topic = refused(MetadataResponse(), "topics", MetadataRequestTopic(name="flights"), ERROR)
    assert (topic.name, topic.error_code, topic.partitions) == ("flights", ErrorCode.NOT_CONTROLLER, [])
