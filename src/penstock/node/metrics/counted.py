"""The names of what a node counts while it serves: those of Kafka's MBeans, where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from penstock.node.metrics.counts import ApiCounts, ListenerCounts, NodeCounts
from penstock.node.metrics.distribution import Distribution
from penstock.node.metrics.registry import Counter, Gauge, Group, Histogram, Labels, Registry
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.api import ApiKey, api_of

_OF_TOPICS: Final = (
    ("MessagesInPerSec", "records_in", "Records that were appended by leaders here"),
    ("BytesInPerSec", "bytes_in", "Bytes of record batches that were appended by leaders here"),
    ("BytesOutPerSec", "bytes_out", "Bytes of record batches that consumers were sent"),
    ("ReplicationBytesInPerSec", "replication_bytes_in", "Bytes of record batches that followers here have appended"),
    ("ReplicationBytesOutPerSec", "replication_bytes_out", "Bytes of record batches that followers were sent"),
    ("TotalProduceRequestsPerSec", "produces", "Record batches that leaders here were asked to append"),
    ("FailedProduceRequestsPerSec", "failed_produces", "Those of clients that were refused"),
    ("TotalFetchRequestsPerSec", "fetches", "Partitions that fetches were answered about"),
    ("FailedFetchRequestsPerSec", "failed_fetches", "Those that were answered with an error"),
)
"""Name, attribute of `Traffic`, and what it is."""


def register_counts(registry: Registry, counts: NodeCounts) -> None:
    """Add all of them."""
    for name, attribute, what in _OF_TOPICS:
        registry.add(Counter(Group.TOPICS, name, what, partial(_of_topics, counts, attribute), labels=("topic",)))
    _register_requests(registry, counts)
    _register_connections(registry, counts)
    in_sync = partial(Counter, Group.REPLICAS)
    registry.add(
        in_sync("IsrShrinksPerSec", "Replicas in sync that became fewer", lambda: counts.isr_shrinks),
        in_sync("IsrExpandsPerSec", "Replicas in sync that became more", lambda: counts.isr_expands),
        in_sync("FailedIsrUpdatesPerSec", "Changes that the controller refused", lambda: counts.isr_failures),
    )


def _of_topics(counts: NodeCounts, attribute: str) -> Iterator[tuple[Labels, int]]:
    total, by_topic = counts.topics.numbers(attribute)
    yield (), total
    for topic, number in by_topic.items():
        yield (topic,), number


def _register_requests(registry: Registry, counts: NodeCounts) -> None:
    group = Group.REQUESTS

    def versions() -> dict[Labels, int]:
        found = ((name, version, count) for name, api in _apis(counts) for version, count in api.by_version().items())
        return {(name, version): count for name, version, count in found}

    def errors() -> dict[Labels, int]:
        return {(name, _error(code)): count for name, api in _apis(counts) for code, count in api.errors.items()}

    def times() -> dict[Labels, Distribution]:
        return {(name,): api.times for name, api in _apis(counts) if api.count}

    def sizes() -> dict[Labels, Distribution]:
        return {(name,): api.request_sizes for name, api in _apis(counts) if api.count}

    def waiting() -> dict[Labels, int]:
        found = {key: api for key, api in sorted(counts.apis.items()) if api.count or api.of_nodes.count}
        return {(api_of(key).name,): api.all_waiting for key, api in found.items()}

    registry.add(
        Counter(group, "RequestsPerSec", "Requests that came", versions, labels=("request", "version")),
        Counter(group, "ErrorsPerSec", "Errors in answers", errors, labels=("request", "error")),
        Histogram(group, "TotalTimeMs", "Until the answer was made", times, "milliseconds", labels=("request",)),
        Histogram(group, "RequestBytes", "How large requests were", sizes, "bytes", labels=("request",)),
        Gauge(Group.WAITING, "PurgatorySize", "Requests that wait", waiting, labels=("delayedOperation",)),
    )


def _apis(counts: NodeCounts) -> Iterator[tuple[str, ApiCounts]]:
    """By the names of Kafka's requests; a Fetch is of a consumer or of a follower."""
    for key, api in sorted(counts.apis.items()):
        name = api_of(key).name
        if key == ApiKey.FETCH:
            yield "FetchConsumer", api
            yield "FetchFollower", api.of_nodes
        else:
            yield name, api


def _error(code: int) -> str:
    known = ErrorCode(code)
    return known.name if known == code else str(code)


def _register_connections(registry: Registry, counts: NodeCounts) -> None:
    def each(read: Callable[[ListenerCounts], int]) -> Callable[[], dict[Labels, int]]:
        return lambda: {(name,): read(listener) for name, listener in sorted(counts.listeners.items())}

    group, labels = Group.SOCKETS, ("listener",)
    gauge, counter = partial(Gauge, group, labels=labels), partial(Counter, group, labels=labels)
    registry.add(
        gauge("connection-count", "Connections that there are", each(lambda one: one.created - one.closed)),
        counter("connection-creation-total", "Connections that were accepted", each(lambda one: one.created)),
        counter("connection-close-total", "Connections that have ended", each(lambda one: one.closed)),
        counter("connection-refused-total", "Connections that a limit refused", each(lambda one: one.refused)),
        counter("successful-authentication-total", "Log-ins", each(lambda one: one.logins)),
        counter("failed-authentication-total", "Log-ins that were refused", each(lambda one: one.failed_logins)),
    )
