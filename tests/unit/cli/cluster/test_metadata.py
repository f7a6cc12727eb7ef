"""`penstock metadata checksum`: it sees that two nodes differ, and asks those who take part in the quorum."""

import json

import pytest
from click.testing import CliRunner
from tests.unit.client.fake_broker import Reply
from tests.unit.client.fake_cluster import NODE_ID, FakeCluster, served_in_a_thread

from penstock.cli.cluster.metadata import _contradictions
from penstock.cli.main import main
from penstock.client.admin.quorum import MetadataState
from penstock.protocol.internal_topics import CLUSTER_METADATA
from penstock.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    ReplicaState,
)
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.requests.own_apis import DescribeMetadataRequest, DescribeMetadataResponse
from penstock.protocol.schema import Message


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ([(1, 7, "a"), (2, 7, "a")], []),
        ([(1, 7, "a"), (2, 8, "b")], []),
        ([(1, 7, "a"), (2, 8, "b"), (3, 7, "c")], [(7, "1, 3")]),
        ([], []),
    ],
)
def test_nodes_at_the_same_offset_have_the_same_hash(
    states: list[tuple[int, int, str]], found: list[tuple[int, str]]
) -> None:
    assert _contradictions([MetadataState(node, offset, 1, checksum) for node, offset, checksum in states]) == found


class WithOneThatLeft(FakeCluster):
    """A quorum of one, in whose metadata a controller is still registered that has left and stopped."""

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        assert self.broker is not None
        match request:
            case DescribeClusterRequest():
                rows = [(NODE_ID, self.broker.address.port), (NODE_ID + 1, 1)]
                return DescribeClusterResponse(
                    cluster_id="fake",
                    controller_id=NODE_ID,
                    endpoint_type=2,
                    brokers=[DescribeClusterBroker(broker_id=node, host="127.0.0.1", port=port) for node, port in rows],
                )
            case DescribeQuorumRequest():
                partition = DescribeQuorumResponsePartitionData(
                    leader_id=NODE_ID, leader_epoch=1, current_voters=[ReplicaState(replica_id=NODE_ID)]
                )
                topic = DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
                return DescribeQuorumResponse(topics=[topic])
            case DescribeMetadataRequest():
                return DescribeMetadataResponse(node_id=NODE_ID, offset=3, epoch=1, checksum="c")
        return super().__call__(header, request)


def test_a_controller_that_left_is_not_asked() -> None:
    with served_in_a_thread(WithOneThatLeft()) as broker:
        arguments = ["metadata", "checksum", "--bootstrap-controller", str(broker.address), "--json"]
        result = CliRunner().invoke(main, arguments, prog_name="penstock")
    assert [row["node"] for row in json.loads(result.stdout)] == [NODE_ID]
    assert (result.stderr, result.exit_code) == ("", 0)
