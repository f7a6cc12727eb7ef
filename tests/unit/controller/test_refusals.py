"""Every command can be refused as a whole, in every version of its response."""

import pytest

from penstock.controller.decisions import DECISIONS
from penstock.controller.refusals import refusal
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.requests.api import ApiKey, api_of

ERROR = KafkaError(ErrorCode.NOT_CONTROLLER, "not here")


@pytest.mark.parametrize("key", [*DECISIONS, ApiKey.LIST_PARTITION_REASSIGNMENTS], ids=lambda key: key.name)
def test_every_command_has_a_refusal(key: ApiKey) -> None:
    reply = refusal(api_of(key).request_class(), ERROR)
    assert type(reply) is api_of(key).response_class
    assert getattr(reply, "error_code", ERROR.code) == ERROR.code
    for version in type(reply).version_range():
        encode(reply, version)


def test_the_error_stands_where_the_response_has_room_for_it() -> None:
    elections = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="flights", partitions=[0, 1])])
    (topic,) = refusal(elections, ERROR).replica_election_results
    assert [item.error_code for item in topic.partition_result] == [ErrorCode.NOT_CONTROLLER] * 2
    assert refusal(AlterPartitionReassignmentsRequest(), ERROR).error_message == "not here"
    features = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature="metadata.version")])
    assert [item.error_code for item in refusal(features, ERROR).results] == [ErrorCode.NOT_CONTROLLER]
