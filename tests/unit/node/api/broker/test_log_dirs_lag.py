"""DescribeLogDirs: how much of what is committed a follower lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.node.on_disk import TOPIC_ID, Node, batch, node_on, topic_records

from penstock.metadata.records import PartitionChangeRecord
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

LEADER = 2


def lag(node: Node) -> int:
    response = node.ask(DescribeLogDirsRequest(topics=None), 4)
    assert isinstance(response, DescribeLogDirsResponse)
    (partition,) = response.results[0].topics[0].partitions
    assert not partition.is_future_key
    return partition.offset_lag


@pytest.mark.parametrize(("committed", "expected"), [(0, 0), (2, 0), (5, 3)])
def test_a_follower_lags_by_what_its_leader_has_committed_and_it_lacks(
    tmp_path: Path, committed: int, expected: int
) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        node.commit(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=LEADER))
        assert lag(node) == 0
        node.partition().append_fetched(batch(b"a", b"b"), committed, 0)
        assert lag(node) == expected


def test_a_leader_does_not_lag(tmp_path: Path) -> None:
    with node_on(tmp_path, *topic_records()) as node:
        node.produce(b"a")
        assert lag(node) == 0
