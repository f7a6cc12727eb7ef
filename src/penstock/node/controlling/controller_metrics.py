"""What a controller says of itself: how its queue fares, and the cluster as it knows it."""

from collections.abc import Callable
from functools import partial

from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.metrics.distribution import Durations
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Registry


class QueueMetrics:
    def __init__(self, registry: Registry, queued: Callable[[], int]) -> None:
        self.failures = 0
        self.queue_time = Durations()
        self.processing_time = Durations()
        group = Group.CONTROLLER_QUEUE
        registry.add(
            Gauge(group, "EventQueueLength", "Commands that wait to be decided", queued),
            Histogram(group, "EventQueueTimeMs", "How long commands waited", lambda: self.queue_time, "milliseconds"),
            Histogram(
                group,
                "EventQueueProcessingTimeMs",
                "How long decisions took",
                lambda: self.processing_time,
                "milliseconds",
            ),
            Counter(group, "EventQueueOperationsFailedCount", "Decisions that failed", lambda: self.failures),
        )


def register_cluster(registry: Registry, image: ClusterImage, is_active: Callable[[], bool]) -> None:
    """Its cost grows with the number of partitions."""
    gauge = partial(Gauge, Group.CONTROLLER)
    registry.add(
        gauge("ActiveControllerCount", "1 on the active controller, else 0", lambda: int(is_active())),
        gauge("LastAppliedRecordOffset", "The last record of the metadata that was applied", lambda: image.offset),
        gauge("ActiveBrokerCount", "Brokers that serve", lambda: len(image.brokers) - _fenced(image)),
        gauge("FencedBrokerCount", "Registered brokers that may not serve", lambda: _fenced(image)),
        gauge("GlobalTopicCount", "Topics of the cluster", lambda: len(image.topics)),
        gauge("GlobalPartitionCount", "Partitions of the cluster", lambda: _partitions(image)),
        gauge("OfflinePartitionsCount", "Partitions without a leader", lambda: _offline(image)),
        Counter(
            Group.ELECTIONS,
            "UncleanLeaderElectionsPerSec",
            "Leaders elected that were not in sync",
            lambda: image.unclean_elections,
        ),
    )


def _fenced(image: ClusterImage) -> int:
    return sum(broker.fenced for broker in image.brokers.values())


def _partitions(image: ClusterImage) -> int:
    return sum(len(topic.partitions) for topic in image.topics.values())


def _offline(image: ClusterImage) -> int:
    return sum(one.leader == NOBODY for topic in image.topics.values() for one in topic.partitions.values())
