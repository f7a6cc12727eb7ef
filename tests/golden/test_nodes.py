"""The transcripts of nodes: what clients ask, and all that the answers say."""

from collections.abc import Callable, Iterable

import pytest
from tests.golden.node_lecture import NodeLecture

SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_num_partitions": "2",
    "share_coordinator_state_topic_num_partitions": "2",
    "group_initial_rebalance_delay_ms": "0",
    "auto_create_topics_enable": "false",
}


@pytest.mark.parametrize(
    ("name", "nodes"), [("topics", 1), ("groups", 1), ("transactions", 1), ("shares", 1), ("drawn", 1)]
)
def test_nodes(name: str, nodes: int, transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    lecture = NodeLecture(nodes, **SETTINGS)
    try:
        transcript(f"nodes/{name}.txt", lecture.handle)
    finally:
        lecture.end()
