"""The state of the whole cluster, as the records of the metadata log make it.

`ClusterImage.apply(record)` is the only mutation: active controller, standbys and brokers run the same code over the
same records, in the log's order. Its cost depends on the record alone, never on how much there is. Who wants to know
what changed is given the records themselves. What an image hands out (`BrokerImage`, `PartitionImage`) is immutable, so
it may be kept; a changed partition is a new object.

`ClusterImage.records()` goes the other way: the records that make an equal image from an empty one (a snapshot).
Who the active controller is, and up to which offset the log was applied, is no record: the log's owner notes it with
`elected` and `applied_to`.
"""

from collections.abc import Callable, Iterator
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
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
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
)
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.topic_names import metric_name
from penstock.metadata.topics import (
    PartitionImage,
    Sharing,
    TopicImage,
    partition_changed,
    partition_from,
    partition_record,
)

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
    """All that is known about the cluster. Read its fields freely; only `apply` changes them."""

    def __init__(self, cluster_id: str = "") -> None:
        self.cluster_id = cluster_id
        self.controller_id = NOBODY
        self.controller_epoch = 0
        self.offset = -1
        """The offset of the last record applied; -1 before the first."""
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, ControllerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[UUID, TopicImage] = {}
        self.colliding_names: dict[str, dict[str, None]] = {}
        """The topics behind each name that '.' and '_' make the same; only names that have one of them."""
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self._sharing = Sharing()

    def apply(self, record: MetadataRecord) -> None:
        """Changes the image as `record` says. A record about something that is not there is our own fault."""
        _APPLY[type(record)](self, record)

    @staticmethod
    def knows(record: MetadataRecord) -> bool:
        """Whether `apply` takes records of this type: those of users, rights and quotas it does not keep yet."""
        return type(record) in _APPLY

    def elected(self, controller_id: int, controller_epoch: int) -> None:
        """Notes who leads the metadata quorum now; `NOBODY` while that is not known."""
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch

    def applied_to(self, offset: int) -> None:
        """Notes the offset of the last record applied."""
        self.offset = offset

    def records(self) -> Iterator[MetadataRecord]:
        """The records that make an equal image from an empty one, in the order in which they can be applied."""
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
            yield ProducerIdsRecord(broker_id=NOBODY, next_producer_id=self.next_producer_id)

    def copy(self) -> "ClusterImage":
        """An image of its own that is equal to this one; what cannot change is shared between the two."""
        other = ClusterImage(self.cluster_id)
        other.elected(self.controller_id, self.controller_epoch)
        other.applied_to(self.offset)
        other.brokers, other.controllers = dict(self.brokers), dict(self.controllers)
        for topic in self.topics.values():
            other.topics[topic.name] = other.topics_by_id[topic.topic_id] = topic.copy()
        other.colliding_names = {like: dict(names) for like, names in self.colliding_names.items()}
        other.configs = {resource: dict(settings) for resource, settings in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other._sharing = self._sharing
        return other

    def config_of(self, resource_type: ResourceType, name: str) -> dict[str, str]:
        """What was set for a resource; an empty name of a broker is the default for all brokers."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same state, however they came to it."""
        if not isinstance(other, ClusterImage):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _STATE)

    __hash__ = None  # type: ignore[assignment]  # it changes with each record

    # One method per record.

    def _feature_level(self, record: FeatureLevelRecord) -> None:
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

    def _add_topic(self, record: TopicRecord) -> None:
        topic = TopicImage(record.name, record.topic_id)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        if "." in topic.name or "_" in topic.name:
            self.colliding_names.setdefault(metric_name(topic.name), {})[topic.name] = None

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id)
        del self.topics[topic.name]
        self.configs.pop(ConfigResource(ResourceType.TOPIC, topic.name), None)
        same = self.colliding_names.get(metric_name(topic.name))
        if same is not None:
            del same[topic.name]
            if not same:
                del self.colliding_names[metric_name(topic.name)]

    def _add_partition(self, record: PartitionRecord) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        partitions[record.partition_id] = partition_from(record, self._sharing)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        before = partitions[record.partition_id]
        partitions[record.partition_id] = partition_changed(before, record, self._sharing)

    def _set_config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
        if record.value is not None:
            self.configs.setdefault(resource, {})[record.name] = record.value
            return
        settings = self.configs.get(resource)
        if settings is not None:
            settings.pop(record.name, None)
            if not settings:
                del self.configs[resource]

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def _nothing(self, record: NoOpRecord) -> None:
        pass


_STATE = (
    "cluster_id",
    "brokers",
    "controllers",
    "topics",
    "colliding_names",
    "configs",
    "features",
    "next_producer_id",
)

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
    NoOpRecord: ClusterImage._nothing,
}
