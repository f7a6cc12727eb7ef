"""A thin synchronous client of any Kafka cluster: metadata, offsets, groups' offsets, and connections to leaders.

`BlockingCluster` knows the brokers, finds leaders and coordinators, and tries again what may succeed later. Upon it
stand `offsets.py`, `fetch.py` and `produce.py`.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import UUID

from penstock.client.blocking.connection import BlockingConnection, ClusterUnreachable
from penstock.client.errors import raise_for
from penstock.client.known_coordinators import KnownCoordinators
from penstock.client.messages import GROUP_COORDINATOR, coordinator_in, coordinator_request, metadata_request
from penstock.client.metadata import ClusterMetadata
from penstock.client.security import PLAINTEXT, WITH_SASL, WITH_TLS, Security
from penstock.client.values import EndpointTold, LeaderTold
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.uuids import ZERO_UUID
from penstock.protocol.value import Value, fresh

if TYPE_CHECKING:
    from ssl import SSLError

Result = TypeVar("Result")
TopicPartition = tuple[str, int]

FIRST_CONTACT_MS = 5_000
"""How long a cluster that never answered is tried."""
CREATION_MS = 10_000
"""How long a topic may take to appear that a broker creates because a client asked about it."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 50, 1_000


class ClusterSettings(Value):
    """`retry_timeout_ms` bounds all attempts at one thing together."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "penstock"
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000
    retry_timeout_ms: int = 60_000
    security_protocol: str = PLAINTEXT
    security: Security = fresh(Security)
    """What begins with `ssl.` and `sasl.`, for `security_protocol`."""


class BlockingCluster:
    """Connections to a cluster, opened at need. Not safe for threads."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.metadata = ClusterMetadata()
        self._looked_up: set[str] = set()
        """Topics about which the cluster need not be asked before their partitions are used."""
        self._connections: dict[Address, BlockingConnection] = {}
        self._spare: dict[Address, BlockingConnection] = {}
        """Beside the shared ones: those that were given back."""
        self._coordinators = KnownCoordinators[Address]()
        self._was_reached = False

    # Topics and leaders

    def partitions_of(self, topics: Iterable[str], *, may_create: bool = False) -> dict[str, list[int]]:
        """The partitions of each topic; KafkaError UNKNOWN_TOPIC_OR_PARTITION or INVALID_TOPIC_EXCEPTION names it.

        With `may_create` the broker may create a topic that is missing, where its settings say so.
        """
        names = list(topics)
        limit_ms = CREATION_MS if may_create else None
        return self.retried(lambda: self._known_partitions(names, may_create), limit_ms)

    def partitions_there(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """The partitions of those topics that exist."""
        names = list(topics)
        self.retried(lambda: self._look(names))
        known = self.metadata.topics
        return {name: list(known[name].partitions) for name in names if name in known and not known[name].error}

    def all_topics(self, *, with_internal: bool = False) -> dict[str, list[int]]:
        self.retried(lambda: self._look(None))
        return {
            name: list(topic.partitions)
            for name, topic in self.metadata.topics.items()
            if (with_internal or not topic.is_internal) and not topic.error
        }

    def _known_partitions(self, names: list[str], may_create: bool) -> dict[str, list[int]]:
        self._look(names, may_create)
        found: dict[str, list[int]] = {}
        for name in names:
            topic = self.metadata.topics.get(name)
            if topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopicError(name, str(self.settings.bootstrap_servers[0]), is_final=not may_create)
            raise_for(topic.error, f"topic {name!r}")
            found[name] = list(topic.partitions)
        return found

    def look_at_brokers(self) -> None:
        """Which there are now."""
        self._look([])

    def _look(self, names: list[str] | None, may_create: bool = False) -> None:
        request = metadata_request(names, create=may_create)
        response = self.any_broker().request(ApiKey.METADATA, request, MetadataResponse)
        self.metadata = self.metadata.updated(response, all_topics=names is None)
        self._looked_up.update(self.metadata.topics if names is None else names)
        self._leave_those_that_went()

    @property
    def topic_ids(self) -> dict[str, UUID]:
        """The id that each topic had when it was last asked about; brokers before Kafka 2.8 give none."""
        return {name: topic.topic_id for name, topic in self.metadata.topics.items() if topic.topic_id != ZERO_UUID}

    def leader_of(self, topic: str, partition: int) -> Address:
        """Where the leader listens; asks the cluster if it is not known. KafkaError where there is none now."""
        if topic not in self._looked_up or self.metadata.leader((topic, partition)) is None:
            self._known_partitions([topic], False)
        return self.metadata.brokers[self.metadata.led((topic, partition)).leader].address

    def forget_leader(self, topic: str) -> None:
        """It has moved or does not answer."""
        self._looked_up.discard(topic)

    def learn_leader(self, partition: TopicPartition, told: LeaderTold, endpoints: Iterable[EndpointTold]) -> bool:
        """Take the leader that a node names where it refused a partition (KIP-951); whether it is news."""
        known = self.metadata.leader(partition)
        self.metadata = self.metadata.with_leaders({partition: told}, endpoints)
        return self.metadata.leader(partition) is not known

    def leaders_of(self, partitions: Iterable[TopicPartition]) -> dict[Address, list[TopicPartition]]:
        by_leader: dict[Address, list[TopicPartition]] = {}
        for topic, partition in partitions:
            by_leader.setdefault(self.leader_of(topic, partition), []).append((topic, partition))
        return by_leader

    # Coordinators

    def coordinator_of(self, key: str, key_type: int = GROUP_COORDINATOR) -> BlockingConnection:
        """Of a group, or of what the key is."""
        address = self._coordinators.get((key_type, key))
        if address is None:
            broker = self.any_broker()
            request = coordinator_request(key, broker.version_of(ApiKey.FIND_COORDINATOR), key_type)
            response = broker.request(ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse)
            _, address = coordinator_in(response, key, key_type)
            self._coordinators[key_type, key] = address
        return self.connection(address)

    # Connections

    def connection(self, address: Address) -> BlockingConnection:
        """Shared by all callers that wait for their answer at once."""
        connection = self._connections.get(address)
        if connection is None or not connection.is_usable:
            self.drop(address)  # also where no other can be had
            connection = self.new_connection(address)
            self._connections[address] = connection
        return connection

    def own_connection(self, address: Address) -> BlockingConnection:
        """For the caller alone, who gives it back or closes it."""
        spare = self._spare.pop(address, None)
        if spare is None or spare.is_usable:
            return spare or self.new_connection(address)
        spare.close()
        return self.new_connection(address)

    def give_back(self, address: Address, connection: BlockingConnection) -> None:
        """The next one to want its own gets it, unless an answer is still to come."""
        if not connection.is_idle or self._spare.setdefault(address, connection) is not connection:
            connection.close()

    def new_connection(self, address: Address) -> BlockingConnection:
        settings = self.settings
        try:
            connection = BlockingConnection(
                address,
                client_id=settings.client_id,
                connect_timeout_ms=settings.connect_timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
                tls=settings.security.context() if settings.security_protocol in WITH_TLS else None,
                log_in=settings.security.steps if settings.security_protocol in WITH_SASL else None,
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
        """An open one, else the first that answers."""
        for connection in self._connections.values():
            if connection.is_usable:
                return connection
        failures: list[str] = []
        known = [broker.address for broker in self.metadata.brokers.values()]
        for address in dict.fromkeys([*self.settings.bootstrap_servers, *known]):
            try:
                return self.connection(address)
            except OSError as error:
                failures.append(f"{address} ({reason_of(error)})")
        raise ClusterUnreachable(
            f"No broker answers at {', '.join(failures)}. Check that the cluster is running, that "
            "kafka.bootstrap.servers is right, and that no firewall stands between."
        )

    def drop(self, address: Address) -> None:
        """Close a connection that failed, or whose state is unknown."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def _leave_those_that_went(self) -> None:
        """No brokers listen there any more, nor does one at a bootstrap address."""
        there = {*self.settings.bootstrap_servers, *(broker.address for broker in self.metadata.brokers.values())}
        for address in self._connections.keys() - there:
            if self._connections[address].is_idle:
                self.drop(address)
        for address in self._spare.keys() - there:
            self._spare.pop(address).close()

    def close(self) -> None:
        for address in list(self._connections):
            self.drop(address)
        while self._spare:
            self._spare.popitem()[1].close()

    # Trying again

    def retried(self, attempt: Callable[[], Result], limit_ms: int | None = None) -> Result:
        """Call until it succeeds; what cannot succeed later, or not within the time, is raised.

        After a failure all connections, leaders and coordinators are learned anew.
        """
        begin_ms, pauses = now_ms(), Pauses()
        while True:
            try:
                return attempt()
            except (OSError, KafkaError) as error:
                if isinstance(error, KafkaError) and not may_succeed_later(error):
                    raise
                if now_ms() - begin_ms > self._limit_ms(limit_ms):
                    raise
            self.forget_everything()
            pauses.take()

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
        self._looked_up.clear()
        self._coordinators.clear()


class UnknownTopicError(KafkaError):
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
    if getattr(error, "library", None) == "SSL":
        from penstock.tls.faults import fault_of

        return fault_of(cast("SSLError", error))
    return error.strerror or str(error) or type(error).__name__


class Pauses:
    """Rests between attempts, each twice as long as the one before."""

    def __init__(self) -> None:
        self._next_ms = FIRST_PAUSE_MS

    def take(self) -> None:
        time.sleep(self._next_ms / 1000)
        self._next_ms = min(self._next_ms * 2, LONGEST_PAUSE_MS)


def now_ms() -> int:
    """A clock that is never set back."""
    return time.monotonic_ns() // 1_000_000
