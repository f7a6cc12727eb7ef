"""What is set for a share group: each key counts, and one that nobody has set is as its definition says."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.group import GROUP_CONFIGS
from penstock.metadata.features import SHARE_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.node.sharing.group_settings import SINCE, GroupSettings, OfGroup

OTHERS = {
    "errors.deadletterqueue.copy.record.enable": "true",
    "errors.deadletterqueue.topic.name": "letters",
    "share.auto.offset.reset": "earliest",
    "share.deadletter.max.rate": "7",
    "share.delivery.count.durable": "true",
    "share.delivery.count.limit": "7",
    "share.isolation.level": "read_committed",
    "share.ordering": "key",
    "share.partition.max.record.locks": "700",
    "share.record.lock.duration.ms": "17000",
    "share.renew.acknowledge.enable": "false",
    "share.retry.backoff.max.ms": "700",
    "share.retry.backoff.ms": "7",
}
OF_THE_COORDINATOR = (
    "share.assignment.interval.ms",
    "share.assignor.offload.enable",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
)


def settings(**said: str) -> OfGroup:
    image = ClusterImage()
    image.features[SHARE_VERSION] = SINCE
    if said:
        image.configs[ConfigResource(ResourceType.GROUP, "g")] = said
    return GroupSettings(BrokerConfig.embedded({}), image).of("g")


def test_no_key_is_forgotten() -> None:
    named = {key for key in GROUP_CONFIGS if key.startswith(("share.", "errors."))}
    assert named == {*OTHERS, *OF_THE_COORDINATOR}


@pytest.mark.parametrize("key", OTHERS)
def test_a_key_that_nobody_has_set_is_its_default_and_one_that_is_set_counts(key: str) -> None:
    default = GROUP_CONFIGS[key].default
    assert default is not None
    assert settings(**{key: default}) == settings()
    assert settings(**{key: OTHERS[key]}) != settings()
