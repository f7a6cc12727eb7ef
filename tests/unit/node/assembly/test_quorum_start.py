"""What a node's configuration makes of its part in the quorum."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.quorum_start import controller_settings
from penstock.node.quorum.settings import raft_settings


@pytest.mark.parametrize(("word", "leases"), [("serve", False), ("refuse", True)])
def test_leaders_of_the_quorum_hold_leases_where_brokers_refuse_without_one(word: str, leases: bool) -> None:
    config = BrokerConfig.embedded({"leader.lease.on.quorum.loss": word})
    assert raft_settings(config).leases is leases


@pytest.mark.parametrize(
    ("keys", "interval_ms"),
    [
        ({}, 300_000),
        ({"leader.balance.enable": "false"}, None),
        ({"auto.leader.rebalance.enable": "false"}, None),
        ({"leader.balance.enable": "true", "leader.imbalance.check.interval.seconds": "7"}, 7_000),
    ],
)
def test_leaders_are_balanced_unless_one_of_two_keys_says_no(keys: dict[str, str], interval_ms: int | None) -> None:
    assert controller_settings(BrokerConfig.embedded(keys)).leader_balance.interval_ms == interval_ms
