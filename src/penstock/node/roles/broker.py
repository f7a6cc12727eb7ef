"""What a handler sees of the node: its configuration, the committed metadata, its partitions and its coordinators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from uuid import UUID

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import NOBODY
from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.coordinators.coordinators import Coordinators, Later
from penstock.node.coordinators.groups import GroupCoordinator
from penstock.node.coordinators.host import CoordinatorHost, HostContext
from penstock.node.metrics.registry import Registry
from penstock.node.partitions.cleaner import Cleaner
from penstock.node.partitions.fetch_sessions import FetchSessions
from penstock.node.partitions.moves import DirectoryMoves
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.partitions.table import PartitionTable
from penstock.node.serving.access import ALLOW_ALL, Authorizer
from penstock.node.serving.handler import Handler
from penstock.node.serving.slices import Shared, Slices
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import SHARE_GROUP_STATE, TRANSACTION_STATE, Act, check_allowed
from penstock.protocol.value import Value, fresh
from penstock.raft.voters import Quorum
from penstock.replication.partition_leader import PartitionLeader

if TYPE_CHECKING:
    from penstock.node.coordinators.consumed_retention import ConsumedRetention
    from penstock.node.coordinators.shares import ShareCoordinator
    from penstock.node.coordinators.transactions import TransactionCoordinator
    from penstock.node.sharing.shares import Shares


TRANSACTIONS: Final = 1
SHARES: Final = 2
"""The types of their keys, as FindCoordinator counts the types."""


class QuorumView(Protocol):
    """What a broker knows of the metadata quorum that no metadata record tells."""

    @property
    def quorum(self) -> Quorum: ...

    @property
    def hears_leader(self) -> bool:
        """Whether the active controller answers this node."""


class OwnQuorum(Value):
    """That of a broker which is its own controller."""

    quorum: Quorum = Quorum()
    hears_leader: bool = True


class HeldLogs(Value, kw_only=True):
    """The replicas that lie on a broker, and what sees to them."""

    partitions: PartitionTable
    replicas: LocalReplicas
    """Keeps `partitions` in step with the metadata."""
    moves: DirectoryMoves
    cleaner: Cleaner | None = None
    storage_groups: StorageGroups = fresh(StorageGroups)


class Broker:
    """The broker of this process. Handlers read it and call its parts; it decides nothing itself."""

    def __init__(
        self,
        context: BrokerContext,
        held: HeldLogs,
        groups: GroupCoordinator,
        *,
        handlers: dict[int, Handler] | None = None,
        quorum: QuorumView | None = None,
        authorizer: Authorizer = ALLOW_ALL,
    ) -> None:
        """By default it handles nothing, is its own controller and allows all."""
        node, config = context.node, context.config
        self.config = config
        self.node_id = config.node_id
        self.image = node.image
        self.random = node.environment.random
        self.metrics = node.metrics
        self.now_ms = node.environment.now_ms
        self.controller = context.controller
        self.lease = context.lease
        self.telemetry = context.telemetry
        self.partitions = held.partitions
        self.replicas = held.replicas
        self.moves = held.moves
        self.cleaner = held.cleaner
        self.storage_groups = held.storage_groups
        self.groups = groups
        transactions = Later(
            TRANSACTION_STATE, TRANSACTIONS, self.image, lambda: _transactions(config, groups.context, node.metrics)
        )
        self._consumed: ConsumedRetention | None = None
        shares = Later(SHARE_GROUP_STATE, SHARES, self.image, lambda: _shares(config, groups.context))
        self.coordinators = Coordinators(groups, transactions, shares)
        self.take_producer_id = context.take_producer_id
        self.new_producer_id = context.new_producer_id
        self.quorum: QuorumView = quorum or OwnQuorum()
        self.handlers = handlers or {}
        self.authorizer = authorizer
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, self.random)
        self.slices = Slices(config.queued_max_request_bytes, node.environment.clock_ns)
        self.described_metadata: Shared[Any] = Shared()
        self.gone: dict[int, Callable[[], None]] = {}
        """What is to be done when the connection of that number has gone."""
        self._sharing: Shares | None = None

    def on_dropped(self, _: Partition) -> None:
        """This node has it no more."""
        self.fetch_sessions.on_partition_gone(self.slices)

    @property
    def transactions(self) -> TransactionCoordinator:
        return cast("TransactionCoordinator", self.coordinators.for_keys(TRANSACTIONS))

    @property
    def consumed(self) -> ConsumedRetention:
        if self._consumed is None:
            from penstock.node.coordinators.consumed_retention import ConsumedRetention  # few topics have it

            self._consumed = ConsumedRetention(self.groups.context, self.replicas.on_log_start_moved)
        return self._consumed

    async def stop(self) -> None:
        """End what it does beside its parts, which others stop."""
        await self.fetch_sessions.tasks.stop()
        if self._consumed is not None:
            await self._consumed.stop()

    @property
    def shares(self) -> ShareCoordinator:
        return cast("ShareCoordinator", self.coordinators.for_keys(SHARES))

    @property
    def sharing(self) -> Shares:
        """The share partitions that are led here."""
        if self._sharing is None:
            self._sharing = _sharing(self)
        return self._sharing

    async def stop_sharing(self) -> None:
        if self._sharing is not None:
            await self._sharing.stop()

    @property
    def cluster_id(self) -> str:
        return self.image.cluster_id

    @property
    def broker_epoch(self) -> int:
        """-1 before the first registration."""
        return self.lease.broker_epoch

    @property
    def active_controller_id(self) -> int:
        """The node that leads the metadata quorum; NOBODY if none is known to, or it does not answer."""
        return self.image.controller_id if self.quorum.hears_leader else NOBODY

    def may_lead(self, partition: Partition) -> bool:
        """Whether no other broker can lead a partition that is led here: it has one replica, or the lease lasts."""
        leader = partition.leader
        return leader is None or not leader.followers or not self.lease.is_over

    def check_lease(self, partition: Partition) -> None:
        """KafkaError NOT_LEADER_OR_FOLLOWER where another broker may lead what this node led."""
        if not self.may_lead(partition):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the lease of this broker is over: others may lead")

    def check_leader(self, partition: Partition, current_leader_epoch: int = -1) -> PartitionLeader:
        """What a client asks of a leader: `Partition.check_leader` within the lease of this broker."""
        leader = partition.check_leader(current_leader_epoch)
        self.check_lease(partition)
        return leader

    def topic_name(self, topic: str | UUID) -> str | None:
        """The name by which rights say what a topic is; None for an id that no topic has."""
        if isinstance(topic, str):
            return topic
        known = self.image.topics_by_id.get(topic)
        return None if known is None else known.name

    def partition(self, topic: str | UUID, index: int) -> Partition:
        """The replica that this node holds, of a topic by its name or its id.

        One whose log could not be made when its topic was created, say because the disk was full, is made now.

        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR;
            TOPIC_AUTHORIZATION_FAILED for a storage group, whose log is for nodes alone: clients give up at once.
        """
        partition = self.partitions.get(topic, index)
        if partition is None:
            known = self.image.topics.get(topic) if isinstance(topic, str) else self.image.topics_by_id.get(topic)
            if known is None:
                by_name = isinstance(topic, str)
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID)
            if index not in known.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            check_allowed(known.name, Act.USE)
            partition = self.replicas.hold_missing(known, index)
        if partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition


def _transactions(config: BrokerConfig, context: HostContext, metrics: Registry) -> CoordinatorHost[Any]:
    from penstock.node.coordinators.transactions import TransactionCoordinator  # many nodes have no transactions

    return TransactionCoordinator(config, context, metrics)


def _shares(config: BrokerConfig, context: HostContext) -> CoordinatorHost[Any]:
    from penstock.node.coordinators.shares import ShareCoordinator  # many nodes have no share groups

    return ShareCoordinator(config, context)


def _sharing(broker: Broker) -> Shares:
    from penstock.node.sharing.persister import Persister  # many nodes have no share groups
    from penstock.node.sharing.shares import Shares

    def find(topic_id: UUID, index: int) -> Partition:
        partition = broker.partition(topic_id, index)
        broker.check_leader(partition)
        return partition

    context = broker.groups.context
    persister = Persister(context.node_id, context.image, context.errands, broker.random, lambda: broker.shares)
    shares = Shares(broker.config, context, persister, find, broker.slices, broker.random)
    shares.register(broker.metrics)
    return shares
