from pathlib import Path

import pytest
from tests.unit.node.metadata_node import CLUSTER, NODE, context, start_broker

from penstock.metadata.brokers import UNFENCE
from penstock.metadata.records import BrokerRegistrationChangeRecord, NodeEndpoint, RegisterBrokerRecord
from penstock.node.api.broker.describe_cluster import describe_cluster
from penstock.node.roles.broker import Broker, OwnQuorum
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse


@pytest.fixture
async def broker(tmp_path: Path) -> Broker:
    broker, _ = await start_broker(str(tmp_path))
    broker.image.apply(
        RegisterBrokerRecord(
            broker_id=0, end_points=[NodeEndpoint(name="PLAINTEXT", host="10.0.0.2", port=9092)], fenced=True
        )
    )
    return broker


def ask(broker: Broker, request: DescribeClusterRequest, version: int = 2) -> DescribeClusterResponse:
    asked, _ = decode(DescribeClusterRequest, version, encode(request, version))
    return decode(DescribeClusterResponse, version, encode(describe_cluster(broker, context(version), asked), version))[
        0
    ]


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_in_every_version(broker: Broker, version: int) -> None:
    response = ask(broker, DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, CLUSTER, NODE)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in response.brokers] == [(NODE, "127.0.0.1", 9092, "east")]
    assert response.cluster_authorized_operations == -(2**31)


async def test_fenced_brokers_come_if_asked_for(broker: Broker) -> None:
    response = ask(broker, DescribeClusterRequest(include_fenced_brokers=True))
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(0, True), (NODE, False)]


async def test_only_brokers_that_the_listener_can_tell(broker: Broker) -> None:
    request = DescribeClusterRequest(include_fenced_brokers=True)
    assert [b.host for b in describe_cluster(broker, context(2, "BROKERS"), request).brokers] == ["10.0.0.1"]


async def test_authorized_operations_come_if_asked_for(broker: Broker) -> None:
    response = ask(broker, DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert response.cluster_authorized_operations == 0b1111110100000


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_other_endpoints_are_not_a_brokers_to_tell(broker: Broker, endpoint_type: int, code: ErrorCode) -> None:
    response = ask(broker, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (response.error_code, response.brokers) == (code, [])


async def test_a_controller_that_does_not_answer_is_named_to_nobody(broker: Broker) -> None:
    broker.image.apply(BrokerRegistrationChangeRecord(broker_id=0, fenced=UNFENCE))
    broker.image.elected(0, 5)
    assert ask(broker, DescribeClusterRequest()).controller_id == 0
    broker.quorum = OwnQuorum(hears_leader=False)
    assert ask(broker, DescribeClusterRequest()).controller_id == NODE
