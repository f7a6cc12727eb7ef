"""What clients take for granted of a node that nobody configured."""

from collections.abc import Iterator

import pytest
from tests.wire.raw_client import RawClient

from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def client(plain: str) -> Iterator[RawClient]:
    with RawClient(plain) as client:
        yield client


def test_the_advertised_address_is_a_number(client: RawClient, plain: str) -> None:
    answer = client.ask(MetadataRequest(topics=[]), 12)
    (broker,) = answer.brokers
    assert f"{broker.host}:{broker.port}" == plain
    assert broker.host == "127.0.0.1"
    assert broker.node_id >= 0
    assert answer.controller_id == broker.node_id


def test_the_offsets_topic_can_be_made_on_one_node(client: RawClient) -> None:
    client.find_coordinator("group")
    (coordinator,) = client.ask(FindCoordinatorRequest(coordinator_keys=["group"])).coordinators
    assert (coordinator.error_code, coordinator.host) == (0, "127.0.0.1")
    (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")]), 12).topics
    assert topic.is_internal
    assert {len(partition.replica_nodes) for partition in topic.partitions} == {1}


def test_topics_can_be_deleted(client: RawClient) -> None:
    client.create_topic("short-lived")
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="short-lived")], timeout_ms=30_000)
    assert client.ask(request).responses[0].error_code == 0
