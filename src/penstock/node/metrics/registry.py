"""All metrics of a node. Its parts count in plain numbers, and metrics read them when the registry is asked.

    self.lost = 0
    registry.add(Counter(Group.LEASE, "LeaseLostCount", "How often it had ended too early", lambda: self.lost))

A metric with labels reads the values of all that there are by their labels: topics and groups come and go, and nothing
is registered or forgotten for that.

    Gauge(Group.STORAGE_GROUPS, "epoch", "The newest epoch", lambda: {(1,): 4, (2,): 9}, labels=("group",))

Why this is no library: decision 0603.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Generic, Literal, TypeVar

from penstock.node.metrics.distribution import Distribution
from penstock.protocol.value import Value

T = TypeVar("T")

Labels = tuple[str | int, ...]
"""Values of a metric's labels, in their order; none: that is the sum of all."""

Unit = Literal["", "milliseconds", "seconds", "bytes", "percent"]


class Group(Enum):
    """The domain and the type of Kafka's MBeans, in the order in which they are shown. What is ours is `penstock`'s."""

    TOPICS = "kafka.server", "BrokerTopicMetrics"
    REPLICAS = "kafka.server", "ReplicaManager"
    REQUESTS = "kafka.network", "RequestMetrics"
    WAITING = "kafka.server", "DelayedOperationPurgatory"
    SOCKETS = "kafka.server", "socket-server-metrics"
    QUORUM = "kafka.server", "raft-metrics"
    QUORUM_CHANNEL = "kafka.server", "raft-channel-metrics"
    LOGS = "kafka.log", "LogManager"
    CLEANER = "kafka.log", "LogCleaner"
    CLEANER_MANAGER = "kafka.log", "LogCleanerManager"
    LEASE = "penstock", "BrokerLease"
    STORAGE_GROUPS = "penstock", "storage-groups"
    CONTROLLER_QUEUE = "kafka.controller", "ControllerEventManager"
    CONTROLLER = "kafka.controller", "KafkaController"
    ELECTIONS = "kafka.controller", "ControllerStats"
    TLS = "penstock", "tls"
    PRODUCE_QUOTAS = "kafka.server", "Produce"
    FETCH_QUOTAS = "kafka.server", "Fetch"
    REQUEST_QUOTAS = "kafka.server", "Request"
    MUTATION_QUOTAS = "kafka.server", "ControllerMutation"
    TRANSACTION_COORDINATOR = "kafka.server", "transaction-coordinator-metrics"
    PLUGINS = "kafka.server", "plugins"
    PARTITIONS = "kafka.cluster", "Partition"
    LOG = "kafka.log", "Log"
    HANDLERS = "kafka.server", "KafkaRequestHandlerPool"
    PROCESSORS = "kafka.network", "SocketServer"
    CLIENT_METRICS = "kafka.server", "client-metrics"
    GROUPS = "kafka.coordinator.group", "GroupMetadataManager"
    GROUP_COORDINATOR = "kafka.server", "group-coordinator-metrics"
    SHARE_GROUPS = "kafka.server", "ShareGroupMetrics"
    SHARE_PARTITIONS = "kafka.server", "SharePartitionMetrics"
    SHARE_SESSIONS = "kafka.server", "ShareSessionCache"
    NODE = "penstock", "node"
    PLAIN = "", ""

    def __init__(self, domain: str, type_name: str) -> None:
        self.domain = domain
        self.type_name = type_name


class Metric(Value, Generic[T]):
    """`help` is a sentence for people."""

    group: Group
    name: str
    help: str
    read: Callable[[], T | Mapping[Labels, T] | Iterator[tuple[Labels, T]]]
    unit: Unit = ""
    labels: tuple[str, ...] = ()

    def samples(self) -> Iterable[tuple[Labels, T]]:
        """Its values now, one for each combination of labels that there is; the sum of all first."""
        found = self.read()
        if isinstance(found, Iterator):
            return found
        return found.items() if isinstance(found, Mapping) else [((), found)]


class Counter(Metric[int]):
    """Only grows, and begins with 0 when the node, or what the labels name, begins."""


class Gauge(Metric[float]):
    """A number that rises and falls."""


class Histogram(Metric[Distribution]):
    """How large something was, since the node began."""


class StateSet(Metric[str]):
    """Which of some states something is in."""

    states: tuple[str, ...] = ()


class Unknown(Metric[float]):
    """A number of which nobody has said what it is."""


class Registry:
    """The metrics of one node, which its parts add when they are made."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[Group, str], Metric[Any]] = {}

    def add(self, *metrics: Metric[Any]) -> None:
        """A name is given once in a group."""
        for metric in metrics:
            name = metric.group, metric.name
            assert name not in self._metrics, f"there is a {metric.name} of {metric.group.type_name} already"
            self._metrics[name] = metric

    def __iter__(self) -> Iterator[Metric[Any]]:
        """In the order in which they were added."""
        return iter(self._metrics.values())
