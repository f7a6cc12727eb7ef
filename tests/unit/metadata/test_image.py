from contextlib import suppress
from uuid import UUID

import pytest

from penstock.metadata.image import _APPLY, ClusterImage
from penstock.metadata.record_frames import RECORD_CLASSES, UnsupportedMetadataError
from penstock.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NodeEndpoint,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    ZkMigrationStateRecord,
)
from penstock.metadata.resources import ResourceType

FLIGHTS = UUID(int=1)
DELAYS = UUID(int=2)


def image_of(*records: MetadataRecord) -> ClusterImage:
    image = ClusterImage("cluster")
    for record in records:
        image.apply(record)
    return image


def partition(topic_id: UUID, index: int, *replicas: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[UUID(int=9)] * len(replicas),
    )


BROKER = RegisterBrokerRecord(
    broker_id=1,
    broker_epoch=4,
    incarnation_id=UUID(int=5),
    rack=None,
    end_points=[NodeEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092)],
)

LIFE: list[MetadataRecord] = [
    FeatureLevelRecord(name="metadata.version", feature_level=25),
    RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=5)),
    BROKER,
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=-1),
    TopicRecord(name="flights", topic_id=FLIGHTS),
    partition(FLIGHTS, 0, 1),
    partition(FLIGHTS, 1, 1),
    ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="1000"),
    ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="2000"),
    TopicRecord(name="delays.by_hour", topic_id=DELAYS),
    partition(DELAYS, 0, 1),
    PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, leader=-1, isr=[]),
    ProducerIdsRecord(broker_id=1, broker_epoch=4, next_producer_id=2000),
    NoOpRecord(),
]


def test_a_topic_is_found_by_name_and_by_id_and_goes_with_all_that_it_had() -> None:
    image = image_of(*LIFE)
    assert image.topics["flights"] is image.topics_by_id[FLIGHTS]
    assert list(image.topics["flights"].partitions) == [0, 1]
    assert image.config_of(ResourceType.TOPIC, "flights") == {"retention.ms": "1000"}
    image.apply(RemoveTopicRecord(topic_id=FLIGHTS))
    assert "flights" not in image.topics
    assert FLIGHTS not in image.topics_by_id
    assert image.config_of(ResourceType.TOPIC, "flights") == {}


def test_a_change_leaves_what_it_does_not_name_and_counts_epochs() -> None:
    image = image_of(*LIFE)
    before = image.topics["delays.by_hour"].partitions[0]
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=DELAYS, isr=[1]))
    after = image.topics["delays.by_hour"].partitions[0]
    assert after == before._replace(partition_epoch=1)
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=DELAYS, leader=1))
    assert image.topics["delays.by_hour"].partitions[0] == before._replace(partition_epoch=2, leader_epoch=1)
    assert before.partition_epoch == 0, "what was handed out before does not change"


def test_an_empty_isr_is_a_change_and_an_unset_one_is_none() -> None:
    partition = image_of(*LIFE).topics["flights"].partitions[0]
    assert (partition.leader, partition.isr, partition.replicas) == (-1, (), (1,))


@pytest.mark.parametrize(
    ("record", "fenced"),
    [
        (BrokerRegistrationChangeRecord(broker_id=1, fenced=-1), False),
        (BrokerRegistrationChangeRecord(broker_id=1, fenced=1), True),
        (BrokerRegistrationChangeRecord(broker_id=1, fenced=0), True),
        (UnfenceBrokerRecord(id=1, epoch=4), False),
        (FenceBrokerRecord(id=1, epoch=4), True),
    ],
)
def test_fencing(record: MetadataRecord, fenced: bool) -> None:
    broker = image_of(BROKER, record).brokers[1]
    assert broker.fenced is fenced
    assert broker.active is not fenced
    assert broker.endpoint("PLAINTEXT") is not None
    assert broker.endpoint("SSL") is None


def test_a_broker_on_its_way_out_is_not_active_and_registering_anew_brings_it_back() -> None:
    change = BrokerRegistrationChangeRecord(broker_id=1, fenced=-1, in_controlled_shutdown=1, log_dirs=[UUID(int=7)])
    image = image_of(BROKER, change)
    assert not image.brokers[1].active
    assert image.brokers[1].directories == (UUID(int=7),)
    image.apply(BROKER.replace(broker_epoch=8, fenced=False))
    assert image.brokers[1].active
    assert image.brokers[1].epoch == 8
    image.apply(UnregisterBrokerRecord(broker_id=1, broker_epoch=8))
    assert image.brokers == {}


def test_configs_and_features_are_taken_back_by_an_empty_value() -> None:
    image = image_of(*LIFE)
    image.apply(ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=None))
    image.apply(ConfigRecord(resource_type=2, resource_name="nothing", name="never.set", value=None))
    image.apply(FeatureLevelRecord(name="group.version", feature_level=1))
    image.apply(FeatureLevelRecord(name="group.version", feature_level=0))
    assert [resource.name for resource in image.configs] == ["flights"]
    assert image.features == {"metadata.version": 25}


def test_names_that_metrics_cannot_tell_apart_are_remembered_while_they_live() -> None:
    image = image_of(*LIFE)
    assert list(image.colliding_names) == ["delays_by_hour"]
    image.apply(RemoveTopicRecord(topic_id=DELAYS))
    assert image.colliding_names == {}


def test_equal_lists_of_replicas_are_one_object() -> None:
    one, two = image_of(*LIFE).topics["flights"].partitions.values()
    assert one.replicas is two.replicas
    assert two.replicas is two.isr
    assert one.directories is two.directories


def test_a_snapshot_makes_an_equal_image() -> None:
    image = image_of(*LIFE)
    assert image_of(*image.records()) == image
    assert image != image_of(*LIFE[:-3])
    assert (image == LIFE) is False
    assert "2 partitions" in repr(image.topics["flights"])


def test_a_copy_is_equal_and_goes_its_own_way() -> None:
    image = image_of(*LIFE)
    records = list(image.records())
    copy = image.copy()
    assert copy == image
    changes: list[MetadataRecord] = [
        RemoveTopicRecord(topic_id=DELAYS),
        partition(FLIGHTS, 2, 1),
        PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, leader=1),
        ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value=None),
        ConfigRecord(resource_type=4, resource_name="", name="num.io.threads", value="3"),
        TopicRecord(name="delays_by.hour", topic_id=UUID(int=3)),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=4),
        RegisterControllerRecord(controller_id=2),
        FeatureLevelRecord(name="metadata.version", feature_level=26),
        ProducerIdsRecord(broker_id=1, next_producer_id=9000),
    ]
    for record in changes:
        before = copy.copy()
        copy.apply(record)
        assert copy != before, record
    assert list(image.records()) == records
    assert list(image.colliding_names["delays_by_hour"]) == ["delays.by_hour"]


def test_who_leads_and_how_far_it_was_applied_is_no_state_of_the_records() -> None:
    image = image_of(*LIFE)
    image.elected(1, 7)
    image.applied_to(13)
    assert (image.controller_id, image.controller_epoch, image.offset) == (1, 7, 13)
    assert image == image_of(*LIFE)


def test_a_topic_that_images_share_is_changed_in_one_of_them_only() -> None:
    image = image_of(*LIFE)
    copy = image.copy()
    assert copy.topics["flights"] is image.topics["flights"]
    copy.apply(partition(FLIGHTS, 2, 1))
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, leader=1))
    assert len(image.topics["flights"].partitions) == 2
    assert copy.topics["flights"].partitions[0].leader == -1
    for either in (image, copy):
        assert either.topics["flights"] is either.topics_by_id[FLIGHTS]


def test_the_last_block_of_producer_ids_is_in_a_snapshot_with_its_broker() -> None:
    (record,) = [record for record in image_of(*LIFE).records() if isinstance(record, ProducerIdsRecord)]
    assert record == ProducerIdsRecord(broker_id=1, broker_epoch=4, next_producer_id=2000)


def test_the_checksum_goes_by_what_is_there_and_not_by_the_way_it_came() -> None:
    image = image_of(*LIFE)
    assert image.checksum() == image_of(*image.records()).checksum() == image.copy().checksum()
    backwards = ClusterImage("cluster")
    records = list(image.records())
    for record in [r for r in records if not isinstance(r, PartitionRecord)][::-1]:
        backwards.apply(record)
    for record in [r for r in records if isinstance(r, PartitionRecord)][::-1]:
        backwards.apply(record)
    assert backwards.checksum() == image.checksum()
    for record in (
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=2000),
        RemoveTopicRecord(topic_id=DELAYS),
    ):
        changed = image.copy()
        changed.apply(record)
        assert changed.checksum() != image.checksum()


def test_an_image_can_take_the_place_of_another() -> None:
    image, other = image_of(*LIFE), image_of(*LIFE[:5])
    other.applied_to(77)
    image.become(other)
    assert image == image_of(*LIFE[:5])
    assert image.offset == 77
    image.apply(partition(FLIGHTS, 0, 1))
    assert image.index.in_sync(1) == {"flights": 1}


def test_unclean_elections_are_counted_and_a_snapshot_takes_none_away() -> None:
    image = image_of(*LIFE)
    unclean = PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, leader=1, isr=[1], leader_recovery_state=1)
    image.apply(unclean)
    image.apply(unclean)  # the same leader once more
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, leader=-1))
    image.apply(PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, leader=1, leader_recovery_state=0))
    assert image.unclean_elections == 1
    copied = image.copy()
    copied.apply(PartitionChangeRecord(partition_id=1, topic_id=FLIGHTS, leader=2, leader_recovery_state=1))
    image.become(copied)
    assert image.unclean_elections == 2
    image.become(image_of(*LIFE))
    assert image.unclean_elections == 2


def test_every_record_of_the_log_can_be_applied_or_frames_a_transaction() -> None:
    framing: set[type[MetadataRecord]] = {BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord}
    for cls in set(RECORD_CLASSES.values()) - framing:
        with suppress(KeyError, UnsupportedMetadataError):  # the thing that it is about is missing
            ClusterImage().apply(cls())
    assert set(RECORD_CLASSES.values()) - framing == set(_APPLY)


def test_eligible_leaders_are_cleared_for_one_topic_or_for_all() -> None:
    eligible = PartitionChangeRecord(partition_id=0, topic_id=FLIGHTS, eligible_leader_replicas=[2], last_known_elr=[3])
    image = image_of(*LIFE, eligible, eligible.replace(topic_id=DELAYS))
    before = dict(image.topics["flights"].partitions)
    image.apply(ClearElrRecord(topic_name="flights"))
    cleared = dict(image.topics["flights"].partitions)
    assert cleared[0] == before[0]._replace(
        eligible_leader_replicas=(), last_known_elr=(), partition_epoch=before[0].partition_epoch + 1
    )
    assert cleared[1] == before[1], "it had none"
    assert image.topics["delays.by_hour"].partitions[0].eligible_leader_replicas == (2,)
    image.apply(ClearElrRecord())
    assert not image.topics["delays.by_hour"].partitions[0].eligible_leader_replicas
    assert image.topics["flights"].partitions == cleared


def test_a_controller_that_is_gone_for_good_is_forgotten_and_a_move_from_zookeeper_means_nothing() -> None:
    image = image_of(*LIFE, ZkMigrationStateRecord(zk_migration_state=3))
    assert image == image_of(*LIFE)
    image.apply(UnregisterControllerRecord(controller_id=1))
    assert image.controllers == {}


def test_cordoned_directories_are_kept() -> None:
    image = image_of(BROKER)
    assert image.brokers[1].cordoned_directories is None
    image.apply(BrokerRegistrationChangeRecord(broker_id=1, cordoned_log_dirs=[UUID(int=7)]))
    image.apply(BrokerRegistrationChangeRecord(broker_id=1, fenced=-1))
    assert image.brokers[1].cordoned_directories == (UUID(int=7),)
    assert image_of(*image.records()) == image


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            FeatureLevelRecord(name="metadata.version", feature_level=99),
            "a FeatureLevelRecord sets metadata.version to the unknown level 99: this release of Penstock knows "
            "metadata.version 7 (3.3-IV3) to 33 (4.4-IV2)",
        ),
        (
            ConfigRecord(resource_type=77, resource_name="x", name="y", value="z"),
            "a ConfigRecord is about a resource of the unknown type 77: this release of Penstock knows "
            "metadata.version 7 (3.3-IV3) to 33 (4.4-IV2), and the cluster is at 25 (4.0-IV3)",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_in_one_sentence(record: MetadataRecord, sentence: str) -> None:
    image = image_of(*LIFE)
    with pytest.raises(UnsupportedMetadataError) as refused:
        image.apply(record)
    assert str(refused.value) == sentence
    assert image == image_of(*LIFE)
