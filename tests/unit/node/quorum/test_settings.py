"""What an operator decided about consensus, key by key, and the least that each comes to."""

from __future__ import annotations

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.quorum.settings import raft_settings
from penstock.raft.settings import RaftSettings

GIVEN = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.quorum.election.timeout.ms": "11",
    "controller.quorum.election.backoff.max.ms": "12",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "14",
    "controller.quorum.retry.backoff.ms": "15",
    "controller.quorum.fetch.max.bytes": "1600",
    "controller.quorum.fetch.snapshot.max.bytes": "1700",
}
FOUND = RaftSettings(
    election_timeout_ms=11,
    election_backoff_max_ms=12,
    fetch_timeout_ms=2000,
    request_timeout_ms=14,
    retry_backoff_ms=15,
    fetch_max_wait_ms=500,
    fetch_max_bytes=1600,
    fetch_snapshot_max_bytes=1700,
    auto_join=False,
    leases=False,
)


@pytest.mark.parametrize(
    ("key", "text", "changes"),
    [
        ("controller.quorum.election.timeout.ms", "0", {"election_timeout_ms": 1}),
        ("controller.quorum.election.timeout.ms", "2", {"election_timeout_ms": 2}),
        ("controller.quorum.election.backoff.max.ms", "0", {"election_backoff_max_ms": 1}),
        ("controller.quorum.election.backoff.max.ms", "2", {"election_backoff_max_ms": 2}),
        ("controller.quorum.request.timeout.ms", "0", {"request_timeout_ms": 1}),
        ("controller.quorum.request.timeout.ms", "2", {"request_timeout_ms": 2}),
        ("controller.quorum.retry.backoff.ms", "0", {"retry_backoff_ms": 0}),
        ("controller.quorum.fetch.timeout.ms", "0", {"fetch_timeout_ms": 2, "fetch_max_wait_ms": 1}),
        ("controller.quorum.fetch.timeout.ms", "3", {"fetch_timeout_ms": 3, "fetch_max_wait_ms": 1}),
        ("controller.quorum.fetch.timeout.ms", "900", {"fetch_timeout_ms": 900, "fetch_max_wait_ms": 450}),
        ("controller.quorum.fetch.timeout.ms", "1002", {"fetch_timeout_ms": 1002, "fetch_max_wait_ms": 500}),
        ("controller.quorum.auto.join.enable", "true", {"auto_join": True}),
        ("leader.lease.on.quorum.loss", "refuse", {"leases": True}),
    ],
)
def test_each_key(key: str, text: str, changes: dict[str, int]) -> None:
    assert raft_settings(BrokerConfig(GIVEN)) == FOUND
    assert raft_settings(BrokerConfig(GIVEN | {key: text})) == FOUND.replace(**changes)
