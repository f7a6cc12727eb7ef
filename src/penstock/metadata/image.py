"""The state of the whole cluster, as the records of the metadata log make it.

`ClusterImage.apply(record)` is the only mutation: active controller, standbys and brokers run the same code over the
same records, in the log's order. Its cost depends on the record alone, never on the size of the cluster. Code that
needs the changes gets the records themselves. What an image hands out (`BrokerImage`, `PartitionImage`) is immutable,
so it may be kept; a changed partition is a new object. A topic is not to be kept: two images share it until one of them
changes it, and then that image has another one.

`ClusterImage.records()` goes the other way: the records that make an equal image from an empty one (a snapshot).
No record tells the active controller, or the offset up to which the log was applied: the log's owner notes it with
`elected` and `applied_to`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

from penstock.metadata.brokers import (
    BrokerImage,
    ControllerImage,
    Endpoint,
    broker_changed,
    broker_from,
    broker_record,
    controller_from,
    controller_record,
)
from penstock.metadata.features import METADATA_VERSION, METADATA_VERSION_NAMES, NEWEST_METADATA_VERSION
from penstock.metadata.partition_index import PartitionIndex
from penstock.metadata.record_frames import UnsupportedMetadataError, encode_record, has_record, layout_at
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
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
from penstock.metadata.replication_mode import STORAGE_GROUP, storage_group_in
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.security import SECURITY_RECORDS, SecurityImage
from penstock.metadata.topic_names import metric_name
from penstock.metadata.topics import (
    PartitionImage,
    Sharing,
    TopicImage,
    is_online,
    is_unclean_election,
    partition_changed,
    partition_from,
    partition_record,
)
from penstock.protocol.internal_topics import STORAGE_GROUPS

__all__ = [
    "NOBODY",
    "BrokerImage",
    "ClusterImage",
    "ConfigResource",
    "ControllerImage",
    "Endpoint",
    "PartitionImage",
    "ResourceType",
    "TopicImage",
]

NOBODY = -1


class ClusterImage:
    """Read its fields freely; only `apply` changes them."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.controller_id = NOBODY
        self.controller_epoch = 0
        self.offset = -1
        """-1 before the first record."""
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[UUID, TopicImage] = {}
        self.colliding_names: dict[str, dict[str, None]] = {}
        """Topics by the name that they share if '.' and '_' are the same; only names that have one of them."""
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.client_metrics: dict[str, dict[str, str]] = {}
        """Of `configs` those of client metrics, by name: brokers look at them at each request about these."""
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.producer_ids_broker = NOBODY
        """The broker that the last block of producer ids went to, and its epoch then."""
        self.producer_ids_broker_epoch = -1
        self.unclean_elections = 0
        """Of partitions, since this image began."""
        self.security = SecurityImage()
        self.index = PartitionIndex()
        """It follows from the rest."""
        self.gone_names: dict[UUID, str] | None = None
        """Of topics that were removed since the image's owner put an empty one here, by id; None where nobody asks."""
        self._topics_of_groups: dict[int, dict[UUID, None]] = {}
        """It follows from the topics' configs."""
        self._sharing = Sharing()
        self._own_topics: dict[UUID, None] | None = None
        """The topics that no other image has; None if all are."""

    def apply(self, record: MetadataRecord) -> None:
        """A record about an object that does not exist is our own fault. Raises UnsupportedMetadataError for records
        that cannot be kept. `MetadataTransaction` takes the records that begin or end a transaction.
        """
        _APPLY[type(record)](self, record)

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, NEWEST_METADATA_VERSION)

    def put_partition(self, topic_id: UUID, index: int, partition: PartitionImage) -> None:
        """It has the effect of a PartitionRecord."""
        topic = self._own_topic(topic_id)
        before = topic.partitions.get(index)
        topic.partitions[index] = partition
        self.index.changed(topic.name, index, before, partition, by_consensus=topic.by_consensus)

    def topics_of_storage_group(self, number: int) -> Iterator[TopicImage]:
        """It takes time in proportion to these topics alone."""
        return (self.topics_by_id[topic_id] for topic_id in self._topics_of_groups.get(number, ()))

    @property
    def storage_groups(self) -> Mapping[int, PartitionImage]:
        topic = self.topics.get(STORAGE_GROUPS)
        return {} if topic is None else topic.partitions

    def is_served(self, partition: PartitionImage, broker_id: int) -> bool:
        """The broker is active, and the directory of its replica is not offline."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.active and is_online(partition.directory_of(broker_id), broker.directories)

    def elected(self, controller_id: int, controller_epoch: int) -> None:
        """`NOBODY` while the leader of the metadata quorum is not known."""
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch

    def applied_to(self, offset: int) -> None:
        self.offset = offset

    def records(self) -> Iterator[MetadataRecord]:
        """In the order in which they can be applied; only records that the cluster's metadata.version has."""
        level = self.metadata_version
        return (record for record in self._all_records() if has_record(level, record))

    def _all_records(self) -> Iterator[MetadataRecord]:
        for name, level in self.features.items():
            yield FeatureLevelRecord(name=name, feature_level=level)
        yield from map(controller_record, self.controllers.values())
        yield from map(broker_record, self.brokers.values())
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for index, partition in topic.partitions.items():
                yield partition_record(topic.topic_id, index, partition)
        for resource, settings in self.configs.items():
            for key, value in settings.items():
                yield ConfigRecord(
                    resource_type=resource.resource_type, resource_name=resource.name, name=key, value=value
                )
        if self.next_producer_id:
            yield ProducerIdsRecord(
                broker_id=self.producer_ids_broker,
                broker_epoch=self.producer_ids_broker_epoch,
                next_producer_id=self.next_producer_id,
            )
        yield from self.security.records()

    def checksum(self) -> str:
        """Hexadecimal digits: equal on all nodes at the same offset, whatever the order of records or a snapshot."""
        from hashlib import sha256  # with it comes OpenSSL, and few nodes are ever asked

        digest = sha256(self.cluster_id.encode())
        level = self.metadata_version
        for frame in sorted(encode_record(record, layout_at(level, type(record))) for record in self.records()):
            digest.update(len(frame).to_bytes(4, "big"))
            digest.update(frame)
        return digest.hexdigest()

    def copy(self) -> "ClusterImage":
        """Both share what neither of them changes, so that a copy costs little: a controller that takes over has to
        make one.
        """
        other = ClusterImage(self.cluster_id)
        other.elected(self.controller_id, self.controller_epoch)
        other.applied_to(self.offset)
        for name in _SHALLOW:
            setattr(other, name, dict(getattr(self, name)))
        other.next_producer_id = self.next_producer_id
        other.producer_ids_broker = self.producer_ids_broker
        other.producer_ids_broker_epoch = self.producer_ids_broker_epoch
        other.unclean_elections = self.unclean_elections
        other.security = self.security.copy()
        other.index = self.index.copy()
        other._sharing = self._sharing
        self._own_topics, other._own_topics = {}, {}
        return other

    def become(self, other: "ClusterImage") -> None:
        """`other` is given up: users of this image see the new state from now on."""
        other.unclean_elections = max(self.unclean_elections, other.unclean_elections)  # a snapshot tells of none
        for name, value in vars(other).items():
            setattr(self, name, value)

    def config_of(self, resource_type: ResourceType, name: str) -> dict[str, str]:
        """An empty name of a broker is the default for all brokers."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def __eq__(self, other: object) -> bool:
        """History does not matter."""
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _STATE)

    __hash__ = None  # type: ignore[assignment]  # it changes with each record

    # One method per record.

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.name == METADATA_VERSION and record.feature_level not in METADATA_VERSION_NAMES:
            raise UnsupportedMetadataError(
                f"a FeatureLevelRecord sets metadata.version to the unknown level {record.feature_level}"
            )
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = broker_from(record)

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        del self.brokers[record.broker_id]

    def _change_broker(self, record: BrokerRegistrationChangeRecord) -> None:
        self.brokers[record.broker_id] = broker_changed(self.brokers[record.broker_id], record)

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._change_broker(BrokerRegistrationChangeRecord(broker_id=record.id, fenced=1))

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._change_broker(BrokerRegistrationChangeRecord(broker_id=record.id, fenced=-1))

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = controller_from(record)

    def _unregister_controller(self, record: UnregisterControllerRecord) -> None:
        del self.controllers[record.controller_id]

    def _add_topic(self, record: TopicRecord) -> None:
        topic = TopicImage(record.name, record.topic_id)
        self._put_topic(topic)
        if "." in topic.name or "_" in topic.name:
            like = metric_name(topic.name)
            self.colliding_names[like] = {**self.colliding_names.get(like, {}), topic.name: None}

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        del self.topics[topic.name]
        if self.gone_names is not None:
            self.gone_names[topic.topic_id] = topic.name
        if self._own_topics is not None:
            self._own_topics.pop(topic.topic_id, None)
        self.index.removed(topic.name)
        self._topic_leaves_group(topic)
        self.configs.pop(ConfigResource(ResourceType.TOPIC, topic.name), None)
        like = metric_name(topic.name)
        same = {name: None for name in self.colliding_names.pop(like, {}) if name != topic.name}
        if same:
            self.colliding_names[like] = same

    def _add_partition(self, record: PartitionRecord) -> None:
        self.put_partition(record.topic_id, record.partition_id, partition_from(record, self._sharing))

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._own_topic(record.topic_id)
        before = topic.partitions[record.partition_id]
        partition = partition_changed(before, record, self._sharing)
        topic.partitions[record.partition_id] = partition
        self.unclean_elections += is_unclean_election(before, partition)
        self.index.changed(topic.name, record.partition_id, before, partition, by_consensus=topic.by_consensus)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """The only record whose cost grows with the cluster: without a name it is about all topics."""
        for topic in [self.topics[record.topic_name]] if record.topic_name else list(self.topics.values()):
            for index, partition in list(topic.partitions.items()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    self._change_partition(
                        PartitionChangeRecord(
                            partition_id=index, topic_id=topic.topic_id, eligible_leader_replicas=[], last_known_elr=[]
                        )
                    )

    def _own_topic(self, topic_id: UUID) -> TopicImage:
        """A shared topic is copied first."""
        topic = self.topics_by_id[topic_id]
        if self._own_topics is not None and topic_id not in self._own_topics:
            topic = topic.copy()
            self._put_topic(topic)
        return topic

    def _put_topic(self, topic: TopicImage) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        if self._own_topics is not None:
            self._own_topics[topic.topic_id] = None

    def _set_config(self, record: ConfigRecord) -> None:
        if record.resource_type not in _RESOURCE_TYPES:
            raise UnsupportedMetadataError(
                f"a ConfigRecord is about a resource of the unknown type {record.resource_type}", self.metadata_version
            )
        resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
        settings = dict(self.configs.get(resource, {}))  # a new one: copies of this image may share the old one
        if record.value is not None:
            settings[record.name] = record.value
        else:
            settings.pop(record.name, None)
        if settings:
            self.configs[resource] = settings
        else:
            self.configs.pop(resource, None)
        if resource.resource_type is ResourceType.CLIENT_METRICS:
            self._set_client_metrics(resource.name, settings)
        is_topic = resource.resource_type is ResourceType.TOPIC and resource.name in self.topics
        if record.name == STORAGE_GROUP and is_topic:
            self._put_into_group(self._own_topic(self.topics[resource.name].topic_id), storage_group_in(settings))

    def _set_client_metrics(self, name: str, settings: dict[str, str]) -> None:
        if settings:
            self.client_metrics[name] = settings
        else:
            self.client_metrics.pop(name, None)

    def _put_into_group(self, topic: TopicImage, number: int | None) -> None:
        self._topic_leaves_group(topic)
        topic.storage_group = number
        if number is not None:
            self._topics_of_groups[number] = {**self._topics_of_groups.get(number, {}), topic.topic_id: None}
        self.index.removed(topic.name)
        for index, partition in topic.partitions.items():  # none but in a snapshot, where configs come last
            self.index.changed(topic.name, index, None, partition, by_consensus=topic.by_consensus)

    def _topic_leaves_group(self, topic: TopicImage) -> None:
        number = topic.storage_group
        if number is not None:
            others = {it: None for it in self._topics_of_groups.pop(number) if it != topic.topic_id}
            if others:
                self._topics_of_groups[number] = others

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id
        self.producer_ids_broker = record.broker_id
        self.producer_ids_broker_epoch = record.broker_epoch


_SHALLOW = (
    "brokers", "controllers", "topics", "topics_by_id", "colliding_names", "configs", "features", "_topics_of_groups",
    "client_metrics",
)  # fmt: skip
_STATE = (
    "cluster_id", "brokers", "controllers", "topics", "colliding_names", "configs", "features", "next_producer_id",
    "producer_ids_broker", "producer_ids_broker_epoch", "security",
)  # fmt: skip
_RESOURCE_TYPES = frozenset(ResourceType)

_APPLY: dict[type, Callable[[ClusterImage, Any], None]] = {
    FeatureLevelRecord: ClusterImage._feature_level,
    RegisterBrokerRecord: ClusterImage._register_broker,
    UnregisterBrokerRecord: ClusterImage._unregister_broker,
    BrokerRegistrationChangeRecord: ClusterImage._change_broker,
    FenceBrokerRecord: ClusterImage._fence_broker,
    UnfenceBrokerRecord: ClusterImage._unfence_broker,
    RegisterControllerRecord: ClusterImage._register_controller,
    TopicRecord: ClusterImage._add_topic,
    RemoveTopicRecord: ClusterImage._remove_topic,
    PartitionRecord: ClusterImage._add_partition,
    PartitionChangeRecord: ClusterImage._change_partition,
    ConfigRecord: ClusterImage._set_config,
    ProducerIdsRecord: ClusterImage._producer_ids,
    UnregisterControllerRecord: ClusterImage._unregister_controller,
    ClearElrRecord: ClusterImage._clear_elr,
    **dict.fromkeys((NoOpRecord, ZkMigrationStateRecord), lambda image, record: None),
    **dict.fromkeys(SECURITY_RECORDS, lambda image, record: image.security.apply(record)),
}
