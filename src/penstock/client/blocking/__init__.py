"""A thin synchronous client of any Kafka cluster: metadata, offsets, groups' offsets, and connections to leaders.

`BlockingCluster` knows the brokers, finds leaders and coordinators, and tries again what may succeed later. Upon it
stand `offsets.py`, `fetch.py` and `produce.py`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar
from uuid import UUID

from penstock.client.blocking.connection import BlockingConnection, ClusterUnreachable
from penstock.client.values import EndpointTold, LeaderTold
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value

Result = TypeVar("Result")
TopicPartition = tuple[str, int]

FIRST_CONTACT_MS = 5_000
"""How long a cluster that never answered is tried."""
CREATION_MS = 10_000
"""How long a topic may take to appear that a broker creates because somebody asked about it."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 50, 1_000


class ClusterSettings(Value):
    """Whom to connect to and how long to wait. `retry_timeout_ms` bounds all attempts at one thing together."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "penstock"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    retry_timeout_ms: int = 60_000


class BlockingCluster:
    """Connections to a cluster, opened at need. Not safe for threads."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._connections: dict[Address, BlockingConnection] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, UUID] = {}
        """The id that each topic had when it was last asked about; brokers before Kafka 2.8 give none."""
        self._coordinators: dict[str, Address] = {}
        self._was_reached = False

    # Topics and leaders

    def partitions_of(self, topics: Iterable[str], *, may_create: bool = False) -> dict[str, list[int]]:
        """The partitions of each topic; KafkaError UNKNOWN_TOPIC_OR_PARTITION or INVALID_TOPIC_EXCEPTION names it.

        With `may_create` the broker may create a topic that is missing, where its settings say so.
        """
        names = list(topics)
        limit_ms = CREATION_MS if may_create else None
        return self.retried(lambda: self._known_partitions(names, may_create), limit_ms)

    def all_topics(self, *, with_internal: bool = False) -> dict[str, list[int]]:
        """All topics with their partitions."""
        response = self.retried(lambda: self._metadata(None, False))
        return {
            topic.name or "": sorted(partition.partition_index for partition in topic.partitions)
            for topic in response.topics
            if (with_internal or not topic.is_internal) and not topic.error_code
        }

    def _known_partitions(self, names: list[str], may_create: bool) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic in self._metadata(names, may_create).topics:
            if topic.error_code:
                self._refuse(topic, may_create)
            found[topic.name or ""] = sorted(partition.partition_index for partition in topic.partitions)
        return found

    def _refuse(self, topic: MetadataResponseTopic, may_create: bool) -> NoReturn:
        code = ErrorCode(topic.error_code)
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopicError(topic.name or "", str(self.settings.bootstrap_servers[0]), is_final=not may_create)
        raise KafkaError(code, f"topic {topic.name!r}")

    def _metadata(self, names: list[str] | None, may_create: bool) -> MetadataResponse:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)
        response = self.any_broker().request(ApiKey.METADATA, request, MetadataResponse)
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers}
        for topic in response.topics:
            if topic.topic_id != ZERO_UUID:
                self.topic_ids[topic.name or ""] = topic.topic_id
            for partition in topic.partitions:
                self._leaders[topic.name or "", partition.partition_index] = partition.leader_id
                self._leader_epochs[topic.name or "", partition.partition_index] = partition.leader_epoch
        return response

    def leader_of(self, topic: str, partition: int) -> Address:
        """Where the leader listens; asks the cluster if it is not known. KafkaError where there is none now."""
        leader = self._leaders.get((topic, partition), -1)
        if leader not in self._brokers:
            self._known_partitions([topic], False)
            leader = self._leaders.get((topic, partition), -1)
        if leader not in self._brokers:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} of topic {topic!r} has no leader")
        return self._brokers[leader]

    def forget_leader(self, topic: str, partition: int) -> None:
        """Ask again before the next use: its leader has moved or does not answer."""
        self._leaders.pop((topic, partition), None)

    def learn_leader(self, partition: TopicPartition, told: LeaderTold, endpoints: Iterable[EndpointTold]) -> bool:
        """Take what a node says that refused a partition because another one leads it (KIP-951); whether it is news.

        What is of no later epoch than what is known, and a leader of whom nobody says where it is, are passed over.
        """
        brokers = self._brokers | {one.node_id: Address(one.host, one.port) for one in endpoints}
        if told.leader_epoch <= self._leader_epochs.get(partition, -1) or told.leader_id not in brokers:
            return False
        self._brokers = brokers
        self._leaders[partition], self._leader_epochs[partition] = told.leader_id, told.leader_epoch
        return True

    def leaders_of(self, partitions: Iterable[TopicPartition]) -> dict[Address, list[TopicPartition]]:
        """Partitions by their leaders."""
        by_leader: dict[Address, list[TopicPartition]] = {}
        for topic, partition in partitions:
            by_leader.setdefault(self.leader_of(topic, partition), []).append((topic, partition))
        return by_leader

    # Coordinators

    def coordinator_of(self, group: str) -> BlockingConnection:
        """A connection to the broker that keeps the group's offsets."""
        if group not in self._coordinators:
            request = FindCoordinatorRequest(key=group)
            response = self.any_broker().request(ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code), response.error_message)
            self._coordinators[group] = Address(response.host, response.port)
        return self.connection(self._coordinators[group])

    # Connections

    def connection(self, address: Address) -> BlockingConnection:
        """The connection to a broker that is shared by all that wait for their answer at once."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_idle:
            if connection is not None:
                connection.close()
            connection = self.new_connection(address)
            self._connections[address] = connection
        return connection

    def new_connection(self, address: Address) -> BlockingConnection:
        """A connection of the caller's own."""
        settings = self.settings
        try:
            connection = BlockingConnection(
                address,
                client_id=settings.client_id,
                connect_timeout_ms=settings.connect_timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
            )
        except OSError as error:
            if address in settings.bootstrap_servers:
                raise
            raise ClusterUnreachable(
                f"The cluster at {settings.bootstrap_servers[0]} says that one of its brokers listens at {address}, "
                f"but nothing answers there ({reason_of(error)}). Check the broker's advertised.listeners."
            ) from error
        self._was_reached = True
        return connection

    def any_broker(self) -> BlockingConnection:
        """A connection to some broker: an open one, else the first that answers."""
        for connection in self._connections.values():
            if connection.is_idle:
                return connection
        failures: list[str] = []
        for address in dict.fromkeys((*self.settings.bootstrap_servers, *self._brokers.values())):
            try:
                return self.connection(address)
            except OSError as error:
                failures.append(f"{address} ({reason_of(error)})")
        raise ClusterUnreachable(
            f"No broker answers at {', '.join(failures)}. Check that the cluster is running, that "
            "kafka.bootstrap.servers is right, and that no firewall stands between."
        )

    def drop(self, address: Address) -> None:
        """Close the connection to a broker: it failed, or its state is unknown."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._connections):
            self.drop(address)

    # Trying again

    def retried(self, attempt: Callable[[], Result], limit_ms: int | None = None) -> Result:
        """Call until it succeeds; what cannot succeed later, or not within the time, is raised.

        After a failure all connections, leaders and coordinators are learned anew.
        """
        begin_ms, pause_ms = _now_ms(), FIRST_PAUSE_MS
        while True:
            try:
                return attempt()
            except (OSError, KafkaError) as error:
                if isinstance(error, KafkaError) and not may_succeed_later(error):
                    raise
                if _now_ms() - begin_ms > self._limit_ms(limit_ms):
                    raise
            self.forget_everything()
            time.sleep(pause_ms / 1000)
            pause_ms = min(pause_ms * 2, LONGEST_PAUSE_MS)

    def _limit_ms(self, limit_ms: int | None) -> int:
        limits_ms = [self.settings.retry_timeout_ms]
        if limit_ms is not None:
            limits_ms.append(limit_ms)
        if not self._was_reached:
            limits_ms.append(FIRST_CONTACT_MS)
        return min(limits_ms)

    def forget_everything(self) -> None:
        """Learn leaders and coordinators anew, over new connections."""
        self.close()
        self._leaders.clear()
        self._leader_epochs.clear()
        self._coordinators.clear()


class UnknownTopicError(KafkaError):
    """A topic that the cluster does not have."""

    def __init__(self, topic: str, cluster: str, *, is_final: bool) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The cluster at {cluster} has no topic {topic!r}.")
        self.topic = topic
        self.is_final = is_final

    def __str__(self) -> str:
        return self.message or ""


def may_succeed_later(error: KafkaError) -> bool:
    """Whether to try again: as Kafka says of the code, but a topic that is missing stays missing."""
    return not error.is_final if isinstance(error, UnknownTopicError) else error.retriable


def reason_of(error: OSError) -> str:
    """What went wrong, in the system's words."""
    return error.strerror or str(error) or type(error).__name__


def by_topic(partitions: Mapping[TopicPartition, Result]) -> dict[str, dict[int, Result]]:
    """The same, nested as the protocol's messages are."""
    nested: dict[str, dict[int, Result]] = {}
    for (topic, partition), value in partitions.items():
        nested.setdefault(topic, {})[partition] = value
    return nested


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
