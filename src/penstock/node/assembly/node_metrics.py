"""What a node says of itself in numbers, by the names of Kafka's metrics: the group of each figure, and its own.

Times are in milliseconds and since the start of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.controlling.driver import ControllerDriver
from penstock.node.quorum.driver import QuorumDriver
from penstock.node.quorum.metrics import Latency
from penstock.protocol.requests.own_apis import DescribeMetricsResponse, Metric

Figure = tuple[str, str, str | float]

QUORUM = "raft-metrics"
QUEUE = "ControllerEventManager"
CONTROLLER = "KafkaController"
LOGS = "LogManager"


def describe_metrics(
    node_id: int,
    image: ClusterImage,
    quorum: QuorumDriver,
    controller: ControllerDriver | None,
    offline_log_directories: int,
    more: Iterable[Figure],
) -> DescribeMetricsResponse:
    """All figures of the node. Its cost is that of the topics and partitions, so ask every few seconds at most."""
    figures: list[Figure] = [(QUORUM, name, value) for name, value in quorum.metrics().items()]
    figures.append((LOGS, "OfflineLogDirectoryCount", offline_log_directories))
    figures += more
    if controller is not None:
        figures += [*_queue(controller), *_cluster(image, is_active=controller.is_active)]
    return DescribeMetricsResponse(
        node_id=node_id,
        metrics=[Metric(group=group, name=name, value=_text(value)) for group, name, value in figures],
    )


def _queue(controller: ControllerDriver) -> Iterator[Figure]:
    """The queue of commands."""
    statistics = controller.statistics
    yield QUEUE, "EventQueueLength", controller.queued
    yield from _latency("EventQueueTimeMs", statistics.queue_time)
    yield from _latency("EventQueueProcessingTimeMs", statistics.processing_time)
    yield QUEUE, "EventQueueOperationsFailedCount", statistics.failures


def _latency(name: str, latency: Latency) -> Iterator[Figure]:
    yield QUEUE, f"{name}.count", latency.count
    yield QUEUE, f"{name}.mean", latency.average_ms
    yield QUEUE, f"{name}.max", latency.max_ms


def _cluster(image: ClusterImage, *, is_active: bool) -> Iterator[Figure]:
    """The cluster as this controller knows it."""
    partitions = [partition for topic in image.topics.values() for partition in topic.partitions.values()]
    fenced = sum(broker.fenced for broker in image.brokers.values())
    yield CONTROLLER, "ActiveControllerCount", int(is_active)
    yield CONTROLLER, "LastAppliedRecordOffset", image.offset
    yield CONTROLLER, "ActiveBrokerCount", len(image.brokers) - fenced
    yield CONTROLLER, "FencedBrokerCount", fenced
    yield CONTROLLER, "GlobalTopicCount", len(image.topics)
    yield CONTROLLER, "GlobalPartitionCount", len(partitions)
    yield CONTROLLER, "OfflinePartitionsCount", sum(partition.leader == NOBODY for partition in partitions)


def _text(value: str | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
