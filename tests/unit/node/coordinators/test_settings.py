"""Coordinators that are tried alone have the settings that a broker gives them by default."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.coordinator.group.settings import GroupSettings
from penstock.coordinator.share.settings import ShareCoordinatorSettings
from penstock.coordinator.transaction.settings import TransactionSettings
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.coordinators import groups, shares, transactions


@pytest.mark.parametrize(
    ("of_broker", "alone"),
    [
        (groups.settings_from, GroupSettings()),
        (shares.settings_from, ShareCoordinatorSettings()),
        (transactions.settings_from, TransactionSettings()),
    ],
)
def test_the_defaults_are_those_of_brokers(of_broker: Callable[[BrokerConfig], Any], alone: Any) -> None:
    assert of_broker(BrokerConfig.embedded({})) == alone
