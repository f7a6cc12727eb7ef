"""What an operator decided about consensus, as the core wants it."""

from typing import Final

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.raft.settings import RaftSettings

FETCH_MAX_WAIT_MS: Final = 500
"""How long a leader of the quorum waits with the answer when there is nothing new, as Kafka's does."""


def raft_settings(config: BrokerConfig) -> RaftSettings:
    fetch_timeout_ms = max(config.controller_quorum_fetch_timeout_ms, 2)
    return RaftSettings(
        election_timeout_ms=max(config.controller_quorum_election_timeout_ms, 1),
        election_backoff_max_ms=max(config.controller_quorum_election_backoff_max_ms, 1),
        fetch_timeout_ms=fetch_timeout_ms,
        request_timeout_ms=max(config.controller_quorum_request_timeout_ms, 1),
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_wait_ms=min(FETCH_MAX_WAIT_MS, fetch_timeout_ms // 2),
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        auto_join=config.controller_quorum_auto_join_enable,
        leases=config.refuses_without_lease,
    )
