"""The transcripts of nodes: what clients ask, and all that the answers say."""

from collections.abc import Callable, Iterable

import pytest
from tests.golden.node_lecture import NodeLecture

from penstock.testing.simulator.plan import RIGHTS

SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_num_partitions": "2",
    "share_coordinator_state_topic_num_partitions": "2",
    "group_initial_rebalance_delay_ms": "0",
    "auto_create_topics_enable": "false",
}


RIGHTS_TOO = SETTINGS | RIGHTS
"""Who asks has logged in as `User:client`."""


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("topics", SETTINGS),
        ("groups", SETTINGS),
        ("transactions", SETTINGS),
        ("shares", SETTINGS),
        ("rights", RIGHTS_TOO),
        ("two", SETTINGS),
        ("drawn", SETTINGS),
        (
            "limits",
            RIGHTS_TOO
            | {
                "auto_create_topics_enable": "true",
                "delegation_token_secret_key": "hush",
                "penstock_metrics_listener": ":9404",
                "connections.max.reauth.ms": "0",
            },
        ),
    ],
)
def test_nodes(
    name: str, settings: dict[str, str], transcript: Callable[[str, Callable[[str], Iterable[object]]], None]
) -> None:
    lecture = NodeLecture(2 if name == "two" else 1, **settings)
    try:
        transcript(f"nodes/{name}.txt", lecture.handle)
    finally:
        lecture.end()
