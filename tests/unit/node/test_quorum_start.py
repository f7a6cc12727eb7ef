"""What a node's configuration makes of its part in the quorum."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.quorum_start import raft_settings


@pytest.mark.parametrize(("word", "leases"), [("serve", False), ("refuse", True)])
def test_leaders_of_the_quorum_hold_leases_where_brokers_refuse_without_one(word: str, leases: bool) -> None:
    config = BrokerConfig.embedded({"leader.lease.on.quorum.loss": word})
    assert raft_settings(config).leases is leases
