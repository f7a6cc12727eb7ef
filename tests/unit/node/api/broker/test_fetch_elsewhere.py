"""Fetches of what another node leads: who leads it is told (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.node.api.broker.fetches import fetch_of, told, told_of
from tests.unit.node.on_disk import TOPIC_ID, Node, node_on, topic_records

from penstock.metadata.records import BrokerEndpoint, PartitionChangeRecord, RegisterBrokerRecord
from penstock.protocol.errors import ErrorCode

LEADER_EPOCH = 3


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path, *topic_records()) as node:
        yield node


@pytest.mark.parametrize("version", [12, 15, 16, 18])
@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH),
        (LEADER_EPOCH + 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_leads_instead_and_where_is_told(node: Node, version: int, epoch: int, code: ErrorCode) -> None:
    place = BrokerEndpoint(name="PLAINTEXT", host="other", port=9093)
    node.commit(
        RegisterBrokerRecord(broker_id=2, fenced=False, rack="b", end_points=[place]),
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2),
    )
    answer = told(node, fetch_of(0, leader_epoch=epoch), version)
    got = told_of(answer)
    nodes = [(node.node_id, node.host, node.port, node.rack) for node in answer.node_endpoints]
    leader = got.current_leader.leader_id, got.current_leader.leader_epoch
    assert got.error_code == code
    if version >= 16 and code != ErrorCode.UNKNOWN_LEADER_EPOCH:
        assert (leader, nodes[0]) == ((2, LEADER_EPOCH + 1), (2, "other", 9093, "b"))
    else:
        assert (leader, nodes) == ((-1, -1), [])
