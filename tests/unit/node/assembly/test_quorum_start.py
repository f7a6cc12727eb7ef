"""What a node's configuration makes of its part in the quorum."""

from types import SimpleNamespace

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.assembly.quorum_start import QuorumParts, controller_settings
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


def test_what_looks_after_a_listener_that_was_closed_hears_of_it_where_there_is_any() -> None:
    parts, told = QuorumParts.__new__(QuorumParts), list[str]()
    parts.closed("A")
    assert not vars(parts)
    for name in ("sasl", "tls"):
        vars(parts)[name] = SimpleNamespace(closed=told.append)
    parts.closed("A")
    assert told == ["A", "A"]


def test_log_ins_are_read_again_where_there_are_any() -> None:
    parts, times = QuorumParts.__new__(QuorumParts), []
    parts.reload()
    assert "sasl" not in vars(parts), "nobody logs in so far"
    vars(parts)["sasl"] = SimpleNamespace(reload=lambda: times.append(1))
    parts.reload()
    assert len(times) == 1
