"""What is set for a share group: each key counts, and one that nobody has set is as its definition says."""

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.group import GROUP_CONFIGS
from penstock.metadata.features import SHARE_VERSION
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.node.sharing.group_settings import SINCE, GroupSettings, OfGroup
from penstock.sharing.values import ShareSettings

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


BOUNDS = {
    "share.record.lock.duration.ms": ("record_lock_duration_ms", 15_000, 60_000, 30_000),
    "share.delivery.count.limit": ("delivery_count_limit", 2, 10, 5),
    "share.partition.max.record.locks": ("partition_max_record_locks", 100, 4_000, 2_000),
}


@pytest.mark.parametrize("key", BOUNDS)
def test_what_was_set_is_brought_within_the_bounds_of_the_broker(key: str) -> None:
    name, least, most, default = BOUNDS[key]
    assert getattr(settings().partitions, name) == default
    for said, holds in [(least - 1, least), (least, least), (least + 1, least + 1), (most, most), (most + 1, most)]:
        assert getattr(settings(**{key: str(said)}).partitions, name) == holds


def test_what_is_set_is_what_holds() -> None:
    assert settings() == OfGroup(ShareSettings(retry_backoff_max_ms=60_000), reads_committed=False, begins="latest")
    assert settings(**OTHERS) == OfGroup(
        ShareSettings(
            record_lock_duration_ms=17_000,
            delivery_count_limit=7,
            partition_max_record_locks=700,
            renew_acknowledge_enable=False,
            retry_backoff_ms=7,
            retry_backoff_max_ms=700,
            ordered_by_key=True,
            delivery_count_durable=True,
            has_dead_letters=True,
            dead_letter_max_rate=7,
        ),
        reads_committed=True,
        begins="earliest",
        dead_letter_topic="letters",
        copies_dead_letters=True,
    )


@pytest.mark.parametrize(("level", "topic", "has"), [(SINCE, "t", True), (SINCE - 1, "t", False), (SINCE, "", False)])
def test_dead_letters_need_a_topic_and_the_level(level: int, topic: str, has: bool) -> None:
    image = ClusterImage()
    image.features[SHARE_VERSION] = level
    image.configs[ConfigResource(ResourceType.GROUP, "g")] = {"errors.deadletterqueue.topic.name": topic}
    assert GroupSettings(BrokerConfig.embedded({}), image).of("g").partitions.has_dead_letters is has


def test_what_was_worked_out_is_kept_until_something_else_is_set() -> None:
    image = ClusterImage()
    known, resource = GroupSettings(BrokerConfig.embedded({}), image), ConfigResource(ResourceType.GROUP, "g")
    others = known.of("g")
    assert (known.of("h") is others, len(known)) == (True, 0)
    image.configs[resource] = {"share.delivery.count.limit": "7"}
    first = known.of("g", keeps=True)
    assert (known.of("g") is first, first.partitions.delivery_count_limit, len(known)) == (True, 7, 1)
    image.features[SHARE_VERSION] = SINCE
    second = known.of("g")
    assert (second is first, known.of("g") is second) == (False, True)
    image.configs[resource] = {"share.delivery.count.limit": "8"}
    assert known.of("g").partitions.delivery_count_limit == 8
    del image.configs[resource]
    assert (known.of("g") is others, len(known)) == (True, 0)


def test_a_group_without_share_partitions_has_nothing_here() -> None:
    image = ClusterImage()
    image.configs[ConfigResource(ResourceType.GROUP, "g")] = {"share.ordering": "key"}
    settings = GroupSettings(BrokerConfig.embedded({}), image)
    assert settings.of("g") is not (found := settings.of("g")), "who asks about it as about any other"
    kept = settings.of("g", keeps=True)
    assert (settings.of("g") is kept, kept, len(settings)) == (True, found, 1)
    for _ in range(2):
        settings.forget("g")
        assert (settings.of("g"), len(settings)) == (found, 0)
