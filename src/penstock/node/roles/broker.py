"""What a handler sees of the node: its configuration, the committed metadata, its partitions and its coordinators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random, SystemRandom
from uuid import UUID

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import NOBODY, ClusterImage
from penstock.node.controlling.commands import ActiveController, NoController
from penstock.node.controlling.lease import BrokerLease
from penstock.node.coordinators.coordinators import Coordinators
from penstock.node.coordinators.groups import GroupCoordinator
from penstock.node.coordinators.producer_ids import ProducerIds
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.metrics.registry import Registry
from penstock.node.partitions.cleaner import Cleaner
from penstock.node.partitions.fetch_sessions import FetchSessions
from penstock.node.partitions.moves import DirectoryMoves
from penstock.node.partitions.partition import Partition
from penstock.node.partitions.replicas import LocalReplicas
from penstock.node.partitions.table import PartitionTable
from penstock.node.serving.access import ALLOW_ALL, Authorizer
from penstock.node.serving.handler import Handler
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import Act, check_allowed
from penstock.raft.voters import STATIC_VOTERS
from penstock.replication.partition_leader import PartitionLeader


def always() -> bool:
    """What `hears_controller` says of a broker that is its own controller."""
    return True


def static_voters() -> int:
    """The level of `kraft.version` of a quorum whose voters are fixed."""
    return STATIC_VOTERS


@dataclass(slots=True, kw_only=True)
class Broker:
    """The broker of this process. Handlers read it and call its parts; it decides nothing itself."""

    config: BrokerConfig
    """Typed attributes, named as Kafka's keys in snake_case."""
    node_id: int
    cluster_id: str
    image: ClusterImage
    """The committed metadata."""
    partitions: PartitionTable
    replicas: LocalReplicas
    """Keeps `partitions` in step with `image`."""
    moves: DirectoryMoves
    cleaner: Cleaner | None = None
    controller: ActiveController = field(default_factory=NoController)
    lease: BrokerLease = field(default_factory=lambda: BrokerLease(9_000, time.monotonic, Registry()))
    groups: GroupCoordinator
    coordinators: Coordinators = field(init=False)
    handlers: dict[int, Handler] = field(default_factory=dict)
    authorizer: Authorizer = ALLOW_ALL
    random: Random = field(default_factory=SystemRandom)
    storage_groups: StorageGroups = field(default_factory=StorageGroups)
    """Those with a replica on this node."""
    fetch_sessions: FetchSessions = field(default_factory=lambda: FetchSessions(1000, SystemRandom()))
    slices: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a slice of a long answer is worked on (`serving.slices`)."""
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    kraft_version: Callable[[], int] = static_voters
    """The level of `kraft.version`, which the metadata quorum knows and no metadata record tells."""
    hears_controller: Callable[[], bool] = always
    """Whether the active controller answers this node."""
    metrics: Registry = field(default_factory=Registry)
    now_ms: Callable[[], int] = wall_clock_ms

    def __post_init__(self) -> None:
        self.coordinators = Coordinators(self.groups)

    @property
    def broker_epoch(self) -> int:
        """-1 before the first registration."""
        return self.lease.broker_epoch

    @property
    def active_controller_id(self) -> int:
        """The node that leads the metadata quorum; NOBODY if none is known to, or it does not answer."""
        return self.image.controller_id if self.hears_controller() else NOBODY

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
