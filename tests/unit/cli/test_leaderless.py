"""One partition without a leader hides nothing of the others: `penstock offsets` and `penstock groups --describe`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.client.fake_broker import Reply
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, served_in_a_thread

from penstock.cli.main import main
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message

END, COMMITTED = 10, 4
LOST = "partition t-1 has no leader now (LEADER_NOT_AVAILABLE)\n"


class Lagging(FakeCluster):
    """Three partitions, the second without a leader, of which a group has read a part."""

    def __init__(self) -> None:
        super().__init__(partitions=3)
        self.leaderless = {1}
        self.refused: set[int] = set()

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        match request:
            case ListOffsetsRequest():
                rows = [
                    ListOffsetsPartitionResponse(
                        partition_index=row.partition_index,
                        offset=END,
                        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER if row.partition_index in self.refused else 0,
                    )
                    for topic in request.topics
                    for row in topic.partitions
                ]
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=rows)])
            case DescribeGroupsRequest():
                return DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", group_state="Empty")])
            case OffsetFetchRequest():
                offsets = [
                    OffsetFetchResponsePartitions(partition_index=number, committed_offset=COMMITTED)
                    for number in range(self.partitions)
                ]
                topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=offsets)]
                return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=topics)])
        return super().__call__(header, request)


@pytest.fixture
def cluster() -> Lagging:
    return Lagging()


@pytest.fixture
def address(cluster: Lagging) -> Iterator[str]:
    with served_in_a_thread(cluster) as broker:
        yield str(broker.address)


def run(address: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--bootstrap-server", address, "--json"], prog_name="penstock")


def test_the_lag_of_all_others_is_shown_and_the_one_is_named(address: str) -> None:
    result = run(address, "groups", "--describe", "--group", "g")
    assert [row["lag"] for row in json.loads(result.stdout)] == [END - COMMITTED, None, END - COMMITTED]
    assert (result.stderr, result.exit_code) == (LOST, 1)


def test_the_offsets_of_all_others_are_shown_and_the_one_is_named(address: str) -> None:
    result = run(address, "offsets", "--topic-partitions", f"{TOPIC}:0,1,2")
    assert [(row["partition"], row["offset"]) for row in json.loads(result.stdout)] == [(0, END), (2, END)]
    assert (result.stderr, result.exit_code) == (LOST, 1)


def test_a_leader_that_refuses_is_tried_again_as_long_as_the_timeout_says(
    address: str, cluster: Lagging, tmp_path: Path
) -> None:
    cluster.refused = {2}
    patient = tmp_path / "client.properties"
    patient.write_text("request.timeout.ms=30000\n")  # each single answer may take its time
    options = ("--group", "g", "--timeout", "1", "--command-config", str(patient))
    result = run(address, "groups", "--describe", *options)
    assert [row["lag"] for row in json.loads(result.stdout)] == [END - COMMITTED, None, None]
    assert result.stderr == f"{LOST}offsets of t-2 (NOT_LEADER_OR_FOLLOWER)\n"
