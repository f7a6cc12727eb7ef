"""The records of the metadata log, in Kafka's own layouts, so that tools written for Kafka can read the log.

Types, fields, versions and tags are those of Kafka 4.x (KIP-631 and those that came after). Access rights are in
`security_records`; `record_frames` turns records into bytes and back.
"""

from typing import ClassVar
from uuid import UUID

from penstock.protocol.schema import Message, array, field, none
from penstock.protocol.uuids import ZERO_UUID


class MetadataRecord(Message):
    """Frames name the type by `record_type`."""

    record_type: ClassVar[int]


class NodeEndpoint(Message):
    name: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    port: int = field("uint16", "0+", default=0)
    security_protocol: int = field("int16", "0+", default=0)


class NodeFeature(Message):
    """Both levels are included."""

    name: str = field("string", "0+", default="")
    min_supported_version: int = field("int16", "0+", default=0)
    max_supported_version: int = field("int16", "0+", default=0)


class RegisterBrokerRecord(MetadataRecord, versions="0-4", flexible="0+"):
    """The broker stays fenced until it has caught up."""

    record_type = 0

    broker_id: int = field("int32", "0+", default=0)
    is_migrating_zk_broker: bool = field("bool", "2+", default=False)
    incarnation_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    broker_epoch: int = field("int64", "0+", default=0)
    end_points: list[NodeEndpoint] = array(NodeEndpoint, "0+", default_factory=list)
    features: list[NodeFeature] = array(NodeFeature, "0+", default_factory=list)
    rack: str | None = field("string", "0+", nullable="0+", default="")
    fenced: bool = field("bool", "0+", default=True)
    in_controlled_shutdown: bool = field("bool", "1+", default=False)
    log_dirs: list[UUID] = array("uuid", "3+", tag=0, default_factory=list)
    cordoned_log_dirs: list[UUID] | None = array("uuid", "4+", nullable="4+", tag=1, default_factory=none)


class UnregisterBrokerRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 1

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=0)


class TopicRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 2

    name: str = field("string", "0+", default="")
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)


class PartitionRecord(MetadataRecord, versions="0-2", flexible="0+"):
    record_type = 3

    partition_id: int = field("int32", "0+", default=-1)
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    replicas: list[int] = array("int32", "0+", default_factory=list)
    isr: list[int] = array("int32", "0+", default_factory=list)
    removing_replicas: list[int] = array("int32", "0+", default_factory=list)
    adding_replicas: list[int] = array("int32", "0+", default_factory=list)
    leader: int = field("int32", "0+", default=-1)
    leader_recovery_state: int = field("int8", "0+", tag=0, default=0)
    leader_epoch: int = field("int32", "0+", default=-1)
    partition_epoch: int = field("int32", "0+", default=-1)
    directories: list[UUID] = array("uuid", "1+", default_factory=list)
    eligible_leader_replicas: list[int] | None = array("int32", "2+", nullable="2+", tag=1, default_factory=none)
    last_known_elr: list[int] | None = array("int32", "2+", nullable="2+", tag=2, default_factory=none)


class ConfigRecord(MetadataRecord, versions="0", flexible="0+"):
    """Without a value the config goes back to its default."""

    record_type = 4

    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    name: str = field("string", "0+", default="")
    value: str | None = field("string", "0+", nullable="0+", default="")


class PartitionChangeRecord(MetadataRecord, versions="0-2", flexible="0+"):
    """Fields that are left out stay as they were. A leader of -2 means no change."""

    record_type = 5

    partition_id: int = field("int32", "0+", default=-1)
    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    isr: list[int] | None = array("int32", "0+", nullable="0+", tag=0, default_factory=none)
    leader: int = field("int32", "0+", tag=1, default=-2)
    replicas: list[int] | None = array("int32", "0+", nullable="0+", tag=2, default_factory=none)
    removing_replicas: list[int] | None = array("int32", "0+", nullable="0+", tag=3, default_factory=none)
    adding_replicas: list[int] | None = array("int32", "0+", nullable="0+", tag=4, default_factory=none)
    leader_recovery_state: int = field("int8", "0+", tag=5, default=-1)
    directories: list[UUID] | None = array("uuid", "1+", nullable="1+", tag=8, default_factory=none)
    eligible_leader_replicas: list[int] | None = array("int32", "2+", nullable="2+", tag=6, default_factory=none)
    last_known_elr: list[int] | None = array("int32", "2+", nullable="2+", tag=7, default_factory=none)


class FenceBrokerRecord(MetadataRecord, versions="0", flexible="0+"):
    """Kafka's older form; BrokerRegistrationChangeRecord now."""

    record_type = 7

    id: int = field("int32", "0+", default=0)
    epoch: int = field("int64", "0+", default=0)


class UnfenceBrokerRecord(MetadataRecord, versions="0", flexible="0+"):
    """Kafka's older form; BrokerRegistrationChangeRecord now."""

    record_type = 8

    id: int = field("int32", "0+", default=0)
    epoch: int = field("int64", "0+", default=0)


class RemoveTopicRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 9

    topic_id: UUID = field("uuid", "0+", default=ZERO_UUID)


class FeatureLevelRecord(MetadataRecord, versions="0", flexible="0+"):
    """Level 0 switches the feature off in the whole cluster."""

    record_type = 12

    name: str = field("string", "0+", default="")
    feature_level: int = field("int16", "0+", default=0)


class ProducerIdsRecord(MetadataRecord, versions="0", flexible="0+"):
    """All producer ids below `next_producer_id` were handed out, the last block to `broker_id`."""

    record_type = 15

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=-1)
    next_producer_id: int = field("int64", "0+", default=0)


class BrokerRegistrationChangeRecord(MetadataRecord, versions="0-3", flexible="0+"):
    """`fenced` is 1 to fence, -1 to unfence, 0 to leave it (KIP-841)."""

    record_type = 17

    broker_id: int = field("int32", "0+", default=0)
    broker_epoch: int = field("int64", "0+", default=0)
    fenced: int = field("int8", "0+", tag=0, default=0)
    in_controlled_shutdown: int = field("int8", "1+", tag=1, default=0)
    log_dirs: list[UUID] = array("uuid", "2+", tag=2, default_factory=list)
    cordoned_log_dirs: list[UUID] | None = array("uuid", "3+", nullable="3+", tag=3, default_factory=none)


class NoOpRecord(MetadataRecord, versions="0", flexible="0+"):
    """It moves the log's end so that followers see a living leader (KIP-835)."""

    record_type = 20


class ZkMigrationStateRecord(MetadataRecord, versions="0", flexible="0+"):
    """How far a move away from ZooKeeper was; from Kafka 4 on it is passed over."""

    record_type = 21

    zk_migration_state: int = field("int8", "0+", default=0)


class BeginTransactionRecord(MetadataRecord, versions="0", flexible="0+"):
    """The records up to the end of this transaction hold together or not at all (KIP-868)."""

    record_type = 23

    name: str | None = field("string", "0+", nullable="0+", tag=0, default=None)


class EndTransactionRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 24


class AbortTransactionRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 25

    reason: str | None = field("string", "0+", nullable="0+", tag=0, default=None)


class RegisterControllerRecord(MetadataRecord, versions="0", flexible="0+"):
    """See KIP-919."""

    record_type = 27

    controller_id: int = field("int32", "0+", default=0)
    incarnation_id: UUID = field("uuid", "0+", default=ZERO_UUID)
    zk_migration_ready: bool = field("bool", "0+", default=False)
    end_points: list[NodeEndpoint] = array(NodeEndpoint, "0+", default_factory=list)
    features: list[NodeFeature] = array(NodeFeature, "0+", default_factory=list)


class ClearElrRecord(MetadataRecord, versions="0", flexible="0+"):
    """The eligible leaders of a topic, or of all topics if it has no name, count no more (KIP-966)."""

    record_type = 28

    topic_name: str = field("string", "0+", default="")


class UnregisterControllerRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 29

    controller_id: int = field("int32", "0+", default=0)
