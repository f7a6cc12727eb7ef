"""A node whose file names an assignor of streams groups that nobody offers does not start, and says why."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.coordinators.groups import settings_from
from penstock.protocol.errors import ErrorCode, KafkaError


def config(assignors: str) -> BrokerConfig:
    return BrokerConfig.embedded({"log.dirs": "/nowhere", "group.streams.assignors": assignors})


@pytest.mark.parametrize(
    ("assignors", "why"), [("sticky,smooth", "assignors=smooth: no installed package offers it"), ("", "no assignor")]
)
def test_assignors_that_nobody_offers(assignors: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        settings_from(config(assignors))
    assert caught.value.code == ErrorCode.INVALID_CONFIG


def test_the_one_that_is_there() -> None:
    assert settings_from(config("sticky")).streams.assignors == ("sticky",)
