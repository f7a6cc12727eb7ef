"""ElectLeaders, AlterPartitionReassignments, UpdateFeatures and UnregisterBroker by a broker's handlers, in every
version; what they decide is proved elsewhere."""

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.metadata_node import NODE, context, create, handed_on, start_broker

from penstock.metadata.features import SUPPORTED_FEATURES
from penstock.node.roles.broker import Broker
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

OTHER = NODE + 1


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    broker, _ = await start_broker(str(tmp_path))
    await create(broker, "flights", partitions=2)
    listener = Listener(name="PLAINTEXT", host="other", port=9092)
    features = [
        Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.newest)
        for name, levels in SUPPORTED_FEATURES.items()
    ]
    registered = await broker.controller.submit(
        BrokerRegistrationRequest(
            broker_id=OTHER,
            cluster_id=broker.cluster_id,
            incarnation_id=UUID(int=OTHER),
            listeners=[listener],
            features=features,
        ),
        BrokerRegistrationResponse,
    )
    assert registered.error_code == 0
    return broker


@pytest.mark.parametrize("version", range(3))
async def test_a_leader_is_elected_where_one_is_needed(broker: Broker, version: int) -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="flights", partitions=[0, 7])])
    request, _ = decode(ElectLeadersRequest, version, encode(request, version))
    response = await handed_on(broker, context(version), request)
    (topic,) = decode(ElectLeadersResponse, version, encode(response, version))[0].replica_election_results
    assert [(partition.partition_id, partition.error_code) for partition in topic.partition_result] == [
        (0, ErrorCode.ELECTION_NOT_NEEDED),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def move(*partitions: tuple[int, list[int] | None]) -> AlterPartitionReassignmentsRequest:
    moves = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in partitions]
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="flights", partitions=moves)])


def codes(response: AlterPartitionReassignmentsResponse) -> dict[int, int]:
    return {p.partition_index: p.error_code for topic in response.responses for p in topic.partitions}


@pytest.mark.parametrize("version", range(2))
async def test_partitions_begin_to_move(broker: Broker, version: int) -> None:
    asked = move((0, [OTHER]), (1, [99]), (7, None))
    request, _ = decode(AlterPartitionReassignmentsRequest, version, encode(asked, version))
    answer = await handed_on(broker, context(version), request)
    response, _ = decode(AlterPartitionReassignmentsResponse, version, encode(answer, version))
    assert codes(response) == {
        0: ErrorCode.NONE,
        1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert broker.image.topics["flights"].partitions[0].adding_replicas == (OTHER,)


@pytest.mark.parametrize("version", range(3))
async def test_features_are_changed_by_the_controller(broker: Broker, version: int) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=34)
    request = UpdateFeaturesRequest(feature_updates=[update])
    request, _ = decode(UpdateFeaturesRequest, version, encode(request, version))
    answer = await handed_on(broker, context(version), request)
    response, _ = decode(UpdateFeaturesResponse, version, encode(answer, version))
    assert ErrorCode.INVALID_UPDATE_VERSION in [response.error_code, *(r.error_code for r in response.results)]
    assert broker.image.features["metadata.version"] == 33


async def test_a_broker_is_forgotten(broker: Broker) -> None:
    request, _ = decode(UnregisterBrokerRequest, 0, encode(UnregisterBrokerRequest(broker_id=OTHER), 0))
    answer = await handed_on(broker, context(0), request)
    response, _ = decode(UnregisterBrokerResponse, 0, encode(answer, 0))
    assert response.error_code == 0
    assert OTHER not in broker.image.brokers
