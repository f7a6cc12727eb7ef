"""What a client knows of a cluster: brokers, topics, who leads which partition. Values, made of Metadata responses."""

import uuid
from collections.abc import Iterable, Mapping, Sequence

from penstock.client.values import EndpointTold, LeaderTold, Place, TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from penstock.protocol.value import Value, fresh

NO_NODE = -1


class BrokerMetadata(Value):
    node_id: int
    address: Address
    rack: str | None = None


class PartitionMetadata(Value):
    """`leader` is -1 while there is none."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]
    error: ErrorCode

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TopicMetadata(Value):
    """A topic with its partitions by number, or the error that stands for it."""

    name: str
    topic_id: uuid.UUID
    is_internal: bool
    error: ErrorCode
    partitions: dict[int, PartitionMetadata]

    def at_least(self, known: "TopicMetadata | None") -> "TopicMetadata":
        """The topic with what is known of it already where that is of a later leader epoch."""
        if known is None or known.topic_id != self.topic_id:
            return self
        later = {
            index: row
            for index, row in known.partitions.items()
            if index in self.partitions and row.leader_epoch > self.partitions[index].leader_epoch >= 0
        }
        return self.replace(partitions=self.partitions | later) if later else self


class ClusterMetadata(Value):
    """What one Metadata response told, or several of them put together."""

    cluster_id: str | None = None
    controller_id: int = NO_NODE
    brokers: dict[int, BrokerMetadata] = fresh(dict)
    topics: dict[str, TopicMetadata] = fresh(dict)

    def leader(self, partition: tuple[str, int]) -> PartitionMetadata | None:
        """The partition's row, if it has a known leader."""
        row = self._row(partition)
        return row if row is not None and row.leader in self.brokers else None

    def led(self, partition: tuple[str, int]) -> PartitionMetadata:
        """The partition's row; a KafkaError says why it has no leader that can be asked."""
        error = unavailable(self, partition)
        if error is not None:
            raise error
        return self.topics[partition[0]].partitions[partition[1]]

    def _row(self, partition: tuple[str, int]) -> PartitionMetadata | None:
        topic = self.topics.get(partition[0])
        return topic.partitions.get(partition[1]) if topic else None

    def partition_counts(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self.topics.items() if topic.partitions}

    def with_leaders(self, leaders: Mapping[Place, LeaderTold], endpoints: Iterable[EndpointTold]) -> "ClusterMetadata":
        """These facts and the leaders that a broker names for partitions that it does not lead (KIP-951).

        A leader of no later epoch than the known one, or without an address, is passed over.
        """
        told = {one.node_id: BrokerMetadata(one.node_id, Address(one.host, one.port), one.rack) for one in endpoints}
        brokers, topics = self.brokers | told, dict(self.topics)
        for partition, leader in leaders.items():
            row = self._row(partition)
            if row is not None and leader.leader_epoch > row.leader_epoch and leader.leader_id in brokers:
                name, number = partition
                topic = topics[name]
                moved = row.replace(leader=leader.leader_id, leader_epoch=leader.leader_epoch)
                topics[name] = topic.replace(partitions=topic.partitions | {number: moved})
        return self.replace(brokers=brokers, topics=topics)

    def without_nodes(self) -> "ClusterMetadata":
        """Of the topics only what is asked again as soon as a broker is known."""
        return ClusterMetadata(topics=self.topics)

    def updated(self, response: MetadataResponse, *, all_topics: bool) -> "ClusterMetadata":
        """These facts and those of a newer response, which replaces all topics or only those that it names; those that
        were not there the last time are forgotten.

        A broker that is cut off tells of leaders of long ago: what is known of a later epoch stays (KIP-320).
        """
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics = {} if all_topics else {name: topic for name, topic in self.topics.items() if topic.error != gone}
        for item in response.topics:
            topic = topic_from(item)
            if topic is not None:
                topics[topic.name] = topic.at_least(self.topics.get(topic.name))
        return ClusterMetadata(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers={
                item.node_id: BrokerMetadata(item.node_id, Address(item.host, item.port), item.rack)
                for item in response.brokers
            },
            topics=topics,
        )


def unavailable(metadata: ClusterMetadata, partition: tuple[str, int]) -> KafkaError | None:
    """Why this partition cannot be asked, as far as these facts tell."""
    if metadata.leader(partition) is not None:
        return None
    place = TopicPartition(*partition)
    topic = metadata.topics.get(place.topic)
    if topic is None or (topic.partitions and place.partition not in topic.partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {place} does not exist")
    if topic.error:
        return KafkaError(topic.error, f"partition {place}")
    return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {place} has no leader now")


def topic_from(item: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic) -> TopicMetadata | None:
    if item.name is None:
        return None
    rows: Sequence[MetadataResponsePartition | DescribeTopicPartitionsResponsePartition] = item.partitions
    partitions = {
        row.partition_index: PartitionMetadata(
            topic=item.name,
            partition=row.partition_index,
            leader=row.leader_id,
            leader_epoch=row.leader_epoch,
            replicas=row.replica_nodes,
            isr=row.isr_nodes,
            offline_replicas=row.offline_replicas,
            error=ErrorCode(row.error_code),
        )
        for row in sorted(rows, key=lambda row: row.partition_index)
    }
    return TopicMetadata(item.name, item.topic_id, item.is_internal, ErrorCode(item.error_code), partitions)
