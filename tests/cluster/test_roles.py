"""Two brokers and three controllers: the active controller answers whoever is asked; each listener has its role."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from tests.wire.raw_client import Closed, RawClient

from penstock.metadata.features import NEWEST_METADATA_VERSION, default_level
from penstock.node.api.telemetry import HANDLERS as OF_TELEMETRY
from penstock.node.serving.handler import BROKER_HANDLERS, CONTROLLER_HANDLERS, load_handlers
from penstock.node.serving.versions import TOLD_FROM
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import describe_quorum, elect_leaders
from penstock.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from penstock.protocol.requests.own_apis import FIRST_OWN_KEY, OWN_SOFTWARE
from penstock.protocol.schema import Message
from penstock.testing.cluster import TEST_DEFAULTS, Cluster
from penstock.testing.cluster_node import ClusterNode
from penstock.testing.layout import Layout

AnswerT = TypeVar("AnswerT", bound=Message)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, controllers=3) as cluster:
        yield cluster


def ask(address: str, request: Message, answer: type[AnswerT], version: int | None = None) -> AnswerT:
    with RawClient(address) as client:
        response = client.ask(request, version)
    assert isinstance(response, answer)
    return response


def brokers(cluster: Cluster) -> list[str]:
    return cluster.bootstrap_servers.split(",")


def controllers(cluster: Cluster) -> dict[int, str]:
    return {node.id: node.controller_address for node in cluster.nodes if node.controller_address}


@pytest.mark.parametrize("software", ["raw", OWN_SOFTWARE])
def test_each_listener_has_the_table_of_its_role(cluster: Cluster, software: str) -> None:
    """Our own clients and nodes are told of more than others."""
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
    for addresses, package in (
        (brokers(cluster), BROKER_HANDLERS),
        (list(controllers(cluster).values()), CONTROLLER_HANDLERS),
    ):
        served = {
            key: (TOLD_FROM.get(key, handler.lowest), handler.newest)
            for key, handler in load_handlers(package).items()
            if (software == OWN_SOFTWARE or not (handler.for_nodes or key >= FIRST_OWN_KEY))
            and (handler.feature is None or default_level(handler.feature, NEWEST_METADATA_VERSION))
            and key not in OF_TELEMETRY  # nobody takes what clients push
        }
        for address in addresses:
            told = ask(address, request, ApiVersionsResponse, 4)
            assert {api.api_key: (api.min_version, api.max_version) for api in told.api_keys} == served
            assert {f.name: (f.min_version, f.max_version) for f in told.supported_features}["kraft.version"] == (0, 1)


def test_ids_need_not_start_at_one(tmp_path: Path) -> None:
    both = ("broker", "controller")
    nodes = Layout({7: both, 42: both, 100: ("controller",)}).prepare(tmp_path, TEST_DEFAULTS, {}, process=False)
    with ThreadPoolExecutor() as starting:
        list(starting.map(ClusterNode.start, nodes))
    try:
        for node in nodes[:2]:
            assert node.address is not None
            response = ask(node.address, quorum_request(), describe_quorum.DescribeQuorumResponse)
            (partition,) = response.topics[0].partitions
            assert partition.leader_id in (7, 42, 100)
            assert [voter.replica_id for voter in partition.current_voters] == [7, 42, 100]
            (topic,) = ask(node.address, creation(f"of-{node.id}"), CreateTopicsResponse).topics
            assert topic.error_code == 0
    finally:
        with ThreadPoolExecutor() as stopping:
            list(stopping.map(ClusterNode.stop, nodes))


def test_a_controller_does_not_serve_clients(cluster: Cluster) -> None:
    for address in controllers(cluster).values():
        with RawClient(address) as client, pytest.raises(Closed):
            client.ask(MetadataRequest(), 12)


def quorum_request() -> describe_quorum.DescribeQuorumRequest:
    partition = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def test_every_broker_describes_the_quorum_and_of_the_controllers_its_leader(cluster: Cluster) -> None:
    active, at = cluster.wait_for_controller(), controllers(cluster)
    for address in [*brokers(cluster), at[active]]:
        response = ask(address, quorum_request(), describe_quorum.DescribeQuorumResponse)
        (partition,) = response.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (0, active)
        assert [voter.replica_id for voter in partition.current_voters] == sorted(at)
        assert {f"{n.listeners[0].host}:{n.listeners[0].port}" for n in response.nodes} == set(at.values())
    for node_id in at.keys() - {active}:
        response = ask(at[node_id], quorum_request(), describe_quorum.DescribeQuorumResponse)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_clients_of_others_describe_the_quorum_and_elect(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    described = admin.describe_metadata_quorum()
    partition = described["topics"][0]["partitions"][0]
    assert partition["leader_id"] == cluster.wait_for_controller()
    assert sorted(voter["replica_id"] for voter in partition["current_voters"]) == sorted(controllers(cluster))
    assert sorted(observer["replica_id"] for observer in partition["observers"]) == [1, 2]
    assert admin.list_partition_reassignments() == {}
    admin.close()
    ask(brokers(cluster)[0], creation("elected"), CreateTopicsResponse)
    confluent = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    results = confluent.elect_leaders(ElectionType.PREFERRED, [TopicPartition("elected", 0)]).result(timeout=30)
    assert [error.code() for error in results.values()] == [ErrorCode.ELECTION_NOT_NEEDED]


def test_every_controller_describes_the_controllers(cluster: Cluster) -> None:
    at = controllers(cluster)
    for address in at.values():
        response = ask(address, DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
        assert {b.broker_id: f"{b.host}:{b.port}" for b in response.brokers} == at
        assert response.controller_id == cluster.wait_for_controller()


def creation(name: str, *, validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], validate_only=validate_only)


def test_topics_are_created_by_any_broker_and_the_active_controller_only(cluster: Cluster) -> None:
    active, at = cluster.wait_for_controller(), controllers(cluster)
    for number, address in enumerate(brokers(cluster)):
        (topic,) = ask(address, creation(f"of-broker-{number}"), CreateTopicsResponse).topics
        assert (topic.error_code, topic.num_partitions) == (0, 2)
    for node_id, address in at.items():
        (topic,) = ask(address, creation("of-a-controller", validate_only=True), CreateTopicsResponse).topics
        assert topic.error_code == (ErrorCode.NONE if node_id == active else ErrorCode.NOT_CONTROLLER)


def test_what_only_the_controller_does_is_handed_on(cluster: Cluster) -> None:
    ask(brokers(cluster)[0], creation("led"), CreateTopicsResponse)
    wanted = elect_leaders.TopicPartitions(topic="led", partitions=[0])
    voter = AddRaftVoterRequest(cluster_id=None, voter_id=99, listeners=[Listener(name="CONTROLLER", host="h", port=1)])
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=99)
    for address in brokers(cluster):
        election = elect_leaders.ElectLeadersRequest(topic_partitions=[wanted])
        (topic,) = ask(address, election, elect_leaders.ElectLeadersResponse).replica_election_results
        assert topic.partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
        moves = ask(address, ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
        assert (moves.error_code, moves.topics) == (0, [])
        forgotten = ask(address, UnregisterBrokerRequest(broker_id=99), UnregisterBrokerResponse)
        assert forgotten.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        raised = ask(address, UpdateFeaturesRequest(feature_updates=[update]), UpdateFeaturesResponse)
        assert raised.error_code == ErrorCode.INVALID_UPDATE_VERSION
        added = ask(address, voter, AddRaftVoterResponse)
        assert (added.error_code, added.error_message) == (
            ErrorCode.UNSUPPORTED_VERSION,
            "the voters of this quorum are fixed",
        )
